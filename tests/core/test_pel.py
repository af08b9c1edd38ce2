"""A PEL equals a plain dictionary of entries, and its images those of the moment of a cut."""

import random
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from crdtstream.core.checkpoint.parts import Changes, Cut, Image, Kind
from crdtstream.core.effects import Release
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.pel_chunk import ENTRIES_MAX, Nack, Owner, PelChunk
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.id_columns import FEW, IdColumns, Ids
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId, StreamId, make_id
from tests.conftest import examples
from tests.harness.sizes import SIZES, SizedMachine

GROUP = 7
LANES = (RegionId(1), RegionId(2))
NAMES = (b"alice", b"bob", b"carol")
# Most are neighbours; some have sequences or times that no short key can have.
IDS = st.one_of(
    st.builds(make_id, st.integers(1, 30), st.integers(0, 2)),
    st.builds(make_id, st.integers(1, 30), st.integers(0, 2)),
    st.builds(make_id, st.integers(1, 30), st.integers((1 << 32) - 1, (1 << 32) + 1)),
    st.builds(make_id, st.sampled_from([0, 1 << 31, 1 << 32, 1 << 63]), st.integers(1, 3)),
)
SORTED_IDS = st.lists(IDS, min_size=1, max_size=12, unique=True).map(sorted)
LANE = st.sampled_from(LANES)
NAME = st.sampled_from(NAMES)
COUNT = st.integers(0, 3)


@dataclass
class Pending:
    """An entry of the model; ``turn`` tells apart what was delivered in one millisecond."""

    owner: bytes | None
    delivered_ms: int
    count: int
    turn: int


@dataclass
class Model:
    """A model of a PEL in a few lines."""

    entries: dict[tuple[StreamId, RegionId], Pending] = field(default_factory=dict)
    consumers: dict[bytes, int] = field(default_factory=dict)
    given_back: int = 0

    def copy(self) -> "Model":
        entries = {at: Pending(**vars(one)) for at, one in self.entries.items()}
        return Model(entries, dict(self.consumers), self.given_back)

    def facts(self) -> object:
        unowned = [at for at, one in self.entries.items() if one.owner is None]
        return (
            [
                (*at, one.owner, one.delivered_ms, one.count)
                for at, one in sorted(self.entries.items(), key=lambda item: item[0])
            ],
            sorted(unowned, key=lambda at: (self.entries[at].turn, at)),
            {
                name: sorted(at for at, one in self.entries.items() if one.owner == name)
                for name in sorted(self.consumers)
            },
        )

    def longest_idle(self, latest: int | None) -> list[tuple[StreamId, RegionId]]:
        found = [
            (one.delivered_ms, one.turn, *at)
            for at, one in self.entries.items()
            if one.owner is not None and (latest is None or one.delivered_ms <= latest)
        ]
        return [(entry_id, lane) for _, _, entry_id, lane in sorted(found)]


def facts(pel: Pel) -> object:
    return (
        [_shown(nack) for nack in pel],
        [(nack.id, nack.lane) for nack in pel.unowned()],
        {
            name: [(nack.id, nack.lane) for nack in consumer.nacks()]
            for name, consumer in pel.consumers.items()
        },
    )


def _shown(nack: Nack) -> tuple[object, ...]:
    owner = None if nack.consumer is None else nack.consumer.name
    return nack.id, nack.lane, owner, nack.delivered_ms, nack.delivery_count


def new_pel(changes: Changes) -> tuple[Pel, dict[RegionId, LaneProgress]]:
    lanes = {lane: LaneProgress(ID_MIN, None) for lane in LANES}
    return Pel(lanes, changes, GROUP), lanes


