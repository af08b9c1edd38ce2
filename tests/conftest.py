"""Shared by all tests: the programs they drive, the order of tests, free ports, seeds.

A test that needs a program which is missing here is skipped, and the reason names the program.
With CRDTSTREAM_REQUIRE_ALL=1, as CI sets it, it fails instead: there nothing goes untested.
"""

import fcntl
import gc
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings

# Before anything of ours is imported, and for all processes that tests start: the sources are
# tested, also where `make fast` was run; `make test-compiled` says otherwise.
os.environ.setdefault("CRDTSTREAM_PURE", "1")

from crdtstream import compiled
from tests import dealing, leftovers, patience


def examples(count: int) -> int:
    """Number of examples of Hypothesis: all where all is required, else an eighth.

    CRDTSTREAM_EXAMPLES is another part of them, from 0 to 1.
    """
    usual = "1" if os.environ.get("CRDTSTREAM_REQUIRE_ALL") == "1" else "0.125"
    return max(1, int(count * float(os.environ.get("CRDTSTREAM_EXAMPLES", usual))))


def seeds(count: int, *, first: int = 0, few: int) -> list[Any]:
    """Values of a parameter: ``count`` seeds, of which all but ``few`` are for long runs."""
    kept = [*range(first, first + few)]
    return [
        *kept,
        *(pytest.param(at, marks=pytest.mark.long) for at in range(first + few, first + count)),
    ]


# How long an example takes says something of the machine, and nothing of the rule it proves.
_UNTIMED = settings(
    max_examples=examples(100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("untimed", _UNTIMED)
# The same examples in each run, where a new one would refuse a change that has no part in it.
# `make soak` draws others.
settings.register_profile("untimed-same", _UNTIMED, derandomize=True)
_IS_GATE = os.environ.get("CRDTSTREAM_REQUIRE_ALL") == "1" or os.environ.get("CI") == "true"
settings.load_profile("untimed-same" if _IS_GATE else "untimed")

# The first seed of the simulator for tests that draw theirs (tests/sim/drawn.py).  It is drawn
# once in a run: processes that run parts of it inherit the variable.
SIM_FIRST_VARIABLE = "CRDTSTREAM_SIM_FIRST"
SIM_FIRST_MAX = 900_000_000
SIM_FIRST = os.environ.setdefault(SIM_FIRST_VARIABLE, str(secrets.randbelow(SIM_FIRST_MAX)))

ROOT = Path(__file__).resolve().parent.parent
# The environment that runs the tests; there is one for each Python.
VENV = Path(sys.prefix)

# Below the range from which the system takes ports for outgoing connections.  A node's ports are a
# thousand apart.
_PORTS_FIRST, _PORTS_LAST, _PORTS_STEP, _THOUSAND = 10_000, 29_000, 25, 1_000
REGIONS_MAX = 20

# How long each long test took when it last ran: seconds, node ID.  tools/shards.py writes it.
DURATIONS = ROOT / "tests" / "durations.txt"
LIVE_FOLDERS = (ROOT / "tests" / "clients", ROOT / "tests" / "live")
# Some of their tests wait for several things, each as long as tests/patience.py says.
LIVE_SECONDS_MAX = 300


def require(available: bool, reason: str) -> None:
    """Goes on if ``available``; else skips the test, or fails it where all is required."""
    if available:
        return
    if os.environ.get("CRDTSTREAM_REQUIRE_ALL") == "1":
        pytest.fail(f"required here: {reason}", pytrace=False)
    pytest.skip(reason)


def find_program(name: str) -> Path | None:
    """Path of a program: in our own folders first, then in those of the system."""
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
    "chaos": "run `make tools`",
    "chromedriver": "apt-get install chromium-driver",
    "chromium": "apt-get install chromium",
    "helm": "run `make tools`",
    "iredis": "run `make tools`",
    "kubernetes-validate": "run `make tools`",
    "nats-server": "apt-get install nats-server",
    "openssl": "apt-get install openssl",
    "prometheus": "apt-get install prometheus",
    "prometheus-redis-exporter": "apt-get install prometheus-redis-exporter",
    "promtool": "apt-get install prometheus",
    "redis-cli": "apt-get install redis-tools",
    "redis-benchmark": "apt-get install redis-tools",
    "redis-server": "apt-get install redis-server",
}


# --- Who runs what ----------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part",
        metavar="K/N",
        help="run part K of N parts only; the path of a file says to which one its tests belong",
    )
    parser.addoption(
        "--twelfth",
        action="store_true",
        help="run a twelfth of those tests that take few seconds; the commit's tree says which",
    )


