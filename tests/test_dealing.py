"""A worker of pytest-xdist that dies fails one test, and never keeps a run from its end.

Each row is a small folder of tests, dealt out to two workers with the options of `make test`.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import dealing
from tests.conftest import ROOT
from tests.patience import seconds

pytestmark = [pytest.mark.live, pytest.mark.house]
# Only these plugins: others take longer to load than a run does.
PLUGINS = ("-p", "xdist.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider")
# The Makefile's options, with a number of workers of ours.
DEALT = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")

CONFTEST = """
from tests import dealing

def pytest_configure(config):
    config.pluginmanager.register(dealing)
"""
# Each kind of test notes first that it runs.
TEST = """
def test_{name}():
    with open({journal!r}, "a") as journal:
        journal.write({nodeid!r} + "\\n")
    {body}
"""
HEAD = """
import os, threading
with open({imported!r}, "a") as journal:
    journal.write({name!r} + "\\n")
"""
BODIES = {
    "passes": "pass",
    "exits": "os._exit(1)",
    # pytest-timeout's thread ends the process.
    "hangs": "threading.Event().wait()",
}
DIES = frozenset({"exits", "hangs"})
# Tests of one file by their kind, in their order.
File = Sequence[str]
THREE = ("passes",) * 3
RESULTS = frozenset({"PASSED", "FAILED", "ERROR"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Tests of a run, as it reports them.

    Attributes:
        imported: how often each file was imported.
        ran: how often each test began.
        reported: result and test, one for each line of the summary.
    """

    status: int
    imported: Counter[str]
    ran: Counter[str]
    reported: Counter[tuple[str, str]]
    printed: str


