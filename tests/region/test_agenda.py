"""The agenda: commits and their repeats, syncs, the folder, reads; without a loop or a disk."""

from collections.abc import Sequence

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.engine.agenda import (
    COMMIT_RETRY_SECONDS_FIRST,
    COMMIT_RETRY_SECONDS_MAX,
    FOLDER_RETRY_SECONDS,
    SYNC_SECONDS,
    Agenda,
)
from crdtstream.region.ready import Ready
from crdtstream.store.log import COMMIT_RECORDS_MAX, Fsync
from tests.harness.driven import Told, make_region

NOW = Millis(1000)


class Driver:
    """Does what an agenda says, when the test says so.

    Attributes:
        log: what is committed, as positions of effects.
    """

    def __init__(self, fsync: Fsync = Fsync.ALWAYS) -> None:
        self.region = make_region()
        self.agenda = Agenda(self.region, fsync)
        self.client = Told(self.region)
        self.log: list[int] = []
        self.end_tick()

    def end_tick(self) -> Ready:
        ready = self.agenda.end_tick(NOW)
        ready.tell()
        return ready

    def call(self, *argv: str) -> None:
        words = [word.encode() for word in argv]
        self.client.client.run(iter([words]), NOW, bytes_max=1 << 20)

    def leave(self) -> Sequence[Record]:
        """Let a tick leave one record; return what it left."""
        replica = self.region.replica
        replica.append(b"s", make_id(2000 + replica.issued, 0), encode_fields([b"f", b"v"]))
        self.region.tick.open()
        return self.end_tick().records

    def queue(self, count: int = 1) -> None:
        """Let ticks leave records that are not committed at once."""
        for _ in range(count):
            self.leave()
            self.agenda.put_off()

    def commit(self) -> list[int]:
        """Commit what is next; return its effects."""
        return self.note_committed(self.agenda.next_commit())

    def note_committed(self, records: Sequence[Record]) -> list[int]:
        effects = first_of(records)
        self.log += effects
        self.agenda.note_committed(len(self.log), NOW)
        self.end_tick()
        return effects

    def refusals(self) -> tuple[str | None, bool]:
        """Why the disk refuses, and whether the log's files are gone."""
        return self.region.fault, self.region.outstanding.is_gone

    @property
    def durable_seq(self) -> int:
        return self.region.outstanding.durable_seq


def first_of(records: Sequence[Record]) -> list[int]:
    return [record.first_n for record in records]


# --- Commits ------------------------------------------------------------------------------------


def test_records_are_offered_at_once_if_nothing_stands_before_them() -> None:
    driver = Driver()
    records = driver.leave()
    assert driver.agenda.at_once is records
    driver.note_committed(records)
    assert not driver.agenda.has_commit
    assert driver.agenda.at_once == ()


def test_records_put_off_are_committed_before_those_of_later_ticks() -> None:
    driver = Driver()
    driver.queue()
    driver.leave()
    assert driver.agenda.at_once == ()
    assert driver.agenda.queued == 2
    assert driver.commit() == [1, 2]
    assert not driver.agenda.has_commit


def test_nothing_is_committed_past_a_commit_under_way() -> None:
    driver = Driver()
    driver.queue()
    under_way = driver.agenda.next_commit()
    driver.leave()
    assert driver.agenda.at_once == ()
    driver.note_committed(under_way)
    assert driver.commit() == [2]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_refused_commit_is_repeated_with_the_same_records(at_once: bool) -> None:
    """It may be in the log: more records at the same places would be other ones."""
    driver = Driver()
    first = driver.leave()
    if not at_once:
        driver.agenda.put_off()
        first = driver.agenda.next_commit()
    driver.agenda.note_refused("disk full")
    driver.leave()
    assert driver.agenda.at_once == ()
    assert driver.agenda.next_commit() is first
    driver.agenda.note_refused("disk full")
    assert driver.commit() == [1]
    assert driver.commit() == [2]


def test_putting_off_leaves_a_refused_commit_alone() -> None:
    driver = Driver()
    driver.leave()
    driver.agenda.note_refused("disk full")
    driver.end_tick()
    driver.agenda.put_off()
    assert driver.commit() == [1]


def test_a_commit_has_no_more_records_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMMIT_RECORDS_MAX, "value", 2)
    driver = Driver()
    driver.queue(3)
    assert driver.commit() == [1, 2]
    assert driver.commit() == [3]
    assert driver.agenda.next_commit() == []


def test_writes_are_refused_until_the_repeated_commit_succeeds() -> None:
    driver = Driver()
    driver.call("XADD", "s", "*", "f", "v")
    driver.end_tick()
    assert driver.client.told == []
    driver.agenda.note_refused("disk full")
    driver.end_tick()
    assert [certain for _, certain in driver.client.told] == [False]
    assert driver.region.fault == "disk full"
    driver.commit()
    assert driver.region.fault is None


