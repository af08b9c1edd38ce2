"""Processor time that viewers of the console cost a node: without any, with one, and with ten.

    python -m benchmarks.viewers [--seconds 30] [--viewers 10] [--xadds 50]

Three regions run on this machine, and a client writes at a steady rate, so that figures change.
Viewers read the changes of region 1 as a browser does.  Times are processor time of the nodes, so
what else runs here matters little.
"""

import argparse
import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import redis

from crdtstream.admin.client import AdminClient
from crdtstream.local.regions import LocalRegions

BASE_PORT: Final = 27_600
REGIONS: Final = 3
TICKS: Final = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="of each turn")
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--xadds", type=int, default=50, help="entries a second")
    wants = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        local = LocalRegions(REGIONS, Path(folder), base_port=BASE_PORT)
        try:
            local.start_all()
            local.wait_until_healthy()
            with writing(local.regions[0].resp_port, wants.xadds):
                measure(local, wants)
        finally:
            local.stop_all()
            local.close()


def measure(local: LocalRegions, wants: argparse.Namespace) -> None:
    pids = []
    for region in local.regions:
        with AdminClient(region.grpc_address) as client:
            pids.append(client.status().pid)
    address = local.regions[0].http_address
    base: list[float] = []
    print("viewers   region 1, % of a core   each other region   KiB/s a viewer")
    for count in (0, 1, wants.viewers, 0):
        with watching(address, count) as got:
            # The first event has everything, and the first page loads the console.
            time.sleep(3)
            read, before = got[0], [cpu_seconds(pid) for pid in pids]
            time.sleep(wants.seconds)
            after = [cpu_seconds(pid) for pid in pids]
            percent = [
                100 * (end - begin) / wants.seconds
                for begin, end in zip(before, after, strict=True)
            ]
            rate = (got[0] - read) / wants.seconds / 1024 / max(1, count)
        others = sum(percent[1:]) / (REGIONS - 1)
        if not count:
            base.append(percent[0])
        print(f"{count:7}   {percent[0]:20.2f}   {others:17.2f}   {rate:14.2f}", flush=True)
    print(f"without viewers, before and after: {base[0]:.2f} and {base[1]:.2f} %")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def watching(address: str, count: int) -> Iterator[list[int]]:
    """Viewers while this goes on; yields a list with the number of bytes that they read."""
    got = [0]
    host, port = address.rsplit(":", 1)
    connections = [socket.create_connection((host, int(port))) for _ in range(count)]

    def read(connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := connection.recv(1 << 16):
                got[0] += len(data)

    threads = [threading.Thread(target=read, args=(one,)) for one in connections]
    for connection, thread in zip(connections, threads, strict=True):
        connection.sendall(f"GET /console/live HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        thread.start()
    try:
        yield got
    finally:
        for connection, thread in zip(connections, threads, strict=True):
            connection.shutdown(socket.SHUT_RDWR)
            thread.join()
            connection.close()


@contextlib.contextmanager
def writing(port: int, per_second: int) -> Iterator[None]:
    """A client that writes at a steady rate while this goes on."""
    ends = threading.Event()
    client: Any = redis.Redis(port=port)

    def write() -> None:
        while not ends.wait(1 / per_second):
            client.xadd("viewers", {"n": 1}, maxlen=10_000)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
        client.close()


if __name__ == "__main__":
    main()
