"""What a region gives out: one value per tick.

    Ready
      records   to be made durable behind all that earlier ticks left
      parcels   may leave now: all that they tell of is in the log
      woken     clients whose blocked command was answered: they may go on
      links     links that have something to do
      fetch     images that somebody needs of entries which are on disk only
      letters   messages on who is a member, to other regions; each may be lost
      folder    what the folder is to say of this region, before it may say so itself
      deadline  when time is to be passed to the region next

A reply never leaves with the records that it tells of.  The region keeps it until it hears that
they are in the log, and gives it out with the next Ready.  So a caller cannot tell too early: it
does not have the reply yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.deciding import Letter
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import Members
from crdtstream.region.links.readiness import DatabaseIdentity


class Receiver(Protocol):
    """Who is told something: a client's connection, a program's call."""

    def receive(self, parcel: "Parcel") -> None:
        """Take what may leave now."""

    def resume(self) -> None:
        """Its blocked command is over, or what held it back: it may go on."""


@dataclass(slots=True, eq=False)
class Parcel:
    """What one tick has to tell to one receiver.

    Attributes:
        chunks: the bytes, in order; for a program its result alone.
        replies: how many commands they answer; 0: messages that answer none.
        size: of all chunks, in bytes.
        after: the last record of the log that it may tell of; set when its tick ends.
        certain: False: the disk refused, and whether the tick survives a crash is unknown.
    """

    receiver: Receiver
    chunks: Sequence[Any]
    replies: int
    size: int
    after: int = 0
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth a line in the operator's log.

    Attributes:
        level: debug, info, warning or error.
    """

    level: str
    text: str
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Revoke:
    """The folder lost something: the next start must not take it for proven."""


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """Which database the folder belongs to."""

    database: DatabaseIdentity


@dataclass(frozen=True, slots=True)
class Confirm:
    """The node goes on with this folder: it is what the region now is."""


class News(NamedTuple):
    """For a region that does not hear of it by itself: who is a member."""

    to: RegionId
    members: Members


@dataclass(frozen=True, slots=True)
class StoreMembership:
    """What the folder has of the membership.

    Attributes:
        version: counts what was to be kept since the node started.
    """

    kept: Kept
    version: int


FolderChange: TypeAlias = Revoke | StoreIdentity | Confirm | StoreMembership

NO_RECORDS: Final[Sequence[Record]] = ()


@dataclass(slots=True)
class Ready:
    """The output of one tick.

    Attributes:
        records: to be appended to the log, in order; then ``Region.note_logged``.
        parcels: to be told, in order.
        woken: receivers that may go on.
        links: whose ``next`` is to be asked now.
        fetch: requests for images, each to be read by itself, the one in front is needed and the
            others are read ahead; then ``Region.note_fetched`` or ``note_fetch_failed``.
        letters: to be sent to other regions, each once.
        folder: to be written, durably; then ``Region.note_folder``.  It stays until that is done.
        applies: batches have arrived that ``Region.apply_arrivals`` can apply.
        deadline: when ``Region.pass_time`` is to be called next; None if nothing depends on time.
        notices: for the operator's log.
    """

    records: Sequence[Record]
    parcels: list[Parcel]
    woken: list[Any]
    links: list[Any]
    fetch: list[tuple[int, ...]]
    letters: list[Letter | News]
    folder: FolderChange | None
    applies: bool
    deadline: Millis | None
    notices: list[Notice]

    def tell(self) -> None:
        """Hand the parcels over."""
        for parcel in self.parcels:
            parcel.receiver.receive(parcel)


def made_uncertain(parcels: list[Parcel]) -> list[Parcel]:
    """The disk refuses: whether what these tell survives a crash is unknown."""
    for parcel in parcels:
        parcel.certain = False
    return parcels
