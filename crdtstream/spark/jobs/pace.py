"""When rows are due: at a rate, or as far apart as their times say.

    rate 100           row 0 at 0 s, row 100 at 1 s, …
    speed-up 60        what was written a minute after the first row, a second after it

A clock starts with the first row that is really written: rows that an earlier run has written take
no time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

# Rows due within this are written together.
SLICE_SECONDS: Final = 0.1
# So much is written together while all of it is there already; the first that is not comes early.
KNOWN_SECONDS: Final = 1.0
# A rate is to spare the nodes: after a stop, at most this delay is made up for.
LATE_SECONDS_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class Pacing:
    """Speed of a run.

    Attributes:
        per_second: rows, or milliseconds of the rows' times.
        by_time: it is the latter.
    """

    per_second: float
    by_time: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """Position of a task in a run.

    Attributes:
        pacing: None: as fast as possible.
        anchor: a moment, in seconds since 1970, and the value that was due then; None: nothing was
            written yet.
        rows_before: number of the run's rows before this task's.
    """

    pacing: Pacing | None
    anchor: tuple[float, float] | None
    rows_before: int

    def started(self) -> "Clock":
        return Clock(self)


class Part(NamedTuple):
    """Rows to write together: ``value`` of the first says when it is due."""

    start: int
    stop: int
    value: float


class Clock:
    """Tells a task when to write."""

    def __init__(self, pace: Pace) -> None:
        self.pacing = pace.pacing
        self.anchor = pace.anchor
        self.row = pace.rows_before
        self.slice_seconds = SLICE_SECONDS

    @property
    def is_running(self) -> bool:
        """True if the clock runs, or is never needed as nothing is paced."""
        return self.pacing is None or self.anchor is not None

    def note(self, value: float, *, is_new: bool) -> None:
        """While the clock does not run: the row due at ``value`` was written now, or before."""
        if is_new:
            self.anchor = (time.time(), value)
        self.slice_seconds = SLICE_SECONDS if is_new else KNOWN_SECONDS

    def wait(self, value: float) -> None:
        """Until ``value`` is due."""
        if self.pacing is None or self.anchor is None:
            return
        moment, at = self.anchor
        seconds = moment + (value - at) / self.pacing.per_second - time.time()
        if seconds > 0:
            time.sleep(seconds)
        elif not self.pacing.by_time and -seconds > LATE_SECONDS_MAX:
            self.anchor = (moment - seconds - LATE_SECONDS_MAX, at)


def slices(ms: pa.Int64Array, clock: Clock) -> Iterator[Part]:
    """A batch's rows in parts due at about one time; in one part, where nothing is paced."""
    rows = len(ms)
    if clock.pacing is None:
        yield Part(0, rows, 0.0)
        return
    first_row = clock.row
    clock.row += rows
    if clock.pacing.by_time:
        # Without a number are only those of the far future, which are last.
        values = ms.fill_null(np.iinfo(np.int64).max).to_numpy().astype(np.float64)
    else:
        values = np.arange(first_row, first_row + rows, dtype=np.float64)
    start = 0
    while start < rows:
        step = clock.pacing.per_second * clock.slice_seconds
        stop = min(max(int(np.searchsorted(values, values[start] + step)), start + 1), rows)
        yield Part(start, stop, float(values[start]))
        start = stop
