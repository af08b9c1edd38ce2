"""Expectations of cells: the notation right of the arrow, and when a reply satisfies it.

    110-1  OK  stream        a status or string, to the letter (quotes for blanks, commas, digits)
    3                        an integer; the string 3 is "3"
    nil                      a null
    [a, [b, 2]]              an array; ... at its end stands for any further elements
    {pending=2, consumers=any}
                             an array of names and values (or a map) that has at least these
    error BUSYGROUP          an error reply that begins with this word
    any                      anything but an error
    waits                    no reply yet: the command blocks

AA writes ``XRANGE … → [110-1, 120-1]`` for a reply that holds whole entries.  So for the commands
in ``_SUMMARIES`` a flat list stands for the IDs (of groups and consumers: the names) alone.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from crdtstream.scenario.replies import Answer, ErrorReply, Value, Waiting


class NotationError(ValueError):
    """The text is no expectation; says where it stops making sense."""


class Special(Enum):
    """Expectations without content; the value is the word that is written."""

    ANY = "any"
    NIL = "nil"
    WAITS = "waits"


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Number:
    value: int


@dataclass(frozen=True, slots=True)
class Error:
    prefix: str


@dataclass(frozen=True, slots=True)
class Items:
    """An array; ``open_ended`` if more elements may follow."""

    items: "tuple[Expected, ...]"
    open_ended: bool = False

    @property
    def is_flat(self) -> bool:
        """True if it has no arrays inside, so that it may stand for IDs or names only."""
        return not any(isinstance(item, Items | Pairs) for item in self.items)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names and values that must be there; others may be."""

    pairs: "tuple[tuple[str, Expected], ...]"


Expected: TypeAlias = Special | Text | Number | Error | Items | Pairs


# --- Matching ---------------------------------------------------------------------------------


def satisfies(expected: Expected, answer: Answer, argv: list[str]) -> bool:
    """True if the reply to command ``argv`` is what was expected."""
    if isinstance(expected, Items) and expected.is_flat and isinstance(answer, list):
        summary = summarise(argv, answer)
        if summary is not None:
            return _matches(expected, summary)
    return _matches(expected, answer)


def _matches(expected: Expected, answer: Answer) -> bool:
    match expected:
        case Special.ANY:
            return not isinstance(answer, ErrorReply | Waiting)
        case Special.NIL:
            return answer is None
        case Special.WAITS:
            return answer is Waiting.WAITING
        case Text(text):
            return answer == text.encode()
        case Number(value):
            return isinstance(answer, int) and answer == value
        case Error(prefix):
            return isinstance(answer, ErrorReply) and answer.text.startswith(prefix)
        case Items(items, open_ended):
            return isinstance(answer, list) and _all_match(items, answer, open_ended=open_ended)
        case Pairs(pairs):
            return isinstance(answer, list) and all(
                any(_matches(value, found) for found in _values_of(answer, name))
                for name, value in pairs
            )


def _all_match(items: tuple[Expected, ...], answer: list[Value], *, open_ended: bool) -> bool:
    if len(answer) < len(items) or (len(answer) > len(items) and not open_ended):
        return False
    return all(_matches(item, found) for item, found in zip(items, answer, strict=False))


def _values_of(answer: list[Value], name: str) -> list[Value]:
    names, values = answer[::2], answer[1::2]
    found = zip(names, values, strict=False)
    return [value for key, value in found if key == name.encode()]


# --- Summaries --------------------------------------------------------------------------------


def summarise(argv: list[str], answer: list[Value]) -> list[Value] | None:
    """The IDs or names in a reply of a command that AA abbreviates; None for any other."""
    words = tuple(word.upper() for word in argv[:2])
    summary = _SUMMARIES.get(words[:1]) or _SUMMARIES.get(words)
    if summary is None or (words[0] == "XPENDING" and len(argv) <= 3):
        return None
    try:
        return summary(answer)
    except (IndexError, TypeError, ValueError):  # not of this shape: compared as it is
        return None


