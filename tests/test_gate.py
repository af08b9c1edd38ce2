"""The gate refuses a change for a test that fails, and only reports one that fails now and then.

Each test runs a step of the gate on a small folder of tests of its own, with a real pytest.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def run(tree: Path, *, touched: str = "", **files: str) -> Any:
    """A step whose tests are these files, of a change that touches one."""
    for name, text in files.items():
        (tree / f"test_{name}.py").write_text(text)
    report = "ci-report/step.xml"
    pytest_run = (gate.PYTHON, "-m", "pytest", "-q", f"--junitxml={report}")
    return gate.run_step(tree, gate.Step("step", 18, (pytest_run,), report), frozenset({touched}))


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
    told = "  flaky in step: test_two.py::test_fails_once"
    assert f"{told} (mend it, or list it in tests/flaky.toml)" in lines
    assert f"{told} (listed in tests/flaky.toml)" in gate.summary(
        [outcome], known={"test_two.py::test_fails_once"}
    )
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"


def test_repeats_wait_longer(tree: Path) -> None:
    patient = "import os\n\ndef test_patient():\n    assert 'CRDTSTREAM_PATIENCE' in os.environ\n"
    assert list(run(tree, one=patient).flaky) == ["test_one.py::test_patient"]


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


def test_a_test_that_the_change_touches_has_no_second_try(tree: Path) -> None:
    outcome = run(tree, touched="test_one.py", one=FAILS_ONCE)
    assert list(outcome.failed) == ["test_one.py::test_fails_once"]
    assert (tree / "test_one.count").read_text() == "x"


def test_a_property_has_no_second_try(tree: Path) -> None:
    """Its examples are the same, so another run says nothing new; the conftest notes it."""
    (tree / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        item.user_properties.append(('no second try', '1'))\n"
    )
    outcome = run(tree, one=FAILS_ONCE)
    assert list(outcome.failed) == ["test_one.py::test_fails_once"]
    assert (tree / "test_one.count").read_text() == "x"


@given(st.integers())
def test_reports_tell_properties_from_other_tests(
    request: pytest.FixtureRequest, number: int
) -> None:
    del number
    assert ("no second try", "1") in request.node.user_properties


@pytest.mark.drawn
def test_reports_tell_tests_that_draw_their_inputs(request: pytest.FixtureRequest) -> None:
    assert ("no second try", "1") in request.node.user_properties


def test_others_have_a_second_try(request: pytest.FixtureRequest) -> None:
    assert not request.node.user_properties


def test_a_worker_that_dies_fails_the_test_that_it_ran(tree: Path) -> None:
    (tree / "test_one.py").write_text("import os\ndef test_dies():\n    os._exit(3)\n" + PASSES)
    report = "ci-report/step.xml"
    words = ("-p", "xdist.plugin", "-n", "2", f"--junitxml={report}")
    command = (gate.PYTHON, "-m", "pytest", "-q", *words)
    outcome = gate.run_step(tree, gate.Step("step", 18, (command,), report))
    assert list(outcome.failed) == ["test_one.py::test_dies"]
    assert outcome.report.count == 2


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


# --- Known flaky tests ----------------------------------------------------------------------------

ENTRIES_MAX = 5
DAYS_MAX = 14


def commit_seconds(tree: Path, commit: str) -> int:
    """When a commit was made, in seconds since 1970."""
    words = ("/usr/bin/env", "git", "log", "-1", "--format=%ct", commit)
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=True)
    return int(done.stdout)


def check_known(tree: Path) -> None:
    """See that few flaky tests are known, each of them for a short time."""
    entries = gate.known_flaky(tree)
    assert len(entries) <= ENTRIES_MAX
    for entry in entries:
        assert entry.keys() == {"test", "since", "reason"}
        file, _, name = entry["test"].partition("::")
        assert f"def {name.partition('[')[0]}(" in (tree / file).read_text()
        assert entry["reason"]
        age = commit_seconds(tree, "HEAD") - commit_seconds(tree, entry["since"])
        assert age <= DAYS_MAX * 86_400, (
            f"mend {entry['test']}: it is flaky for {age // 86_400} days"
        )


def test_few_flaky_tests_are_known_and_none_for_long() -> None:
    check_known(ROOT)


def test_a_test_that_is_flaky_for_long_is_found(tree: Path) -> None:
    def commit(name: str, *, day: int) -> None:
        when = f"{day * 86_400} +0000"
        who = ("-c", "user.name=x", "-c", "user.email=x")
        environment = {"PATH": "/usr/bin:/bin", "GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when}
        for words in (("add", "."), (*who, "commit", "--allow-empty", "--message", name)):
            command = ["/usr/bin/env", "git", *words]
            subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)

    subprocess.run(["/usr/bin/env", "git", "init", "--quiet"], cwd=tree, check=True)
    (tree / "test_one.py").write_text(FAILS_ONCE)
    (tree / "tests").mkdir()
    commit("first", day=20_000)
    words = ("/usr/bin/env", "git", "rev-parse", "HEAD")
    since = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=True).stdout
    entry = f'[[flaky]]\ntest = "test_one.py::test_fails_once"\nsince = "{since.strip()}"\n'
    (tree / gate.KNOWN).write_text(f'{entry}reason = "x"\n')
    commit("second", day=20_014)
    check_known(tree)
    commit("third", day=20_015)
    with pytest.raises(AssertionError, match="flaky for 15 days"):
        check_known(tree)


# --- Stress ---------------------------------------------------------------------------------------

LIVE = """
import pytest

