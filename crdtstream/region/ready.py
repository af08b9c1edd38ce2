"""Ready: the output of a region, one value per tick.

    Ready
      records   to be made durable behind all that earlier ticks left
      parcels   may leave now: all that they tell of is in the log
      woken     clients that may go on: a blocked command was answered, or the disk has room again
      links     links that have something to do
      fetch     images of entries which are on disk only, and which are needed now
      letters   messages about the members, to other regions; each may be lost
      folder    what the folder is to say of this region, before the region may say so itself
      deadline  when time is to be passed to the region next

A reply never leaves with the records that it tells of.  The region keeps it until it hears that
they are in the log, and returns it with the next Ready.  So a caller cannot send it too early: it
does not have the reply yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from crdtstream.core.bids import BidLetter
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Incarnations
from crdtstream.core.membership.deciding import Letter
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import Members
from crdtstream.region.readiness import DatabaseIdentity


class Receiver(Protocol):
    """Receiver of parcels: a client's connection, a program's call."""

    def receive(self, parcel: "Parcel") -> None:
        """Take what may leave now."""

    def resume(self) -> None:
        """Go on: its blocked command was answered, or what held it back has ended."""


@dataclass(slots=True, init=False, eq=False)
class Parcel:
    """Output of one tick to one receiver.

    Attributes:
        chunks: the bytes, in order; for a program its result alone.
        replies: number of commands that they answer; 0: messages that answer none.
        size: of all chunks, in bytes.
        after: the last record of the log that it may tell of; set when its tick ends.
        certain: False: the disk refused, and it is unknown whether the tick survives a crash.
    """

    receiver: Receiver
    chunks: Sequence[Any]
    replies: int
    size: int
    after: int
    certain: bool

    def __init__(self, receiver: Receiver, chunks: Sequence[Any], replies: int, size: int) -> None:
        self.receiver = receiver
        self.chunks = chunks
        self.replies = replies
        self.size = size
        self.after = 0
        self.certain = True


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
    """Note that the folder lost something: the next start must not take it for proven."""


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """The database that the folder belongs to."""

    database: DatabaseIdentity


@dataclass(frozen=True, slots=True)
class Confirm:
    """Confirm the folder: the node goes on with it, as its state is now the region's."""


class News(NamedTuple):
    """The members, for a region that does not hear of them by itself."""

    to: RegionId
    members: Members


# Messages that go to another region by a call of their own, and may be lost.
AnyLetter: TypeAlias = Letter | News | BidLetter


@dataclass(frozen=True, slots=True)
class StoreMembership:
    """The membership, as the folder is to have it.

    Attributes:
        version: number of changes to be kept since the node started.
    """

    kept: Kept
    version: int


@dataclass(frozen=True, slots=True)
class StoreIncarnations:
    """The incarnations of all regions, as the folder is to have them.

    Attributes:
        version: number of changes to be kept since the node started.
    """

    kept: Incarnations
    version: int


FolderChange: TypeAlias = Revoke | StoreIdentity | Confirm | StoreMembership | StoreIncarnations

NO_RECORDS: Final[Sequence[Record]] = ()


@dataclass(slots=True, init=False)
class Ready:
    """The output of one tick.

    Attributes:
        records: to be appended to the log, in order; then ``LogSide.note_logged``.
        parcels: to be handed to their receivers, in order.
        woken: receivers that may go on.
        links: whose ``next`` is to be asked now.
        fetch: requests for images, each to be read by itself, the one in front is needed and the
            others are read ahead; then ``ColdReads.note_fetched`` or ``note_failed``.
        letters: to be sent to other regions, each once.
        folder: to be written, durably; then ``FolderSide.note_written``.  It stays until then.
        applies: batches have arrived that ``Region.apply_arrivals`` can apply.
        deadline: time at which ``Region.pass_time`` is to be called next; None if nothing depends
            on time.
        notices: for the operator's log.
    """

    records: Sequence[Record]
    parcels: list[Parcel]
    woken: list[Any]
    links: list[Any]
    fetch: list[tuple[int, ...]]
    letters: list[AnyLetter]
    folder: FolderChange | None
    applies: bool
    deadline: Millis | None
    notices: list[Notice]

    def __init__(
        self,
        records: Sequence[Record],
        parcels: list[Parcel],
        woken: list[Any],
        links: list[Any],
        fetch: list[tuple[int, ...]],
        letters: list[AnyLetter],
        folder: FolderChange | None,
        applies: bool,
        deadline: Millis | None,
        notices: list[Notice],
    ) -> None:
        self.records = records
        self.parcels = parcels
        self.woken = woken
        self.links = links
        self.fetch = fetch
        self.letters = letters
        self.folder = folder
        self.applies = applies
        self.deadline = deadline
        self.notices = notices

    def tell(self) -> None:
        """Hand over the parcels, and let the woken clients go on."""
        for parcel in self.parcels:
            parcel.receiver.receive(parcel)
        for receiver in self.woken:
            receiver.resume()


def made_uncertain(parcels: list[Parcel]) -> list[Parcel]:
    """Parcels of which it is unknown whether what they tell survives a crash: the disk refuses."""
    for parcel in parcels:
        parcel.certain = False
    return parcels
