"""Patience of tests, with a clock, looks and a pressure that are given: nothing sleeps."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import patience
from tests.patience import LOOKS, exactly, factor_under, looks, seconds, until, wait_until

pytestmark = pytest.mark.house


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet machine, and waits whose pauses take no time."""
    monkeypatch.setenv("CRDTSTREAM_PATIENCE", "1")
    monkeypatch.setattr(patience, "PAUSE_SECONDS", 0)


def clock_of(*seconds: float) -> Callable[[], float]:
    """A clock that says these one after the other, and the last for ever."""
    left = list(seconds)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_many_looks_in_no_time_are_not_enough() -> None:
    one = looks(10, clock_of(0, *[9.9] * LOOKS, 10))
    assert [next(one) for _ in range(2 * LOOKS)] == [False] * 2 * LOOKS
    assert list(one) == [True]


def test_much_time_with_few_looks_is_not_enough() -> None:
    """The machine had no time for the test.  Once both are used up, it looks a last time."""
    assert list(looks(10, clock_of(0, 1e9))) == [False] * LOOKS + [True]


def test_a_wait_ends_with_what_it_waited_for() -> None:
    found = iter([False, 0, "yes"])
    wait_until(lambda: next(found), "a yes")
    assert next(found, None) is None


def test_a_wait_that_fails_says_what_did_not_happen() -> None:
    count = 0

    def never() -> bool:
        nonlocal count
        count += 1
        return False

    with pytest.raises(AssertionError, match="never: pigs fly"):
        wait_until(never, "pigs fly", base=0)
    assert count == LOOKS + 1
    with pytest.raises(AssertionError, match="never: pigs fly"):
        asyncio.run(until(never, "pigs fly", base=0))
    assert count == 2 * (LOOKS + 1)


def test_the_loop_goes_on_while_a_wait_looks() -> None:
    async def run() -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        await until(event.is_set, "the event")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("percent", "factor"), [("0.00", 1), ("50.00", 2), ("80.00", 5), ("97.31", 6), ("100.00", 6)]
)
def test_a_busy_machine_gets_more_time(percent: str, factor: float) -> None:
    text = f"some avg10={percent} avg60=1.00 avg300=2.00 total=3\nfull avg10=99.00 avg60=1.00\n"
    assert factor_under(text) == pytest.approx(factor)


def test_the_environment_decides_where_it_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_PATIENCE", "3")
    assert (seconds(), seconds(exactly(10))) == (3 * patience.SECONDS, 30)
    assert exactly(10) == 10
    monkeypatch.delenv("CRDTSTREAM_PATIENCE")
    assert 1 <= patience.factor() <= patience.FACTOR_MAX


def test_a_machine_without_figures_of_pressure_is_a_quiet_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CRDTSTREAM_PATIENCE")
    monkeypatch.setattr(patience, "_PRESSURE", tmp_path / "none")
    assert patience.factor() == 1
