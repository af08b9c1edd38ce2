"""A region without a node: a test gives it inputs and takes its Ready, one tick at a time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import hiredis

from crdtstream.commands.reply import Reply
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.encoding import Said, encode_said
from crdtstream.core.membership.members import genesis
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.database.database import WAITING, Waiting
from crdtstream.engine.assembling import assemble
from crdtstream.region.clients import Client, Encode
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.ready import Parcel, Ready
from crdtstream.region.region import Region
from crdtstream.region.runtime import Runtime
from crdtstream.resp.wire.encode import encode
from crdtstream.sim.disk import now as at_once
from crdtstream.store.checkpoints import MemoryCheckpoints
from crdtstream.store.log import MemoryLog

UID = DatabaseUid(bytes(range(16)))
PROVEN = FolderState(is_proven=True, database=DatabaseIdentity(UID))


def said_of(*numbers: int) -> bytes:
    """Bytes that a region reports on the members at epoch 1, if its file names these."""
    return encode_said(Said(UID, genesis(map(RegionId, numbers)), epoch=2))


SAID = said_of(1, 2, 3)


def make_region(
    number: int = 1,
    peers: Iterable[int] | Mapping[int, str] = (2, 3),
    *,
    limits: RegionLimits | None = None,
    database_id: str = "crdb",
    run_id: int | None = None,
    log: Sequence[Record] = (),
    folder: FolderState | None = None,
    now: int = 1000,
    clock: Callable[[], int] | None = None,
    encode: Encode = encode,
    keeps_members: bool = True,
) -> Region:
    """A region that has replayed this log.

    Args:
        peers: the other regions, perhaps with their addresses.
        keeps_members: a folder that lost nothing keeps epoch 1.
    """
    region = RegionId(number)
    where = peers if isinstance(peers, Mapping) else {one: f"region-{one}" for one in peers}
    addresses = {RegionId(one): where[one] for one in where if one != number}
    folder = folder or PROVEN
    kept = folder.membership
    if keeps_members and not kept.members.epoch and (folder.is_proven or folder.is_same):
        first = genesis({region, *addresses})
        folder = replace(folder, membership=replace(kept, instance=UID, members=first))
    memory = MemoryLog()
    memory.append_at_once(log)
    assembling = assemble(
        memory,
        MemoryCheckpoints(memory),
        folder,
        lambda known: Replica(region, peers=known),
        identity=Identity(region, database_id, number if run_id is None else run_id),
        configured=addresses,
        limits=limits or RegionLimits(),
        runtime=Runtime(
            now=lambda: Millis(now),
            encode=encode,
            clock=clock or count().__next__,
            uniform=lambda low, high: high,
            make_uid=lambda: UID,
        ),
    )
    return at_once(assembling).region


class Told:
    """A client: what it sends, and what it has been told."""

    def __init__(self, region: Region) -> None:
        self.client = region.clients.connect(self)
        self.told: list[tuple[bytes, bool]] = []
        self.parcels: list[Parcel] = []
        self.resumed = 0
        self._reader = hiredis.Reader()

    def receive(self, parcel: Parcel) -> None:
        self.client.note_told(parcel)
        self.parcels.append(parcel)
        data = b"".join(parcel.chunks)
        self.told.append((data, parcel.certain))
        self._reader.feed(data)

    def resume(self) -> None:
        self.resumed += 1

    @property
    def replies(self) -> list[object]:
        """The replies told since this was last asked, as Python."""
        found = []
        while (reply := self._reader.gets()) is not False:
            found.append(reply)
        return found


class Capture:
    """Encodes replies, and keeps them as the commands made them."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []

    def __call__(self, reply: Reply, protocol: int, chunks: list[bytes]) -> None:
        self.replies.append(reply)
        encode(reply, protocol, chunks)

    def call(self, client: Client, now: Millis, *argv: bytes) -> Reply | Waiting:
        """Run a command; its reply before it is in the log."""
        before = len(self.replies)
        client.run(iter([list(argv)]), now, bytes_max=1 << 20)
        return self.replies[-1] if len(self.replies) > before else WAITING


class Driven:
    """A region whose log is a list, and whose disk does as the test says.

    Attributes:
        queue: records that ticks left and no commit took.
        log: what is committed.
        clock: what it is told the time is.
    """

    def __init__(self, region: Region | None = None) -> None:
        self.region = region or make_region()
        self.clock = 1000
        self.queue: list[Record] = []
        self.log: list[Record] = []
        self.last: Ready
        self.client = Told(self.region)
        self.end_tick()

    @property
    def now(self) -> Millis:
        return Millis(self.clock)

    def call(self, *argv: str, client: Told | None = None) -> None:
        """One request, in the open tick; "\\udcff" stands for the byte ff."""
        arguments = [argument.encode(errors="surrogateescape") for argument in argv]
        (client or self.client).client.run(iter([arguments]), self.now, bytes_max=1 << 20)

    def write(self, name: str) -> None:
        self.call("XADD", "s", "*", "field", name)

    def end_tick(self) -> Ready:
        """End the tick, and hand on what may leave."""
        self.last = self.region.ready(self.now)
        assert self.last.folder == self.region.folder.next_change
        self.queue += self.last.records
        self.last.tell()
        return self.last

    def commit(self, *, count: int | None = None, durable: bool = True) -> Ready:
        """Commit what is queued, or the first so many records, and tell."""
        records = self.queue[:count]
        del self.queue[: len(records)]
        self.log += records
        self.region.log.note_logged(len(self.log), self.now, durable=durable)
        return self.end_tick()

    def refuse(self, reason: str) -> Ready:
        self.region.log.note_refused(reason)
        return self.end_tick()

    def ask(self, *argv: str) -> object:
        """One request, its tick and its commit; the reply."""
        self.call(*argv)
        self.end_tick()
        if self.queue:
            self.commit()
        (reply,) = self.client.replies
        return reply
