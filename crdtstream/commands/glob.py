"""Redis's key patterns: ``*``, ``?``, ``[a-z]``, ``[^a]`` and ``\\`` before a literal one.

A pattern is cut at its stars into parts; each part matches a fixed number of bytes.  The
first part must stand at the beginning, the last at the end, and each between where it fits first:
if the rest can match at all, it can from there.  So matching never goes back, and a pattern full of
stars costs no more than its length times the key's.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

# For each byte of a part the bytes that may stand there.
_Part: TypeAlias = list[frozenset[int]]

_ANY = frozenset(range(256))
# One set per literal byte, shared: a pattern may be long, and be kept (PSUBSCRIBE).
_LITERAL = tuple(frozenset((byte,)) for byte in range(256))
_CLOSING, _BACKSLASH, _DASH = b"]\\-"


@lru_cache(maxsize=64)
def compile_glob(pattern: bytes) -> Callable[[bytes], bool]:
    """A function that returns whether a whole key matches."""
    parts: list[_Part] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            parts.append([])
        elif char == b"?":
            parts[-1].append(_ANY)
        elif char == b"[":
            members, at = _char_class(pattern, at)
            parts[-1].append(members)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            parts[-1].append(_LITERAL[char[0]])
    return lambda key: _matches(parts, key)


def _matches(parts: list[_Part], key: bytes) -> bool:
    first, *others = parts
    if not _fits(first, key, 0):
        return False
    if not others:
        return len(first) == len(key)
    *between, last = others
    position = len(first)
    for part in between:
        while not _fits(part, key, position):
            position += 1
            if position > len(key):
                return False
        position += len(part)
    end = len(key) - len(last)
    return position <= end and _fits(last, key, end)


def _fits(part: _Part, key: bytes, at: int) -> bool:
    if at + len(part) > len(key):
        return False
    return all(key[at + offset] in members for offset, members in enumerate(part))


def _char_class(pattern: bytes, at: int) -> tuple[frozenset[int], int]:
    """The class that begins at ``at``, behind its bracket; and where it ends."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members: set[int] = set()
    while at < len(pattern) and pattern[at] != _CLOSING:
        if pattern[at] == _BACKSLASH and at + 1 < len(pattern):
            at += 1
        elif at + 2 < len(pattern) and pattern[at + 1] == _DASH:
            low, high = sorted((pattern[at], pattern[at + 2]))
            members.update(range(low, high + 1))
            at += 3
            continue
        members.add(pattern[at])
        at += 1
    return (_ANY - members if negated else frozenset(members)), at + 1
