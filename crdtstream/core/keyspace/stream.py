"""One stream: its lanes, last-ID registers and groups.

Reads merge the lanes by ID; equal IDs come in region order.  Every change is made by applying an
effect or a local change (``applying``); the methods here know one key and nothing of batches.
"""

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from typing import Final

from crdtstream.core.checkpoint.key_parts import KeyPart
from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.groups.group import Group
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.lane import Lane, LastId
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.slices import Found
from crdtstream.core.producers.idempotency import Window

# The groups and the losses of most streams, which have none.  Nothing is ever added to them.
_NO_GROUPS: Final[dict[bytes, Group]] = {}
_NO_LOST: Final[Mapping[RegionId, int]] = {}


class Stream:
    """A stream's state in one region.

    Attributes:
        lanes: by origin region, ascending.
        last_ids: last-ID registers by origin (``rules`` 5).
        last_id: last-generated-id, the maximum of the registers.
        groups: the groups that exist; changed by ``add_group`` and ``drop_group``.
        length: live entries in all lanes.
        lost: by origin the highest dot number that a trim or a DEL removed; local, and rather too
            high than too low.  It is replaced, and never changed in place.  It outlives the stream
            (``keyspace/trimmed.py``).
        window: the idempotent ids that are recognised; None before the first one.
        part: what a checkpoint writes of it, except entries and groups.
    """

    __slots__ = ("_limits", "groups", "lanes", "last_id", "last_ids", "lost", "part", "window")

    def __init__(self, limits: NodeLimits, part: KeyPart) -> None:
        self._limits = limits
        self.part = part
        self.lanes: dict[RegionId, Lane] = {}
        self.last_ids: dict[RegionId, LastId] = {}
        self.last_id = ID_MIN
        self.groups = _NO_GROUPS
        self.lost = _NO_LOST
        self.window: Window | None = None

    @property
    def length(self) -> int:
        return sum(lane.length for lane in self.lanes.values())

    @property
    def exists(self) -> bool:
        """``rules`` 6: live entries, a live create, or a live last-ID register."""
        if self.last_ids or self.groups:
            return True
        return bool(self.lanes) and any(lane.length for lane in self.lanes.values())

    # --- Reading ------------------------------------------------------------------------------

    def scan(self, start: StreamId = ID_MIN, end: StreamId = ID_MAX) -> Iterator[Found]:
        """Entries of all lanes from ``start`` to ``end``, both included, ascending."""
        sources = [_tagged(lane, start, end) for lane in self.filled_lanes()]
        return sources[0] if len(sources) == 1 else merge(*self._begun(sources))

    def scan_back(self, start: StreamId = ID_MIN, end: StreamId = ID_MAX) -> Iterator[Found]:
        """As :meth:`scan`, descending."""
        sources = [_tagged_back(lane, start, end) for lane in self.filled_lanes()]
        return sources[0] if len(sources) == 1 else merge(*self._begun(sources), reverse=True)

    def _begun(self, sources: list[Iterator[Found]]) -> list[Iterator[Found]]:
        """The same, but what several lanes need to begin is asked for at once, not lane by lane.

        Raises:
            ColdError: entries are needed that are on disk only.
        """
        if not self._limits.residency.absent_count:
            return sources
        begun: list[Iterator[Found]] = []
        images: list[int] = []
        for source in sources:
            try:
                begun += [chain((first,), source) for first in islice(source, 1)]
            except ColdError as cold:
                images += cold.images
        if images:
            raise ColdError(images)
        return begun

    def filled_lanes(self) -> list[Lane]:
        """The lanes that have an entry, in region order."""
        return [lane for lane in self.lanes.values() if lane.length]

    def lanes_from(self, start: StreamId) -> list[Lane]:
        """The lanes that have an entry whose ID is not below ``start``, in region order."""
        return [lane for lane in self.lanes.values() if lane.length and lane.last_id >= start]

    @property
    def first_entry_id(self) -> StreamId:
        """The lowest live ID, 0-0 if there is none."""
        return min((lane.first_id for lane in self.filled_lanes()), default=ID_MIN)

    @property
    def last_entry_id(self) -> StreamId:
        """The highest live ID, 0-0 if there is none."""
        last = ID_MIN
        for lane in self.lanes.values():
            last = max(last, lane.last_id)
        return last

    def find(self, entry_id: StreamId) -> Iterator[Found]:
        """The entries with this ID: at most one a lane, in region order."""
        for region, lane in self.lanes.items():
            found = lane.find(entry_id)
            if found is not None:
                yield entry_id, region, *found

    def lane_positions(self) -> dict[RegionId, StreamId]:
        """Each lane's last ID as observed: where ``$`` stands."""
        return {region: register.id for region, register in self.last_ids.items()}

    # --- What is to be there before a change --------------------------------------------------

    def needs_for_remove(self, ids: Mapping[RegionId, Ids]) -> list[int]:
        """Images that :meth:`remove` needs and that are on disk only."""
        if not self._limits.residency.absent_count:
            return []
        return [
            image
            for region, lane_ids in ids.items()
            if (lane := self.lanes.get(region)) is not None
            for image in lane.needs_for_remove(lane_ids)
        ]

    def needs_for_trim(
        self, up_to: Mapping[RegionId, StreamId], context: VersionVector
    ) -> list[int]:
        """Images that :meth:`trim` needs and that are on disk only: one a lane at most."""
        return [
            image
            for region, limit in up_to.items()
            if (lane := self.lanes.get(region)) is not None
            for image in lane.needs_for_prefix(up_to=limit, n_max=context.get(region, 0))
        ]

    def needs_for_clear(self, context: VersionVector) -> list[int]:
        """Images that :meth:`clear_covered_by` needs and that are on disk only."""
        return self.needs_for_trim(dict.fromkeys(self.lanes, ID_MAX), context)

    def _demand(self, images: list[int]) -> None:
        """Before a change: a lane must not be refused when another one has changed."""
        self._limits.residency.demand(images)

    # --- Changing -----------------------------------------------------------------------------

    def lane(self, region: RegionId) -> Lane:
        """The lane of an origin, made if it is new; the lanes stay in region order."""
        lane = self.lanes.get(region)
        if lane is None:
            self.lanes[region] = lane = Lane(region, self._limits, self.part.number)
            if len(self.lanes) > 1:
                self.lanes = dict(sorted(self.lanes.items()))
        return lane

    def set_last_id(self, region: RegionId, entry_id: StreamId, n: int) -> None:
        """Overwrite an origin's last-ID register.

        While it lives it only grows: XADD and XSETID never go below the last-generated ID, which
        covers this one.
        """
        register = self.last_ids.get(region)
        if register is None:
            self.last_ids[region] = LastId(entry_id, n)
        else:
            assert n > register.n, "an origin's dots ascend"
            register.id = entry_id
            register.n = n
        if entry_id > self.last_id:
            self.last_id = entry_id

    def replace_last_ids(self, registers: Mapping[RegionId, LastId]) -> None:
        """Replace all last-ID registers by these."""
        self.last_ids = dict(registers)
        self.last_id = ID_MIN
        for register in registers.values():
            self.last_id = max(self.last_id, register.id)

    def clear_covered_by(self, context: VersionVector) -> None:
        """Remove the entries and registers whose dots the context covers, as every delete does.

        Raises:
            ColdError: see :meth:`needs_for_clear`.  All that changes lanes raises it.
        """
        if self._limits.residency.absent_count:
            self._demand(self.needs_for_clear(context))
        if self._is_covered_by(context):
            # Nearly every delete has observed all that is here.
            for region, lane in self.lanes.items():
                last_n = lane.clear()
                assert last_n <= context.get(region, 0), "what was not observed is gone"
                self._note_lost(region, last_n)
            self.lanes.clear()
            self.last_ids.clear()
            self.last_id = ID_MIN
            return
        for region, lane in list(self.lanes.items()):
            self._remove_prefix(lane, ID_MAX, context)
            if lane.length:
                lane.entries_added = lane.length
                lane.max_deleted_id = ID_MIN
            else:
                del self.lanes[region]
        for region, register in list(self.last_ids.items()):
            if register.n <= context.get(region, 0):
                del self.last_ids[region]
        self.last_id = ID_MIN
        for register in self.last_ids.values():
            self.last_id = max(self.last_id, register.id)

    def _is_covered_by(self, context: VersionVector) -> bool:
        """True if the context covers the dots of all entries and registers."""
        for region, register in self.last_ids.items():
            if register.n > context.get(region, 0):
                return False
        for region, lane in self.lanes.items():  # noqa: SIM110 - each key of a DEL asks
            if lane.last_n > context.get(region, 0):
                return False
        return True

    def drop_creates(self, context: VersionVector) -> None:
        """ExpireKey: group creates that the context covers end, and groups without any other."""
        for name, group in list(self.groups.items()):
            group.drop_creates(context)
            if not group.creates:
                self.drop_group(name)

    def add_group(self, name: bytes, group: Group) -> None:
        """Add a group, of which there must be none of the name."""
        assert name not in self.groups
        if self.groups:
            self.groups[name] = group
        else:
            self.groups = {name: group}

    def drop_groups(self) -> None:
        for name in list(self.groups):
            self.drop_group(name)

    def drop_group(self, name: bytes) -> None:
        """Remove a group, if it exists, with what is pending."""
        group = self.groups.pop(name, None)
        if group is not None:
            group.drop()

    def remove(self, ids: Mapping[RegionId, Ids], context: VersionVector, *, trims: bool) -> bool:
        """Remove the named entries whose dot the context covers; True if there were any."""
        self._demand(self.needs_for_remove(ids))
        any_went = False
        for region, lane_ids in ids.items():
            lane = self.lanes.get(region)
            if lane is None:
                continue
            n_max = context.get(region, 0)
            if trims:
                highest_n = lane.remove_all(lane_ids, n_max=n_max).n
                self._note_lost(region, highest_n)
                any_went |= highest_n > 0
            elif len(lane_ids) == 1:
                # Most clients delete one by one.
                any_went |= _remove(lane, lane_ids[0], n_max)
            else:
                last_id = lane.remove_all(lane_ids, n_max=n_max).id
                lane.max_deleted_id = max(lane.max_deleted_id, last_id)
                any_went |= last_id > ID_MIN
        return any_went

    def remove_entry(self, entry_id: StreamId, dot: Dot) -> None:
        """Remove one entry by its dot, if it is still there."""
        lane = self.lanes.get(dot.region)
        if lane is not None:
            _remove(lane, entry_id, dot.n)

    def remove_dots(self, first: Dot, count: int) -> None:
        """Remove the entries of one origin from a dot on, those that are still there."""
        lane = self.lanes.get(first.region)
        removed = [] if lane is None else lane.remove_dots(first.n, count)
        if lane is not None and removed:
            lane.max_deleted_id = max(lane.max_deleted_id, removed[-1])

    def trim(self, up_to: Mapping[RegionId, StreamId], context: VersionVector) -> bool:
        """Trim per lane what is not above the ID and covered by the context; True if anything
        was."""
        self._demand(self.needs_for_trim(up_to, context))
        any_went = False
        for region, limit in up_to.items():
            lane = self.lanes.get(region)
            if lane is not None:
                any_went |= self._remove_prefix(lane, limit, context)
        return any_went

    def _remove_prefix(self, lane: Lane, up_to: StreamId, context: VersionVector) -> bool:
        highest_n = lane.remove_prefix(up_to=up_to, n_max=context.get(lane.region, 0))
        self._note_lost(lane.region, highest_n)
        return highest_n > 0

    def _note_lost(self, region: RegionId, n: int) -> None:
        if n > self.lost.get(region, 0):
            self.lost = {**self.lost, region: n}


def _remove(lane: Lane, entry_id: StreamId, n_max: int) -> bool:
    if not lane.remove(entry_id, n_max=n_max):
        return False
    lane.max_deleted_id = max(lane.max_deleted_id, entry_id)
    return True


def _tagged(lane: Lane, start: StreamId, end: StreamId) -> Iterator[Found]:
    region = lane.region
    for entry_id, node, index in lane.scan(start, end):
        yield entry_id, region, node, index


def _tagged_back(lane: Lane, start: StreamId, end: StreamId) -> Iterator[Found]:
    region = lane.region
    for entry_id, node, index in lane.scan_back(start, end):
        yield entry_id, region, node, index
