"""Commits that sync are made at once if the last ones took little time."""

from crdtstream.store.pace import COMMITS, REST_NS, REST_NS_MAX, SPENT_NS_MAX, Pace

QUICK_NS = 300_000
SLOW_NS = 4_000_000


class Disk:
    """A disk, and the clock that its commits move on."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.now_ns = 0

    def commit(self, took_ns: int) -> None:
        assert self.pace.is_quick(self.now_ns)
        self.now_ns += took_ns
        self.pace.note(took_ns, self.now_ns)

    def fail_trial(self) -> int:
        """Commit slowly until that ends; how long the rest is that follows."""
        while self.pace.is_quick(self.now_ns):
            self.commit(SLOW_NS)
        began_ns = self.now_ns
        while not self.pace.is_quick(self.now_ns):
            self.now_ns += REST_NS.value // 8
        return self.now_ns - began_ns


def test_quick_commits_stay_at_once() -> None:
    disk = Disk()
    for _ in range(10 * COMMITS.value):
        disk.commit(QUICK_NS)
    assert disk.pace.is_quick(disk.now_ns)


def test_slow_commits_leave_after_few() -> None:
    disk = Disk()
    for _ in range(SPENT_NS_MAX.value // SLOW_NS):
        disk.commit(SLOW_NS)
    disk.commit(SLOW_NS)
    assert not disk.pace.is_quick(disk.now_ns)


def test_one_slow_commit_now_and_then_is_borne_and_a_very_slow_one_is_not() -> None:
    disk = Disk()
    for _ in range(10):
        for _ in range(COMMITS.value):
            disk.commit(QUICK_NS)
        disk.commit(SLOW_NS)
    assert disk.pace.is_quick(disk.now_ns)
    disk.commit(SPENT_NS_MAX.value)
    assert not disk.pace.is_quick(disk.now_ns)


def test_each_failed_trial_makes_the_rest_twice_as_long_up_to_a_bound() -> None:
    disk = Disk()
    rests = [disk.fail_trial() for _ in range(9)]
    assert rests == [min(REST_NS_MAX.value, REST_NS.value << count) for count in range(9)]


def test_a_trial_that_is_stood_makes_the_next_rest_short_again() -> None:
    disk = Disk()
    for _ in range(3):
        disk.fail_trial()
    for _ in range(2 * COMMITS.value):
        disk.commit(QUICK_NS)
    assert disk.fail_trial() == REST_NS.value