class PelMachine(SizedMachine):
    """One PEL, checkpoints of it now and then, and restarts from the last one."""

    @initialize(sizes=SIZES)
    def begin(self, sizes: int | None) -> None:
        self.draw_sizes(sizes)
        self.entries_max = ENTRIES_MAX.value
        self.changes = Changes()
        self.pel, self.lanes = new_pel(self.changes)
        self.model = Model()
        self.now = 1
        self.asked = False
        self.last_ms = self.turn = self.forms = 0
        # What a store has: the images of the last checkpoint, and what the state was then.
        self.images: dict[int, Image] = {}
        self.saved = Model()
        self.cut: Cut | None = None
        self.at_cut = Model()
        self.taken: list[Image] = []

    # --- Changes ------------------------------------------------------------------------------

    def _next_turn(self, ms: int) -> int:
        if not self.asked:
            return 0
        self.turn = self.turn + 1 if ms == self.last_ms else 1
        self.last_ms = ms
        return self.turn

    def _form(self, ids: list[StreamId]) -> Ids:
        """As commands give them: in turns as columns and one by one."""
        self.forms += 1
        return IdColumns.of(ids) if self.forms % 2 else ids

    @rule(step=st.integers(0, 2))
    def let_time_pass(self, step: int) -> None:
        self.now += step

    def _deliver(
        self, lane: RegionId, ids: list[StreamId], name: bytes, ms: int, count: int
    ) -> None:
        consumer = self.pel.consumer(name, Millis(self.now))
        self.model.consumers.setdefault(name, consumer.number)
        turn = self._next_turn(ms)
        self.pel.deliver(lane, self._form(ids), consumer, delivered_ms=Millis(ms), count=count)
        for entry_id in ids:
            self.model.entries[entry_id, lane] = Pending(name, ms, count, turn)

    @rule(lane=LANE, ids=SORTED_IDS, name=NAME, back=st.integers(0, 2), count=COUNT)
    def claim(
        self, lane: RegionId, ids: list[StreamId], name: bytes, back: int, count: int
    ) -> None:
        self._deliver(lane, ids, name, max(0, self.now - back), count)

    @rule(lane=LANE, number=st.integers(1, 20), step=st.sampled_from([1, 1 << 64]), name=NAME)
    def hand_out(self, lane: RegionId, number: int, step: int, name: bytes) -> None:
        pel = self.lanes[lane].pel
        last = pel.last_id if pel else make_id(20, 1)
        ids = [StreamId(last + step * at) for at in range(1, number + 1)]
        if ids[-1] <= ID_MAX:
            self._deliver(lane, ids, name, self.now, 1)

    @rule(lane=LANE, ids=SORTED_IDS)
    def read_history(self, lane: RegionId, ids: list[StreamId]) -> None:
        turn = self._next_turn(self.now)
        self.pel.redeliver({lane: tuple(ids)}, Millis(self.now))
        for entry_id in ids:
            one = self.model.entries.get((entry_id, lane))
            if one is not None:
                one.count += 1
                if one.owner is not None:
                    one.delivered_ms, one.turn = self.now, turn

    @rule(nacks=st.lists(st.tuples(LANE, IDS, COUNT), min_size=1, max_size=10))
    def give_back(self, nacks: list[tuple[RegionId, StreamId, int]]) -> None:
        self.pel.release(Release(b"", b"", tuple(nacks)))
        for lane, entry_id, count in nacks:
            self.model.given_back += 1
            one = Pending(None, 0, count, self.model.given_back)
            self.model.entries[entry_id, lane] = one

    @rule(lane=LANE, ids=SORTED_IDS)
    def acknowledge(self, lane: RegionId, ids: list[StreamId]) -> None:
        self.pel.acknowledge({lane: self._form(ids)})
        for entry_id in ids:
            self.model.entries.pop((entry_id, lane), None)

    @rule(
        lane=LANE,
        start=st.integers(0, 60),
        number=st.integers(1, 30),
        by=st.integers(1, 3),
        others=SORTED_IDS,
    )
    def acknowledge_a_row(
        self, lane: RegionId, start: int, number: int, by: int, others: list[StreamId]
    ) -> None:
        pending = list(self.lanes[lane].pel)
        chosen = pending[start % (len(pending) + 1) :: by][:number]
        ids = self._form(chosen)
        among = self.lanes[lane].pel.among
        assert among(ids) is ids
        with_others = sorted({*chosen, *others})
        known = [one for one in with_others if one in pending]
        assert list(among(IdColumns.of(with_others))) == known
        self.pel.acknowledge({lane: ids})
        for entry_id in chosen:
            del self.model.entries[entry_id, lane]

    @rule(lane=LANE, entry_id=IDS)
    def forget(self, lane: RegionId, entry_id: StreamId) -> None:
        was_pending = self.model.entries.pop((entry_id, lane), None) is not None
        assert self.pel.forget(lane, (entry_id,)) is was_pending

    @rule(lane=LANE, low=IDS, high=IDS, keep=st.lists(IDS, max_size=5))
    def drop_within(
        self, lane: RegionId, low: StreamId, high: StreamId, keep: list[StreamId]
    ) -> None:
        self.pel.drop_within(lane, low, high, keep=dict.fromkeys(keep, 1))
        for entry_id, of_lane in list(self.model.entries):
            if of_lane == lane and low < entry_id <= high and entry_id not in keep:
                del self.model.entries[entry_id, lane]

    @rule(name=NAME)
    def delete_consumer(self, name: bytes) -> None:
        if name in self.pel.consumers:
            self.pel.delete_consumer(name)
            del self.model.consumers[name]
            for at, one in list(self.model.entries.items()):
                if one.owner == name:
                    del self.model.entries[at]

    # --- Questions ----------------------------------------------------------------------------

    @rule(latest=st.none() | st.integers(-1, 30))
    def ask_for_idle_entries(self, latest: int | None) -> None:
        self.asked = True
        found = [(nack.id, nack.lane) for nack in self.pel.longest_idle(latest)]
        assert found == self.model.longest_idle(latest)

    @rule(lane=LANE, low=IDS, high=IDS, ids=SORTED_IDS, number=st.integers(1, 5))
    def ask(
        self, lane: RegionId, low: StreamId, high: StreamId, ids: list[StreamId], number: int
    ) -> None:
        pel = self.lanes[lane].pel
        expected = sorted(entry_id for entry_id, of in self.model.entries if of == lane)
        above = [entry_id for entry_id in expected if entry_id > low]
        within = [entry_id for entry_id in above if entry_id <= high]
        assert pel.first_above(low) == (above[0] if above else None)
        assert list(pel.within(low, high)) == within
        assert pel.count_within(low, high) == len(within)
        assert pel.among(self._form(ids)) == [entry_id for entry_id in ids if entry_id in expected]
        assert [entry_id in pel for entry_id in ids] == [one in expected for one in ids]
        got = self.pel.in_lane(lane, above=low, count=number)
        assert [nack.id for nack in got] == above[:number]
        assert [nack.id for nack in got] == [n.id for n in map(pel.get, above[:number]) if n]
        in_order = sorted(at for at in self.model.entries if at[0] >= low)
        assert [(nack.id, nack.lane) for nack in self.pel.from_id(low)] == in_order
        for name, consumer in self.pel.consumers.items():
            own = [at for at in in_order if self.model.entries[at].owner == name]
            assert [(nack.id, nack.lane) for nack in consumer.nacks(low)] == own

    # --- Checkpoints ---------------------------------------------------------------------------

    @precondition(lambda self: self.cut is None)
    @rule()
    def begin_checkpoint(self) -> None:
        self.cut = self.changes.cut()
        self.at_cut = self.model.copy()
        self.taken = []

    @precondition(lambda self: self.cut is not None)
    @rule()
    def write_one(self) -> None:
        assert self.cut is not None
        taken = self.cut.take()
        if taken is not None:
            self.taken.append(taken[1])

    @precondition(lambda self: self.cut is not None)
    @rule()
    def commit(self) -> None:
        """Finish the checkpoint: the store then has the PEL as it was at the cut."""
        assert self.cut is not None
        while (taken := self.cut.take()) is not None:
            self.taken.append(taken[1])
        self.images |= {image.number: image for image in self.taken}
        for number in filter(None, self.cut.replaced()):
            self.images.pop(number, None)
        self.cut.finish()
        self.cut = None
        self.saved = self.at_cut
        assert facts(self._restored(Changes())[0]) == self.saved.facts()

    @precondition(lambda self: self.cut is not None)
    @rule()
    def fail(self) -> None:
        assert self.cut is not None
        self.cut.abandon()
        self.cut = None

    @rule()
    def restart(self) -> None:
        numbers = self.changes.images_made
        self.redraw_sizes()
        # Chunks of the last checkpoint may have more entries than are allowed now.
        self.entries_max = max(self.entries_max, ENTRIES_MAX.value)
        self.changes = Changes()
        self.changes.images_made = numbers
        self.pel, self.lanes = self._restored(self.changes)
        self.model = self.saved.copy()
        self.cut, self.asked = None, False
        self.last_ms = self.turn = self.forms = 0

    def _restored(self, changes: Changes) -> tuple[Pel, dict[RegionId, LaneProgress]]:
        pel, lanes = new_pel(changes)
        pel.consumers_made = max(self.saved.consumers.values(), default=0)
        pel.turns_taken = self.saved.given_back
        for name, number in self.saved.consumers.items():
            pel.restore_consumer(number, name, seen_ms=Millis(1), active_ms=None)
        for number in sorted(self.images, reverse=True):
            pel.restore_chunk(self.images[number])
        return pel, lanes

    # --- Always -------------------------------------------------------------------------------

    @invariant()
    def it_equals_the_model(self) -> None:
        assert facts(self.pel) == self.model.facts()
        assert len(self.pel) == len(self.model.entries)
        nobody = sum(one.owner is None for one in self.model.entries.values())
        assert self.pel.nobody.pending_count == nobody

    @invariant()
    def chunks_are_as_promised(self) -> None:
        for progress in self.lanes.values():
            chunks = progress.pel.chunks
            assert all(0 < len(chunk) <= self.entries_max for chunk in chunks)
            assert all(chunk.first <= chunk.id_at(0) for chunk in chunks)
            assert all(low.last_id < high.first for low, high in pairwise(chunks))
            for chunk in chunks:
                held: dict[Owner, int] = {}
                for nack in chunk.nacks(0, len(chunk)):
                    owner = nack.consumer or self.pel.nobody
                    held[owner] = held.get(owner, 0) + 1
                assert chunk.held == held
                assert all(chunk in owner.chunks[chunk.region] for owner in held)


