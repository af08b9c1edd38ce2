"""A damaged key of this region's state, replaced by what another region has of it.

    this region    vector V     x, damaged             ─┐
    the other      vector V     x, as images of a cut  ─┴─>  x is what the other region has

Both have applied the same effects, so both must have the same of x: what differs is damage, and
what is equal needs no repair.  Nothing that is replicated of x here counts any more, not even what
the other region lacks.  No effect is issued, so nothing of it reaches other regions.

Of groups that both regions have, what only this region knows stays: consumers, positions, what is
pending.  It follows from what is replicated as it does in ``groups.py``, and besides

  * entries that this region had not, or had with other fields, are delivered by it (again);
  * so is what it took for acknowledged, and the other region does not.

Both are found before anything changes, in steps.  Entries are read one macro node at a time, of
both sides, and stay where they are.

Source: ``rules`` 16, with the own side declared empty.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.checkpoint.parts import Part
from crdtstream.core.clock import join
from crdtstream.core.comparing import KeySums, PartName
from crdtstream.core.effects import Merged
from crdtstream.core.ids import U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.blocks import digest_of_entry, sum_of
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.packing import unpack
from crdtstream.core.lanes.residency import Residency
from crdtstream.core.merge.groups import merge_group
from crdtstream.core.merge.keys import (
    merge_ended_shares,
    merge_floors,
    merge_last_ids,
    merge_lost,
    merge_registers,
    merge_string,
    merge_tombstones,
)
from crdtstream.core.merge.lanes import are_alike, columns_of, stretches
from crdtstream.core.merge.merge import has_stream, merge_key, merge_lanes
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.producers import merge_producers
from crdtstream.core.merge.sent import (
    NOTHING_OF_PRODUCERS,
    SentKey,
    SentNode,
    SentState,
    check_covered,
    nothing_of,
)
from crdtstream.core.whole.restoring import create_of, setting_of
from crdtstream.core.whole.state import State

# By lane stretches of IDs, ``(from, to]``.
Unread = Mapping[RegionId, Sequence[tuple[StreamId, StreamId]]]


class Damage(NamedTuple):
    """Damage of a key here.

    Attributes:
        parts: those that differ from the other region's, in order.
        unreadable: why its entries cannot be read from disk, or are not what was written; empty:
            they are all right.
    """

    parts: Sequence[PartName]
    unreadable: str

    def __bool__(self) -> bool:
        return bool(self.parts or self.unreadable)


class Repairing:
    """One key on its way into this region's state; the state must not change until it is done.

    ``look`` proves the damage and changes nothing; then ``finish``, or ``give_up``.

    Attributes:
        merged: whose state, and which key.
        damage: what ``look`` has found, once it is done.
    """

    def __init__(self, state: State, read: Callable[[Merged], SentState], merged: Merged) -> None:
        """
        Raises:
            ContentError: what is staged says what cannot be.
            StoreError: it cannot be read.
        """
        assert merged.key is not None
        self.merged = merged
        self.damage = Damage((), "")
        self._state = state
        self._key = merged.key
        self._sent = _only_key(read(merged), merged.key, merged.source)
        check_covered(self._sent, merged.vv)
        # Of the other region's key as it would be here.
        self._parts: dict[Part, None] = {}
        self._unread: Unread | None = None
        self._is_over: Callable[[], bool] = lambda: False
        self._steps = self._look()

    # --- Before anything changes --------------------------------------------------------------

    def look(self, is_over: Callable[[], bool]) -> bool:
        """Go on comparing until the turn ends; True if there is more.

        Raises:
            ContentError, UnreadableError: what is staged cannot be used.
        """
        self._is_over = is_over
        with self._state.residency.in_place():
            while next(self._steps, True) is None:
                if is_over():
                    return True
        return False

    def _look(self) -> Iterator[None]:
        theirs = KeySums(self._aside().keys, self._key)
        while not theirs.go_on(self._is_over):
            yield None
        self._forget_aside()
        mine = KeySums(self._state.keys, self._key)
        is_done, unreadable = False, ""
        while not unreadable:
            is_done, unreadable = _go_on(mine, self._is_over)
            if is_done:
                break
            yield None
        for node in self._nodes():
            unreadable = unreadable or _unreadable(node, self._state.residency)
            yield None
        here = {part.name: part[1:] for part in mine.parts}
        there = {part.name: part[1:] for part in theirs.parts}
        names = sorted(here.keys() | there.keys()) if is_done else []
        differing = [name for name in names if here.get(name) != there.get(name)]
        self.damage = Damage(differing, unreadable)
        yield from self._find_unread()

    def _aside(self) -> State:
        """A state that has nothing but the other region's key."""
        state, aside = self._state, self._state.aside()
        limits = state.keys.node_limits
        small = limits.small
        limits.small = type(small)()
        try:
            with state.changes.aside(self._parts):
                merge_key(aside, self._sent, Both({}, self.merged.vv))
        finally:
            limits.small = small
        return aside

    def _forget_aside(self) -> None:
        for part in self._parts:
            if isinstance(part, MacroNode):
                self._state.residency.forget(part)
        self._parts = {}

    def _nodes(self) -> Iterator[MacroNode]:
        stream = self._state.keys.streams.get(self._key)
        for lane in () if stream is None else stream.lanes.values():
            yield from lane.macro_nodes()

    def give_up(self) -> None:
        """Nothing else is to be done with it."""
        self._forget_aside()

    # --- What groups have not delivered -------------------------------------------------------

    def _find_unread(self) -> Iterator[None]:
        stream = self._state.keys.streams.get(self._key)
        lanes = {} if stream is None else stream.lanes
        unread: dict[RegionId, list[tuple[StreamId, StreamId]]] = {}
        for region, nodes in self._sent.lanes.items():
            found = unread[region] = []
            lane = lanes.get(region)
            if lane is None:
                found.append((_before(nodes[0][1].header.first_id), nodes[-1][1].header.last_id))
                continue
            for here, there in stretches(lane, nodes, U64_MAX - 1):
                if not are_alike(here, there):
                    yield from self._compare(here, there, found)
        self._unread = unread

    def _compare(
        self,
        here: Sequence[MacroNode],
        there: Sequence[SentNode],
        found: list[tuple[StreamId, StreamId]],
    ) -> Iterator[None]:
        """Note the entries of the other region that are not here as they are there."""
        residency = self._state.residency
        mine = _Entries(here, residency)
        is_run = False
        for node in there:
            columns = columns_of(node, residency)
            for at, n in enumerate(columns.n):
                if mine.digest_of(n) == digest_of_entry(columns, at):
                    is_run = False
                    continue
                entry_id = columns.id_at(at)
                if is_run:
                    found[-1] = found[-1][0], entry_id
                else:
                    found.append((_before(entry_id), entry_id))
                is_run = True
            yield None

    # --- The last step ------------------------------------------------------------------------

    def finish(self, arrived: Millis) -> None:
        """Replace the key; what was not looked for is looked for now.

        Args:
            arrived: when the other region's entries came here.

        Raises:
            ContentError: an image says what cannot be.
            UnreadableError: an entry of the other region cannot be read.

        Cost: O(macro nodes) of both; entries are read only if ``look`` was not done.
        """
        state = self._state
        self._forget_aside()
        if self._unread is None:
            for _ in self._find_unread():
                pass
        assert self._unread is not None
        state.keys.arrival = max(state.keys.arrival, arrived)
        before_n = state.issued
        _replace(state, self._sent, Both({}, self.merged.vv), self._unread)
        assert state.issued == before_n, "a repair issues nothing"
        state.tombstones.restore_order()
        state.ended_shares.restore_order()
        state.idempotency.restore_order()
        state.numbered.restore_order()
        state.settings.restore_order()
        join(state.vv, self.merged.vv)


