"""Waits of tests: this module alone says how long they are, and a busy machine gets more time.

No test asserts such a time: a wait that succeeds ends at once.  CRDTSTREAM_PATIENCE=3 makes each
three times as long as on a quiet machine, however busy this one is.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

# For an answer, for a node that starts, for regions that become equal.
SECONDS: Final = 60.0
# For a program that does much, as a job of Spark.
LONG: Final = 300.0
# A wait looks this often before it gives up: where the machine had no time for the test, its
# seconds are over after a few looks.
LOOKS: Final = 50
FACTOR_MAX: Final = 6.0
PAUSE_SECONDS: Final = 0.005
HELD: Final = "the condition held"
_PRESSURE: Final = Path("/proc/pressure/cpu")


def seconds(base: float = SECONDS) -> float:
    """The seconds of a wait that cannot look, such as ``recv`` or ``process.wait``."""
    return base * factor()


def exactly(number: float) -> float:
    """A time that a test is about, as a bound of the product: no machine makes it longer."""
    return number


def factor() -> float:
    """Factor of all waits: 1 on a quiet machine."""
    given = os.environ.get("CRDTSTREAM_PATIENCE")
    if given:
        return float(given)
    try:
        return factor_under(_PRESSURE.read_text())
    except OSError:
        return 1.0


def factor_under(pressure: str) -> float:
    """The factor from the kernel's text on the processors: ``some avg10=50.00 ...`` is 2.

    Half of the last ten seconds, some process could not run: what takes a second took two.
    """
    share = float(pressure.split("avg10=", 1)[1].split()[0]) / 100
    return min(1 / (1 - share), FACTOR_MAX) if share < 1 else FACTOR_MAX


def looks(base: float = SECONDS, clock: Callable[[], float] = time.monotonic) -> Iterator[bool]:
    """One for each look of a wait; true: it is the last.

    The last one begins when both the seconds and the number of looks are used up.
    """
    began, count, is_last = clock(), 0, False
    while not is_last:
        count += 1
        is_last = count > LOOKS and clock() - began >= seconds(base)
        yield is_last


def wait_until(condition: Callable[[], object], what: str = HELD, *, base: float = SECONDS) -> None:
    """Wait until the condition holds; says what did not happen if it never does."""
    for is_last in looks(base):
        if condition():
            return
        assert not is_last, f"never: {what}"
        time.sleep(PAUSE_SECONDS)


async def until(
    condition: Callable[[], object], what: str = HELD, *, base: float = SECONDS
) -> None:
    """The same on an event loop, which goes on meanwhile."""
    for is_last in looks(base):
        if condition():
            return
        assert not is_last, f"never: {what}"
        await asyncio.sleep(PAUSE_SECONDS)