TestPel = PelMachine.TestCase
TestPel.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def test_a_chunk_that_was_absorbed_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENTRIES_MAX, "value", 8)
    pel, lanes = new_pel(Changes())
    alice = pel.consumer(b"alice", Millis(1))
    ids = [make_id(ms, 1) for ms in range(1, 49)]
    pel.deliver(LANES[0], ids[:16], alice, delivered_ms=Millis(1), count=1)
    left = [ids[0], ids[1], ids[15]]
    pel.acknowledge({LANES[0]: [one for one in ids[:16] if one not in left]})
    assert len(lanes[LANES[0]].pel.chunks) == 1

    pel.deliver(LANES[0], ids[16:], alice, delivered_ms=Millis(2), count=1)

    assert [nack.id for nack in pel] == left + ids[16:]
    assert [nack.id for nack in alice.nacks()] == left + ids[16:]


def test_a_chunk_is_absorbed_while_a_checkpoint_has_still_to_write_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The checkpoint has it with the owners that it had."""
    monkeypatch.setattr(ENTRIES_MAX, "value", 8)
    changes = Changes()
    pel, lanes = new_pel(changes)
    alice = pel.consumer(b"alice", Millis(1))
    ids = [make_id(ms, 1) for ms in range(1, 17)]
    pel.deliver(LANES[0], ids, alice, delivered_ms=Millis(1), count=1)
    low, high = ids[:8], ids[8:]
    pel.acknowledge({LANES[0]: high[1:]})
    assert len(lanes[LANES[0]].pel.chunks) == 2

    cut = changes.cut()
    pel.acknowledge({LANES[0]: low[1:]})
    assert len(lanes[LANES[0]].pel.chunks) == 1
    images = []
    while (taken := cut.take()) is not None:
        images.append(taken[1])
    cut.finish()

    restored, _ = new_pel(Changes())
    restored.consumers_made = 1
    restored.restore_consumer(1, b"alice", seen_ms=Millis(1), active_ms=None)
    for image in images:
        restored.restore_chunk(image)
    assert [nack.id for nack in restored] == [*low, high[0]]
    assert [nack.id for nack in restored.consumers[b"alice"].nacks()] == [*low, high[0]]
    assert [nack.id for nack in pel] == [low[0], high[0]]


# --- Images -------------------------------------------------------------------------------------


def filled(ids: Iterable[StreamId], number: int = 1) -> tuple[Pel, Image]:
    pel, lanes = new_pel(Changes())
    for at, entry_id in enumerate(ids):
        consumer = pel.consumer(NAMES[at // 2 % 2], Millis(1))
        pel.deliver(LANES[0], (entry_id,), consumer, delivered_ms=Millis(at // 3), count=1)
    (chunk,) = lanes[LANES[0]].pel.chunks
    return pel, Image(number, Kind.PENDING, *chunk.encode())


def empty() -> Pel:
    pel, _ = new_pel(Changes())
    for name in NAMES[:2]:
        pel.consumer(name, Millis(1))
    return pel


SHORT = [make_id(ms, 1) for ms in range(1, 9)]
WIDE = [make_id(ms, 1 << 40) for ms in range(1, 9)]


@pytest.mark.parametrize("ids", [SHORT, WIDE])
@given(at=st.integers(0, 400), flip=st.integers(1, 255), keep=st.integers(0, 400))
@example(at=0, flip=2, keep=400)
def test_a_changed_image_of_a_chunk_is_refused_or_is_a_sound_chunk(
    ids: list[StreamId], at: int, flip: int, keep: int
) -> None:
    _, image = filled(ids)
    data = bytearray(image.body)
    data[at % len(data)] ^= flip
    pel = empty()
    try:
        pel.restore_chunk(image._replace(body=bytes(data[:keep])))
    except ValueError:
        assert not len(pel)
        return
    found = list(pel)
    assert len(found) == len(pel) == 8
    assert [nack.id for nack in found] == sorted({nack.id for nack in found})
    assert sum(one.pending_count for one in (*pel.consumers.values(), pel.nobody)) == 8


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"owner": 8}, "of group 8"),
        ({"lane": 5}, "and lane 5"),
        ({"kind": Kind.NODE}, "NODE"),
        ({"body": b""}, "0 bytes"),
    ],
)
def test_an_image_that_belongs_elsewhere_is_refused(wrong: dict[str, object], reason: str) -> None:
    _, image = filled(SHORT)
    with pytest.raises(ValueError, match=reason):
        empty().restore_chunk(Image(**(image._asdict() | wrong)))


@pytest.mark.parametrize("ids", [SHORT, SHORT[:1], SHORT[3:5], [make_id(0, 1), SHORT[0]]])
def test_chunks_that_overlap_are_refused(ids: list[StreamId]) -> None:
    _, image = filled(SHORT)
    pel = empty()
    pel.restore_chunk(image)
    with pytest.raises(ValueError, match="overlaps"):
        pel.restore_chunk(filled(ids, number=2)[1])
    assert [nack.id for nack in pel] == SHORT


def test_an_owner_that_the_group_does_not_have_is_refused() -> None:
    pel, _ = new_pel(Changes())
    with pytest.raises(ValueError, match="no consumer has the number 1"):
        pel.restore_chunk(filled(SHORT)[1])


def test_a_consumer_s_number_is_never_given_again() -> None:
    pel = empty()
    pel.delete_consumer(NAMES[1])
    assert pel.consumer(NAMES[1], Millis(1)).number == 3
    with pytest.raises(ValueError, match="twice"):
        pel.restore_consumer(3, b"dave", seen_ms=Millis(1), active_ms=None)
    with pytest.raises(ValueError, match="only 3"):
        pel.restore_consumer(4, b"dave", seen_ms=Millis(1), active_ms=None)


def test_chunks_of_a_group_that_is_gone_are_written_as_they_were() -> None:
    changes = Changes()
    pel, _ = new_pel(changes)
    pel.deliver(LANES[0], SHORT, pel.consumer(b"a", Millis(1)), delivered_ms=Millis(5), count=1)
    cut = changes.cut()
    pel.drop_all()
    taken = cut.take()
    assert taken is not None
    assert taken[0].kind is Kind.PENDING
    assert cut.take() is None
    assert list(filter(None, cut.replaced())) == []
    cut.finish()
    again = changes.cut()
    assert again.take() is None
    assert list(filter(None, again.replaced())) == [taken[1].number]


# --- Owners -------------------------------------------------------------------------------------


def owners(pel: Pel) -> list[tuple[StreamId, bytes | None]]:
    return [(nack.id, None if nack.consumer is None else nack.consumer.name) for nack in pel]


def test_a_claim_after_a_checkpoint_is_in_the_next_one() -> None:
    changes = Changes()
    pel, _ = new_pel(changes)
    alice, bob = (pel.consumer(name, Millis(1)) for name in NAMES[:2])
    pel.deliver(LANES[0], SHORT, alice, delivered_ms=Millis(5), count=1)
    for owner in (alice, bob):
        pel.deliver(LANES[0], SHORT[2:3], owner, delivered_ms=Millis(6), count=2)
        cut = changes.cut()
        taken = cut.take()
        assert taken is not None
        cut.finish()
        restored = empty()
        restored.restore_chunk(taken[1])
        assert owners(restored) == owners(pel)


def test_a_claimed_entry_s_neighbours_keep_their_owner() -> None:
    pel, _ = new_pel(Changes())
    alice, bob = (pel.consumer(name, Millis(1)) for name in NAMES[:2])
    pel.deliver(LANES[0], SHORT[:3], alice, delivered_ms=Millis(5), count=1)
    pel.deliver(LANES[0], SHORT[1:2], bob, delivered_ms=Millis(5), count=1)
    assert owners(pel) == list(zip(SHORT, [b"alice", b"bob", b"alice"], strict=False))


def test_a_new_pending_entry_does_not_take_the_owner_of_a_removed_one() -> None:
    pel, _ = new_pel(Changes())
    alice, bob = (pel.consumer(name, Millis(1)) for name in NAMES[:2])
    pel.deliver(LANES[0], SHORT[:1], alice, delivered_ms=Millis(5), count=1)
    pel.deliver(LANES[0], SHORT[5:6], bob, delivered_ms=Millis(5), count=1)
    pel.acknowledge({LANES[0]: (SHORT[5],)})
    pel.deliver(LANES[0], SHORT[3:4], bob, delivered_ms=Millis(6), count=1)
    assert owners(pel) == [(SHORT[0], b"alice"), (SHORT[3], b"bob")]


# --- Size ---------------------------------------------------------------------------------------

ENTRIES = 20_000


def test_ids_beyond_what_a_key_holds_are_not_taken_for_others() -> None:
    pel, lanes = new_pel(Changes())
    alice = pel.consumer(NAMES[0], Millis(1))
    ids = [make_id(ms, 1) for ms in (10, 11, 12)]
    pel.deliver(LANES[0], IdColumns.of(ids), alice, delivered_ms=Millis(5), count=1)
    # The second one differs in a bit that stands where the milliseconds of a key do.
    others = IdColumns.of([ids[0], make_id(10, (1 << 32) + 1), ids[2]])
    assert lanes[LANES[0]].pel.among(others) == [ids[0], ids[2]]


def appended(count: int) -> list[StreamId]:
    """As regions make them: three a millisecond, sequences 1,024 apart."""
    return [make_id(1_700_000_000_000 + at // 3, 1 + 1024 * (at % 3)) for at in range(count)]


def in_rows(pel: Pel, ids: list[StreamId]) -> None:
    for at in range(0, len(ids), 100):
        name = b"c%d" % (at // 100 % 10)
        consumer = pel.consumer(name, Millis(1))
        then = Millis(1_700_000_000_000 + at)
        pel.deliver(LANES[0], ids[at : at + 100], consumer, delivered_ms=then, count=1)


def at_random(pel: Pel, ids: list[StreamId]) -> None:
    dice = random.Random(1)
    in_rows(pel, ids)
    for at, entry_id in enumerate(dice.sample(ids, len(ids))):
        consumer = pel.consumer(b"c%d" % dice.randrange(10), Millis(1))
        then = Millis(1_800_000_000_000 + at)
        pel.deliver(LANES[0], (entry_id,), consumer, delivered_ms=then, count=2)


@pytest.mark.long
@pytest.mark.parametrize(("fill", "bytes_max"), [(in_rows, 16), (at_random, 80)])
def test_a_pending_entry_takes_few_bytes(fill: object, bytes_max: int) -> None:
    ids = appended(ENTRIES)
    assert callable(fill)
    fill(new_pel(Changes())[0], ids)  # what is made only once
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        pel, _ = new_pel(Changes())
        fill(pel, ids)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(pel) == ENTRIES
    assert held / ENTRIES <= bytes_max
    assert 0.8 * held <= pel.used_bytes <= 1.2 * held


@pytest.mark.parametrize("fill", [in_rows, at_random])
def test_chunks_stay_small_and_are_few(fill: object) -> None:
    """While they are acknowledged at random they are joined, down to the last one."""
    ids = appended(ENTRIES)
    pel, _ = new_pel(Changes())
    assert callable(fill)
    fill(pel, ids)
    random.Random(2).shuffle(ids)
    while ids:
        batch, ids = ids[:500], ids[500:]
        pel.acknowledge({LANES[0]: tuple(sorted(batch))})
        chunks: list[PelChunk] = list(pel.chunks())
        assert len(chunks) <= 1 + 2 * len(ids) / 512 + 1
    assert not chunks


def taken_by(do: Callable[[], object]) -> int:
    """The most bytes that were held at once for it, besides what was there."""
    do()  # what is made only once
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        do()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_a_few_ids_in_each_chunk_do_not_go_over_all_of_it() -> None:
    """Its keys as a set, or its columns made anew, are some ten thousand bytes."""
    pel, lanes = new_pel(Changes())
    ids = appended(ENTRIES)
    in_rows(pel, ids)
    sparse = IdColumns.of(ids[:: ENTRIES // 40])
    assert len(sparse) >= FEW.default
    lane, bob = lanes[LANES[0]].pel, pel.consumer(b"bob", Millis(1))

    def claim() -> None:
        pel.deliver(LANES[0], sparse, bob, delivered_ms=Millis(5), count=2)

    assert taken_by(lambda: lane.among(sparse)) < 6_000
    assert taken_by(claim) < 6_000
    assert [nack.id for nack in pel if nack.consumer is bob] == list(sparse)
