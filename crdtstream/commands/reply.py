"""Replies of commands: values without a protocol; ``resp/wire/encode.py`` turns them into bytes.

Entries are the exception: their fields are stored as RESP already, so a command that returns
entries builds ``Encoded`` chunks by slicing, and nothing is parsed or encoded again.  Such a chunk
must read the same in RESP2 and RESP3 (arrays, bulk strings and integers do).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, Union

from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

Wants: TypeAlias = frozenset[tuple[bytes, bytes, int | None]]


class CommandError(Exception):
    """An error reply.

    Attributes:
        text: begins with its RESP prefix (``ERR``, ``NOGROUP`` …).  Bytes of a client that are no
            UTF-8 stand in it as ``as_sent`` reads them; ``str`` has them escaped, for all others.
    """

    def __init__(self, text: str) -> None:
        sent = b"" if text.isascii() else text.encode("utf-8", "surrogateescape")
        super().__init__(sent.decode("utf-8", "backslashreplace") or text)
        self.text = text


@dataclass(frozen=True, slots=True)
class Status:
    """A simple string."""

    text: bytes


OK: Final = Status(b"OK")


@dataclass(slots=True, init=False)
class Encoded:
    """RESP bytes, the same in both protocol versions; exactly one value."""

    data: Final[bytes]

    def __init__(self, data: bytes) -> None:
        self.data = data


@dataclass(frozen=True, slots=True)
class EncodedParts:
    """As ``Encoded``, of a large reply: in parts, which are never joined to one."""

    parts: list[bytes]


@dataclass(frozen=True, slots=True)
class RespMap:
    """A map in RESP3, in RESP2 an array of alternating keys and values."""

    pairs: "list[tuple[Reply, Reply]]"


@dataclass(frozen=True, slots=True)
class RespMaps:
    """A list of maps with the same keys, column by column: of thousands each costs little.

    Attributes:
        columns: of each key its name, and its value in each map.
    """

    columns: "list[tuple[bytes, list[Reply]]]"

    def maps(self) -> "list[RespMap]":
        """The same, one by one."""
        names = [name for name, _ in self.columns]
        rows = zip(*(values for _, values in self.columns), strict=True)
        return [RespMap(list(zip(names, row, strict=True))) for row in rows]


@dataclass(frozen=True, slots=True)
class RespSet:
    """A set in RESP3, in RESP2 an array."""

    members: "list[Reply]"


@dataclass(slots=True, init=False)
class PerKey:
    """XREAD's answer: a map in RESP3, in RESP2 an array of [key, value] pairs."""

    pairs: Final["list[tuple[bytes, Reply]]"]

    def __init__(self, pairs: "list[tuple[bytes, Reply]]") -> None:
        self.pairs = pairs


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text for people (INFO): a verbatim string in RESP3, a bulk string in RESP2."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Double:
    """A number with a fraction: a double in RESP3, in RESP2 a bulk string."""

    value: float


@dataclass(frozen=True, slots=True)
class Push:
    """Sent to a client besides its replies: marked as such in RESP3, an array in RESP2."""

    items: "list[Reply]"


@dataclass(frozen=True, slots=True)
class Pushes:
    """Reply of SUBSCRIBE: pushes, in the place of one reply."""

    pushes: list[Push]


# Nothing is sent at all (SHUTDOWN).
NO_REPLY: Final = Pushes([])


@dataclass(frozen=True, slots=True)
class Several:
    """RESP bytes of ``count`` replies, one behind the other, as of ``Encoded``."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Replies:
    """Reply of EXEC: an array of replies, some of them made together."""

    parts: "list[Reply | Several]"

    @property
    def count(self) -> int:
        return sum(one.count if isinstance(one, Several) else 1 for one in self.parts)


class Null(Enum):
    """RESP2 knows two nulls; in RESP3 both are ``_``.  A bulk null is plain ``None``."""

    ARRAY = "array"


@dataclass(slots=True, init=False)
class Blocked:
    """Nothing yet: run ``retry`` again when one of ``keys`` changed, until ``timeout_ms`` pass.

    Attributes:
        keys: streams whose change may satisfy the command.
        timeout_ms: how long to wait from the command's arrival; 0 is without end.
        retry: the command with its IDs fixed as they were on arrival.  It answers, is still
            Blocked, or raises CommandError, which is then the reply (its group was destroyed).
        on_timeout: the reply after ``timeout_ms``, or at CLIENT UNBLOCK … TIMEOUT.
        retry_at: when the command may succeed although no key changed (XREADGROUP CLAIM: an entry
            becomes old enough); None: never.  Each Blocked that ``retry`` returns says it again.
        wants: what it competes for with others, as (key, group, min-idle-time or None): if one
            client found nothing, no other client that wants the same does.  None: for nothing.
    """

    keys: Final[tuple[bytes, ...]]
    timeout_ms: Final[int]
    retry: Final["Callable[[Replica, Millis], Reply | Blocked]"]
    on_timeout: Final["Reply"]
    retry_at: Final[Millis | None]
    wants: Final["Wants | None"]

    def __init__(
        self,
        keys: tuple[bytes, ...],
        timeout_ms: int,
        retry: "Callable[[Replica, Millis], Reply | Blocked]",
        on_timeout: "Reply" = Null.ARRAY,
        retry_at: Millis | None = None,
        wants: "Wants | None" = None,
    ) -> None:
        self.keys = keys
        self.timeout_ms = timeout_ms
        self.retry = retry
        self.on_timeout = on_timeout
        self.retry_at = retry_at
        self.wants = wants


Reply: TypeAlias = Union[
    int,
    bytes,
    Null,
    Status,
    Encoded,
    EncodedParts,
    RespMap,
    RespMaps,
    RespSet,
    PerKey,
    Verbatim,
    Double,
    Push,
    Pushes,
    Replies,
    CommandError,
    "list[Reply]",
    None,
]
