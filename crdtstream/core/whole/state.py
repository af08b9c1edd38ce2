"""The state of a region: everything that effects and local changes are applied to.

It is a pure function of what was applied (``applying``), in whichever order the effects of several
regions came: equal version vectors, equal digests (I1).  ``replica.py`` decides what is applied
when; nothing here issues an effect or knows of batches.
"""

from collections.abc import Iterable

from crdtstream.core.checkpoint.contents import RootContent, packed
from crdtstream.core.checkpoint.key_parts import KeyPart, KeyParts, ProducersPart, RootPart
from crdtstream.core.checkpoint.parts import Cut
from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers
from crdtstream.core.effects import Numbered
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.unstable_settings import UnstableSettings
from crdtstream.core.histories import Histories, content_of
from crdtstream.core.ids import ID_MIN, RegionId, StreamId
from crdtstream.core.keyspace.counters import EndedShares
from crdtstream.core.keyspace.floors import Floors
from crdtstream.core.keyspace.key_encoding import encode_key
from crdtstream.core.keyspace.keyspace import Keyspace
from crdtstream.core.keyspace.tombstones import Tombstones
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.membership.encoding import encode_members
from crdtstream.core.membership.heirs import Heirs
from crdtstream.core.membership.members import Members
from crdtstream.core.producers.idempotency import IdempotencyRecords
from crdtstream.core.producers.numbered import NumberedRecords, Rows
from crdtstream.core.producers.window_encoding import encode_producers
from crdtstream.core.whole.grown_runs import GrownRuns


