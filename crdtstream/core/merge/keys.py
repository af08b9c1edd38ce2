"""Small parts of a key: tombstones, registers, strings, floors, last IDs, losses."""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TypeVar

from crdtstream.core.checkpoint.contents import StringContent, id_of
from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId
from crdtstream.core.keyspace.counters import Ended, Share
from crdtstream.core.keyspace.floors import Floor
from crdtstream.core.keyspace.registers import KeyRegisters, MultiValue
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister, StringValue
from crdtstream.core.lanes.lane import LastId
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import NO_REGISTERS, SentKey
from crdtstream.core.whole.restoring import ended_of, floors_of, shares_of
from crdtstream.core.whole.state import State

V = TypeVar("V")


def merge_tombstones(state: State, sent: SentKey) -> None:
    """The union; what one region has forgotten is causally stable, and is forgotten again."""
    for group, dots in sent.content.tombstones:
        for region, n in dots.items():
            state.tombstones.unite(Dot(region, n), sent.key, group)


def merge_ended_shares(state: State, sent: SentKey) -> None:
    """The union, as of tombstones.  Call it when the string is merged."""
    for region, ended in sent.content.ended_shares.items():
        state.ended_shares.unite(sent.key, region, ended_of(ended))


def merge_floors(state: State, sent: SentKey) -> None:
    """The higher of both: it is kept longer than it need be, rather than too short."""
    if sent.content.floors is None:
        return
    for origin, floor in floors_of(sent.content, sent.source):
        state.floors.unite(sent.key, origin, Floor(id_of(floor.last_id), dict(floor.expiries)))


def merge_registers(state: State, sent: SentKey, both: Both) -> None:
    """Deadlines and the values of XCFGSET.  Call it before tombstones are merged, and before the
    stream is settled."""
    keys, key, theirs = state.keys, sent.key, sent.registers
    if theirs is NO_REGISTERS and key not in keys.registers:
        return
    before = keys.idmp_duration_of(key), keys.idmp_maxsize_of(key)
    registers = keys.registers.get(key) or KeyRegisters()
    destroys = Destroys(state, sent)
    _merge_values(registers.expiry, theirs.expiry, both, destroys)
    _merge_values(registers.idmp_duration_s, theirs.idmp_duration_s, both, destroys)
    _merge_values(registers.idmp_maxsize, theirs.idmp_maxsize, both, destroys)
    if registers.is_empty:
        keys.drop_registers(key)
        return
    keys.registers[key] = registers
    keys.judge_deadline(key, registers)
    stream = keys.streams.get(key)
    after = keys.idmp_duration_of(key), keys.idmp_maxsize_of(key)
    if before != after and stream is not None and stream.window is not None:
        # As the effect would have done: a bound that changes makes the stream forget its window.
        state.parts.note_producers(key)
        stream.window.clear()


class Destroys:
    """The deletes that each side remembers: of a key, and of one of its groups.

    Attributes:
        here, there: their dots.
    """

    __slots__ = ("here", "there")

    def __init__(self, state: State, sent: SentKey, group: bytes | None = None) -> None:
        """Before tombstones are merged."""
        names = {None, group}
        self.here = [
            Dot(region, n)
            for name in names
            for region, n in state.tombstones.dots_of(sent.key, name).items()
        ]
        self.there = [
            Dot(region, n)
            for name, dots in sent.content.tombstones
            if name in names
            for region, n in dots.items()
        ]


def _merge_values(
    register: MultiValue[V], values: Iterable[tuple[Dot, V]], both: Both, destroys: Destroys
) -> None:
    united = both.united(register.values, dict(values))
    register.values = both.without_destroyed(united, destroys.here, destroys.there)


# --- Strings ------------------------------------------------------------------------------------