def _ids(answer: list[Value]) -> list[Value]:
    """Of entries or pending entries; also of plain IDs, as XCLAIM … JUSTID answers them."""
    return [item[0] if isinstance(item, list) else item for item in answer]


def _ids_per_key(answer: list[Value]) -> list[Value]:
    return [found for pair in answer for found in _ids(_array(_array(pair)[1]))]


def _ids_of_autoclaim(answer: list[Value]) -> list[Value]:
    return _ids(_array(answer[1]))


def _cursor_and_ids(answer: list[Value]) -> list[Value]:
    cursor, entries = answer
    return [cursor, *_ids(_array(entries))]


def _names(answer: list[Value]) -> list[Value]:
    return [_array(item)[1] for item in answer]


def _array(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise TypeError
    return value


_SUMMARIES: Final[dict[tuple[str, ...], Callable[[list[Value]], list[Value]]]] = {
    ("XRANGE",): _ids,
    ("XREVRANGE",): _ids,
    ("XREAD",): _ids_per_key,
    ("XREADGROUP",): _ids_per_key,
    ("XPENDING",): _ids,
    ("XCLAIM",): _ids,
    ("XAUTOCLAIM",): _ids_of_autoclaim,
    ("CRDT.XREAD",): _cursor_and_ids,
    ("XINFO", "GROUPS"): _names,
    ("XINFO", "CONSUMERS"): _names,
}


# --- Parsing ----------------------------------------------------------------------------------

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<punctuation>[\[\]{},=])
             | "(?P<double>(?:[^"\\]|\\.)*)"
             | '(?P<single>[^']*)'
             | (?P<bare>[^\s\[\]{},="']+) )""",
    re.VERBOSE,
)


def parse_expected(text: str) -> Expected:
    """The expectation that ``text`` writes.

    Raises:
        NotationError: it writes none.
    """
    text = text.strip()
    if not text:
        raise NotationError("nothing stands after the arrow")
    if text == "error" or text.startswith("error "):
        return Error(text.removeprefix("error").strip())
    if text[0] not in "[{\"'":
        return _word(text)
    parser = _Parser(text)
    expected = parser.value()
    parser.end()
    return expected


def _word(text: str) -> Expected:
    for special in Special:
        if text == special.value:
            return special
    if re.fullmatch(r"-?\d+", text):
        return Number(int(text))
    return Text(text)


class _Parser:
    """Reads one value; ``at`` is where the next token begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self) -> Expected:
        kind, token = self._next()
        match kind, token:
            case "punctuation", "[":
                return self._items()
            case "punctuation", "{":
                return self._pairs()
            case "punctuation", _:
                raise self._error(f"a value is missing before {token!r}")
            case "bare", "error":
                _, prefix = self._next()
                return Error(prefix)
            case "bare", _:
                return _word(token)
            case _:
                return Text(token)

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._error("nothing may follow here")

    def _items(self) -> Items:
        items: list[Expected] = []
        if self._skip("]"):
            return Items(())
        while True:
            if self._skip("..."):
                self._expect("]")
                return Items(tuple(items), open_ended=True)
            items.append(self.value())
            if self._skip("]"):
                return Items(tuple(items))
            self._expect(",")

    def _pairs(self) -> Pairs:
        pairs: list[tuple[str, Expected]] = []
        while True:
            kind, name = self._next()
            if kind == "punctuation":
                raise self._error("a name is missing")
            self._expect("=")
            pairs.append((name, self.value()))
            if self._skip("}"):
                return Pairs(tuple(pairs))
            self._expect(",")

    def _next(self) -> tuple[str, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise self._error("it ends too early")
        self._at = found.end()
        kind = found.lastgroup
        token = found[kind]
        if kind == "double":
            token = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), token)
        return kind, token

    def _skip(self, token: str) -> bool:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[0].strip() != token:
            return False
        self._at = found.end()
        return True

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise self._error(f"{token!r} is missing")

    def _error(self, problem: str) -> NotationError:
        return NotationError(f"{problem}, at character {self._at + 1} of {self._text!r}")


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
