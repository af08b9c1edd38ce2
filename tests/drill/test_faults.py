"""Faults begin and end, and what cannot be done is said; without nodes."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crdtstream.drill import faults, rehearsal
from crdtstream.drill.deployment import Deployment, LocalProcesses, UnwellError
from crdtstream.drill.drill import FlappingLinks
from crdtstream.drill.proxies import ProxyError, own_server
from crdtstream.drill.tied import PROGRAM, tied
from tests.conftest import program
from tests.patience import wait_until


class Way:
    """A way that notes what is done to it."""

    def __init__(self, name: str, *, fails: bool = False) -> None:
        self.name = name
        self.fails = fails
        self.done: list[str] = []

    def cut(self) -> None:
        self._do("cut")

    def restore(self) -> None:
        self._do("restore")

    def make_whole(self) -> None:
        self._do("make whole")

    def _do(self, what: str) -> None:
        self.done.append(what)
        if self.fails:
            raise ProxyError("no toxiproxy-server answers")


def deployment_of(*ways: Way) -> Any:
    links = {(1, peer): way for peer, way in enumerate(ways, 2)}
    return Deployment({}, links, {}, {})  # type: ignore[arg-type]


def test_one_way_that_cannot_be_mended_keeps_no_other() -> None:
    ways = [Way("a"), Way("b", fails=True), Way("c")]
    with pytest.raises(ProxyError, match="b: no toxiproxy-server answers"):
        deployment_of(*ways).make_whole()
    assert [way.done for way in ways] == [["make whole"]] * 3


def test_a_herds_way_is_forgotten_with_its_proxy() -> None:
    """Its toxiproxy-server ends before the deployment is mended."""
    kept, herd = Way("kept"), Way("herd", fails=True)
    deployment = Deployment({}, {}, {1: (kept,)}, {})  # type: ignore[dict-item]
    deployment.add_client_way(1, herd)  # type: ignore[arg-type]
    deployment.remove_client_way(1, herd)  # type: ignore[arg-type]
    deployment.make_whole()
    assert (kept.done, herd.done) == (["make whole"], [])


def test_links_that_could_not_flap_are_no_fault_that_was_borne() -> None:
    way = Way("a", fails=True)
    fault = FlappingLinks(do="flapping-links", at=0, down_ms=50, up_ms=50)
    end = faults.begin(fault, deployment_of(way), "drill-1")
    with pytest.raises(ProxyError, match="no toxiproxy-server answers"):
        end()


class Regions:
    """One region whose process has ended, as ``LocalRegions`` tells it."""

    def __init__(self, log: Path) -> None:
        log.write_text("out of memory\n")
        self.regions = [SimpleNamespace(log_tail=log.read_text, data=log.parent)]

    def ended(self) -> dict[int, str]:
        return {1: "killed by signal 9"}


@pytest.mark.parametrize("step", ["freeze", "kill", "stop", "limit_files"])
def test_a_process_that_has_ended_is_not_mistaken_for_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """To the system process 0 is oneself: a drill would freeze, or limit, itself."""

    def reached(*_: object) -> None:
        raise AssertionError("something was sent to process 0")

    monkeypatch.setattr("os.kill", reached)
    monkeypatch.setattr("resource.prlimit", reached)
    processes = LocalProcesses(Regions(tmp_path / "log"))  # type: ignore[arg-type]
    words = (1, 4096) if step == "limit_files" else (1,)
    with pytest.raises(UnwellError, match="region 1 has ended by itself:\nout of memory"):
        getattr(processes, step)(*words)
    # Taking back what nobody has any more is no error.
    processes.thaw(1)
    processes.lift_limit(1)


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A process that has started another one, tied to it; and that one's pid."""
    program(PROGRAM)
    text = (
        "import subprocess, sys, time\n"
        "from crdtstream.drill.tied import tied\n"
        "print(subprocess.Popen(tied(['sleep', '600'])).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        yield process, pid
        process.kill()


def test_programs_of_a_drill_end_with_it_even_if_it_is_killed(
    starter: tuple["subprocess.Popen[str]", int],
) -> None:
    process, pid = starter
    wait_until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the program runs")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not is_running(pid), "the program has ended, too")


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_without_setpriv_programs_are_started_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert tied(["sleep", "1"]) == ["sleep", "1"]


def test_errors_of_toxiproxy_are_reported_in_its_words() -> None:
    program("toxiproxy-server")
    with own_server() as server:
        way = server.create("a", "127.0.0.1:1", "127.0.0.1:0")
        with pytest.raises(ProxyError) as refused:
            way.add_toxic("t", "no-such-kind", stream="downstream")
    assert str(refused.value) == "toxiproxy: invalid toxic type"


def test_errors_of_the_system_are_reported_in_words() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "/tmp/plan")
    assert rehearsal.told(error) == "/tmp/plan: No space left on device"
    assert rehearsal.told(OSError(errno.EMFILE, "Too many open files")) == "Too many open files"
    assert rehearsal.told(ProxyError("its port is taken")) == "its port is taken"
