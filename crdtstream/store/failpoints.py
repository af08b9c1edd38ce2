"""Places where a test, or a rehearsal, makes the disk refuse or the process die.

A step that changes files says so: ``failpoints.reach("checkpoint.commit")``.  In a node nothing
happens then.  ``Armed`` counts how often each step was reached, and acts the n-th time.  The end of
a process is the real one: nothing is flushed, closed or reported.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

from crdtstream.store.errors import StoreError

# In the order in which a node reaches them; a step that does several things has one for each.
STEPS: Final = (
    "checkpoint.begin",
    "checkpoint.put",
    "checkpoint.put-bodies",
    "checkpoint.drop",
    "checkpoint.commit",
    "checkpoint.committed",
    "checkpoint.verify",
    "checkpoint.verified",
    "checkpoint.forget",
    "checkpoint.forget-slice",
    "checkpoint.discard",
    "checkpoint.discard-slice",
    "checkpoint.fetch",
    "checkpoint.load",
    "log.append",
    "log.sync",
    "log.cut",
    "log.cut-slice",
    "log.vacuum",
    "log.take-over",
    "log.move-wal",
    "staging.begin",
    "staging.put",
    "staging.put-done",
    "staging.finish",
    "staging.complete",
    "staging.completed",
    "bootstrap.staged",
    "bootstrap.merge",
    "bootstrap.merged",
    "bootstrap.logged",
    "bootstrap.saved",
    "repair.staged",
    "repair.proved",
    "repair.merged",
    "repair.logged",
    "staging.discard",
    "backup.begin",
    "backup.copy",
    "backup.end",
)
EXIT_STATUS: Final = 86

_FAILPOINT: Final = re.compile(
    r"(?P<step>[a-z.-]+)(?::(?P<at>\d{1,9})(?:-(?P<last>\d{1,9}))?)?(?P<refused> refused)?"
)


class Failpoints:
    """Steps at which nothing happens."""

    def reach(self, step: str) -> None:
        """Say that the step comes next.

        Raises:
            StoreError: a test wants it to fail.
        """


NO_FAILPOINTS: Final = Failpoints()


class Armed(Failpoints):
    """Does something when a step is reached the n-th time, and some times after that.

    Attributes:
        counts: how often each step was reached.
    """

    def __init__(
        self, step: str, then: Callable[[], None], *, at: int = 1, last: int | None = None
    ) -> None:
        """Arm a step.

        Args:
            at: the first time that counts.
            last: the last time that does; None: the first one.
        """
        assert step in STEPS
        assert 1 <= at <= (at if last is None else last)
        self.counts: Counter[str] = Counter()
        self._step, self._then = step, then
        self._at, self._last = at, at if last is None else last

    def reach(self, step: str) -> None:
        assert step in STEPS, step
        self.counts[step] += 1
        if step == self._step and self._at <= self.counts[step] <= self._last:
            self._then()


def refuse() -> None:
    """Be a disk that refuses."""
    raise StoreError("the disk refuses: a failpoint was reached")


def die() -> None:
    """End the process as ``kill -9`` does."""
    os._exit(EXIT_STATUS)


def parse_failpoint(text: str) -> Failpoints:
    """The failpoint that a text names; none for an empty one.

    ::

        checkpoint.put:3          the process dies when it comes to that step for the third time
        log.append:5-9 refused    the disk refuses the fifth to the ninth time

    Raises:
        ValueError: there is no such step, the count is none, or the action is not known.
    """
    if not text:
        return NO_FAILPOINTS
    found = _FAILPOINT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r}: must be STEP, STEP:N or STEP:N-M, and `refused` behind it")
    step, at, last = found["step"], int(found["at"] or 1), found["last"]
    if step not in STEPS:
        raise ValueError(f"{step!r} is no step; there are {', '.join(STEPS)}")
    if not 1 <= at <= int(last or at):
        raise ValueError(f"{text!r}: steps count from 1, and the second number is the greater one")
    then = refuse if found["refused"] else die
    return Armed(step, then, at=at, last=None if last is None else int(last))