def _only_key(sent: SentState, key: bytes, source: RegionId) -> SentKey:
    """
    Raises:
        ContentError: another key is staged.
    """
    keys = list(sent.keys)
    if any(one.key != key for one in keys) or len(keys) > 1:
        raise ContentError("other keys are staged than the one that is to be repaired")
    return keys[0] if keys else nothing_of(key, source)


def _before(entry_id: StreamId) -> StreamId:
    return StreamId(entry_id - 1)


def _go_on(sums: KeySums, is_over: Callable[[], bool]) -> tuple[bool, str]:
    """Go on summing; return whether all is summed up, and why it cannot be."""
    try:
        return sums.go_on(is_over), ""
    except (UnreadableError, ValueError) as error:
        return False, str(error)


def _columns(node: MacroNode, residency: Residency) -> NodeColumns:
    """The entries of a macro node, which stays as it is.

    Raises:
        UnreadableError, ValueError: they cannot be read.
    """
    if node.here is not None:
        return node.here
    cold = node.cold
    assert cold is not None
    packed = residency.load(node.image) if node.packed is None else node.packed
    return decode_body(unpack(packed, size=cold.body_bytes), cold)


def _unreadable(node: MacroNode, residency: Residency) -> str:
    """The fault of a macro node's entries; empty: none."""
    try:
        columns = _columns(node, residency)
    except (UnreadableError, ValueError) as error:
        return str(error)
    if sum_of(columns) == node.own_digest():
        return ""
    return f"dots {node.first_n} to {node.last_n} are not what was written"


