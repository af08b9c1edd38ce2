"""When a checkpoint is due, and what is remembered of the last ones."""

import pytest

from crdtstream.core.ids import Millis
from crdtstream.region.checkpointing import (
    QUIET_MS,
    REPLAY_US_MAX,
    REPLAY_US_QUIET,
    REST,
    Checkpointing,
)
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.events import Signal
from crdtstream.region.tick import Tick


def begun(now: int = 1_000, tick: Tick | None = None) -> Checkpointing:
    checkpointing = Checkpointing(tick or Tick(), Deadlines(), now=Millis(now))
    checkpointing.log_bytes, checkpointing.interval_s = 100, 60
    return checkpointing


@pytest.mark.parametrize(
    ("seq", "grown", "at", "due"),
    [
        (1, 99, 60_999, False),
        (1, 100, 1_000, True),
        (1, 1, 61_000, True),
        (0, 0, 999_999, False),
        # The clock was set back.
        (1, 1, 999, True),
    ],
)
def test_growth_and_time_make_one_due_if_anything_was_written(
    seq: int, grown: int, at: int, due: bool
) -> None:
    assert begun().is_due(Millis(at), seq=seq, grown_bytes=grown) is due


def test_zero_switches_a_reason_off() -> None:
    checkpointing = begun()
    checkpointing.log_bytes = 0
    assert not checkpointing.is_due(Millis(1_000), seq=9, grown_bytes=1 << 40)
    checkpointing.interval_s = 0
    assert not checkpointing.is_due(Millis(10**12), seq=9, grown_bytes=1 << 40)


def test_a_checkpoint_wanted_during_another_one_follows_it() -> None:
    checkpointing = begun()
    checkpointing.want()
    now = Millis(1_000)
    assert checkpointing.is_due(now, seq=0, grown_bytes=0)
    checkpointing.note_begun(now)
    checkpointing.want()
    assert not checkpointing.is_due(now, seq=5, grown_bytes=999), "one after the other"
    checkpointing.note_written(4, Millis(1_500), size_bytes=7)
    assert (checkpointing.took_ms, checkpointing.seq, checkpointing.count) == (500, 4, 1)
    assert checkpointing.is_due(now, seq=5, grown_bytes=0)


def test_one_that_failed_is_told_of_and_does_not_count() -> None:
    tick = Tick()
    checkpointing = begun(tick=tick)
    ended = []
    tick.follow = lambda event: ended.append((event, checkpointing.failure))
    checkpointing.note_begun(Millis(1_000))
    checkpointing.note_failed("no space")
    assert (checkpointing.seq, checkpointing.failures, ended) == (
        0,
        1,
        [(Signal.CHECKPOINT_ENDED, "no space")],
    )
    checkpointing.note_begun(Millis(1_000))
    checkpointing.note_written(3, Millis(2_000), size_bytes=1)
    assert [failure for _, failure in ended] == ["no space", ""]


def long_to_replay(replay_us: int) -> Checkpointing:
    """Little that takes this long to replay came at 1,000; there is no other reason."""
    checkpointing = begun()
    checkpointing.interval_s = 0
    checkpointing.grown_us = replay_us
    assert checkpointing.is_due(Millis(1_000), seq=5, grown_bytes=1) is (
        replay_us >= REPLAY_US_MAX.value
    )
    return checkpointing


def test_one_is_due_when_a_restart_would_take_too_long() -> None:
    """Three million entries of one shape are 16 MiB of packed batches."""
    long_to_replay(REPLAY_US_MAX.value - 1)
    checkpointing = long_to_replay(REPLAY_US_MAX.value)
    checkpointing.log_bytes = 0
    assert not checkpointing.is_due(Millis(1_000), seq=5, grown_bytes=1), "the log is no reason"


def test_one_is_due_when_all_is_quiet() -> None:
    checkpointing = long_to_replay(REPLAY_US_QUIET.value)
    assert not checkpointing.is_due(Millis(1_000 + QUIET_MS.value - 1), seq=5, grown_bytes=1)
    assert not checkpointing.is_due(Millis(1_000 + QUIET_MS.value), seq=6, grown_bytes=1), (
        "not quiet"
    )
    quiet = Millis(1_000 + 2 * QUIET_MS.value)
    assert checkpointing.is_due(quiet, seq=6, grown_bytes=1)
    checkpointing.grown_us -= 1
    assert not checkpointing.is_due(quiet, seq=6, grown_bytes=1), "it is not worth one"


def test_checkpoints_for_replaying_leave_time_to_others() -> None:
    checkpointing = long_to_replay(0)
    checkpointing.note_begun(Millis(2_000))
    checkpointing.note_written(5, Millis(4_000), size_bytes=1)
    checkpointing.grown_us = REPLAY_US_MAX.value
    assert not checkpointing.is_due(Millis(4_000 + REST.value * 2_000 - 1), seq=6, grown_bytes=1)
    assert checkpointing.is_due(Millis(4_000 + REST.value * 2_000), seq=6, grown_bytes=1)
