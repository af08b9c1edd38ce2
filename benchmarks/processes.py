"""Figures of the system on processes and of this machine: processor time, memory, free ports."""

import os
import platform
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 120
STOP_SECONDS: Final = 60
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Below the ports that the system gives to connections by itself.
PORTS: Final = range(12_000, 28_000)
# Whoever used less than this share of a core for as long as one look takes is at rest.
REST_SHARE: Final = 0.15
REST_LOOK_SECONDS: Final = 0.3
REST_SECONDS_MAX: Final = 20


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time of these processes until now: all threads, and children that have ended."""
    return sum(
        time.clock_gettime(_cpu_clock(pid))
        + _children_ticks(Path(f"/proc/{pid}/stat").read_text()) / CLOCK_TICKS
        for pid in sorted(set(pids))
    )


def _cpu_clock(pid: int) -> int:
    """The clock of a process's processor time, as ``clock_getcpuclockid`` makes it.

    It counts nanoseconds; /proc/PID/stat counts the same time in hundredths of a second, which is
    what a thousand requests take.
    Source: man 2 clock_getres; CPUCLOCK_SCHED of the kernel's ``posix-timers.h``.
    """
    return (~pid << 3) | 2


def _children_ticks(stat: str) -> int:
    """cutime and cstime of a line of /proc/PID/stat."""
    # The name stands in brackets, and may hold spaces and brackets itself.
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[13:15]))


def main_thread_seconds(pid: int) -> float:
    """Processor time of a process's first thread."""
    ran_ns, *_ = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()
    return int(ran_ns) / 1e9


def resident_bytes(pid: int) -> int:
    """Bytes that the process holds in memory now (VmRSS)."""
    return _status_kib(Path(f"/proc/{pid}/status").read_text(), "VmRSS") << 10


def resident_bytes_max(pid: int) -> int:
    """The most it ever held (VmHWM)."""
    return _status_kib(Path(f"/proc/{pid}/status").read_text(), "VmHWM") << 10


def _status_kib(status: str, name: str) -> int:
    (line,) = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1])


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    """A process while it is needed; its pid."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Ask again and again; what raises OSError is asked again too.

    Raises:
        TimeoutError: it is not so in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            if is_so():
                return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.005)


def wait_for_ping(port: int) -> None:
    """Wait until a server of Redis's protocol answers."""
    wait_until(lambda: _answers_ping(port), f"an answer on port {port}")


def _answers_ping(port: int) -> bool:
    with socket.create_connection((HOST, port), timeout=1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")


def wait_for_rest(pids: Iterable[int]) -> None:
    """Wait until the processes are idle, or until it is clear that they do not become so."""
    pids = list(pids)
    deadline = time.monotonic() + REST_SECONDS_MAX
    while time.monotonic() < deadline:
        before = cpu_seconds(pids)
        time.sleep(REST_LOOK_SECONDS)
        if cpu_seconds(pids) - before <= REST_SHARE * REST_LOOK_SECONDS:
            return


def free_ports(count: int, *, shifts: tuple[int, ...] = (0,)) -> int:
    """A port p so that p + shift to p + shift + count - 1 are free, for each shift."""
    draw = random.SystemRandom()
    for _ in range(1_000):
        first = draw.choice(PORTS)
        if all(_is_free(first + shift + at) for shift in shifts for at in range(count)):
            return first
    raise TimeoutError("no free ports were found")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def machine() -> str:
    """The size of this machine, and Python's version."""
    with open("/proc/meminfo") as meminfo:
        memory_gib = int(meminfo.readline().split()[1]) / (1 << 20)
    return f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, Python {platform.python_version()}"
