"""Processes that are forked are what a shell would have started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.live.cluster import Cluster
from tests.live.forked import Forked, completed
from tests.patience import seconds, wait_until


@pytest.mark.parametrize(
    "words", [("--version",), ("crdb", "list", "--address", "127.0.0.1:1"), ("crdb", "no-such")]
)
def test_a_command_prints_and_ends_as_in_a_process_of_its_own(words: tuple[str, ...]) -> None:
    forked = completed(["crdtstream", *words])
    own = subprocess.run(
        [sys.executable, "-m", "crdtstream", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(),
    )
    said = own.stderr.replace("python -m crdtstream", "crdtstream")
    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, said)


def test_a_node_has_its_own_environment_and_ends_by_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Cluster(1, tmp_path)[1]
    node.configure({})
    monkeypatch.setenv("CRDTSTREAM_APPENDFSYNC", "no")
    process = Forked(["crdtstream", "node", "--config", str(node.config)], node.log)
    monkeypatch.delenv("CRDTSTREAM_APPENDFSYNC")
    try:
        wait_until(lambda: node.is_serving(for_writes=False), "it serves")
        assert node.client.config_get("appendfsync") == {"appendfsync": "no"}
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
    finally:
        process.kill()
    assert process.wait(seconds()) == process.returncode == -signal.SIGKILL
    node.client.close()


TEST_THAT_IS_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.live.cluster import Cluster

def begin():
    node = Cluster(1, Path(sys.argv[1]))[1]
    node.configure({})
    node.launch("--new-database")
    node.wait()
    print(node.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    begin()
"""


@pytest.mark.long
def test_a_node_ends_with_whoever_was_killed_before_ending_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TEST_THAT_IS_KILLED)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(),
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: not Path(f"/proc/{int(done.stdout)}").exists(), "it is gone")