class _Entries:
    """Digests of the entries of macro nodes, asked for in the order of their dots."""

    def __init__(self, nodes: Sequence[MacroNode], residency: Residency) -> None:
        self._left = list(reversed(nodes))
        self._residency = residency
        self._columns: NodeColumns | None = None
        self._last_n = 0

    def digest_of(self, n: int) -> int | None:
        """None: it is not there, or cannot be read."""
        while n > self._last_n and self._left:
            node = self._left.pop()
            self._last_n = node.last_n
            try:
                self._columns = _columns(node, self._residency)
            except (UnreadableError, ValueError):
                self._columns = None
        columns = self._columns
        if columns is None:
            return None
        at = bisect_left(columns.n, n)
        return digest_of_entry(columns, at) if at < len(columns.n) and columns.n[at] == n else None


# --- Replacing ------------------------------------------------------------------------------------


def _replace(state: State, sent: SentKey, both: Both, unread: Unread) -> None:
    keys, key = state.keys, sent.key
    state.parts.note(key)
    if state.keeps_producers(key):
        state.parts.note_producers(key)
    stream = keys.streams.get(key)
    _forget(state, key, stream)
    if stream is None and has_stream(sent):
        stream = keys.stream_or_new(key)
    merge_lost(state, sent, stream)
    merge_registers(state, sent, both)
    merge_string(state, sent, both)
    merge_ended_shares(state, sent)
    merge_floors(state, sent)
    if stream is not None:
        merge_lanes(stream, sent, both, {}, arrived=keys.arrival)
        merge_last_ids(stream, sent, both)
        for name in [*stream.groups, *(name for name in sent.groups if name not in stream.groups)]:
            _replace_group(state, stream, name, sent, both, unread)
        if sent.producers is not NOTHING_OF_PRODUCERS:
            merge_producers(state, stream, sent, both, arrived=keys.arrival)
    merge_tombstones(state, sent)
    if stream is not None:
        keys.drop_if_gone(key, stream)
    keys.touched.add(key)
    state.parts.settle(key)


def _forget(state: State, key: bytes, stream: Stream | None) -> None:
    """All that is replicated of a key, except its groups: local state belongs to them; and for its
    string: the other region's values take the place of all that are here (``presence.py``)."""
    keys = state.keys
    keys.drop_registers(key)
    if key in state.floors:
        state.floors.forget(key)
    state.tombstones.forget(key)
    state.ended_shares.forget(key)
    if key in keys.strings:
        keys.strings[key].replace_shares({})
    state.idempotency.forget_key(key)
    state.numbered.forget_key(key)
    keys.forget_lost(key)
    if stream is not None:
        for lane in stream.lanes.values():
            lane.clear()
        stream.lanes.clear()
        stream.replace_last_ids({})
        stream.lost = {}
        stream.window = None


def _replace_group(
    state: State, stream: Stream, name: bytes, sent: SentKey, both: Both, unread: Unread
) -> None:
    content = sent.groups.get(name)
    creates = {} if content is None else dict(map(create_of, content.creates))
    group = stream.groups.get(name)
    if group is not None and not any(dot in creates for dot in group.creates):
        # It is another group, or none: what is local is dropped with it (``groups.py``, 1).
        state.grown_runs.forget((sent.key, name))
        stream.drop_group(name)
        group = None
    if group is None:
        merge_group(state, stream, name, sent, both)
        return
    assert content is not None
    settings = {one.dot: setting_of(sent.key, name, one) for one in content.settings}
    group.repair(creates, settings, unread, stream.lanes, stream.last_ids)
    for dot in settings:
        state.settings.note(dot, sent.key, name)