def run(
    folder: Path, files: Iterable[File], *options: str, others: Mapping[str, str] | None = None
) -> tuple[Outcome, Mapping[str, str]]:
    """Run these files, and others by name and text; returns with it the kind of each test."""
    journal, imported = folder / "journal", folder / "imported"
    journal.touch()
    imported.touch()
    for other, text in (others or {}).items():
        (folder / other).parent.mkdir(exist_ok=True)
        (folder / other).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\ntimeout = 5\ntimeout_method = thread\n")
    (folder / "conftest.py").write_text(CONFTEST)
    kinds = {}
    for number, file in enumerate(files):
        name = f"test_{number:02}.py"
        text = HEAD.format(imported=str(imported), name=name)
        for at, kind in enumerate(file):
            nodeid = f"{name}::test_{at}"
            kinds[nodeid] = kind
            text += TEST.format(name=at, journal=str(journal), nodeid=nodeid, body=BODIES[kind])
        (folder / name).write_text(text)
    # The run is its own, also where a worker of another run starts it.
    environment = {name: own for name, own in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", *PLUGINS, *DEALT, *options],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=seconds(),
        check=False,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    reported = Counter((words[0], words[1]) for words in lines if words and words[0] in RESULTS)
    ran = Counter(journal.read_text().split())
    begun = Counter(imported.read_text().split())
    return Outcome(done.returncode, begun, ran, reported, done.stdout), kinds


@pytest.mark.parametrize(
    "files",
    [
        # Its worker has ended other files before, which must not be dealt out again.
        pytest.param([THREE] * 6 + [("passes", "exits", "passes")] + [THREE] * 3, id="exits"),
        pytest.param([THREE] * 6 + [("passes", "hangs", "passes")] + [THREE] * 3, id="hangs"),
        pytest.param([("exits", "passes"), *[THREE] * 6], id="the first test"),
        pytest.param([*[THREE] * 6, ("passes", "exits")], id="the last test"),
        pytest.param([("exits",), ("exits",)], id="no other test"),
        pytest.param([THREE, ("exits", "passes", "exits", "passes"), THREE], id="twice in a file"),
        # The other worker has been told to end, and the new one begins with a file of one test.
        pytest.param(
            [("passes",), ("exits", "passes"), ("passes",), ("passes",)], id="a worker alone"
        ),
        pytest.param(
            [("exits", "passes"), ("exits", "passes"), *[("passes",)] * 8], id="both workers"
        ),
    ],
)
def test_a_test_that_ends_its_worker_fails_once_and_all_others_run(
    tmp_path: Path, files: Sequence[File]
) -> None:
    outcome, kinds = run(tmp_path, files)
    assert outcome.status == pytest.ExitCode.TESTS_FAILED, outcome.printed
    assert outcome.ran == Counter(kinds.keys()), outcome.printed
    assert outcome.reported == Counter(
        ("FAILED" if kind in DIES else "PASSED", nodeid) for nodeid, kind in kinds.items()
    )


def test_a_run_whose_workers_die_again_and_again_ends(tmp_path: Path) -> None:
    """xdist replaces four workers for each that it began with, then gives up."""
    outcome, _ = run(tmp_path, [("exits",) * 3] * 6)
    assert outcome.status == pytest.ExitCode.TESTS_FAILED, outcome.printed
    assert "maximum crashed workers reached: 8" in outcome.printed
    assert set(outcome.ran.values()) == {1}


def test_each_file_is_imported_by_one_worker(tmp_path: Path) -> None:
    outcome, kinds = run(tmp_path, [THREE] * 10)
    assert outcome.status == pytest.ExitCode.OK, outcome.printed
    assert outcome.imported == Counter({test.partition("::")[0] for test in kinds})
    assert "[100%]" in outcome.printed


def test_options_choose_among_the_tests_of_files(tmp_path: Path) -> None:
    outcome, kinds = run(tmp_path, [THREE, ("passes",), THREE], "-k", "test_1 or test_2")
    assert outcome.status == pytest.ExitCode.OK, outcome.printed
    assert outcome.ran == Counter(test for test in kinds if not test.endswith("_0"))


def test_a_file_without_a_chosen_test_may_be_the_last_of_its_folder(tmp_path: Path) -> None:
    names = ("a/test_1.py", "a/test_2.py", "b/test_3.py")
    others = {name: f"def test_{name[-4]}(): pass" for name in names}
    outcome, _ = run(tmp_path, [], "-n", "1", "-k", "not test_2", others=others)
    assert outcome.status == pytest.ExitCode.OK, outcome.printed
    assert outcome.reported == Counter(
        [("PASSED", "a/test_1.py::test_1"), ("PASSED", "b/test_3.py::test_3")]
    )


def test_a_test_without_a_bound_may_take_longer_than_that_of_others(tmp_path: Path) -> None:
    text = "import pytest, time\n@pytest.mark.timeout(0)\ndef test_0(): time.sleep(2)"
    outcome, _ = run(tmp_path, [], "--timeout", "1", others={"test_long.py": text})
    assert outcome.status == pytest.ExitCode.OK, outcome.printed


def test_tests_that_are_named_run_alone(tmp_path: Path) -> None:
    names = ("test_00.py::test_2", "test_01.py::test_0")
    outcome, _ = run(tmp_path, [THREE, THREE], *names)
    assert outcome.status == pytest.ExitCode.OK, outcome.printed
    assert outcome.ran == Counter(names)


def test_a_run_without_a_test_says_so(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, [THREE, THREE], "-k", "no_such_test")
    assert outcome.status == pytest.ExitCode.NO_TESTS_COLLECTED, outcome.printed


@pytest.mark.parametrize(
    ("text", "result"), [("import no_such_module", "ERROR"), ("import os; os._exit(1)", "FAILED")]
)
def test_a_file_that_cannot_be_imported_fails_once_and_all_others_run(
    tmp_path: Path, text: str, result: str
) -> None:
    outcome, kinds = run(tmp_path, [THREE] * 4, others={"test_broken.py": text})
    assert outcome.status == pytest.ExitCode.TESTS_FAILED, outcome.printed
    assert outcome.ran == Counter(kinds.keys())
    assert outcome.reported == Counter(
        [*(("PASSED", test) for test in kinds), (result, "test_broken.py")]
    )


class Dead:
    """A worker that has died, of which the run has not heard yet."""

    shutting_down = False

    def send_runtest_some(self, _indices: object) -> None:
        raise OSError("cannot send (already closed?)")

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_file_dealt_to_a_worker_that_died_unheard_is_taken_back() -> None:
    config: Any = SimpleNamespace(
        getvalue=lambda _name: ["popen"], option=SimpleNamespace(loadscopereorder=False)
    )
    dead: Any = Dead()
    scheduling = dealing._Dealing(config)
    tests = [f"tests/test_{file}.py::test_{number}" for file in "ab" for number in range(2)]
    scheduling.add_node(dead)
    scheduling.add_node_collection(dead, tests)
    scheduling.schedule()
    assert scheduling.remove_node(dead) == tests[0]
    assert [test for unit in scheduling.workqueue.values() for test in unit] == tests[1:]


def test_twelve_trees_ask_each_short_test_once() -> None:
    seconds = {f"tests/test_one.py::test[{number}]": number / 10 for number in range(200)}
    parts = [dealing.twelfth(seconds, f"{'ab' * 19}{number:02x}") for number in range(12)]
    assert all(parts)
    assert Counter(test for part in parts for test in part) == {
        test: 1 for test, duration in seconds.items() if duration <= dealing.TWELFTH_SECONDS_MAX
    }
