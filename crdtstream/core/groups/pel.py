"""The PEL: entries that were delivered here and not acknowledged yet, with owner and time.

A lane's pending entries are in chunks (``pel_chunk.py``); each chunk is a part of a checkpoint.
Each owner of some, also *nobody*, knows the chunks in which they are:

    lane 1    [ 10-1 .. 14-1 ] [ 15-1 .. 31-7 ]         alice   -> both of lane 1
    lane 2    [ 12-2 .. 12-2 ]                          bob     -> the second one of lane 1
                                                        nobody  -> that of lane 2

Always so:
  * An entry has one owner: a consumer, or *nobody*.
  * Chunks of a lane do not overlap, and none is empty.
  * A chunk is changed only here.  Before its first change since a cut, it is noted.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from typing import Final

from crdtstream.core.checkpoint.parts import NO_IMAGE, Changes, Image
from crdtstream.core.effects import Release
from crdtstream.core.groups.claim_order import ClaimOrder
from crdtstream.core.groups.lane_pel import LanePel
from crdtstream.core.groups.pel_chunk import (
    ENTRIES_MAX,
    NOBODY,
    Consumer,
    Nack,
    Owner,
    PelChunk,
    Span,
)
from crdtstream.core.groups.progress import LaneProgress, once_more
from crdtstream.core.groups.turns import delivery_turn, last_turn
from crdtstream.core.id_columns import FEW, IdColumns, Ids
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.size import Size

# A chunk that is not full to this part is joined with a neighbour, if both together are at most
# twice that, and fit into one.
JOINED_BELOW: Final = Size(4, least=2)


class Pel:
    """See the module's text.

    Attributes:
        consumers: by name, in no order: those who show them sort them.
        nobody: owner of the entries that were given back (XNACK), or taken over.
        claims_idle: whether a client ever waited for idle entries (XREADGROUP CLAIM); then it must
            be woken when some may be older.
        consumers_made: the number of the last consumer; none is given again.
        turns_taken: the turn of what was given back last; what comes later is claimed later.
    """

    __slots__ = (
        "_by_number",
        "_changes",
        "_claims",
        "_entries_max",
        "_few",
        "_given_then",
        "_group",
        "_lanes",
        "_latest_ms",
        "_spare",
        "claims_idle",
        "consumers",
        "consumers_made",
        "nobody",
        "turns_taken",
    )

    def __init__(
        self,
        lanes: Mapping[RegionId, LaneProgress],
        changes: Changes,
        group: int,
    ) -> None:
        self._entries_max = ENTRIES_MAX.value
        self._few = max(2, self._entries_max // JOINED_BELOW.value)
        self._lanes = lanes
        self._changes = changes
        self._group = group
        self.consumers: dict[bytes, Consumer] = {}
        self.nobody = Owner(NOBODY)
        self._by_number: dict[int, Owner] = {NOBODY: self.nobody}
        self.claims_idle = False
        self.consumers_made = 0
        self.turns_taken = 0
        # Of entries with an owner, and of those without.  Made when first asked for: other groups
        # do not pay.
        self._claims: dict[bool, ClaimOrder] = {}
        # When something was delivered last, and how many turns of that millisecond were given.
        self._latest_ms = Millis(0)
        self._given_then = 0
        # The chunk that was dropped last, to be used again: a consumer that acknowledges one entry
        # after the other empties one each time.
        self._spare: PelChunk | None = None

    # --- Questions ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(progress.pel) for progress in self._lanes.values())

    def __iter__(self) -> Iterator[Nack]:
        """All pending entries, by ID, equal IDs by lane."""
        return self.from_id(ID_MIN)

    def from_id(self, start: StreamId) -> Iterator[Nack]:
        """Pending entries whose ID is not below ``start``, by ID, equal IDs by lane."""
        lanes = [
            progress.pel.nacks(start) for progress in self._lanes.values() if progress.pel.chunks
        ]
        return lanes[0] if len(lanes) == 1 else merge(*lanes)

    def spans_from(self, start: StreamId) -> Iterator[Span] | None:
        """Spans of pending entries whose ID is not below ``start``, by ID; None if they are in
        several lanes, and have to be merged."""
        lanes = [progress.pel for progress in self._lanes.values() if progress.pel.chunks]
        if len(lanes) > 1:
            return None
        return chain.from_iterable(lane.spans_from(start) for lane in lanes)

    def in_lane(self, region: RegionId, *, above: StreamId, count: int) -> list[Nack]:
        """The next pending entries of one lane, ascending: those whose IDs are above the given."""
        progress = self._lanes.get(region)
        if progress is None:
            return []
        return list(islice(progress.pel.nacks(StreamId(above + 1)), count))

    def longest_idle(self, latest: int | None = None) -> Iterator[Nack]:
        """Pending entries with an owner, the longest idle first.

        Those of one millisecond come as they were delivered, since it was first asked; before that
        by ID.

        Args:
            latest: those that were delivered later are left out.
        """
        return self._order(owned=True).nacks(None if latest is None else last_turn(latest))

    def unowned(self) -> Iterator[Nack]:
        """Pending entries without an owner, in the order in which they are to be claimed."""
        return self._order(owned=False).nacks()

    @property
    def used_bytes(self) -> int:
        """Memory that pending entries take; O(chunks + consumers)."""
        owners = [owner for owner in self._by_number.values() if owner.chunks]
        by_owner = sum(owner.used_bytes for owner in owners)
        return by_owner + sum(chunk.used_bytes for chunk in self.chunks())

    def owners(self) -> Iterator[Owner]:
        """Consumers, and nobody."""
        return iter(self._by_number.values())

    def chunks(self) -> Iterator[PelChunk]:
        """The chunks of all lanes."""
        for progress in self._lanes.values():
            yield from progress.pel.chunks

    def _order(self, *, owned: bool) -> ClaimOrder:
        """O(n log n) for n stretches when it is first asked for."""
        order = self._claims.get(owned)
        if order is None:
            order = self._claims[owned] = ClaimOrder(self.chunks(), owned=owned)
        return order

    # --- Owners -------------------------------------------------------------------------------

    def deliver(
        self,
        region: RegionId,
        ids: Ids,
        consumer: Consumer,
        *,
        delivered_ms: Millis,
        count: int,
    ) -> None:
        """Make entries of one lane, ascending, pending with a consumer, whatever their owner was.

        What is new and above all others costs O(1) an entry; what was delivered in a row and is
        delivered in a row again too.
        """
        assert ids, "nothing is delivered"
        assert self._by_number.get(consumer.number) is consumer, "a consumer of another group"
        turn = self._turn_at(delivered_ms)
        lane = self._lanes[region].pel
        if not lane.chunks or ids[0] > lane.chunks[-1].last_id:
            self._append(lane, region, ids, consumer, turn, count)
        else:
            self._own(region, ids, consumer, turn, count)

    def _turn_at(self, delivered_ms: Millis) -> int:
        """The turn of what is delivered then: if idle entries are asked for, behind what was
        delivered before in the same millisecond."""
        if self._claims and True in self._claims:
            is_same = delivered_ms == self._latest_ms
            # Before it was asked for the first time all were the same one, 0.
            self._given_then = self._given_then + 1 if is_same else 1
            self._latest_ms = delivered_ms
        return delivery_turn(delivered_ms, self._given_then)

    def _own(self, region: RegionId, ids: Ids, owner: Owner, turn: int, count: int) -> None:
        lane = self._lanes[region].pel
        if isinstance(ids, IdColumns) and 0 not in lane.which(ids):
            self._own_columns(lane, ids, owner, turn, count)
            return
        at = 0
        while at < len(ids):
            if not lane.chunks or ids[at] > lane.last_id:
                self._append(lane, region, ids[at:] if at else ids, owner, turn, count)
                return
            chunk = lane.chunks[lane.chunk_index(ids[at])]
            start = chunk.index_from(ids[at])
            matching = chunk.matching(start, ids, at)
            if matching:
                self._note(chunk)
                chunk.assign(start, start + matching, owner, turn, count)
            else:
                chunk = self._insert(lane, chunk, ids[at], owner, turn, count)
            if self._claims:
                self._place(chunk, owner, turn)
            at += matching or 1

    def _own_columns(
        self, lane: LanePel, ids: IdColumns, owner: Owner, turn: int, count: int
    ) -> None:
        """As ``_own``, of entries that all are pending: chunk by chunk."""
        for at, stop, chunk in lane.by_chunk(ids):
            self._note(chunk)
            start = chunk.index_from(ids[at])
            matching = chunk.matching(start, ids, at)
            if matching == stop - at:
                chunk.assign(start, start + matching, owner, turn, count)
            elif chunk.are_few(stop - at):
                for _, some, first, end in lane.spans(ids[at:stop]):
                    some.assign(first, end, owner, turn, count)
            else:
                chunk.assign_those(ids[at:stop], owner, turn, count)
            if self._claims:
                self._place(chunk, owner, turn)

    def _append(
        self,
        lane: LanePel,
        region: RegionId,
        ids: Ids,
        owner: Owner,
        turn: int,
        count: int,
    ) -> None:
        at = 0
        while at < len(ids):
            room = 0
            if lane.chunks:
                chunk = lane.chunks[-1]
                room = self._entries_max - len(chunk)
            if room <= 0:
                chunk = self._new_chunk(region, ids[at])
                room = self._entries_max
                lane.chunks.append(chunk)
            if chunk.changed_after != self._changes.cut_number:
                self._changes.note(chunk)
            taken = ids[at : at + room] if at or len(ids) > room else ids
            chunk.append(taken, owner, turn, count)
            assert len(chunk) <= self._entries_max
            if self._claims:
                self._place(chunk, owner, turn)
            at += len(taken)
        lane.length += len(ids)

    def _new_chunk(self, region: RegionId, first: StreamId) -> PelChunk:
        spare = self._spare
        if spare is None:
            return PelChunk(self._group, region, first)
        assert spare.group == self._group
        self._spare = None
        spare.begin_again(region, first)
        return spare

    def _insert(
        self,
        lane: LanePel,
        chunk: PelChunk,
        entry_id: StreamId,
        owner: Owner,
        turn: int,
        count: int,
    ) -> PelChunk:
        """Add one entry in the midst of others; returns the chunk in which it is."""
        self._note(chunk)
        if len(chunk) >= self._entries_max:
            upper = chunk.split()
            self._note(upper)
            at = lane.chunk_index(chunk.first)
            assert lane.chunks[at] is chunk, "it stands in another place"
            lane.chunks.insert(at + 1, upper)
            for order in self._claims.values():
                order.move(chunk, upper)
            if entry_id >= upper.first:
                chunk = upper
        chunk.insert(chunk.index_from(entry_id), entry_id, owner, turn, count)
        lane.length += 1
        return chunk

    def redeliver(self, ids: Mapping[RegionId, Ids], now: Millis) -> None:
        """History was read again: the count goes up, the idle time to 0."""
        now_turn = self._turn_at(now)
        for _, chunk, start, stop in self._spans(ids):
            self._note(chunk)
            for (owner, turn, count), first, end in chunk.values(start, stop):
                new_turn = turn if owner is self.nobody else now_turn
                chunk.assign(first, end, owner, new_turn, once_more(count))
                self._place(chunk, owner, new_turn)

    def release(self, change: Release) -> None:
        """XNACK: the entries have no owner any more and wait, in this order, to be claimed.

        One that was not pending (FORCE) is from now on.
        """
        self.give_back(change.nacks)

    def give_back(self, nacks: Iterable[tuple[RegionId, StreamId, int]]) -> None:
        """Make entries pending without an owner, in this order; each with its lane and count."""
        ids: list[StreamId] = []
        before: tuple[RegionId, int] | None = None
        for region, entry_id, count in nacks:
            # Those with the same turn are claimed by ID.
            if before is not None and (before != (region, count) or entry_id <= ids[-1]):
                self._give_back(before[0], ids, before[1])
                ids = []
            before = region, count
            ids.append(entry_id)
        if before is not None:
            self._give_back(before[0], ids, before[1])

    def _give_back(self, region: RegionId, ids: list[StreamId], count: int) -> None:
        self.turns_taken += 1
        self._own(region, ids, self.nobody, self.turns_taken, count)

    # --- Ends ---------------------------------------------------------------------------------

    def acknowledge(self, ids: Mapping[RegionId, Ids]) -> None:
        """Entries are not pending any more, those that are; by lane they ascend."""
        for region, lane_ids in ids.items():
            progress = self._lanes.get(region)
            if progress is None:
                continue
            lane = progress.pel
            if len(lane_ids) == 1:
                # Most clients acknowledge one by one.
                found = lane.place_of(lane_ids[0])
                if found is not None:
                    chunk, index = found
                    self._remove(lane, chunk, index, index + 1)
                continue
            if isinstance(lane_ids, IdColumns) and len(lane_ids) >= FEW.value:
                self._remove_columns(lane, lane_ids)
                continue
            for _, chunk, start, stop in lane.spans(lane_ids):
                self._remove(lane, chunk, start, stop)

    def _remove_columns(self, lane: LanePel, ids: IdColumns) -> None:
        """As ``acknowledge``: in rows where they were delivered so, else chunk by chunk."""
        for at, stop, chunk in lane.by_chunk(ids):
            start = chunk.index_from(ids[at])
            count = chunk.matching(start, ids, at)
            if count == stop - at:
                self._remove(lane, chunk, start, start + count)
            elif chunk.are_few(stop - at):
                for _, some, first, end in lane.spans(ids[at:stop]):
                    self._remove(lane, some, first, end)
            else:
                self._note(chunk)
                lane.length -= chunk.remove_those(ids[at:stop])
                self._settle(lane, chunk)

    def forget(self, region: RegionId, ids: Ids) -> bool:
        """End pending entries of one lane, ascending, of any owner; True if there were any."""
        progress = self._lanes.get(region)
        if progress is None:
            return False
        before = len(progress.pel)
        self.acknowledge({region: ids})
        return len(progress.pel) < before

    def drop_within(
        self,
        region: RegionId,
        start: StreamId,
        end: StreamId,
        *,
        keep: Mapping[StreamId, int],
    ) -> None:
        """Drop pending entries of a lane in (start, end] except ``keep``: acknowledged
        elsewhere."""
        lane = self._lanes[region].pel
        if keep:
            ids = tuple(one for one in lane.within(start, end) if one not in keep)
            self.acknowledge({region: ids})
            return
        while (span := next(lane.spans_within(start, end), None)) is not None:
            self._remove(lane, *span)

    def drop_all(self) -> None:
        """The group is gone.  Its chunks stay as they are, for a cut may still need them."""
        for chunk in self.chunks():
            self._changes.drop(chunk)

    def _spans(self, ids: Mapping[RegionId, Ids]) -> Iterator[tuple[LanePel, PelChunk, int, int]]:
        """The pending ones of the entries, neighbours together."""
        for region, lane_ids in ids.items():
            progress = self._lanes.get(region)
            if progress is not None:
                lane = progress.pel
                for _, chunk, start, stop in lane.spans(lane_ids):
                    yield lane, chunk, start, stop

    def _remove(self, lane: LanePel, chunk: PelChunk, start: int, stop: int) -> None:
        self._note(chunk)
        chunk.remove(start, stop)
        lane.length -= stop - start
        self._settle(lane, chunk)

    def _settle(self, lane: LanePel, chunk: PelChunk) -> None:
        """A chunk has fewer entries: it may be dropped, or joined with a neighbour."""
        left = len(chunk)
        if not left:
            self._drop(lane, chunk)
        elif left < self._few and len(lane.chunks) > 1:
            self._join(lane, chunk)
        assert bool(lane.chunks) is (lane.length > 0), "no chunk is empty"

    def _drop(self, lane: LanePel, chunk: PelChunk) -> None:
        """Drop a chunk, which was noted as changing."""
        if lane.chunks[-1] is chunk:
            lane.chunks.pop()
        else:
            at = lane.chunk_index(chunk.first)
            assert lane.chunks[at] is chunk, "another chunk would be dropped"
            del lane.chunks[at]
        assert not chunk.held, "its owners still know it"
        for order in self._claims.values():
            order.forget(chunk)
        self._changes.drop(chunk)
        # Only an empty chunk is used again: one that a neighbour absorbed keeps its entries, as a
        # cut may still need them.  An empty one was noted when its last entries were removed, so a
        # cut that needs it has given it an image; and orders of claims may still name it.
        if not len(chunk) and chunk.image == NO_IMAGE and not self._claims:
            self._spare = chunk

    def _join(self, lane: LanePel, chunk: PelChunk) -> None:
        """Join a small chunk with a neighbour, unless both would be much."""
        at = lane.chunk_index(chunk.first)
        for lower, upper in ((at - 1, at), (at, at + 1)):
            if lower < 0 or upper >= len(lane.chunks):
                continue
            low, high = lane.chunks[lower], lane.chunks[upper]
            if len(low) + len(high) <= min(2 * self._few, self._entries_max):
                self._note(low)
                for order in self._claims.values():
                    order.move(high, low)
                low.absorb(high)
                assert len(low) <= self._entries_max
                self._drop(lane, high)
                return

    def _note(self, chunk: PelChunk) -> None:
        """A chunk is about to change, or is new."""
        if chunk.changed_after != self._changes.cut_number:
            self._changes.note(chunk)

    def _place(self, chunk: PelChunk, owner: Owner, turn: int) -> None:
        """Entries of a chunk have this owner and turn from now on."""
        order = self._claims.get(owner is not self.nobody)
        if order is not None:
            order.place(chunk, turn)

    # --- Consumers ----------------------------------------------------------------------------

    def consumers_by_name(self) -> list[Consumer]:
        """All of them, ascending by name."""
        return [self.consumers[name] for name in sorted(self.consumers)]

    def consumer(self, name: bytes, now: Millis) -> Consumer:
        """The consumer of that name, created if it is new."""
        consumer = self.consumers.get(name)
        if consumer is None:
            self.consumers_made += 1
            consumer = self._add_consumer(Consumer(self.consumers_made, name, now))
        consumer.seen_ms = max(consumer.seen_ms, now)
        return consumer

    def delete_consumer(self, name: bytes) -> None:
        """Remove a consumer; its entries are not pending any more."""
        consumer = self.consumers.pop(name)
        for region in list(consumer.chunks):
            lane = self._lanes[region].pel
            while region in consumer.chunks:
                chunk = consumer.chunks[region][0]
                self._remove(lane, chunk, *next(chunk.stretches_of(consumer, 0)))
        assert not consumer.pending_count
        del self._by_number[consumer.number]

    def _add_consumer(self, consumer: Consumer) -> Consumer:
        assert consumer.number not in self._by_number, "numbers are given once"
        self.consumers[consumer.name] = consumer
        self._by_number[consumer.number] = consumer
        return consumer

    # --- From a checkpoint --------------------------------------------------------------------

    def restore_consumer(
        self, number: int, name: bytes, *, seen_ms: Millis, active_ms: Millis | None
    ) -> Consumer:
        """A consumer as the group's part has it; before the chunks.

        Raises:
            ValueError: there is one of that name or number, or the number was never given.
        """
        if name in self.consumers or number in self._by_number:
            raise ValueError(f"consumer {number}: its number or name is there twice")
        if number > self.consumers_made:
            raise ValueError(f"consumer {number}: only {self.consumers_made} were ever made")
        consumer = self._add_consumer(Consumer(number, name, seen_ms))
        consumer.active_ms = active_ms
        return consumer

    def restore_chunk(self, image: Image) -> None:
        """A chunk as a checkpoint has it; in whichever order, but after lanes and consumers.

        Raises:
            ValueError: it is none of this group, or does not fit to the others; nothing has
                changed then.
        """
        chunk = PelChunk.decode(image, self._by_number)
        progress = self._lanes.get(chunk.region)
        if image.owner != self._group or progress is None:
            raise ValueError(
                f"image {image.number}: of group {image.owner} and lane {image.lane}, which group "
                f"{self._group} does not have"
            )
        lane = progress.pel
        at = 0
        if lane.chunks:
            at = lane.chunk_index(chunk.first) + (chunk.first >= lane.first_id)
        below, above = lane.chunks[:at][-1:], lane.chunks[at : at + 1]
        if any(one.last_id >= chunk.first for one in below) or any(
            one.first <= chunk.last_id for one in above
        ):
            raise ValueError(f"image {image.number}: it overlaps with another chunk")
        lane.chunks.insert(at, chunk)
        lane.length += len(chunk)
        chunk.enter()
        for order in self._claims.values():
            order.place(chunk, 0)
