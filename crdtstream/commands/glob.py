"""Redis's key patterns: ``*``, ``?``, ``[a-z]``, ``[^a]`` and ``\\`` before a literal one."""

import re
from functools import lru_cache


@lru_cache(maxsize=64)
def compile_glob(pattern: bytes) -> re.Pattern[bytes]:
    """A pattern that ``fullmatch``es the keys the glob means."""
    parts: list[bytes] = []
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            # Several stars are one; a regular expression would try them all.
            if not parts or parts[-1] != b".*":
                parts.append(b".*")
        elif char == b"?":
            parts.append(b".")
        elif char == b"[":
            text, at = _char_class(pattern, at)
            parts.append(text)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            parts.append(re.escape(char))
    return re.compile(b"".join(parts), re.DOTALL)


def _char_class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The class that begins at ``at``, behind its bracket; and where it ends."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members: set[int] = set()
    while at < len(pattern) and pattern[at] != 0x5D:
        if pattern[at] == 0x5C and at + 1 < len(pattern):
            at += 1
        elif at + 2 < len(pattern) and pattern[at + 1] == 0x2D:
            low, high = sorted((pattern[at], pattern[at + 2]))
            members.update(range(low, high + 1))
            at += 3
            continue
        members.add(pattern[at])
        at += 1
    at += 1
    if not members:
        return (b"." if negated else b"(?!)"), at
    body = b"".join(b"\\x%02x" % member for member in sorted(members))
    return b"[" + (b"^" if negated else b"") + body + b"]", at
