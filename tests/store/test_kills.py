"""A process that dies at any step of a checkpoint or of cutting the log has lost nothing."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(20, id="20"),
        pytest.param(200, id="200", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
def test_killed_at_every_step_nothing_is_lost(tmp_path: Path, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killed", str(tmp_path / "folder"), str(count), "4711"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # A step that some process did not come by three times does not kill it.
    assert int(done.stdout) >= count // 2
