"""The assignment of tests to workers of pytest-xdist, and their order.

A file of tests goes to one worker, so that what its tests share is made once.  All files that want
Spark go to the same worker: they share one session, whose start takes long.  What takes longest
begins first, so that no worker is left with it at the end.

A worker may die: a test ends its process, or takes longer than its bound.  The test that it ran is
reported as failed and does not run again.  The rest of its file runs in another worker, and the run
ends as it would have.
"""

import contextlib
import importlib
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parent.parent
# How a test asks for the session of a run (tests/spark/conftest.py).
SESSION = 'spark: "SparkSession"'
# Folders and files, what takes longest first; all others come behind them.
FIRST = (
    "tests/spark/test_kills.py",
    "tests/spark/test_cluster.py",
    "tests/live",
    "tests/cli",
    "tests/scenario",
    "tests/spark",
    "tests/query",
    "tests/rules",
)


TWELFTH_SECONDS_MAX = 10.0


class _Dealing(LoadScopeScheduling):
    """Files in the order in which they were collected.

    A unit is one file's tests, each with whether it has ended.  A worker holds its last test back
    until it knows the next one, or that none follows.  So a worker with less than two pending tests
    gets more, or is told to end; else it would wait for ever, and the run with it.

    xdist 3.8 keeps this rule while no worker dies.  The methods below keep it also then.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "spark" if wants_spark(Path(file)) else file

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker has ended.  If it died, its pending tests wait for another worker.

        xdist puts all units of a dead worker back: also those that have ended, which leave whoever
        gets them without a test, and also the test that killed it, which would kill the next.

        Returns:
            The test that it ran when it died; None: it had no pending test.
        """
        units: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        if self.collection is None:
            # It shall not be counted among those that are about to get their first tests.
            self.registered_collections.pop(node, None)
        # Tests run in the order in which they stand here.
        pending = [
            (scope, nodeid)
            for scope, unit in units.items()
            for nodeid, has_ended in unit.items()
            if not has_ended
        ]
        if not pending:
            return None
        (_, crashed), *rest = pending
        # In front of all others: what takes longest was dealt out first.
        for scope, nodeid in reversed(rest):
            self.workqueue[scope] = {nodeid: False} | self.workqueue.get(scope, {})
            self.workqueue.move_to_end(scope, last=False)
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Deals a unit out; ``remove_node`` takes it back from a worker that has died unheard."""
        with contextlib.suppress(OSError):
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Gives a worker its next unit, if it is about to need one; ends it, if none is left."""
        if node not in self.registered_collections:
            # It takes a dead worker's place and still collects.  It is asked again after that.
            return
        super()._reschedule(node)
        # The first unit of a new worker may be a single test.
        while self._pending_of(self.assigned_work[node]) < 2 and not node.shutting_down:
            super()._reschedule(node)


def scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Deals out files, if that is asked for (``--dist loadfile``); else xdist's own scheduler."""
    return _Dealing(config, log) if config.getoption("dist") == "loadfile" else None


def import_own_share(files: Iterable[Path], worker: int, workers: int) -> None:
    """Import a worker's share of the files, before it collects all of them.

    All workers collect the same files.  Where none was compiled yet, each would compile all of
    them, as they go through them side by side.  So each compiles a share of its own first, and
    finds the others' bytecode afterwards.

    Args:
        files: modules of tests, with paths that begin at the root.
    """
    for file in sorted(files)[worker::workers]:
        # A file that cannot be imported is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.with_suffix("").parts))


def twelfth(seconds: Mapping[str, float], tree: str) -> set[str]:
    """A twelfth of the tests that take few seconds; another one for each tree.

    Args:
        seconds: by node ID.
        tree: the name that git gives the tree, in hexadecimal.
    """
    number = int(tree, 16) % 12
    return {
        test
        for test, duration in seconds.items()
        if duration <= TWELFTH_SECONDS_MAX and zlib.crc32(test.encode()) % 12 == number
    }


@cache
def wants_spark(file: Path) -> bool:
    """True if tests of a file, whose path begins at the root, share the session."""
    return file.parts[:2] == ("tests", "spark") and SESSION in (ROOT / file).read_text()


@cache
def rank(file: Path) -> int:
    """Place of a file in the order; the session's files are one group, and the first."""
    if wants_spark(file):
        return -1
    name = file.as_posix()
    places = (at for at, first in enumerate(FIRST) if name == first or name.startswith(f"{first}/"))
    return min(places, default=len(FIRST))
