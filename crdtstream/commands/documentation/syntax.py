"""A command's syntax: one line of text, and the tree of arguments that COMMAND DOCS shows.

    key [NOMKSTREAM@6.2.0] [trim: <strategy: MAXLEN | MINID> [operator: = | ~] threshold]
        <id-selector: * | id> (data: field value)...

reads, from the simple to the composed:

    key, threshold        an argument; its type goes with its name (TYPES), else it is a string
    start=integer         an argument whose type is not the one that goes with its name
    addr/ip:port          an argument that hints show under another name
    NOMKSTREAM, *         a word to write as it stands
    COUNT count           an argument that a word announces
    [ … ]                 may be left out
    <name: a | b>         one of several
    (name: a b)           several in a row
    [name: a | b]         the one or the other, or none
    [name: a b]           all in a row, or none
    IDS (name: a b)       what a word announces may be composed, too
    id...                 one or more
    [PREFIX prefix]...    any number, the word repeated with each
    count@6.2.0           since that version
    ip!2.8.12             deprecated since that version

Only programs see the names of composed arguments; a person sees ``shown``.

Source: the argument types and flags are those of redis.io/commands/command-docs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

KEYS: Final = frozenset({"key", "source", "destination", "newkey"})
INTEGERS: Final = frozenset(
    {
        *("bits", "client-id", "count", "cursor", "db", "destination-db", "duration"),
        *("entries-added", "entriesread", "frequency", "index", "index1", "index2", "maxage"),
        *("maxcount", "maxsize", "milliseconds", "ms", "numids", "numlocal", "numreplicas"),
        "numkeys",
        *("protover", "region", "seconds", "timeout", "ttl", "version"),
    }
)
TYPES: Final = {
    **dict.fromkeys(KEYS, "key"),
    **dict.fromkeys(INTEGERS, "integer"),
    "pattern": "pattern",
    "unix-time-seconds": "unix-time",
    "unix-time-milliseconds": "unix-time",
}
# What programs call the words that are no words.
SYMBOLS: Final = {"*": "auto-id", "=": "equal", "~": "approximately", "$": "new-id"}

_COMPOSED: Final = frozenset({"oneof", "block"})
_VERSION: Final = re.compile(r"[@!]\d+\.\d+\.\d+")
_TOKENS: Final = re.compile(rf"{_VERSION.pattern}|\.\.\.|[\[\]<>()|]|[^\s\[\]<>()|@!.]+")


class BadSyntaxError(ValueError):
    """A syntax line of ours that cannot be parsed: found by the tests."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A part of a command's syntax.

    Attributes:
        name: what programs call it.
        type: ``string``, ``integer``, ``key``, ``pattern``, ``unix-time``; ``pure-token``, a word
            and nothing else; ``oneof`` and ``block``, composed of ``arguments``.
        token: the word itself, or the one that announces the value.
        display: what hints call it, where that is not ``name``.
        key_spec: of a key: which of the command's key specifications finds it.
        optional, multiple, multiple_token: may be left out, may be repeated, and then the word too.
        since, deprecated_since: versions of Redis, where they are not the command's.
    """

    name: str
    type: str
    token: str = ""
    display: str = ""
    key_spec: int | None = None
    optional: bool = False
    multiple: bool = False
    multiple_token: bool = False
    since: str = ""
    deprecated_since: str = ""
    arguments: "tuple[Argument, ...]" = ()

    @property
    def is_composed(self) -> bool:
        return self.type in _COMPOSED

    @property
    def flags(self) -> list[str]:
        """As COMMAND DOCS names them."""
        flags = {
            "optional": self.optional,
            "multiple": self.multiple,
            "multiple_token": self.multiple_token,
        }
        return [name for name, is_set in flags.items() if is_set]


def parse_syntax(text: str) -> tuple[Argument, ...]:
    """The arguments that a line of the notation above describes.

    Raises:
        BadSyntaxError: the line is not of that notation.
    """
    reader = _Reader(text)
    arguments = reader.row()
    if reader.token:
        raise BadSyntaxError(f"{reader.token!r} closes nothing in: {text}")
    return _with_key_specs(arguments)


def shown(arguments: Iterable[Argument]) -> str:
    """The syntax as people write it: ``key [COUNT count] id [id ...]``."""
    return " ".join(_shown(argument) for argument in arguments)


def word_bounds(arguments: Iterable[Argument]) -> tuple[int, int | None]:
    """The fewest and the most words that such arguments are; None: without end."""
    fewest, most = 0, 0
    endless = False
    for argument in arguments:
        low, high = _word_bounds(argument)
        fewest += low
        endless = endless or high is None
        most += high or 0
    return fewest, None if endless else most


def _word_bounds(argument: Argument) -> tuple[int, int | None]:
    low: int
    high: int | None
    match argument.type:
        case "pure-token":
            low = high = 0
        case "block":
            low, high = word_bounds(argument.arguments)
        case "oneof":
            each = [_word_bounds(one) for one in argument.arguments]
            low = min(one[0] for one in each)
            highs = [one[1] for one in each if one[1] is not None]
            high = max(highs) if len(highs) == len(each) else None
        case _:
            low = high = 1
    if argument.token:
        low += 1
        high = None if high is None else high + 1
    return 0 if argument.optional else low, None if argument.multiple else high


def _shown(argument: Argument) -> str:
    if argument.type == "oneof":
        value = " | ".join(_shown(one) for one in argument.arguments)
        # Inside brackets of their own the alternatives need no others.
        if not argument.optional or argument.token or argument.multiple:
            value = f"<{value}>"
    elif argument.type == "block":
        value = shown(argument.arguments)
    elif argument.type == "pure-token":
        value = ""
    else:
        value = argument.display or argument.name
    announced = " ".join(word for word in (argument.token, value) if word)
    if argument.multiple_token:
        announced = f"{announced} [{announced} ...]"
    elif argument.multiple:
        announced = f"{announced} [{value} ...]"
    return f"[{announced}]" if argument.optional else announced


def _with_key_specs(arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The keys numbered in the order in which they stand."""
    numbers = count()

    def numbered(argument: Argument) -> Argument:
        if argument.type == "key":
            return replace(argument, key_spec=next(numbers))
        return replace(argument, arguments=tuple(map(numbered, argument.arguments)))

    return tuple(map(numbered, arguments))


