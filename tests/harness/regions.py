"""Regions for tests of the core: commands in, batches carried by hand."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain

import hiredis

from crdtstream.commands.reply import (
    CommandError,
    Encoded,
    EncodedParts,
    PerKey,
    Replies,
    Reply,
    RespMap,
    RespMaps,
    Several,
    Status,
)
from crdtstream.core.effects import EffectBatch, Record
from crdtstream.core.ids import IdMode, Millis, RegionId
from crdtstream.core.membership.members import Members
from crdtstream.core.merge.merging import Merging
from crdtstream.core.merge.repairing import Damage
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import Database, Waiting
from crdtstream.database.session import Session
from tests.harness.checkpoints import Checkpoints


@dataclass(slots=True)
class Node:
    """A replica, its log and a clock that stands still until it is moved.

    Attributes:
        others: the regions that it is told of; without any it takes itself to be alone until it
            has heard of one.

    Replies come back as plain Python: IDs and names as text, entries as their IDs.
    """

    region: int
    mode: IdMode = IdMode.LIBERAL
    now: int = 1000
    others: Sequence[int] = ()
    members: Members = field(default_factory=Members)
    replica: Replica = field(init=False)
    log: list[Record] = field(default_factory=list)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    _database: Database = field(init=False)
    _session: Session = field(init=False)
    reading: ExitStack = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.replica = Replica(
            RegionId(self.region),
            peers=map(RegionId, self.others),
            id_mode=self.mode,
            implicit_mkstream=True,
        )
        self.replica.begin(self.members)
        # What is on disk only is read in place: a region looks ahead, and these tests do not.
        self.replica.residency.loader = self.checkpoints.load
        self.replica.staged = self.checkpoints.staged_state
        self.reading = ExitStack()
        self.reading.enter_context(self.replica.residency.in_place())
        self._database = Database(self.replica)
        self._session = self._database.open_session()

    def limit_nodes(self, entries_max: int, bytes_max: int) -> None:
        """Set the bounds of a macro node, until the region starts again."""
        limits = self.replica.node_limits
        limits.entries_max, limits.bytes_max = entries_max, bytes_max

    def __call__(self, line: str) -> object:
        """Run one command within the open tick."""
        reply = self.raw(line)
        return reply.text if isinstance(reply, CommandError) else plain(reply)

    def raw(self, line: str) -> Reply | Waiting:
        """As calling it, but the reply is as the command gave it."""
        return self.raw_words([word.encode() for word in shlex.split(line)])

    def raw_words(self, argv: list[bytes]) -> Reply | Waiting:
        """The same, by the words of the command."""
        return self._database.call(self._session, Millis(self.now), argv)

    def run(self, *lines: str) -> object:
        """Run commands as one transaction: one tick, one batch.  The last one's reply."""
        replies = [self(line) for line in lines]
        self.end_tick()
        return replies[-1]

    def expire(self) -> None:
        """Do what the clock brings."""
        self._database.expire(Millis(self.now))
        self.end_tick()

    def end_tick(self) -> None:
        self.log += self.replica.take_records(Millis(self.now))
        self._database.note_sealed()

    def batches(self) -> list[EffectBatch]:
        """All that is in the log, of any region; the open tick ends."""
        self.end_tick()
        return [decode_batch(record.batch) for record in self.log if record.batch is not None]

    def take(self, record: Record) -> None:
        """Receive one batch, in a tick of its own."""
        assert record.batch is not None
        self.replica.receive(decode_batch(record.batch), record.batch, Millis(self.now))
        self.end_tick()

    def pull(self, *peers: "Node") -> None:
        """Receive everything that the peers have, in their order, until nothing is new."""
        progress = True
        while progress:
            progress = False
            for peer in peers:
                peer.end_tick()
                for record in peer.log:
                    if record.batch is None:
                        continue
                    batch = decode_batch(record.batch)
                    if self.replica.ready(batch):
                        self.take(record)
                        progress = True

    def merge(self, other: "Node") -> None:
        """Take over what another region has, by its state and not by its effects."""
        self.end_merge(self.begin_merge(other))

    def repair(self, other: "Node", key: str) -> Damage:
        """Replace a key by what another region has at the same version vector."""
        other.end_tick()
        self.end_tick()
        assert self.replica.vv == other.replica.vv
        merged = self.checkpoints.stage(other.replica, key.encode())
        repairing = self.replica.repairing(merged)
        while repairing.look(lambda: True):
            pass
        self.replica.merge(repairing, Millis(self.now))
        self.end_tick()
        return repairing.damage

    def begin_merge(self, other: "Node") -> Merging:
        """Begin to take over what another region has; it is to be ended or given up."""
        other.end_tick()
        return self.replica.merging(self.checkpoints.stage(other.replica))

    def end_merge(self, merging: Merging) -> None:
        """Make the merged state visible."""
        self.end_tick()
        self.replica.merge(merging, Millis(self.now))
        self.end_tick()

    def waits_for(self) -> int:
        """Up to which effect WAIT waits after what the client last wrote."""
        self._database.measure_writes(self._session)
        return self._session.wrote_n

    def reconnect(self) -> None:
        """The client goes, and another one comes."""
        self._database.forget(self._session)
        self._session = self._database.open_session()

    def restart(self) -> None:
        """Lose everything but the folder: its newest checkpoint, and the log behind that one."""
        self._begin()
        if len(self.log) < self.checkpoints.records:
            # An earlier state of the folder was put back.
            self.checkpoints.wipe()
        self.checkpoints.restore(self.replica)
        for record in self.log[self.checkpoints.records :]:
            self.replica.replay(record)

    def cut(self) -> None:
        """Begin a checkpoint."""
        self.end_tick()
        self.checkpoints.begin(self.replica, len(self.log))

    @property
    def digest(self) -> bytes:
        self.end_tick()
        return self.replica.digest()


