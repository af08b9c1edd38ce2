"""The gate refuses a change for a test that fails, and only reports one that fails now and then.

Each test runs a step of the gate on a small folder of tests of its own, with a real pytest.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.programs import module_at

pytestmark = [pytest.mark.live, pytest.mark.house]

gate = module_at(ROOT / "tools" / "gate.py")

FAILS = "def test_fails():\n    assert False\n"
# It fails each second time, beginning with the first.
ALTERNATES = """
from pathlib import Path

def test_alternates():
    count = Path(__file__).with_suffix(".count")
    runs = len(count.read_text()) if count.exists() else 0
    count.write_text("x" * (runs + 1))
    assert runs % 2 == 1
"""
# It fails once: on a machine that was busy, say.
FAILS_ONCE = ALTERNATES.replace("runs % 2 == 1", "runs > 0").replace("alternates", "fails_once")
PASSES = "def test_passes():\n    pass\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose environment is ours, without plugins and settings of another run."""
    (tmp_path / "ci-report").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    python = tmp_path / gate.PYTHON
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # A machine that is always quiet.
    monkeypatch.setattr(gate, "PRESSURE", tmp_path / "no pressure")
    return tmp_path


def run(tree: Path, **files: str) -> Any:
    """A step whose tests are these files."""
    for name, text in files.items():
        (tree / f"test_{name}.py").write_text(text)
    report = "ci-report/step.xml"
    pytest_run = (gate.PYTHON, "-m", "pytest", "-q", f"--junitxml={report}")
    return gate.run_step(tree, gate.Step("step", 18, (pytest_run,), report))


def last_lines(outcome: Any) -> list[str]:
    return list(gate.summary([outcome]))


def test_a_step_passes_if_all_its_tests_do(tree: Path) -> None:
    outcome = run(tree, one=PASSES, two=PASSES)
    assert outcome.reason is None
    assert last_lines(outcome)[-1] == "2 passed, 0 failed, 0 skipped"


def test_a_test_that_fails_is_refused_by_name(tree: Path) -> None:
    outcome = run(tree, one=PASSES, two=FAILS)
    assert outcome.reason is not None
    assert outcome.status == 18
    assert list(outcome.failed) == ["test_two.py::test_fails"]
    lines = last_lines(outcome)
    assert "FAILED test_two.py::test_fails" in lines
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_test_that_fails_once_is_reported_as_flaky(tree: Path) -> None:
    outcome = run(tree, one=PASSES, two=FAILS_ONCE)
    assert outcome.reason is None
    assert outcome.status == 0
    assert list(outcome.flaky) == ["test_two.py::test_fails_once"]
    lines = last_lines(outcome)
    assert any(line.startswith("FLAKY 1: ") for line in lines)
    assert "  flaky in step: test_two.py::test_fails_once" in lines
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"


def test_a_test_that_fails_again_in_one_of_its_repeats_is_refused(tree: Path) -> None:
    outcome = run(tree, one=ALTERNATES)
    assert list(outcome.failed) == ["test_one.py::test_alternates"]
    assert outcome.status == 18


def test_a_flaky_test_does_not_excuse_one_that_fails(tree: Path) -> None:
    outcome = run(tree, one=FAILS_ONCE, two=FAILS)
    assert outcome.reason is not None
    assert list(outcome.failed) == ["test_two.py::test_fails"]
    assert list(outcome.flaky) == ["test_one.py::test_fails_once"]


def test_many_failures_are_refused_without_repeats(tree: Path) -> None:
    files = {f"f{number}": FAILS_ONCE for number in range(gate.FLAKY_MAX + 1)}
    outcome = run(tree, **files)
    assert len(outcome.failed) == gate.FLAKY_MAX + 1
    assert {path.read_text() for path in tree.glob("*.count")} == {"x"}


def test_a_file_that_cannot_be_collected_is_refused(tree: Path) -> None:
    outcome = run(tree, one=PASSES, two="import nothing_of_this_name\n")
    assert list(outcome.failed) == ["test_two.py"]


def test_a_command_that_fails_before_its_tests_is_refused(tree: Path) -> None:
    report = "ci-report/step.xml"
    (tree / report).write_text("<testsuites/>")
    outcome = gate.run_step(tree, gate.Step("step", 12, (("false",), ("true",)), report))
    assert outcome.reason == "`false` exited with 1"
    assert outcome.status == 12
    # That one was of an earlier run.
    assert outcome.report is None


def test_skipped_tests_are_listed_by_node_id(tree: Path) -> None:
    skips = """
import pytest

class TestOne:
    @pytest.mark.parametrize("value", ["a b", "c"])
    @pytest.mark.skip(reason="missing")
    def test_skipped(self, value):
        pass

@pytest.mark.xfail(strict=True)
def test_expected():
    assert False
"""
    whole = "import pytest\npytest.skip('missing', allow_module_level=True)\n"
    outcome = run(tree, one=skips, two=whole, three=PASSES)
    assert outcome.report is not None
    assert sorted(outcome.report.skipped) == [
        "test_one.py::TestOne::test_skipped[a b]",
        "test_one.py::TestOne::test_skipped[c]",
        "test_two.py",
    ]


def test_a_download_that_fails_each_time_has_its_own_status(tree: Path) -> None:
    again = ROOT / "tools" / "again.sh"
    (tree / "Makefile").write_text(f"install:\n\t{again} sh -c 'echo x >> tries; exit 1'\n")
    (tree / "sleep").write_text("#!/bin/sh\n")
    (tree / "sleep").chmod(0o755)
    runner = ("env", f"PATH={tree}:/usr/bin:/bin")
    outcome = gate.run_step(tree, gate.Step("step", 12, (("make", "install"),), runner=runner))
    assert outcome.status == gate.UNREACHABLE
    assert (tree / "tries").read_text() == "x\n" * 3


def test_a_download_that_succeeds_at_last_is_none(tree: Path) -> None:
    again = ROOT / "tools" / "again.sh"
    script = "echo x >> tries; [ $(wc -l < tries) = 2 ]"
    (tree / "sleep").write_text("#!/bin/sh\n")
    (tree / "sleep").chmod(0o755)
    environment = {"PATH": f"{tree}:/usr/bin:/bin"}
    subprocess.run([again, "sh", "-c", script], cwd=tree, env=environment, check=True)
    assert (tree / "tries").read_text() == "x\n" * 2


def test_each_step_has_a_status_of_its_own() -> None:
    for steps in (gate.GATE, gate.LONG):
        statuses = [step.status for step in steps]
        assert len(set(statuses)) == len(statuses)
        assert not {0, 1, 2} & set(statuses)