def test_the_backoff_of_a_refused_commit_grows_and_ends() -> None:
    driver = Driver()
    driver.leave()
    backoff = driver.agenda.commit_backoff
    assert backoff.seconds == 0
    seconds = []
    for _ in range(12):
        driver.agenda.note_refused("disk full")
        seconds.append(backoff.seconds)
    first, longest = COMMIT_RETRY_SECONDS_FIRST.default, COMMIT_RETRY_SECONDS_MAX.default
    assert seconds[:3] == [first, 2 * first, 4 * first]
    assert seconds[-1] == longest
    driver.commit()
    assert not driver.agenda.is_refused
    assert backoff.seconds == 0


def test_commits_count_as_growth_and_much_of_it_asks_for_a_checkpoint() -> None:
    driver = Driver()
    asked: list[bool] = []
    checkpointing = driver.region.checkpointing
    checkpointing.on_wanted = lambda: asked.append(True)
    driver.queue()
    records = driver.agenda.next_commit()
    size = driver.agenda.note_committed(len(records), NOW)
    assert checkpointing.grown_bytes == size > 0
    assert checkpointing.grown_us > 0
    assert asked == []
    driver.log = [1]
    checkpointing.log_bytes = 2 * size
    driver.queue()
    driver.commit()
    assert asked == [True]


# --- Syncs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fsync", "durable", "seconds"),
    [
        (Fsync.ALWAYS, 1, None),
        (Fsync.EVERYSEC, 0, SYNC_SECONDS[Fsync.EVERYSEC]),
        (Fsync.NO, 0, SYNC_SECONDS[Fsync.NO]),
    ],
)
def test_a_commit_is_durable_at_once_with_always_alone(
    fsync: Fsync, durable: int, seconds: float | None
) -> None:
    driver = Driver(fsync)
    driver.queue()
    driver.commit()
    assert driver.region.outstanding.logged_seq == 1
    assert driver.durable_seq == durable
    assert driver.agenda.sync_seconds == seconds
    mark = driver.agenda.next_sync()
    assert (mark is None) is (fsync is Fsync.ALWAYS)
    if mark is not None:
        driver.agenda.note_synced(mark, NOW)
        assert driver.durable_seq == 1
        assert driver.agenda.next_sync() is None


def test_a_sync_makes_durable_what_was_committed_when_it_began() -> None:
    driver = Driver(Fsync.EVERYSEC)
    driver.queue()
    driver.commit()
    mark = driver.agenda.next_sync()
    assert mark is not None
    driver.queue()
    driver.commit()
    driver.agenda.note_synced(mark, NOW)
    assert driver.durable_seq == 1
    assert driver.agenda.next_sync() is not None


def test_a_refused_sync_stays_the_next_one() -> None:
    driver = Driver(Fsync.EVERYSEC)
    driver.queue()
    driver.commit()
    driver.agenda.note_sync_refused("no sync")
    assert driver.region.fault == "no sync"
    mark = driver.agenda.next_sync()
    assert mark is not None
    driver.agenda.note_synced(mark, NOW)
    assert driver.region.fault is None


def test_always_begins_with_a_sync_and_the_other_rules_without() -> None:
    driver = Driver(Fsync.NO)
    driver.queue()
    driver.commit()
    assert driver.agenda.next_fsync() is None
    driver.region.durability.tune("always")
    change = driver.agenda.next_fsync()
    assert change is not None
    assert change.mark is not None
    assert change.mark.seq == 1
    driver.agenda.note_synced(change.mark, NOW)
    driver.agenda.note_fsync(change)
    assert driver.agenda.next_fsync() is None
    assert driver.agenda.sync_seconds is None

    driver.region.durability.tune("everysec")
    change = driver.agenda.next_fsync()
    assert change is not None
    assert change.mark is None


def test_no_commit_is_made_at_once_while_another_rule_is_wanted() -> None:
    driver = Driver(Fsync.NO)
    driver.region.durability.tune("always")
    driver.leave()
    assert driver.agenda.at_once == ()
    change = driver.agenda.next_fsync()
    assert change is not None
    driver.agenda.note_fsync(change)
    driver.commit()
    assert driver.durable_seq == 1


def test_a_rule_never_changes_within_a_commit() -> None:
    driver = Driver(Fsync.NO)
    driver.leave()
    driver.agenda.note_refused("disk full")
    driver.region.durability.tune("always")
    assert driver.agenda.next_fsync() is None
    driver.commit()
    assert driver.agenda.next_fsync() is not None


def test_a_refused_rule_is_tried_again_later_and_holds_nothing_back() -> None:
    driver = Driver(Fsync.EVERYSEC)
    driver.region.durability.tune("always")
    change = driver.agenda.next_fsync()
    assert change is not None
    seconds = driver.agenda.note_fsync_refused(change, "no sync")
    assert seconds > 0
    assert driver.agenda.fsync is Fsync.EVERYSEC
    assert driver.agenda.next_fsync() is None
    assert driver.leave() is driver.agenda.at_once
    driver.note_committed(driver.agenda.at_once)
    driver.agenda.try_fsync_again()
    again = driver.agenda.next_fsync()
    assert again is not None
    assert again.fsync is Fsync.ALWAYS