def nodes_of(*regions: int, mode: IdMode = IdMode.LIBERAL) -> list[Node]:
    """Regions that know of each other."""
    return [
        Node(region, mode, others=[one for one in regions if one != region]) for region in regions
    ]


def sync(*nodes: Node) -> None:
    """Everybody hears everything; then all must agree."""
    for _ in nodes:
        for node in nodes:
            node.pull(*[peer for peer in nodes if peer is not node])
    assert len({tuple(sorted(node.replica.vv.items())) for node in nodes}) == 1
    assert len({node.digest for node in nodes}) == 1, "equal version vectors, different digests"


def plain(reply: Reply | object) -> object:
    """A reply as one would write it down; entries as their IDs."""
    match reply:
        case Encoded(data):
            return _entries(data)
        case EncodedParts(parts):
            return _entries(b"".join(parts))
        case PerKey(pairs):
            return {key.decode(): plain(value) for key, value in pairs}
        case RespMap(pairs):
            return {plain(key): plain(value) for key, value in pairs}
        case RespMaps():
            return plain(reply.maps())
        case Replies():
            return list(chain.from_iterable(map(_replies, reply.parts)))
        case Status(text):
            return text.decode()
        case bytes():
            return reply.decode()
        case list():
            return [plain(item) for item in reply]
        case _:
            return reply


def _replies(part: Reply | Several) -> list[object]:
    if not isinstance(part, Several):
        return [plain(part)]
    reader = hiredis.Reader()
    reader.feed(part.data)
    return [plain(reader.gets()) for _ in range(part.count)]


def _entries(data: bytes) -> object:
    """Encoded entries as their IDs, ``[[id, fields], …]`` or one ``[id, fields]``; other rows, as
    those of pending entries, as they are."""
    reader = hiredis.Reader()
    reader.feed(data)
    value = reader.gets()
    if value and isinstance(value[0], bytes):
        return value[0].decode()
    return [entry[0].decode() if _is_entry(entry) else plain(entry) for entry in value]


def _is_entry(row: list[object]) -> bool:
    return not isinstance(row[1], int | bytes)
