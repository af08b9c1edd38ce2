"""maxmemory and maxdisk: what leaves, what is refused, what goes on."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.checkpointing import LATE_REST_MS, Checkpointing
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.room import OOM, SPARE_BYTES, Account, MemoryBound
from crdtstream.region.tick import Tick
from crdtstream.region.tuning import tunables_of
from tests.harness.driven import Driven, Told, make_region

R2 = RegionId(2)


def took(size: int, may_leave: int = 0) -> Account:
    return Account({"data": size}, may_leave)


def full() -> Driven:
    """A region with an entry, whose memory is full."""
    driven = Driven()
    driven.ask("XADD", "s", "*", "f", "v")
    driven.ask("XGROUP", "CREATE", "s", "g", "0")
    driven.region.room.tune(maxmemory=1_000)
    driven.region.room.look(account=took(1_001))
    return driven


def text(reply: object) -> str:
    assert isinstance(reply, Exception), reply
    return str(reply)


@pytest.mark.parametrize(
    "command",
    [
        "XADD s * f v",
        "XGROUP CREATE s h 0",
        "XSETID s 9999999999999-0",
        "SET lock mine",
        "COPY s t",
        "RESTORE t 0 x",
    ],
)
def test_commands_that_add_data_are_refused_when_memory_is_full(command: str) -> None:
    driven = full()
    before = driven.region.replica.issued
    assert text(driven.ask(*command.split())) == OOM
    assert driven.region.replica.issued == before


def test_memory_is_measured_again_before_a_write_is_refused() -> None:
    """An account is made ten times a second, and a command that follows XTRIM comes sooner."""
    driven = full()
    assert text(driven.ask("XADD", "s", "*", "f", "v")) == OOM
    driven.region.memory.measure = lambda: took(900)
    assert not isinstance(driven.ask("XADD", "s", "*", "f", "v"), Exception)
    assert not driven.region.memory.is_full


@pytest.mark.parametrize(
    "command", ["XRANGE s - +", "XREADGROUP GROUP g c STREAMS s >", "XTRIM s MAXLEN 0", "DEL s"]
)
def test_reading_deleting_and_trimming_go_on_when_memory_is_full(command: str) -> None:
    assert not isinstance(full().ask(*command.split()), Exception)


def test_a_transaction_that_adds_data_is_discarded_as_in_redis() -> None:
    driven = full()
    driven.region.room.look(account=took(1_000))
    driven.ask("MULTI")
    driven.ask("XADD", "s", "*", "f", "v")
    driven.region.room.look(account=took(1_001))
    assert text(driven.ask("EXEC")) == f"EXECABORT Transaction discarded because of: {OOM}"
    assert driven.ask("XLEN", "s") == 1, "it is over"

    driven.ask("MULTI")
    assert text(driven.ask("XADD", "s", "*", "f", "v")) == OOM
    assert text(driven.ask("EXEC")).startswith("EXECABORT")
    driven.ask("MULTI")
    driven.ask("XLEN", "s")
    assert driven.ask("EXEC") == [1]
    assert driven.region.memory.refused == 2


def test_there_is_room_again_when_something_was_deleted() -> None:
    driven = full()
    driven.ask("DEL", "s")
    driven.region.room.look(account=took(1_000))
    assert not isinstance(driven.ask("XADD", "s", "*", "f", "v"), Exception)


def test_programs_are_refused_only_where_they_add() -> None:
    driven = full()
    region = driven.region

    with pytest.raises(CommandError, match="OOM"):
        region.change(driven.now, lambda _replica, _now: 1, Told(region), adds=True)
    region.change(driven.now, lambda _replica, _now: 1, Told(region))


def test_cold_data_leave_before_anything_is_refused() -> None:
    asked = []

    def evict(size: int) -> int:
        asked.append(size)
        return size

    bound = MemoryBound(Checkpointing(Tick(), Deadlines(), now=Millis(0)))
    bound.maxmemory, bound.evict = 3_200, evict
    bound.look(took(3_100))
    assert (asked, bound.is_full) == ([], False)
    bound.look(took(3_101))
    assert (asked, bound.is_full) == ([101], False), "down to 3,000"
    bound.evict = lambda _size: 10
    fullness = []
    for size in (3_210, 3_211):
        bound.look(took(size))
        fullness.append(bound.is_full)
    assert fullness == [False, True]
    assert bound.evicted_bytes == 101 + 10 + 10


def test_writers_wait_for_what_leaves_a_turn_at_a_time_and_do_not_run_ahead_of_it() -> None:
    bound = MemoryBound(Checkpointing(Tick(), Deadlines(), now=Millis(0)))
    bound.maxmemory, bound.evict, bound.has_more = 3_200, lambda _size: 1, lambda: True
    fullness = []
    for size in (3_150, 3_201, 3_301, 3_302, 3_050, 2_990):
        bound.look(took(size, may_leave=3_000))
        fullness.append((bound.is_full, bound.is_leaving))
    held_up = [(False, True)] * 3 + [(True, True)] + [(False, True)] + [(False, False)]
    assert fullness == held_up


def test_a_checkpoint_is_asked_for_when_it_lets_data_leave() -> None:
    region = Driven().region
    region.room.tune(maxmemory=3_200)
    region.room.look(account=took(3_201, may_leave=99))
    assert not region.checkpointing.is_due(Millis(1_000), seq=0, grown_bytes=0), "not worth it"
    region.room.look(account=took(3_201, may_leave=100))
    assert region.checkpointing.is_due(Millis(1_000), seq=0, grown_bytes=0)
    region.checkpointing.note_begun(Millis(1_000))
    region.room.look(account=took(3_201, may_leave=100))
    region.checkpointing.note_written(0, Millis(1_000), size_bytes=0)
    assert not region.checkpointing.is_due(Millis(1_000), seq=0, grown_bytes=0), "one was enough"


@given(
    maxmemory=st.integers(1, 10_000),
    fixed=st.integers(0, 10_000),
    cold=st.integers(0, 10_000),
)
def test_evictable_memory_never_causes_a_refusal(maxmemory: int, fixed: int, cold: int) -> None:
    bound = MemoryBound(Checkpointing(Tick(), Deadlines(), now=Millis(0)))
    bound.maxmemory, bound.evict = maxmemory, lambda size: min(size, cold)
    bound.look(took(fixed + cold, cold))
    assert bound.is_full == (fixed > maxmemory)
    assert (bound.refusal(maxmemory + SPARE_BYTES.value) is None) == (fixed <= maxmemory)


def test_a_bound_that_would_refuse_everything_cannot_be_set() -> None:
    region = Driven().region
    region.room.look(account=took(5_000, may_leave=3_000), disk_bytes=700)
    memory, disk = (tunables_of(region)[name] for name in ("maxmemory", "maxdisk"))
    least = 2_000 + SPARE_BYTES.value
    assert memory.refusal(str(least)) is None
    refusal = str(memory.refusal(str(least - 1)))
    assert "2000 bytes are taken by what cannot leave memory" in refusal
    assert f"set at least {least}," in refusal
    assert memory.refusal("0") is None
    assert disk.refusal("1kb") is None
    assert "the folder takes 700 bytes already" in str(disk.refusal("699"))


def test_a_full_folder_refuses_what_adds_and_asks_for_a_checkpoint() -> None:
    driven = Driven()
    driven.ask("XADD", "s", "*", "f", "v")
    region = driven.region
    region.room.tune(maxdisk=1 << 20)
    region.room.look(disk_bytes=(1 << 20) + 1)
    assert "maxdisk is 1048576" in text(driven.ask("XADD", "s", "*", "f", "v"))
    assert region.checkpointing.is_due(Millis(1_000), seq=1, grown_bytes=0)
    assert driven.ask("DEL", "s") == 1
    region.room.look(disk_bytes=1 << 20)
    assert not isinstance(driven.ask("XADD", "s", "*", "f", "v"), Exception)
    assert region.disk.refused == 1


def test_batches_of_other_regions_are_applied_when_memory_is_full() -> None:
    driven = full()
    other = Driven(make_region(2))
    other.ask("XADD", "t", "*", "f", "v")
    (record,) = other.log
    assert record.batch is not None
    replica = driven.region.replica
    replica.receive(decode_batch(record.batch), record.batch, driven.now)
    assert replica.vv[R2] == 1


def holds(driven: Driven) -> bool:
    """Looked at anew: the type checker takes an attribute for what it was found to be."""
    return driven.region.memory.holds_links


def test_batches_of_other_regions_wait_while_memory_is_being_freed() -> None:
    driven = Driven(make_region(1, {2: "r2"}))
    other = Driven(make_region(2))
    region, pull = driven.region, driven.region.links.pulls[R2]
    memory = region.memory
    region.checkpointing.is_supported = True
    region.room.tune(maxmemory=32_000)

    def arrive() -> bool:
        """A batch comes: whether it is applied, at once or by what the region asks for."""
        issued = region.replica.vv.get(R2, 0)
        other.ask("XADD", "s", "*", "f", "v")
        encoded = other.log[-1].batch
        assert encoded is not None
        pull.inbox.offer(decode_batch(encoded), encoded)
        region.tick.may_apply = True
        if driven.end_tick().applies:
            region.apply_arrivals(driven.now)
        return region.replica.vv.get(R2, 0) > issued

    assert arrive()
    # A checkpoint is under way, and what it writes may leave.
    region.checkpointing.note_begun(driven.now)
    region.room.look(account=took(32_001, may_leave=10_000))
    assert holds(driven)
    assert not arrive()
    assert len(pull.inbox) == 1, "it waits in the inbox, which is bounded"
    # It is written, and what it wrote leaves.
    region.checkpointing.note_written(0, driven.now, size_bytes=1)
    memory.has_more = lambda: True
    region.room.look(account=took(34_000, may_leave=10_000))
    assert holds(driven)
    memory.has_more = bool
    region.room.look(account=took(30_000))
    assert not holds(driven)
    assert driven.end_tick().applies, "nobody else needs to open a tick"
    region.apply_arrivals(driven.now)
    assert len(pull.inbox) == 0


def late(driven: Driven, *, grown_bytes: int = 201) -> None:
    """A checkpoint is under way, and the log has grown beyond what makes it late."""
    checkpointing = driven.region.checkpointing
    checkpointing.is_supported, checkpointing.log_bytes = True, 100
    checkpointing.note_begun(driven.now)
    checkpointing.grown_bytes = grown_bytes


def arriving(driven: Driven) -> Callable[[], None]:
    """A function by which the next batch of region 2 comes."""
    other = Driven(make_region(2))

    def arrive() -> None:
        other.ask("XADD", "s", "*", "f", "v")
        encoded = other.log[-1].batch
        assert encoded is not None
        driven.region.links.pulls[R2].inbox.offer(decode_batch(encoded), encoded)
        driven.region.tick.may_apply = True

    return arrive


def applies(driven: Driven) -> bool:
    """End the tick, and apply what the region asks for; return True if that was anything."""
    before = driven.region.replica.vv.get(R2, 0)
    if driven.end_tick().applies:
        driven.region.apply_arrivals(driven.now)
    return driven.region.replica.vv.get(R2, 0) > before


def test_links_rest_after_each_run_while_a_checkpoint_is_late() -> None:
    driven = Driven(make_region(1, {2: "r2"}))
    region, arrive = driven.region, arriving(driven)
    late(driven)
    arrive()
    assert applies(driven)
    for _ in range(3):
        arrive()
        assert not applies(driven)
        deadline = driven.end_tick().deadline
        assert deadline == driven.now + LATE_REST_MS.value
        driven.clock = deadline
        region.pass_time(driven.now)
        assert applies(driven), "nothing else has to open a tick"
    region.checkpointing.grown_bytes -= 150
    region.checkpointing.note_written(0, driven.now, size_bytes=1)
    arrive()
    assert applies(driven), "the rest ends with the checkpoint"


def test_links_do_not_rest_while_the_checkpoint_is_in_time_or_none_is_under_way() -> None:
    driven = Driven(make_region(1, {2: "r2"}))
    checkpointing, arrive = driven.region.checkpointing, arriving(driven)
    late(driven, grown_bytes=200)
    for _ in range(3):
        arrive()
        assert applies(driven)
    checkpointing.note_written(0, driven.now, size_bytes=1)
    checkpointing.grown_bytes = 201
    for _ in range(3):
        arrive()
        assert applies(driven), "none is under way: it would be waited for in vain"


def test_a_clock_that_is_set_back_makes_no_rest_longer() -> None:
    driven = Driven(make_region(1, {2: "r2"}))
    arrive = arriving(driven)
    late(driven)
    arrive()
    assert applies(driven)
    arrive()
    driven.clock -= 500
    assert not applies(driven)
    driven.region.pass_time(driven.now)
    assert applies(driven)


@pytest.mark.parametrize("supported", [False, True])
def test_links_are_never_held_for_good(supported: bool) -> None:
    driven = Driven()
    memory, checkpointing = driven.region.memory, driven.region.checkpointing
    checkpointing.is_supported = supported
    memory.maxmemory = 32_000

    # Nothing may leave, though a checkpoint is asked for.
    checkpointing.want()
    memory.look(took(40_000, may_leave=999))
    assert not holds(driven)
    memory.look(took(40_000, may_leave=1_000))
    assert holds(driven) is supported
    # One that lets nothing leave: links go on until the next look.
    checkpointing.note_begun(driven.now)
    checkpointing.note_written(0, driven.now, size_bytes=1)
    memory.look(took(40_000, may_leave=1_000))
    assert not holds(driven)
    memory.look(took(40_000, may_leave=1_000))
    assert holds(driven) is supported
    # The disk refuses: it may do so for ever.
    checkpointing.note_begun(driven.now)
    checkpointing.note_failed("no space left on device")
    memory.look(took(40_000, may_leave=1_000))
    assert not holds(driven)
    checkpointing.note_begun(driven.now)
    memory.look(took(40_000, may_leave=1_000))
    assert not holds(driven)
    # No bound, no wait.
    checkpointing.note_written(0, driven.now, size_bytes=1)
    memory.look(took(40_000, may_leave=1_000))
    memory.maxmemory = 0
    memory.look(took(40_000, may_leave=1_000))
    assert not holds(driven)