def merge_string(state: State, sent: SentKey, both: Both) -> None:
    """Values by dot, and of each its deadlines by dot; shares of a counter by region."""
    keys, key = state.keys, sent.key
    if sent.content.string is None and key not in keys.strings:
        return
    theirs = dict(_string_values(sent.content.string))
    their_shares = shares_of(sent.content.string)
    string = keys.strings.get(key)
    shares = _merged_shares(state, sent, both, string, their_shares)
    if string is None:
        if not shares and not any(both.is_new_here(dot) for dot in theirs):
            return
        string = keys.string_or_new(key)
    string.replace_shares(shares)
    mine = dict(string.values())
    string.replace_values(both.united(mine, theirs))
    for dot, value in mine.items():
        if dot in theirs:
            value.expiry.values = both.united(value.expiry.values, theirs[dot].expiry.values)
    keys.note_string(key, string)


def _merged_shares(
    state: State,
    sent: SentKey,
    both: Both,
    string: StringRegister | None,
    theirs: Mapping[RegionId, Share],
) -> dict[RegionId, Share]:
    """Of each region the share with the later effects, of which both sides' effects have taken."""
    mine = {} if string is None else dict(string.shares())
    ended_here = state.ended_shares.of(sent.key)
    ended_there = {one: ended_of(end) for one, end in sent.content.ended_shares.items()}
    merged: dict[RegionId, Share] = {}
    for region in sorted({*mine, *theirs}):
        here, there = mine.get(region), theirs.get(region)
        if there is not None and both.is_new_here(Dot(region, there.n)):
            share, other, ended = there, here, ended_here.get(region)
        elif here is not None and both.is_new_there(Dot(region, here.n)):
            share, other, ended = here, there, ended_there.get(region)
        elif here is not None and there is not None:
            # Both have heard all that the region added.
            share, other, ended = here, there, None
            values = here.expiry.values
            share.expiry.values = both.united(values, there.expiry.values)
        else:
            # The other side has heard it all, and all of it was taken there.
            continue
        for taken_n, taken in _taken_of(other, ended):
            share.take(taken_n, taken)
        if share.taken_n < share.n:
            merged[region] = share
    return merged


def _taken_of(other: Share | None, ended: Ended | None) -> Iterator[tuple[int, int]]:
    if other is not None:
        yield other.taken_n, other.taken
    if ended is not None:
        yield ended.n, ended.total


def _string_values(content: StringContent | None) -> Iterator[tuple[Dot, StringValue]]:
    for one in () if content is None else content.values:
        value = StringValue(one.data)
        value.expiry.values = dict(one.expiry)
        yield one.dot, value


# --- The stream ---------------------------------------------------------------------------------


def merge_last_ids(stream: Stream, sent: SentKey, both: Both) -> None:
    """Keep each origin's last register, unless a delete on the other side removed it."""
    content = sent.content.stream
    rows = () if content is None else content.last_ids
    theirs = {region: LastId(id_of(entry_id), n) for region, entry_id, n in rows}
    kept: dict[RegionId, LastId] = {}
    for region in sorted({*stream.last_ids, *theirs}):
        here, there = stream.last_ids.get(region), theirs.get(region)
        if here is not None and there is not None:
            kept[region] = max(here, there, key=attrgetter("n"))
        elif here is not None and both.is_new_there(Dot(region, here.n)):
            kept[region] = here
        elif there is not None and both.is_new_here(Dot(region, there.n)):
            kept[region] = there
    stream.replace_last_ids(kept)


def merge_lost(state: State, sent: SentKey, stream: Stream | None) -> None:
    """Merge losses: the higher dot per origin.  Call it before the stream is settled."""
    content = sent.content
    theirs = (
        content.stream.lost
        if content.stream is not None
        else content.gone.lost
        if content.gone is not None
        else {}
    )
    if not theirs:
        return
    mine = dict(state.keys.lost(sent.key))
    higher = {region: n for region, n in theirs.items() if n > mine.get(region, 0)}
    if not higher:
        return
    if stream is not None:
        stream.lost = {**mine, **higher}
    else:
        state.keys.note_lost(sent.key, {**mine, **higher})