def test_a_rule_that_is_no_longer_wanted_is_not_tried_again() -> None:
    driver = Driver(Fsync.EVERYSEC)
    driver.region.durability.tune("always")
    change = driver.agenda.next_fsync()
    assert change is not None
    driver.agenda.note_fsync_refused(change, "no sync")
    driver.region.durability.tune("everysec")
    driver.agenda.try_fsync_again()
    assert driver.agenda.next_fsync() is None
    assert driver.leave() is driver.agenda.at_once


# --- The folder ---------------------------------------------------------------------------------


def test_a_refused_change_of_the_folder_stays_due_until_it_is_written() -> None:
    driver = Driver()
    # A peer has more of its effects than it has itself.
    driver.region.opening.readiness.note_known(RegionId(2), 1)
    driver.region.opening.look()
    driver.end_tick()
    assert driver.agenda.folder_is_due
    change = driver.agenda.next_folder_change()
    assert change is not None
    driver.agenda.note_folder_refused()
    assert driver.agenda.folder_is_due
    assert driver.agenda.folder_backoff.seconds == FOLDER_RETRY_SECONDS.default
    assert driver.agenda.next_folder_change() == change
    driver.agenda.note_folder_written(change, NOW)
    assert driver.agenda.folder_backoff.seconds == 0
    assert driver.agenda.next_folder_change() is None
    assert not driver.agenda.folder_is_due


def test_a_missing_folder_refuses_writes_until_it_is_found_and_synced() -> None:
    driver = Driver(Fsync.EVERYSEC)
    assert driver.agenda.note_folder_found() is None
    driver.agenda.note_folder_missing("gone", is_gone=True)
    assert driver.refusals() == ("gone", True)
    mark = driver.agenda.note_folder_found()
    assert mark is not None
    assert driver.refusals() == ("gone", False)
    driver.agenda.note_sync_refused("no sync")
    mark = driver.agenda.note_folder_found()
    assert mark is not None
    driver.agenda.note_synced(mark, NOW)
    assert driver.refusals() == (None, False)
    assert driver.agenda.note_folder_found() is None


@pytest.mark.parametrize("is_still_wanted", [True, False])
def test_writes_are_taken_again_after_a_refused_change_of_the_rule(is_still_wanted: bool) -> None:
    """Nothing is committed while writes are refused, so no commit ends that."""
    driver = Driver(Fsync.ALWAYS)
    driver.region.durability.tune("everysec")
    change = driver.agenda.next_fsync()
    assert change is not None
    driver.agenda.note_fsync_refused(change, "no room")
    assert driver.refusals() == ("no room", False)
    if not is_still_wanted:
        driver.region.durability.tune("always")
    driver.agenda.try_fsync_again()
    mark = driver.agenda.note_folder_found()
    assert mark is not None
    driver.agenda.note_synced(mark, NOW)
    assert driver.refusals() == (None, False)
    assert (driver.agenda.next_fsync() is not None) is is_still_wanted


# --- Reads, arrivals, time ----------------------------------------------------------------------


def test_requests_are_read_in_the_order_in_which_they_were_asked_for() -> None:
    driver = Driver()
    for images in ((3,), (1, 2)):
        driver.region.fetching.ask(images, lambda: None)
        driver.region.tick.open()
        driver.end_tick()
    assert driver.agenda.has_fetch
    assert [driver.agenda.next_fetch(), driver.agenda.next_fetch()] == [(3,), (1, 2)]
    assert not driver.agenda.has_fetch


def test_a_deadline_is_the_one_of_the_last_tick() -> None:
    driver = Driver()
    driver.call("XREAD", "BLOCK", "20", "STREAMS", "s", "$")
    driver.end_tick()
    assert driver.agenda.deadline == NOW + 20
    driver.agenda.pass_time(Millis(NOW + 20))
    driver.end_tick()
    assert [certain for _, certain in driver.client.told] == [True]


class Pipelining(Told):
    """A client that has a write behind what blocks it, and goes on when it is woken."""

    def resume(self) -> None:
        super().resume()
        if not self.client.is_blocked:
            words = [b"XADD", b"behind", b"*", b"f", b"v"]
            self.client.run(iter([words]), NOW, bytes_max=1 << 20)


def test_ticks_end_until_all_that_the_replica_has_is_in_records() -> None:
    driver = Driver()
    blocked = Pipelining(driver.region)
    words = [b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]
    blocked.client.run(iter([words]), NOW, bytes_max=1 << 20)
    driver.end_tick()
    driver.call("XADD", "s", "*", "f", "v")
    count = 0
    for _ in driver.agenda.ticks():
        driver.end_tick()
        count += 1
    assert count == 2
    assert driver.region.replica.stream(b"behind") is not None
    assert not driver.region.replica.has_untaken_records
    driver.region.replica.cut()
