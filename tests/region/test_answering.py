"""The time that a request waits in a region, and when that is too long."""

from crdtstream.region.answering import COMMITS_WINDOW_NS, HANGS_NS, AnswerTime

MS = 1_000_000


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.ns = 10**12

    def __call__(self) -> int:
        return self.ns


class Loop:
    """A region whose loop wakes, and whose log takes commits."""

    def __init__(self, *, ms_max: int = 500) -> None:
        self.clock = Clock()
        self.answer_time = AnswerTime(self.clock)
        self.answer_time.ms_max = ms_max

    def wakes(self, *, late_ms: int, for_ms: int, each_ms: int = 20) -> None:
        ends_ns = self.clock.ns + for_ms * MS
        while self.clock.ns < ends_ns:
            self.clock.ns += (each_ms + late_ms) * MS
            self.answer_time.note_wake((each_ms + late_ms) * MS, late_ms * MS)

    def commits(self, *, ms: int, times: int) -> None:
        for _ in range(times):
            self.clock.ns += ms * MS
            self.answer_time.note_logged(ms * MS, self.clock.ns)

    def is_slow(self) -> bool:
        return self.answer_time.obstacle() is not None


def test_a_loop_that_is_late_for_half_of_the_time_is_slow() -> None:
    loop = Loop()
    loop.wakes(late_ms=0, for_ms=3_000)
    loop.wakes(late_ms=680, for_ms=1_400)
    assert not loop.is_slow()
    loop.wakes(late_ms=680, for_ms=700)
    assert loop.is_slow()
    assert loop.answer_time.loop_ms == 680
    assert "answers take 680 ms here: 680 ms until the event loop" in str(
        loop.answer_time.obstacle()
    )


def test_one_stall_is_not_slow() -> None:
    loop = Loop()
    loop.wakes(late_ms=0, for_ms=3_000)
    loop.wakes(late_ms=1_300, for_ms=1)
    assert not loop.is_slow()
    loop.wakes(late_ms=0, for_ms=100)
    assert not loop.is_slow()


def test_a_node_that_has_just_started_or_rests_is_not_slow() -> None:
    loop = Loop()
    assert not loop.is_slow()
    loop.wakes(late_ms=680, for_ms=700)
    assert not loop.is_slow()
    loop.wakes(late_ms=1, for_ms=5_000, each_ms=640)
    assert loop.answer_time.loop_ms == 1


def test_a_slow_region_is_so_until_it_takes_less_than_half_of_the_bound() -> None:
    loop = Loop()
    loop.wakes(late_ms=680, for_ms=3_000)
    assert loop.is_slow()
    loop.wakes(late_ms=300, for_ms=3_000)
    assert loop.is_slow()
    loop.wakes(late_ms=200, for_ms=3_000)
    assert not loop.is_slow()
    loop.wakes(late_ms=300, for_ms=3_000)
    assert not loop.is_slow()


def test_commits_that_take_long_are_slow_and_one_of_them_is_not() -> None:
    loop = Loop()
    loop.commits(ms=1, times=10)
    loop.commits(ms=700, times=2)
    assert not loop.is_slow()
    loop.commits(ms=700, times=1)
    assert loop.is_slow()
    assert loop.answer_time.log_ms == 700
    # Of what nobody has asked the disk for lately nothing is known.
    loop.clock.ns += COMMITS_WINDOW_NS.value
    assert not loop.is_slow()


def test_a_commit_that_hangs_is_slow_before_it_ends() -> None:
    loop = Loop()
    loop.commits(ms=1, times=10)
    loop.answer_time.log_waits_since_ns = loop.clock.ns
    loop.clock.ns += HANGS_NS.value - 1
    assert not loop.is_slow()
    loop.clock.ns += 1
    assert loop.is_slow()


def test_loop_and_log_count_together_and_zero_is_no_bound() -> None:
    loop = Loop()
    loop.wakes(late_ms=300, for_ms=3_000)
    assert not loop.is_slow()
    loop.commits(ms=250, times=5)
    loop.wakes(late_ms=300, for_ms=3_000)
    assert loop.is_slow()
    loop.answer_time.ms_max = 0
    assert not loop.is_slow()