@pytest.mark.live
def test_live():
    with open({journal!r}, "a") as journal:
        journal.write("x")
    {body}
"""


def under_stress(tree: Path, body: str, *touched: str) -> tuple[Any, str]:
    """The outcome for one live test, and a letter for each time that it ran."""
    journal = tree / "journal"
    journal.touch()
    (tree / "tests").mkdir()
    (tree / "tests" / "test_live.py").write_text(LIVE.format(journal=str(journal), body=body))
    marks = "\n".join(f"    {name}: x" for name in ("live", "long", "soak", "house"))
    (tree / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{marks}\n")
    return gate.stress(tree, frozenset(touched)), journal.read_text()


def test_live_tests_in_touched_files_run_five_times_under_load(tree: Path) -> None:
    outcome, ran = under_stress(tree, "pass", "tests/test_live.py", "tests/test_gone.py", "a.py")
    assert outcome.reason is None
    assert ran == "xxxxx"


def test_a_live_test_that_fails_once_under_load_is_refused(tree: Path) -> None:
    outcome, ran = under_stress(
        tree, f"assert open({str(tree / 'journal')!r}).read() != 'xxx'", "tests/test_live.py"
    )
    assert outcome.status == gate.STRESS.status
    assert ran == "xxx"


def test_stress_ends_with_its_time(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "STRESS_SECONDS_MAX", 3.0)
    outcome, ran = under_stress(tree, "import time; time.sleep(60)", "tests/test_live.py")
    assert outcome.reason is None
    # On a busy machine not even the first one began.
    assert ran in {"", "x"}


def test_live_tests_that_were_not_touched_do_not_run_under_load(tree: Path) -> None:
    outcome, ran = under_stress(tree, "assert False", "tests/conftest.py", "docs/page.md")
    assert (outcome.reason, ran) == (None, "")


def test_touched_files_are_those_since_the_target(tree: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True)

    git("init")
    assert gate.touched_files(tree) == frozenset()
    git("add", "pytest.ini")
    git("commit", "--message", "one")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert gate.touched_files(tree) == frozenset()
    (tree / "two").touch()
    git("add", "two")
    git("commit", "--message", "two")
    assert gate.touched_files(tree) == frozenset({"two"})


def test_each_step_has_a_status_of_its_own() -> None:
    statuses = [step.status for step in (*gate.GATE, gate.STRESS)]
    assert len(set(statuses)) == len(statuses)
    assert not {0, 1, 2} & set(statuses)
