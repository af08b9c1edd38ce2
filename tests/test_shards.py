"""Shards of long tests: a change runs those that it concerns, and no long test is in none."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.programs import module_at

pytestmark = [pytest.mark.live, pytest.mark.house]


@pytest.fixture(scope="module")
def shards() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        # As a program of the folder, it imports its neighbour.
        patch.syspath_prepend(ROOT / "tools")
        return module_at(ROOT / "tools" / "shards.py")


def concerned(shards: Any, *touched: str) -> set[str]:
    return {shard.name for shard in shards.SHARDS if shards.concerns(touched, shard)}


def test_a_change_concerns_the_shards_that_depend_on_its_files(shards: Any) -> None:
    names = {shard.name for shard in shards.SHARDS}
    assert concerned(shards, "README.md") == set()
    assert concerned(shards, "tests/spark/test_cli.py") == {
        *("spark-1", "spark-2", "spark-oldest"),
        *("drills", "others", "examples"),
    }
    assert concerned(shards, "crdtstream/core/replica.py") == names
    assert concerned(shards, "requirements.lock") == names
    # A folder, and not what begins with its name.
    assert concerned(shards, "crdtstream_other/page.py") == set()


def test_every_path_of_a_shard_exists(shards: Any) -> None:
    gone = {
        path
        for shard in shards.SHARDS
        for path in (*shards.ALWAYS, *shard.paths)
        # Not every package has a folder of tests of its own.
        if not (ROOT / path).exists() and not path.startswith("tests/")
    }
    assert gone == set()


def test_every_long_test_is_in_one_shard(shards: Any) -> None:
    """The folders of shards that run `make test-long`, and all that they ignore, are the same."""
    words = {
        shard.name: shard.step.commands[-1][-1].split()
        for shard in shards.SHARDS
        if shard.step.commands[-1][1] == "test-long"
    }
    ignored = {
        word.removeprefix("--ignore=") for word in words.pop("others") if word.startswith("--ig")
    }
    named: dict[str, list[str]] = {}
    for name, own in words.items():
        part = own[own.index("--part") + 1] if "--part" in own else "1/1"
        for word in own:
            if word.startswith("tests/"):
                named.setdefault(word, []).append(part)
        assert f"--junitxml=ci-report/{name}.xml" in own[0]
    assert named.keys() == ignored
    for parts in named.values():
        count = len(parts)
        assert parts == [f"{number}/{count}" for number in range(1, count + 1)]


def test_parts_have_each_file_once() -> None:
    def collected(*words: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/page", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    parts = [collected("--part", f"{number}/2") for number in (1, 2)]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == sorted(collected())


def test_the_hash_follows_the_files_of_a_shard(shards: Any, tmp_path: Path) -> None:
    subprocess.run(["/usr/bin/env", "git", "init", "--quiet", tmp_path], check=True)
    for name in ("one", "two"):
        (tmp_path / name).write_text("first")
    subprocess.run(["/usr/bin/env", "git", "add", "."], cwd=tmp_path, check=True)
    found = shards.hash_of(tmp_path, ["one"])
    (tmp_path / "two").write_text("second")
    assert shards.hash_of(tmp_path, ["one"]) == found
    (tmp_path / "one").write_text("second")
    assert shards.hash_of(tmp_path, ["one"]) != found


@pytest.mark.parametrize(
    ("passed", "files", "expected"), [(True, "", True), (False, "", False), (True, "other", False)]
)
def test_a_shard_that_passed_with_the_same_files_does_not_run_again(
    shards: Any, tmp_path: Path, passed: bool, files: str, expected: bool
) -> None:
    subprocess.run(["/usr/bin/env", "git", "init", "--quiet", tmp_path], check=True)
    shard = shards.SHARDS[0]
    assert not shards.has_passed(tmp_path, shard)
    report = tmp_path / "ci-report" / f"long-{shard.name}.json"
    report.parent.mkdir()
    found = files or shards.hash_of(tmp_path, [*shards.ALWAYS, *shard.paths])
    report.write_text(json.dumps({"passed": passed, "files": found}))
    assert shards.has_passed(tmp_path, shard) is expected


def test_durations_are_those_of_the_last_run_of_each_test(shards: Any, tmp_path: Path) -> None:
    report = tmp_path / "ci-report" / "drills.xml"
    report.parent.mkdir()
    case = '<testcase classname="tests.test_one" name="{}" time="{}">{}</testcase>'
    cases = [
        case.format("test_new[a b]", 1.26, ""),
        case.format("test_known", 2.5, ""),
        case.format("test_skipped", 0, '<skipped type="pytest.skip"/>'),
        case.format("test_failed", 0.1, "<failure/>"),
    ]
    report.write_text(f"<testsuites>{''.join(cases)}</testsuites>")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").touch()
    durations = tmp_path / shards.DURATIONS
    durations.write_text(
        "9.0 tests/test_one.py::test_failed\n"
        "9.0 tests/test_one.py::test_known\n"
        "9.0 tests/test_gone.py::test_gone\n"
    )
    shards.write_durations(tmp_path)
    assert durations.read_text() == (
        "9.0 tests/test_one.py::test_failed\n"
        "2.5 tests/test_one.py::test_known\n"
        "1.3 tests/test_one.py::test_new[a b]\n"
    )


def test_words_for_make_are_not_handed_on_to_the_makes_of_shards(
    shards: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``make long ARGS=--all`` handed ``--all`` on to the tests of other Pythons."""
    makefile = tmp_path / "Makefile"
    makefile.write_text('inner:\n\ttest -z "$(ARGS)"\n')
    step = shards.Step("inner", 13, (("make", "--file", str(makefile), "inner"),))
    monkeypatch.setattr(shards, "SHARDS", (shards.Shard(step, ("README.md",)),))
    monkeypatch.setattr(shards.gate, "PROGRAMS", shards.Step("programs", 75, (("true",),)))
    monkeypatch.setattr(shards, "_write_report", lambda _shard, _outcome: None)
    monkeypatch.setattr(sys, "argv", ["shards.py", "inner"])
    for name, value in (("ARGS", "--all"), ("MAKEFLAGS", " -- ARGS=--all")):
        monkeypatch.setenv(name, value)
    assert shards.main() == 0
