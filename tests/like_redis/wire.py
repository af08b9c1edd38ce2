"""RESP as it stands on the wire: requests as bytes, replies with every distinction kept.

Client libraries turn a null array, a null bulk string and RESP3's null into one None, a status
into a string, and a map into one without order or repeated keys.  A test that compares servers
wants to see all that, so replies are read into these shapes:

    bulk string  bytes            status   Simple(text)       null bulk (RESP2)   NULL_BULK
    integer      int              error    Failure(text)      null array (RESP2)  NULL_ARRAY
    array        list             map      Pairs([k, v …])    null (RESP3)        NULL
    set          Members([…])     push     Pushed([…])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias, Union


class Nothing(Enum):
    """The nulls."""

    NULL_BULK = "null bulk"
    NULL_ARRAY = "null array"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Simple:
    """A status: ``+OK``."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, at the top or inside the array that EXEC answers; its text keeps every byte."""

    text: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A value of a RESP3 type that needs no shape of its own (verbatim, double, boolean)."""

    kind: bytes
    text: bytes


class Pairs(list["Read"]):
    """A RESP3 map: keys and values in turn, in the order in which they came."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and super().__eq__(other)

    __hash__ = None


class Members(Pairs):
    """A RESP3 set."""


class Pushed(Pairs):
    """A RESP3 push: what a client gets without asking."""


Read: TypeAlias = Union[bytes, int, Nothing, Simple, Failure, Typed, Pairs, "list[Read]"]


class ByteSource(Protocol):
    """A buffered reader of bytes."""

    def readline(self) -> bytes: ...

    def read(self, size: int, /) -> bytes: ...


def request(argv: Sequence[bytes]) -> bytes:
    """A command as clients send it."""
    bulks = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in argv)
    return b"*%d\r\n%b" % (len(argv), bulks)


def read_reply(source: ByteSource) -> Read:
    """The next reply."""
    line = source.readline()
    assert line.endswith(b"\r\n"), f"the connection ended after {line!r}"
    kind, text = line[:1], line[1:-2]
    match kind:
        case b"+":
            return Simple(text)
        case b"-":
            return Failure(text.decode("utf-8", "surrogateescape"))
        case b":":
            return int(text)
        case b"_":
            return Nothing.NULL
        case b"$":
            return Nothing.NULL_BULK if text == b"-1" else _bulk(source, int(text))
        case b"=":
            return Typed(kind, _bulk(source, int(text)))
        case b"*":
            if text == b"-1":
                return Nothing.NULL_ARRAY
            return [read_reply(source) for _ in range(int(text))]
        case b"%":
            return Pairs(read_reply(source) for _ in range(2 * int(text)))
        case b"~":
            return Members(read_reply(source) for _ in range(int(text)))
        case b">":
            return Pushed(read_reply(source) for _ in range(int(text)))
        case b"#" | b"," | b"(":
            return Typed(kind, text)
    raise AssertionError(f"no reply begins like {line!r}")


def _bulk(source: ByteSource, length: int) -> bytes:
    data = source.read(length + 2)
    assert len(data) == length + 2
    return data[:-2]


def shown(reply: Read) -> str:
    """A reply for people: ``[1-1 [f v]]``, a map as ``{…}``, text that needs it in quotes."""
    match reply:
        case bytes():
            text = reply.decode("utf-8", "backslashreplace")
            return (
                text
                if text.isprintable() and text and not set(text) & set(" []{}")
                else f"{text!r}"
            )
        case int():
            return f"({reply})"
        case Nothing():
            return f"<{reply.value}>"
        case Simple(text):
            return "+" + text.decode("utf-8", "backslashreplace")
        case Failure(message):
            return "error: " + message.encode("utf-8", "backslashreplace").decode()
        case Typed(kind, text):
            return f"{kind.decode()}{text!r}"
    inside = " ".join(map(shown, reply))
    return f"{{{inside}}}" if isinstance(reply, Pairs) else f"[{inside}]"