class State:
    """See the module's text.

    Attributes:
        region: whose state it is.
        vv: what has been applied; one and the same dictionary for good.
        keys: streams, registers and deadlines.
        tombstones, ended_shares, idempotency, numbered, settings: remembered until causally stable.
        floors: below which IDs each origin must not append to a key that has expired.
        members: epoch 1 of the database and what effects have reported since; at epoch 0 none are
            known.
        histories: which effects of each origin were applied.
        heirs: the regions that act for removed ones; one and the same object for good.
        groups_made: the number of the last group that was made; none is given again.
        changes, parts, root: what of this a checkpoint has yet to write (``checkpoint/parts.py``).
        residency: which macro nodes are in memory.
        grown_runs: groups that may have acknowledgements to issue.
        acknowledged_count: pending entries acknowledged here since the process started.
    """

    __slots__ = (
        "_peers",
        "acknowledged_count",
        "changes",
        "ended_shares",
        "floors",
        "groups_made",
        "grown_runs",
        "heirs",
        "histories",
        "idempotency",
        "keys",
        "members",
        "numbered",
        "parts",
        "region",
        "residency",
        "root",
        "settings",
        "tombstones",
        "vv",
    )

    def __init__(
        self, region: RegionId, peers: Iterable[RegionId], node_limits: NodeLimits
    ) -> None:
        self.region = region
        self._peers = frozenset(peers)
        self.vv: MutableVersionVector = {}
        self.histories = Histories()
        self.residency = node_limits.residency
        self.tombstones = Tombstones()
        self.floors = Floors(region)
        self.ended_shares = EndedShares()
        self.idempotency = IdempotencyRecords()
        self.numbered = NumberedRecords()
        self.settings = UnstableSettings()
        self.members = Members()
        self.heirs = Heirs()
        self.groups_made = 0
        self.changes = node_limits.changes
        self.root = RootPart(self._encode_root)
        self.parts = KeyParts(
            self.changes,
            encode_key=self._encode_key,
            encode_producers=self._encode_producers,
            keeps=self.keeps,
            keeps_producers=self.keeps_producers,
        )
        self.keys = Keyspace(region, self.heirs, node_limits, self.parts)
        self.grown_runs = GrownRuns()
        self.acknowledged_count = 0

    @property
    def is_alone(self) -> bool:
        """True if this database has no other region, as far as is known here."""
        return not self._peers and self.vv.keys() <= {self.region}

    def note_peers(self, peers: Iterable[RegionId]) -> None:
        """The other regions are these from now on."""
        self._peers = frozenset(peers)

    @property
    def issued(self) -> int:
        """Number of effects of this region that have been applied."""
        return self.vv.get(self.region, 0)

    def lane_end(self, key: bytes, origin: RegionId) -> StreamId:
        """The last ID of a lane, 0-0 if it is empty."""
        stream = self.keys.streams.get(key)
        lane = None if stream is None else stream.lanes.get(origin)
        return ID_MIN if lane is None else lane.last_id

    def floor_of(self, key: bytes) -> StreamId:
        """ID that this region's appends to the key must exceed, besides the last-generated one.

        0-0 except for a key that has expired, or will before the next write (``floors.py``).
        """
        floor = self.floors.of(key)
        if key in self.keys.due and not self.is_alone:
            stream = self.keys.streams.get(key)
            own = None if stream is None else stream.last_ids.get(self.region)
            floor = max(floor, ID_MIN if own is None else own.id)
        return floor

    def missing_rows(self, key: bytes, rows: Numbered, count: int) -> list[Rows]:
        """Rows, of ``count`` of a numbered producer, that were not appended yet, ascending.

        Raises:
            StaleBatchError: the batch is too old to tell.
        """
        if key in self.keys.due:
            # It has expired: before anything is appended it is deleted, with what it recognised.
            return [(rows.row, rows.row + count)]
        return self.numbered.missing(key, rows, count)

    def new_group(self, key: KeyPart, name: bytes, number: int = 0) -> Group:
        """A group, with a number of its own or the one that a checkpoint has of it."""
        if not number:
            self.groups_made += 1
            number = self.groups_made
        return Group(self.region, self.heirs, self.changes, owner=key, name=name, number=number)

    # --- Members --------------------------------------------------------------------------------

    def set_members(self, members: Members) -> None:
        """The members have changed: what only a removed region did falls to its heir (``rules`` 4).

        Cost: O(groups + keys that are due) if some region is removed, or an heir.
        """
        # The root, which has the members, is written in every checkpoint.
        assert members.epoch >= self.members.epoch, "epochs only grow"
        self.members = members
        moved = self.heirs.follow(members)
        if not moved:
            return
        self.keys.settle_heirs()
        for key, stream in self.keys.streams.items():
            for group in stream.groups.values():
                if group.inherit(moved):
                    # There may be more to read here.
                    self.keys.touched.add(key)

    def restore_members(self, members: Members) -> None:
        """Put back what a checkpoint has, before keys and groups: what followed, they have."""
        self.members = members
        self.heirs.follow(members)

    def keeps(self, key: bytes) -> bool:
        """True if anything is kept of the key."""
        # First what every DEL leaves, for a while and for longer.
        return (
            self.keys.keeps(key)
            or key in self.tombstones
            or key in self.floors
            or key in self.ended_shares
            or self.keeps_producers(key)
        )

    def keeps_producers(self, key: bytes) -> bool:
        """True if anything is kept of the key's producers."""
        stream = self.keys.streams.get(key)
        if stream is not None and stream.window is not None:
            return True
        return key in self.idempotency or key in self.numbered

    # --- Keys that are not shown yet ------------------------------------------------------------

    def aside(self) -> "State":
        """An empty state, whose keys can be taken in here; their parts are encoded as parts of
        this one."""
        aside = State(self.region, self._peers, self.keys.node_limits)
        # The heirs of removed regions are looked up at each read, so by the members of then.
        aside.heirs = self.heirs
        aside.parts = KeyParts(
            self.changes,
            encode_key=self._encode_key,
            encode_producers=self._encode_producers,
            keeps=aside.keeps,
            keeps_producers=aside.keeps_producers,
        )
        aside.keys = Keyspace(self.region, self.heirs, self.keys.node_limits, aside.parts)
        return aside

    def take_in(self, aside: "State") -> None:
        """Show keys that nothing was kept of here: streams, strings, registers and groups.

        Cost: O(keys).
        """
        self.parts.take_in(aside.parts)
        self.keys.take_in(aside.keys)

    # --- What a checkpoint has ------------------------------------------------------------------

    def cut(self) -> Cut:
        """Begin a checkpoint of the state as it is now; at the end of a tick."""
        self.changes.note(self.root)
        cut = self.changes.cut()
        # It changes with every effect, and is never noted.
        cut.keep(self.root)
        return cut

    def _encode_root(self) -> bytes:
        return packed(
            RootContent(
                region=self.region,
                vv=dict(self.vv),
                arrival=self.keys.arrival,
                key_number=self.parts.last_number,
                group_number=self.groups_made,
                order=self.parts.order,
                members=encode_members(self.members),
                histories=content_of(self.histories.points()),
            )
        )

    def _encode_key(self, part: KeyPart) -> bytes:
        return encode_key(
            part,
            keys=self.keys,
            tombstones=self.tombstones,
            floors=self.floors,
            ended_shares=self.ended_shares,
        )

    def _encode_producers(self, part: ProducersPart) -> bytes:
        key = part.key.key
        stream = self.keys.streams.get(key)
        return encode_producers(
            key,
            window=None if stream is None else stream.window,
            idempotency=self.idempotency,
            numbered=self.numbered,
        )

    # --- What is kept until it is causally stable -----------------------------------------------

    @property
    def idempotency_record_count(self) -> int:
        """Idempotent appends that are not causally stable yet, and runs of rows of numbered
        producers."""
        return len(self.idempotency) + len(self.numbered)

    @property
    def kept_until_stable(self) -> bool:
        """True if ``forget_stable`` may find something to drop."""
        # Each commit asks: the queues of what was never used are not counted.
        return bool(
            len(self.tombstones)
            or self.floors.by_key
            or len(self.ended_shares)
            or (self.settings.queues and self.settings)
            or (self.idempotency.queues and self.idempotency)
            or (self.numbered.queues and self.numbered)
        )

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop what is kept only for effects that can no longer arrive."""
        assert covers(self.vv, stable), "stable is what is durable here, at most"
        changed: set[bytes] = set()

        def note(key: bytes) -> None:
            self.parts.note(key)
            changed.add(key)

        def note_producers(key: bytes) -> None:
            self.parts.note_producers(key)
            changed.add(key)

        self.tombstones.forget_stable(stable, note)
        self.ended_shares.forget_stable(stable, note)
        self.idempotency.forget_stable(stable, note_producers)
        self.numbered.forget_stable(stable, note_producers)
        self.settings.forget_stable(stable, self._forget_setting)
        for key in self.floors.stable_keys(stable):
            stream = self.keys.streams.get(key)
            if stream is None or not stream.groups:
                note(key)
                self.floors.forget(key)
        for key in changed:
            self.parts.settle(key)

    def _forget_setting(self, dot: Dot, key: bytes, name: bytes) -> None:
        stream = self.keys.streams.get(key)
        group = None if stream is None else stream.groups.get(name)
        if group is not None:
            group.forget_setting(dot)
