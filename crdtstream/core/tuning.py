"""What an operator may change of a replica while it runs, as texts under the names of the settings.

The shells that let him do so (CONFIG SET, the admin service) ask here, so that a choice has the
same name, the same values and the same effect everywhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from crdtstream.core.ids import IdMode
from crdtstream.core.replica import Replica


@dataclass(frozen=True, slots=True)
class Tunable:
    """A choice among a few words.

    Attributes:
        name: as in the configuration file.
        values: the words.
        get: the word that holds at present.
        put: lets another one of the words hold.
    """

    name: str
    values: tuple[str, ...]
    get: Callable[[Replica], str]
    put: Callable[[Replica, str], None]


def _put_id_mode(replica: Replica, value: str) -> None:
    replica.id_mode = IdMode(value)


def _put_mkstream(replica: Replica, value: str) -> None:
    replica.implicit_mkstream = value == "implicit"


ID_MODE: Final = Tunable(
    "crdt_xadd_id_uniqueness_mode",
    tuple(mode.value for mode in IdMode),
    lambda replica: replica.id_mode.value,
    _put_id_mode,
)
MKSTREAM: Final = Tunable(
    "crdt_xgroup_create_mkstream",
    ("explicit", "implicit"),
    lambda replica: "implicit" if replica.implicit_mkstream else "explicit",
    _put_mkstream,
)
TUNABLES: Final[Mapping[str, Tunable]] = MappingProxyType(
    {tunable.name: tunable for tunable in (ID_MODE, MKSTREAM)}
)
