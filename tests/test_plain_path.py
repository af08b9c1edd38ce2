"""`.ci/plain-path`: a PATH as on a machine where nobody has installed what tests use besides."""

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.live, pytest.mark.house]


def put(folder: Path, *names: str) -> str:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def plain(tmp_path: Path, *folders: str) -> str:
    """The plain one of a PATH that has these folders in front of this machine's own."""
    return subprocess.run(
        [ROOT / ".ci" / "plain-path", tmp_path / "programs"],
        env={"PATH": os.pathsep.join([*folders, os.environ["PATH"]])},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_installed_programs_are_hidden_and_their_neighbours_stay(tmp_path: Path) -> None:
    first = put(tmp_path / "first one", "neighbour", "redis-server", "redis-cli")
    second = put(tmp_path / "second", "nats-server", "java", "gcc")
    found = plain(tmp_path, first, second)
    for name in {"redis-server", "redis-cli", "redis-benchmark", "nats-server", "java", "gcc"}:
        assert shutil.which(name, path=found) is None
    neighbour = shutil.which("neighbour", path=found)
    assert neighbour is not None
    assert Path(neighbour).resolve() == tmp_path / "first one" / "neighbour"
    for name in ("bash", "git", "make", "python3"):
        assert (shutil.which(name) is None) == (shutil.which(name, path=found) is None)


def test_a_folder_without_such_a_program_stays_itself(tmp_path: Path) -> None:
    own = put(tmp_path / "own", "neighbour")
    assert plain(tmp_path, own).split(os.pathsep)[0] == own


def called_by_name(source: str, programs: frozenset[str]) -> list[int]:
    """Lines whose list, tuple or ``run`` begins with the bare name of such a program."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.List | ast.Tuple):
            words = node.elts
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("run", "Popen")):
            words = node.args
        else:
            continue
        if words and isinstance(words[0], ast.Constant) and words[0].value in programs:
            found.append(node.lineno)
    return found


def test_tests_look_for_a_program_before_they_call_it() -> None:
    """So that they are skipped, with a hint, where it is missing: ``program(name)``."""
    hidden = subprocess.run(
        [ROOT / ".ci" / "system-packages", "programs"], check=True, capture_output=True, text=True
    )
    # Our own commands have one that is called `node` as well.
    programs = frozenset(hidden.stdout.split()) - {"node"}
    assert called_by_name('run(["redis-cli", "PING"])', programs) == [1]
    assert called_by_name('run("java", "-version")', programs) == [1]
    assert called_by_name('run([program("redis-cli"), "PING"])', programs) == []
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / "tests").rglob("*.py")
        for line in called_by_name(path.read_text(), programs)
    }
    assert found == set()
