"""Settings that an operator may change while a node runs, as texts under their names.

The shells that offer this (CONFIG SET, the admin service) ask here, so that a choice has the same
name, the same values and the same effect everywhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from crdtstream.core.ids import IdMode
from crdtstream.core.redis_version import WANTED, parse_redis_version
from crdtstream.core.replica import Replica
from crdtstream.core.xread_mode import XreadMode

Host = TypeVar("Host")


@dataclass(frozen=True, slots=True)
class Tunable(Generic[Host]):
    """A choice among a few words, or a text that can be checked.

    Attributes:
        name: as CONFIG and rladmin call it.
        values: the words; none: whatever ``takes`` takes.
        get: the value that holds at present.
        put: lets another one hold, which ``takes`` takes.
        wanted: what it must be, in an error; empty: one of the words.
        check: whether a text that is none of the words will do.
        refusal: why a value that it takes cannot be put just now; None: it can.
    """

    name: str
    values: tuple[str, ...]
    get: Callable[[Host], str]
    put: Callable[[Host, str], None]
    wanted: str = ""
    check: Callable[[str], bool] = lambda _text: False
    refusal: Callable[[Host, str], str | None] = lambda _host, _text: None

    @property
    def setting(self) -> str:
        """As the configuration file calls it."""
        return self.name.replace("-", "_")

    @property
    def allowed(self) -> tuple[str, ...]:
        """Values as shown to operators: its words, or what it must be."""
        return self.values or (self.wanted,)

    def takes(self, text: str) -> bool:
        return text in self.values or self.check(text)


@dataclass(frozen=True, slots=True)
class Tuned(Generic[Host]):
    """A tunable of something that exists."""

    tunable: Tunable[Host]
    host: Host

    def get(self) -> str:
        return self.tunable.get(self.host)

    def refusal(self, value: str) -> str | None:
        """Why the value cannot be put just now; None: it can."""
        return self.tunable.refusal(self.host, value)

    def put(self, value: str) -> None:
        assert self.tunable.takes(value)
        self.tunable.put(self.host, value)


def _put_id_mode(replica: Replica, value: str) -> None:
    replica.id_mode = IdMode(value)


def _put_mkstream(replica: Replica, value: str) -> None:
    replica.implicit_mkstream = value == "implicit"


def _put_xread_mode(replica: Replica, value: str) -> None:
    replica.xread_mode = XreadMode(value)


def _put_redis_version(replica: Replica, value: str) -> None:
    version = parse_redis_version(value)
    assert version is not None, "it was checked"
    replica.redis_version = version


ID_MODE: Final[Tunable[Replica]] = Tunable(
    "crdt_xadd_id_uniqueness_mode",
    tuple(mode.value for mode in IdMode),
    lambda replica: replica.id_mode.value,
    _put_id_mode,
)
MKSTREAM: Final[Tunable[Replica]] = Tunable(
    "crdt_xgroup_create_mkstream",
    ("explicit", "implicit"),
    lambda replica: "implicit" if replica.implicit_mkstream else "explicit",
    _put_mkstream,
)
XREAD_MODE: Final[Tunable[Replica]] = Tunable(
    "crdt_xread_mode",
    tuple(mode.value for mode in XreadMode),
    lambda replica: replica.xread_mode.value,
    _put_xread_mode,
)
REDIS_VERSION: Final[Tunable[Replica]] = Tunable(
    "redis-version",
    (),
    lambda replica: str(replica.redis_version),
    _put_redis_version,
    WANTED,
    lambda text: parse_redis_version(text) is not None,
)
# Of a replica; a region has others besides.
TUNABLES: Final[Mapping[str, Tunable[Replica]]] = MappingProxyType(
    {tunable.name: tunable for tunable in (ID_MODE, MKSTREAM, XREAD_MODE, REDIS_VERSION)}
)
