"""`.ci/plain-path`: a PATH as on a machine where nobody has installed what tests use besides."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.live


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
    first = put(tmp_path / "first one", "redis-server", "redis-cli", "neighbour")
    second = put(tmp_path / "second", "nats-server", "java", "gcc")
    found = plain(tmp_path, first, second)
    for name in ("redis-server", "redis-cli", "redis-benchmark", "nats-server", "java", "gcc"):
        assert shutil.which(name, path=found) is None
    neighbour = shutil.which("neighbour", path=found)
    assert neighbour is not None
    assert Path(neighbour).resolve() == tmp_path / "first one" / "neighbour"
    for name in ("bash", "git", "make", "python3"):
        assert (shutil.which(name) is None) == (shutil.which(name, path=found) is None)


def test_a_folder_without_such_a_program_stays_itself(tmp_path: Path) -> None:
    own = put(tmp_path / "own", "neighbour")
    assert plain(tmp_path, own).split(os.pathsep)[0] == own
