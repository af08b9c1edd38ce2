"""Planting bugs in a copy of the tree, and running tests there.

The copy is made once; a bug is planted, judged and taken out again.  Compiled files are written
only before the first bug: Python recognises a changed source by size and second, and a bug may
change neither.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutations.mutation import Mutation, MutationError

# A test that hangs with a bug has noticed it.
TEST_SECONDS_MAX: Final = 30
# Of one bug: a test that failed may still hang while it ends, which pytest's own bound lets pass.
# Where the tests take long without a bug, they have longer with one: see ``Tree``.
BUG_SECONDS_MIN: Final = 60
ALL_SECONDS_MAX: Final = 900

# Everything that a process imports must come from the copy it runs in; no installed package may
# take its place.
PROGRAM: Final = """
import pathlib, sys
import crdtstream, pytest
here = pathlib.Path.cwd().resolve()
found = pathlib.Path(crdtstream.__file__).resolve()
if here not in found.parents:
    print(f"crdtstream is imported from {found.parent}, not from the copy in {here}")
    sys.exit(3)

class PropertiesLast:
    # Tests of many drawn examples take longest, and mostly another one fails.

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)

sys.exit(pytest.main(sys.argv[1:], [PropertiesLast()]))
"""


class Outcome(Enum):
    """The outcome of the tests with a bug."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"  # The tests could not be run.


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a run.

    Attributes:
        by: of a killed bug the test that failed first, or that time was over.
        output: what pytest printed.
    """

    outcome: Outcome
    seconds: float
    by: str
    output: str


@contextlib.contextmanager
def copied_tree(root: Path) -> Iterator["Tree"]:
    """A copy of what git knows below ``root``, and of new sources and tests; for a ``with``.

    Raises:
        MutationError: git cannot list the files.
    """
    with TemporaryDirectory(prefix="crdtstream-mutations-") as folder:
        copy = Path(folder).resolve()
        for name in _files_of(root):
            source = root / name
            # What was deleted and not committed is listed as well.
            if source.is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy / name)
        yield Tree(copy)


def _files_of(root: Path) -> list[str]:
    listings = (
        ["git", "ls-files", "-z"],
        ["git", "ls-files", "-z", "--others", "--exclude-standard", "crdtstream", "tests"],
    )
    names: list[str] = []
    for command in listings:
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if listed.returncode:
            raise MutationError(f"{root}: {listed.stderr.strip()}; run this in a clone of git")
        names += filter(None, listed.stdout.split("\0"))
    return names


class Tree:
    """A tree to plant bugs in: a copy, or one that a test made.

    Attributes:
        bug_seconds_max: a bug with which its tests take longer than this is noticed; four times
            what all of them took without one, if that is more than BUG_SECONDS_MIN.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bug_seconds_max = BUG_SECONDS_MIN

    def run_without_bug(self, mutations: Iterable[Mutation]) -> Verdict:
        """All tests that the mutations name, on the tree as it is: SURVIVED is what must come."""
        tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
        verdict = self._run(list(tests), seconds_max=ALL_SECONDS_MAX, writes_compiled=True)
        self.bug_seconds_max = max(BUG_SECONDS_MIN, int(4 * verdict.seconds))
        return verdict

    def judge(self, mutation: Mutation) -> Verdict:
        """Plant a bug, run its tests, and take it out again.

        Raises:
            MutationError: it cannot be planted.
        """
        path = self.folder / mutation.file
        source = path.read_text()
        Path(importlib.util.cache_from_source(path)).unlink(missing_ok=True)
        path.write_text(mutation.planted(source))
        try:
            seconds_max = self.bug_seconds_max
            return self._run(mutation.tests, seconds_max=seconds_max, writes_compiled=False)
        finally:
            path.write_text(source)

    def _run(self, tests: Sequence[str], *, seconds_max: int, writes_compiled: bool) -> Verdict:
        assert tests, "without any pytest would run all there are"
        options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=short", "-m", "not soak"]
        options.append(f"--timeout={TEST_SECONDS_MAX}")
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *options, *tests],
            cwd=self.folder,
            env=self._environment(writes_compiled=writes_compiled),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A group of its own, with all that the tests start.
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            seconds = time.monotonic() - started
            return Verdict(Outcome.KILLED, seconds, f"no end in {seconds_max} s", "")
        finally:
            # Whatever ends this, nothing that was started goes on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds = time.monotonic() - started
        return Verdict(_outcome(process.returncode), seconds, _first_failure(output), output)

    def _environment(self, *, writes_compiled: bool) -> dict[str, str]:
        # What this very program was told, if pytest runs it, is not for the tests.
        kept = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        kept["PYTHONPATH"] = str(self.folder)
        # A wait that a bug makes endless says so before the test's own bound does.
        kept["CRDTSTREAM_PATIENCE"] = "0.4"
        # A property notices a bug with more examples than `make test` draws.
        kept["CRDTSTREAM_EXAMPLES"] = "0.25"
        if not writes_compiled:
            kept["PYTHONDONTWRITEBYTECODE"] = "1"
        return kept


def _outcome(exit_status: int) -> Outcome:
    match exit_status:
        case 0:
            return Outcome.SURVIVED
        case 1:
            return Outcome.KILLED
        case _:
            return Outcome.BROKEN


def _first_failure(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output, re.MULTILINE)
    if found is not None:
        return found.group(1)
    return f"a test took {TEST_SECONDS_MAX} s" if "Timeout" in output else ""
