"""What all tests share: the programs they drive, free ports, seeds.

A test that needs a program which is missing here is skipped, and the reason names the program.
With CRDTSTREAM_REQUIRE_ALL=1, as CI sets it, it fails instead: there nothing goes untested.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, and nothing of the rule it proves.
settings.register_profile(
    "untimed", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"

# Below the range from which the system takes ports for outgoing connections.
_PORTS_FIRST, _PORTS_LAST, _PORTS_STEP = 10_000, 29_000, 50


def require(available: bool, reason: str) -> None:
    """Goes on if ``available``; else skips the test, or fails it where all is required."""
    if available:
        return
    if os.environ.get("CRDTSTREAM_REQUIRE_ALL") == "1":
        pytest.fail(f"required here: {reason}", pytrace=False)
    pytest.skip(reason)


def find_program(name: str) -> Path | None:
    """Where a program is: in our own folders first, then wherever the system has it."""
    ours = (VENV / "bin" / name, ROOT / ".tools" / name / "bin" / name)
    for path in ours:
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def program(name: str, *, hint: str = "") -> Path:
    """The path of a program; skips or fails the test, as ``require`` does, if it is missing.

    Args:
        name: as it is called, e.g. toxiproxy-server, redis-cli, iredis, redis-benchmark.
        hint: how to get it, where `make tools` or apt does not tell.
    """
    path = find_program(name)
    require(path is not None, f"{name} is missing: {hint or _HINTS.get(name, 'install it')}")
    assert path is not None
    return path


_HINTS = {
    "toxiproxy-server": "run `make tools` (wants Go)",
    "iredis": "run `make tools`",
    "redis-cli": "apt-get install redis-tools",
    "redis-benchmark": "apt-get install redis-tools",
    "redis-server": "apt-get install redis-server",
}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _base_ports() -> Iterator[int]:
    """Base ports that this process has not handed out yet.

    Workers of one run never meet: theirs differ modulo the step between RESP, gRPC and HTTP ports.
    Two runs at once seldom do: each begins with another remainder.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    slots = 1000 // _PORTS_STEP
    slot = (crc32(run.encode()) + worker) % slots
    own = range(_PORTS_FIRST + slot * _PORTS_STEP, _PORTS_LAST - 2 * 1000, slots * _PORTS_STEP)
    for step in count(os.getpid()):
        yield own[step % len(own)]


_BASES = _base_ports()


def free_base_port(regions: int = 3) -> int:
    """A P for which P+r, P+1000+r and P+2000+r are free, r from 1 to ``regions`` (at most 20)."""
    assert 1 <= regions <= 20
    for _ in range(1000):
        base = next(_BASES)
        numbers = range(1, regions + 1)
        if all(_is_free(base + shift + r) for shift in (0, 1000, 2000) for r in numbers):
            return base
    raise AssertionError("no free ports")


@pytest.fixture
def base_port() -> int:
    """See ``free_base_port``."""
    return free_base_port()
