"""A test that fails before it has closed its log ends pytest with a failure, and not never."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import seconds

ROOT = Path(__file__).resolve().parents[2]
LEAVES_A_LOG = """
from crdtstream.core.ids import RegionId
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog

kept = []


async def test_fails(tmp_path):
    kept.append(
        await SqliteLog.open(
            tmp_path, region=RegionId(1), database_id="crdb", fsync=Fsync.ALWAYS
        )
    )
    raise AssertionError("as it should")
"""


@pytest.mark.long
def test_a_log_that_a_failed_test_left_open_keeps_nobody_waiting(tmp_path: Path) -> None:
    test = tmp_path / "test_leaves_a_log.py"
    test.write_text(LEAVES_A_LOG)
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(test)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(),
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "as it should" in run.stdout
