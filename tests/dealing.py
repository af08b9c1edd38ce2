"""The assignment of tests to workers of pytest-xdist, and their order.

A file of tests goes to one worker, so that what its tests share is made once.  All files that want
Spark go to the same worker: they share one session, whose start takes long.  What takes longest
begins first, so that no worker is left with it at the end.

xdist has each worker collect all tests.  Here a worker finds the names of the files only
(``WholeFile``), and collects a file's tests when the file is dealt to it: no file is imported by
more than one worker.  Where tests are named one by one, xdist's way is taken.

A worker may die: a test ends its process, or takes longer than its bound.  The test that it ran is
reported as failed and does not run again.  The rest of its file runs in another worker, and the run
ends as it would have.  To that end a worker keeps a *journal* of each file: the tests that began.
"""

import contextlib
import gc
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

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
# Ends the name of a whole file.
WHOLE = "::*"
# The name under which a worker gets the folder of the journals, if files are dealt to it whole.
JOURNALS = "journals"
# Tests of a file, before the first file has ended.
FILE_TESTS = 20
TWELFTH_SECONDS_MAX = 3.0


# --- The process that deals -------------------------------------------------------------------


@cache
def _journals() -> tempfile.TemporaryDirectory[str]:
    """The folder of this run's journals; it ends with this process."""
    return tempfile.TemporaryDirectory(prefix="crdtstream-journals-")


def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker where the journals are, if files are dealt to it whole."""
    config = node.config
    if config.getoption("dist") == "loadfile" and not any("::" in arg for arg in config.args):
        node.workerinput[JOURNALS] = _journals().name


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Deals out files, if that is asked for (``--dist loadfile``); else xdist's own scheduler."""
    return _Dealing(config, log) if config.getoption("dist") == "loadfile" else None


class _Dealing(LoadScopeScheduling):
    """Files in the order in which they were collected.

    A unit is one file, or all files that want Spark; each ``WholeFile`` of it, or each test if
    tests are named one by one, with whether it has ended.  A worker holds its last one back until
    it knows the next one, or that none follows.  So a worker with less than two of them pending
    gets more, or is told to end; else it would wait for ever, and the run with it.

    xdist 3.8 keeps this rule while no worker dies.  The methods below keep it also then.
    """

    ended = 0

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "spark" if wants_spark(Path(file)) else file

    def schedule(self) -> None:
        super().schedule()
        self._show_progress()

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        self.ended += 1
        super().mark_test_complete(node, item_index, duration)
        self._show_progress()

    def _show_progress(self) -> None:
        """Have pytest show the part of the files that have ended.

        It divides the tests that were reported by all, whose number is not known before the end.
        """
        if self.collection and self.collection[0].endswith(WHOLE):
            plugins = self.config.pluginmanager
            session: Any = plugins.get_plugin("session")
            terminal: Any = plugins.get_plugin("terminalreporter")
            session.testscollected = (
                terminal.reported_progress * len(self.collection) // self.ended
                if self.ended
                else FILE_TESTS * len(self.collection)
            )

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker has ended.  If it died, its pending tests wait for another worker.

        xdist puts all units of a dead worker back: also those that have ended, which leave whoever
        gets them without a test, and also the test that killed it, which would kill the next.

        Returns:
            The test that it ran when it died, or the file that it was in; None: nothing was
            pending.
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
        if crashed.endswith(WHOLE):
            crashed = crashed.removesuffix(WHOLE)
            running = _running(_journal(_journals().name, crashed))
            if running is not None:
                # The rest of the file.
                crashed, rest = running, pending
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
        # A unit may be a single test.
        while self._pending_of(self.assigned_work[node]) < 2 and not node.shutting_down:
            super()._reschedule(node)


# --- A worker ---------------------------------------------------------------------------------


def _journal(folder: str, file: str) -> Path:
    return Path(folder, f"{zlib.crc32(file.encode()):08x}")


def _running(journal: Path) -> str | None:
    """The test that is not said to have ended."""
    last = journal.read_text().split("\n")[-1] if journal.exists() else ""
    return last or None


class _Unopened(pytest.File):
    """A file of tests that is not imported."""

    def collect(self) -> Iterator[pytest.Item]:
        whole = WholeFile.from_parent(self, name=WHOLE.removeprefix("::"))
        # Each of its tests has its own bound.
        whole.add_marker(pytest.mark.timeout(0))
        yield whole


class WholeFile(pytest.Item):
    """All tests of a file, before they are collected."""

    def run(self, folder: str, following: pytest.Item | None) -> None:
        """Collect the tests, and run those that no worker has begun.

        Args:
            folder: of the journals.
            following: the next item of this worker.
        """
        session = self.session
        journal = _journal(folder, self.nodeid.removesuffix(WHOLE))
        begun = set(journal.read_text().split("\n")) if journal.exists() else set()
        items = [item for item in self._tests() if item.nodeid not in begun]
        if not items:
            # The last test left this file's folder set up; the next test may be of another one.
            session._setupstate.teardown_exact(following)
        at = session.items.index(self)
        with journal.open("a") as notes:
            # A worker that died left the line of its test open.
            notes.write("\n" if begun else "")
            for item, next_item in zip(items, [*items[1:], following], strict=False):
                # xdist names a test by its place here.
                session.items[at] = item
                notes.write(item.nodeid)
                notes.flush()
                item.ihook.pytest_runtest_protocol(item=item, nextitem=next_item)
                notes.write("\n")
                notes.flush()
                if session.shouldfail or session.shouldstop:
                    break
        session.items[at] = self

    def _tests(self) -> list[pytest.Item]:
        """Those that the options choose, in pytest's order.

        Modules and tests stay until the end, so no later collection of garbage looks at them.
        """
        unopened = self.parent
        assert unopened is not None
        gc.collect()
        gc.disable()
        try:
            module = pytest.Module.from_parent(unopened.parent, path=self.path)
            items = list(self.session.genitems(module))
            self.ihook.pytest_collection_modifyitems(
                session=self.session, config=self.config, items=items
            )
        finally:
            gc.freeze()
            gc.enable()
        return items

    def runtest(self) -> None:
        raise AssertionError("its tests run")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    if JOURNALS not in getattr(parent.config, "workerinput", {}):
        return None
    return _Unopened.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Put files in their order; options choose among tests, not among files."""
    files = [item for item in items if isinstance(item, WholeFile)]
    if files:
        items.clear()
    yield
    items += files
    items.sort(key=lambda item: rank(Path(item.nodeid.split("::", 1)[0])))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, WholeFile):
        return None
    worker: Any = item.config
    item.run(worker.workerinput[JOURNALS], nextitem)
    return True


# --- Order ------------------------------------------------------------------------------------


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