def _keep_part(config: pytest.Config, items: list[pytest.Item], part: str) -> None:
    number, _, count = part.partition("/")

    def is_left_out(item: pytest.Item) -> bool:
        name = item.path.relative_to(ROOT).as_posix()
        return zlib.crc32(name.encode()) % int(count) != int(number) - 1

    left_out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if not is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)


def _keep_twelfth(config: pytest.Config, items: list[pytest.Item]) -> None:
    command = ["/usr/bin/env", "git", "rev-parse", "--verify", "HEAD^{tree}"]
    tree = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = (line.partition(" ") for line in DURATIONS.read_text().splitlines())
    kept = dealing.twelfth({test: float(duration) for duration, _, test in lines}, tree)
    left_out = [item for item in items if item.nodeid not in kept]
    items[:] = [item for item in items if item.nodeid in kept]
    config.hook.pytest_deselected(items=left_out)


def pytest_report_header() -> list[str]:
    seeds = f"drawn seeds of the simulator: again with {SIM_FIRST_VARIABLE}={SIM_FIRST}"
    return [f"crdtstream: {compiled.how()}", seeds]


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(dealing)
    # A shell that starts something in the background has it ignore Ctrl-C; programs that tests
    # start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ["CRDTSTREAM_PURE"] == "0" and not compiled.is_compiled():
        pytest.exit("CRDTSTREAM_PURE=0 wants compiled code, of these very sources: make fast", 2)


def pytest_unconfigure() -> None:
    leftovers.end()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell readers of the JUnit file, such as tools/gate.py, which tests have no second try."""
    if item.get_closest_marker("hypothesis") or item.get_closest_marker("drawn"):
        item.user_properties.append(("no second try", "1"))


def pytest_collection() -> None:
    """The tests and what they import stay until the end, so no collection of garbage looks at
    them."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> object:
    """On a busy machine a test may take longer, as each of its waits may."""
    longer = settings._replace(timeout=settings.timeout * max(1.0, patience.factor()))
    return pytest_timeout.pytest_timeout_set_timer(item, longer)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are only for the sources, on compiled code, and what options leave out.

    A soak test takes as long as its many repetitions do.  All tests of some folders are live, and
    may take longer.
    """
    for item in items:
        is_live = item.path.parent in LIVE_FOLDERS
        if is_live:
            item.add_marker(pytest.mark.live)
        if not item.get_closest_marker("timeout"):
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.timeout(0))
            elif is_live:
                item.add_marker(pytest.mark.timeout(LIVE_SECONDS_MAX))
    if part := config.getoption("part"):
        _keep_part(config, items, part)
    if config.getoption("twelfth"):
        _keep_twelfth(config, items)
    if compiled.is_compiled():
        left_out = pytest.mark.skip(reason="it replaces what compiled code does not look up")
        for item in items:
            if item.get_closest_marker("pure"):
                item.add_marker(left_out)


# --- Ports ------------------------------------------------------------------------------------


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@cache
def _own_slot() -> int:
    """A slot that no other process of this machine has; it is kept until this process ends.

    A slot is the same range of ports in every thousand.  Asking the system for free ports would
    not do: a node that a test killed has left its ports, and comes back to them.
    """
    folder = Path(tempfile.gettempdir(), f"crdtstream-test-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    for slot in range(_THOUSAND // _PORTS_STEP):
        lock = os.open(folder / str(slot), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        try:
            # Held until the process ends, however it does.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return slot
    raise AssertionError(f"too many test runs at once: all slots in {folder} are taken")


@cache
def _base_ports() -> Iterator[int]:
    """Our slot's base ports, over and over; no two of them have a port in common."""
    first = _PORTS_FIRST + _own_slot() * _PORTS_STEP
    return cycle(range(first, _PORTS_LAST - 2 * _THOUSAND, 3 * _THOUSAND))


def free_base_port(regions: int = 3) -> int:
    """A P for which P+r, P+1000+r and P+2000+r are free, r from 0 to ``regions`` (at most 20)."""
    assert 1 <= regions <= REGIONS_MAX
    for base in islice(_base_ports(), 1000):
        numbers = range(regions + 1)
        if all(_is_free(base + shift * _THOUSAND + r) for shift in (0, 1, 2) for r in numbers):
            return base
    raise AssertionError("no free ports")


@pytest.fixture
def base_port() -> int:
    """See ``free_base_port``."""
    return free_base_port()