class _Reader:
    """Descends into a syntax line, a token at a time.

    Attributes:
        token: the one that is to be read next; empty at the end.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = iter(_TOKENS.findall(text))
        self.token = next(self._tokens, "")

    def row(self) -> tuple[Argument, ...]:
        """Arguments side by side, up to a bar, a closing bracket or the end."""
        arguments = []
        while self.token and self.token not in "|]>)":
            arguments.append(self._argument())
        return tuple(arguments)

    def _argument(self) -> Argument:
        match self.token:
            case "[":
                return self._optional()
            case "<" | "(":
                return self._suffixed(self._composed())
        word = self._take()
        if word[0].islower():
            return self._suffixed(_value(word))
        if self.token and self.token in "<(":
            return self._suffixed(replace(self._composed(), token=word))
        if self.token[:1].islower():
            return self._suffixed(replace(_value(self._take()), token=word))
        return self._suffixed(Argument(SYMBOLS.get(word, word.lower()), "pure-token", word))

    def _optional(self) -> Argument:
        self._expect("[")
        if self._at_label():
            argument = self._labelled("]")
            return self._suffixed(replace(argument, optional=True))
        row = self.row()
        self._expect("]")
        if len(row) != 1:
            raise BadSyntaxError(f"several arguments in brackets need a name in: {self._text}")
        argument = replace(row[0], optional=True)
        if self.token == "...":
            self._take()
            return replace(argument, multiple=True, multiple_token=bool(argument.token))
        return argument

    def _composed(self) -> Argument:
        closing = {"<": ">", "(": ")"}[self._take()]
        if not self._at_label():
            raise BadSyntaxError(f"what is composed needs a name in: {self._text}")
        return self._labelled(closing)

    def _labelled(self, closing: str) -> Argument:
        """``name: a | b`` or ``name: a b``, and the bracket that closes it."""
        name = self._take().removesuffix(":")
        rows = [self.row()]
        while self.token == "|":
            self._take()
            rows.append(self.row())
        self._expect(closing)
        if len(rows) == 1 and closing != ">":
            return Argument(name, "block", arguments=rows[0])
        if any(len(row) != 1 for row in rows) or closing == ")":
            raise BadSyntaxError(f"an alternative of several arguments needs a name: {self._text}")
        return Argument(name, "oneof", arguments=tuple(row[0] for row in rows))

    def _suffixed(self, argument: Argument) -> Argument:
        """The argument with what follows it without a blank: dots and versions."""
        if self.token == "...":
            self._take()
            argument = replace(argument, multiple=True)
        while _VERSION.fullmatch(self.token):
            sign, version = self.token[0], self._take()[1:]
            if sign == "@":
                argument = replace(argument, since=version)
            else:
                argument = replace(argument, deprecated_since=version)
        return argument

    def _at_label(self) -> bool:
        return self.token.endswith(":")

    def _take(self) -> str:
        token = self.token
        self.token = next(self._tokens, "")
        return token

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise BadSyntaxError(f"{token!r} is missing in: {self._text}")


def _value(word: str) -> Argument:
    """``name``, ``name=type`` or ``name/display``."""
    word, _, display = word.partition("/")
    name, _, kind = word.partition("=")
    return Argument(name, kind or TYPES.get(name, "string"), display=display)
