"""A state from the images of a checkpoint: the other direction of ``encode``.

    take(images) ── finish ──> root, keys, producers, groups, what is pending, nodes

Images may arrive in any order.  A checksum proves their bytes; what does not fit together in spite
of that is a ``ContentError``, which says what.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise

from crdtstream.core.checkpoint.contents import (
    BatchContent,
    ContentError,
    CreateContent,
    EndedContent,
    FloorContent,
    GroupContent,
    HandoverContent,
    IntervalsContent,
    KeyContent,
    ModeContent,
    NumberedContent,
    ProducersContent,
    ProgressContent,
    RegistersContent,
    RootContent,
    SettingContent,
    ShareContent,
    StartContent,
    StringContent,
    WindowContent,
    id_of,
    sum_of,
    unpacked,
)
from crdtstream.core.checkpoint.key_parts import KeyPart
from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.clock import Dot
from crdtstream.core.effects import (
    EPOCH_MAX,
    IdempotentId,
    LaneHandover,
    Mode,
    SetGroupMode,
    Start,
)
from crdtstream.core.groups.creates import Create
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.groups.reading import PositionOfOthers
from crdtstream.core.groups.unstable_settings import Setting
from crdtstream.core.histories import points_of
from crdtstream.core.ids import ID_MIN, REGION_MAX, RegionId, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.keyspace.counters import Ended, Share
from crdtstream.core.keyspace.floors import Floor
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.lane import LastId
from crdtstream.core.membership.encoding import decode_members
from crdtstream.core.producers.idempotency import Collapsed, Tracked, Window
from crdtstream.core.producers.numbered import Batch, Producer, Run
from crdtstream.core.whole.state import State


class Restoring:
    """Fills an empty state."""

    def __init__(self, state: State) -> None:
        assert not state.vv
        self._state = state
        self._images: dict[Kind, list[Image]] = {kind: [] for kind in Kind}
        self._keys: dict[int, KeyPart] = {}
        self._groups: dict[int, Group] = {}
        # To be put in order once all are back.
        self._streams: list[tuple[int, bytes, Stream]] = []
        self._strings: list[tuple[int, bytes, StringRegister]] = []
        self._gone: list[tuple[int, bytes, dict[RegionId, int]]] = []

    def take(self, images: Iterable[Image]) -> None:
        """Some images of the checkpoint, NODE without bodies."""
        for image in images:
            self._images[image.kind].append(image)

    def finish(self) -> None:
        """All images were taken: make the state of them.

        Raises:
            ContentError: one of them says what cannot be, or they do not fit together.
        """
        images = self._images
        self._each(Kind.ROOT, self._root)
        self._each(Kind.KEY, self._key)
        self._put_keys_in_order()
        self._each(Kind.WINDOW, self._producers)
        self._put_groups_in_order()
        self._each(Kind.PENDING, self._pending)
        self._nodes(images[Kind.NODE])
        state, keys = self._state, self._state.keys
        for key, registers in keys.registers.items():
            keys.judge_deadline(key, registers)
        for _, key, string in self._strings:
            keys.note_string(key, string)
        state.tombstones.restore_order()
        state.ended_shares.restore_order()
        state.idempotency.restore_order()
        state.numbered.restore_order()
        state.settings.restore_order()
        keys.touched.clear()
        state.changes.images_made = max(
            (image.number for kind in images.values() for image in kind), default=0
        )

    def _each(self, kind: Kind, take: Callable[[Image], None]) -> None:
        for image in self._images[kind]:
            _checked(image, take)

    # --- The region ---------------------------------------------------------------------------

    def _root(self, image: Image) -> None:
        content = unpacked(image.head, RootContent)
        state = self._state
        if content.region != state.region:
            raise ContentError(f"it is of region {content.region}")
        state.vv.update(content.vv)
        state.keys.arrival = content.arrival
        state.parts.last_number = content.key_number
        state.parts.order = content.order
        state.groups_made = content.group_number
        state.root.image = image.number
        if content.members:
            state.restore_members(decode_members(content.members))
        for origin, points in points_of(content.histories).items():
            if points[-1].n > content.vv.get(origin, 0):
                raise ContentError(f"histories: that of region {origin} has effects not applied")
            state.histories.set_points(origin, points)

    def _key_of(self, number: int) -> KeyPart:
        part = self._keys.get(number)
        if part is None:
            raise ContentError(f"there is no key {number}")
        return part

    # --- Keys ---------------------------------------------------------------------------------

    def _key(self, image: Image) -> None:
        content = unpacked(image.head, KeyContent)
        state, key = self._state, content.key
        if content.number in self._keys or key in state.keys.streams:
            raise ContentError(f"key {key!r} is there twice")
        part = state.parts.add(content.number, key)
        part.image = image.number
        self._keys[content.number] = part
        if content.stream is not None:
            stream = Stream(state.keys.node_limits, part)
            part.stream_order = content.stream.order
            self._streams.append((content.stream.order, key, stream))
            for region, last_id, n in content.stream.last_ids:
                stream.last_ids[region] = LastId(id_of(last_id), n)
            stream.last_id = max(
                (register.id for register in stream.last_ids.values()), default=ID_MIN
            )
            stream.lost = content.stream.lost
            for facts in content.stream.lanes:
                lane = stream.lane(facts.region)
                lane.entries_added = facts.entries_added
                lane.max_deleted_id = id_of(facts.max_deleted_id)
        if content.registers is not None:
            state.keys.registers[key] = _registers(content.registers)
        if content.string is not None:
            part.string_order = content.string.order
            self._strings.append((content.string.order, key, _string(content.string)))
        for origin, floor in floors_of(content, state.region):
            state.floors.restore(key, origin, Floor(id_of(floor.last_id), dict(floor.expiries)))
        for region, ended in content.ended_shares.items():
            state.ended_shares.unite(key, region, ended_of(ended))
        if len({group for group, _ in content.tombstones}) != len(content.tombstones):
            raise ContentError(f"key {key!r} has the tombstones of one group twice")
        state.tombstones.restore(key, ((group, dots) for group, dots in content.tombstones))
        if content.gone is not None:
            part.gone_order = content.gone.order
            self._gone.append((content.gone.order, key, content.gone.lost))

    def _put_keys_in_order(self) -> None:
        keys = self._state.keys
        for _, key, stream in sorted(self._streams, key=lambda row: row[0]):
            keys.restore_stream(key, stream)
        for _, key, string in sorted(self._strings, key=lambda row: row[0]):
            keys.restore_string(key, string)
        for _, key, lost in sorted(self._gone, key=lambda row: row[0]):
            keys.restore_lost(key, lost)

    # --- Producers ----------------------------------------------------------------------------

    def _producers(self, image: Image) -> None:
        content = unpacked(image.head, ProducersContent)
        state, key = self._state, self._key_of(image.owner)
        state.parts.add_producers(key).image = image.number
        if content.window is not None:
            stream = state.keys.streams.get(key.key)
            if stream is None:
                raise ContentError(f"a window of key {key.key!r}, which has no stream")
            stream.window = _window(content.window)
        for record in content.records:
            name = IdempotentId(record.producer, record.id)
            state.idempotency.add(record.dot, key.key, name, id_of(record.entry_id))
        state.idempotency.note_deleted(key.key, content.deleted)
        for row in content.collapsed:
            collapsed = Collapsed(
                row.dot,
                IdempotentId(row.producer, row.id),
                row.stays,
                id_of(row.stays_id),
            )
            state.idempotency.note_collapsed(key.key, id_of(row.entry_id), collapsed)
        for numbered in content.numbered:
            state.numbered.restore(key.key, numbered.producer, producer_of(numbered))

    # --- Groups -------------------------------------------------------------------------------

    def _put_groups_in_order(self) -> None:
        """The groups of a stream stand in the order in which they came to be."""
        contents: list[tuple[Image, GroupContent]] = []

        def read(image: Image) -> None:
            contents.append((image, unpacked(image.head, GroupContent)))

        self._each(Kind.GROUP, read)
        for image, content in sorted(contents, key=lambda pair: pair[1].number):
            _checked(image, partial(self._group, content))

    def _group(self, content: GroupContent, image: Image) -> None:
        state = self._state
        key = self._key_of(image.owner)
        stream = state.keys.streams.get(key.key)
        if stream is None:
            raise ContentError("a group of a key without a stream")
        if content.number in self._groups or content.name in stream.groups:
            raise ContentError(f"group {content.name!r} is there twice")
        group = state.new_group(key, content.name, content.number)
        group.image = image.number
        group.creates.restore(map(create_of, content.creates))
        reading = group.reading
        for progress in content.lanes:
            reading.lanes[progress.region] = _progress(progress)
        if content.position is not None:
            reading.position_of_others = PositionOfOthers(
                _start(content.position),
                frozenset(content.position_known),
                content.position_is_left,
            )
        reading.read_hint = content.read_hint
        group.pel.consumers_made = content.consumers_made
        group.pel.turns_taken = content.turns_taken
        for consumer in content.consumers:
            group.pel.restore_consumer(
                consumer.number,
                consumer.name,
                seen_ms=consumer.seen_ms,
                active_ms=consumer.active_ms,
            )
        for setting in content.settings:
            group.settings[setting.dot] = setting_of(key.key, content.name, setting)
            state.settings.note(setting.dot, key.key, content.name)
        stream.add_group(content.name, group)
        self._groups[content.number] = group

    # --- What is spread over parts ------------------------------------------------------------

    def _pending(self, image: Image) -> None:
        group = self._groups.get(image.owner)
        if group is None:
            raise ContentError(f"there is no group {image.owner}")
        group.pel.restore_chunk(image)

    def _nodes(self, images: list[Image]) -> None:
        lanes: dict[tuple[int, int], list[Image]] = {}
        for image in images:
            lanes.setdefault((image.owner, image.lane), []).append(image)
        for (owner, region), of_lane in lanes.items():
            stream = self._state.keys.streams.get(self._key_of(owner).key)
            if stream is None:
                raise ContentError(f"entries of key {owner}, which has no stream")
            if not 1 <= region <= REGION_MAX:
                raise ContentError(f"entries of a lane {region}")
            lane = stream.lane(RegionId(region))
            try:
                lane.restore((image.number, image.head) for image in of_lane)
            except ValueError as error:
                raise ContentError(f"key {owner}: {error}") from error
            last = stream.last_ids.get(lane.region)
            if last is None or lane.last_id > last.id:
                raise ContentError(f"key {owner}: lane {region} goes beyond its last ID")


def _checked(image: Image, take: Callable[[Image], None]) -> None:
    """
    Raises:
        ContentError: the image says what cannot be; the text names it.
    """
    try:
        take(image)
    except (ValueError, KeyError) as error:
        raise ContentError(f"image {image.number}: {error}") from error


def _registers(content: RegistersContent) -> KeyRegisters:
    registers = KeyRegisters()
    registers.expiry.values = dict(content.expiry)
    registers.idmp_duration_s.values = dict(content.idmp_duration_s)
    registers.idmp_maxsize.values = dict(content.idmp_maxsize)
    return registers


def _string(content: StringContent) -> StringRegister:
    string = StringRegister()
    for value in content.values:
        string.restore(value.dot, value.data, dict(value.expiry))
    string.replace_shares(shares_of(content))
    if not len(string):
        raise ContentError("a string without a value")
    return string


def shares_of(content: StringContent | None) -> dict[RegionId, Share]:
    """Shares of a counter, by region.

    Raises:
        ContentError: a region has two, or one of which nothing is left.
    """
    if content is None:
        return {}
    shares = {one.region: _share(one) for one in content.shares}
    if len(shares) != len(content.shares):
        raise ContentError("a string has two shares of one region")
    return shares


def _share(content: ShareContent) -> Share:
    if content.taken_n >= content.n:
        raise ContentError(f"a string has a share of region {content.region} that is taken")
    share = Share(
        content.base,
        content.n,
        sum_of(content.total),
        content.taken_n,
        sum_of(content.taken),
    )
    share.expiry.values = dict(content.expiry)
    return share


def ended_of(content: EndedContent) -> Ended:
    """A share that is gone."""
    return Ended(content.n, sum_of(content.total), dict(content.takers))


def _window(content: WindowContent) -> Window:
    window = Window()
    window.added, window.duplicates = content.added, content.duplicates
    for producer, ids in content.producers:
        tracked = []
        for one in ids:
            found = Tracked(id_of(one.entry_id), one.dot, one.arrived)
            found.hits = one.hits
            tracked.append((one.id, found))
        window.restore(producer, iter(tracked))
    return window


def producer_of(content: NumberedContent) -> Producer:
    """The numbered producer that a content describes.

    Raises:
        ContentError: a run has no row, or the runs of an origin do not ascend.
    """
    producer = Producer()
    producer.newest = content.newest
    producer.batches = {batch.number: _batch(batch) for batch in content.batches}
    return producer


def _batch(content: BatchContent) -> Batch:
    batch = Batch()
    rows = [*content.known, *((one.start, one.stop) for one in content.runs)]
    if not all(start < stop for start, stop in rows):
        raise ContentError(f"batch {content.number} of a producer has a run without rows")
    for start, stop in content.known:
        batch.known.add(start, stop)
    for one in content.runs:
        run = Run(one.start, one.stop, one.first)
        run.known, run.is_stable = one.known, one.is_stable
        runs = batch.runs.setdefault(run.first.region, deque())
        if runs and runs[-1].last.n >= run.first.n:
            raise ContentError(f"batch {content.number} of a producer has runs that do not ascend")
        runs.append(run)
    return batch


def create_of(content: CreateContent) -> tuple[Dot, Create]:
    """A create, and what belongs to it.

    Raises:
        ContentError: no create can be so.
    """
    create = Create(_start(content.start))
    create.intervals = {
        region: _intervals(intervals) for region, intervals in content.intervals.items()
    }
    if content.mode is not None:
        mode = content.mode
        _check_mode(mode)
        create.mode = ModeRegister(
            mode.epoch,
            mode.issuer,
            mode.mode,
            mode.home,
        )
    return content.dot, create


def _check_mode(content: ModeContent | SettingContent) -> None:
    """
    Raises:
        ContentError: no mode of a group can be so.
    """
    is_home = content.mode is Mode.HOME
    if not 1 <= content.epoch <= EPOCH_MAX or is_home is (content.home is None):
        raise ContentError(f"a group's mode cannot be {content.mode} at epoch {content.epoch}")


def floors_of(content: KeyContent, own: RegionId) -> Iterator[tuple[RegionId, FloorContent]]:
    """The floors of a key, by origin.

    Args:
        own: whose image it is.
    """
    if isinstance(content.floors, FloorContent):
        yield own, content.floors
    elif content.floors is not None:
        yield from content.floors.items()


def setting_of(key: bytes, group: bytes, content: SettingContent) -> Setting:
    """A SetGroupMode as it was issued.

    Raises:
        ContentError: none can be so.
    """
    _check_mode(content)
    handover = {one.region: _handover(one) for one in content.handover}
    effect = SetGroupMode(
        key, group, content.epoch, content.mode, content.home, content.forced, handover
    )
    return Setting(effect, dict(content.context))


def _handover(content: HandoverContent) -> LaneHandover:
    """
    Raises:
        ContentError: no lane is handed over so.
    """
    # IDs as bytes have their order.
    if content.run_from > content.last_delivered:
        raise ContentError(f"lane {content.region}: its run ends before it begins")
    if not all(a < b for (a, _), (b, _) in pairwise(content.pending)):
        raise ContentError(f"lane {content.region}: what is pending does not ascend")
    return LaneHandover(
        run_from=id_of(content.run_from),
        last_delivered=id_of(content.last_delivered),
        handed_out=tuple(_stretches(content.handed_out)),
        ignore_until=id_of(content.ignore_until),
        pending=tuple((id_of(entry_id), count) for entry_id, count in content.pending),
        entries_read=content.entries_read,
    )


def _start(content: StartContent) -> Start:
    if isinstance(content, bytes):
        return id_of(content)
    return {region: id_of(entry_id) for region, entry_id in content.items()}


def _intervals(content: IntervalsContent) -> Intervals:
    intervals = Intervals()
    for low, high in _stretches(content):
        intervals.add(low, high)
    return intervals


def _stretches(content: IntervalsContent) -> Iterator[tuple[StreamId, StreamId]]:
    """
    Raises:
        ContentError: one is empty.
    """
    for low, high in content:
        if low >= high:
            raise ContentError("an interval without an ID in it")
        yield id_of(low), id_of(high)


def _progress(content: ProgressContent) -> LaneProgress:
    run_from, last_delivered = id_of(content.run_from), id_of(content.last_delivered)
    if run_from > last_delivered:
        raise ContentError(f"lane {content.region}: its run ends before it begins")
    return LaneProgress.restored(
        run_from=run_from,
        last_delivered=last_delivered,
        ignore_until=id_of(content.ignore_until),
        handed_out=_intervals(content.handed_out),
        has_left_out=content.has_left_out,
        skip_pending_until=id_of(content.skip_pending_until),
        entries_read=content.entries_read,
    )
