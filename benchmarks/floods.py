"""XADD beside a flood of wrong logins: times of the same client with and without it, in turns.

    python -m benchmarks.floods [--rounds 3] [--seconds 5] [--wrong 10000] [--xadds 5000]
                                [--addresses one | many]

One region runs on this machine and asks for a password.  A client with the password sends XADDs at
a steady rate.  In every second turn another process sends wrong AUTHs, each with another password,
as many a second as were asked for.  They come from one address, or each few of them from another
one, so that none is slowed down.  Times count from the moment at which a request was due, so a
client that cannot send adds to them.  They are compared within one run only: the machine decides
what they are.
"""

import argparse
import contextlib
import gc
import itertools
import multiprocessing
import secrets
import select
import socket
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from benchmarks.load.wire import HOST, RECEIVE_BYTES, Connection, command
from crdtstream.access.logins import WAITING_MAX
from crdtstream.access.slowing import FREE_MAX
from crdtstream.local.regions import LocalRegions

BASE_PORT: Final = 27_400
WARM_SECONDS: Final = 1.0
CLIENTS: Final = 10
# More connections than attempts of one address may wait, so that others go on.
GUESSERS: Final = 4 * WAITING_MAX.value
# Wrong logins that leave together, of one connection: those that are free for one address.
TOGETHER: Final = FREE_MAX.value
# The first of many addresses that this machine has: all of 127.0.0.0/8 are its own.
FIRST_ADDRESS: Final = (127 << 24) + (1 << 16)
CONNECT_SECONDS: Final = 5.0
XADD: Final = command(b"XADD", b"floods", b"*", b"n", b"0123456789")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--wrong", type=int, default=10_000, help="wrong logins a second")
    parser.add_argument("--xadds", type=int, default=5_000, help="XADDs a second")
    parser.add_argument("--addresses", choices=("one", "many"), default="one")
    wants = parser.parse_args()
    password = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        local = LocalRegions(
            1,
            Path(folder),
            base_port=BASE_PORT,
            environment={"CRDTSTREAM_REQUIREPASS": password},
        )
        try:
            local.start_all()
            local.wait_until_healthy()
            measure(local.regions[0].resp_port, password, wants)
        finally:
            local.stop_all()
            local.close()


def measure(port: int, password: str, wants: argparse.Namespace) -> None:
    clients = [Client(port, password) for _ in range(CLIENTS)]
    steady(clients, wants.xadds, WARM_SECONDS)
    quiet: list[float] = []
    flooded: list[float] = []
    print("turn     XADDs/s  wrong/s    p50 ms    p99 ms")
    for _ in range(wants.rounds):
        show("quiet", 0, kept(quiet, steady(clients, wants.xadds, wants.seconds)), wants)
        with flooding(port, wants.wrong, from_many=wants.addresses == "many") as answered:
            before, began = answered.value, time.monotonic()
            times = kept(flooded, steady(clients, wants.xadds, wants.seconds))
            wrong = (answered.value - before) / (time.monotonic() - began)
        show("flooded", wrong, times, wants)
    ratio = level(flooded, 99) / level(quiet, 99)
    print(f"p99 with the flood is {ratio:.2f} times that without it")


class Client:
    """A connection that is logged in, and the moments at which its open requests were due."""

    def __init__(self, port: int, password: str) -> None:
        self._connection = Connection(port)
        self._connection.call(b"AUTH", password.encode())
        self._open: deque[float] = deque()

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, due: list[float]) -> None:
        self._connection.send(XADD * len(due))
        self._open += due

    def receive(self) -> list[float]:
        """The time that each request took whose reply has come."""
        count = len(self._connection.receive())
        now = time.monotonic()
        return [now - self._open.popleft() for _ in range(count)]


def steady(clients: list[Client], per_s: int, seconds: float) -> list[float]:
    """Send XADDs at the rate; returns the time of each, from when it was due."""
    times: list[float] = []
    count = int(per_s * seconds)
    turns = itertools.cycle(clients)
    number = 0
    gc.disable()
    began = time.monotonic()
    while len(times) < count:
        now = time.monotonic()
        due = []
        while number < count and (at := began + number / per_s) <= now:
            due.append(at)
            number += 1
        if due:
            next(turns).send(due)
        rest = max(0.0, began + number / per_s - time.monotonic()) if number < count else None
        for client in select.select(clients, (), (), rest)[0]:
            times += client.receive()
    gc.enable()
    return times


@contextlib.contextmanager
def flooding(port: int, per_s: int, *, from_many: bool) -> Iterator["Synchronized[int]"]:
    """A process that sends wrong logins while this goes on; yields the number of answered ones."""
    stop, answered = multiprocessing.Event(), multiprocessing.Value("q", 0)
    process = multiprocessing.Process(
        target=flood, args=(port, per_s, from_many, stop, answered), daemon=True
    )
    process.start()
    while not answered.value and process.is_alive():
        time.sleep(0.01)
    try:
        yield answered
    finally:
        stop.set()
        process.join()


def flood(
    port: int, per_s: int, from_many: bool, stop: Event, answered: "Synchronized[int]"
) -> None:
    """Send wrong logins over connections that are owed no answer; wait for none of them."""
    places = itertools.count()
    free: deque[socket.socket] = deque()
    owed: dict[socket.socket, int] = {}
    began = time.monotonic()
    number = 0
    while not stop.is_set():
        if time.monotonic() >= began + number * TOGETHER / per_s:
            number += 1
            if not free and len(owed) < GUESSERS:
                free.append(connect(port, next(places) if from_many else None))
            if free:
                one = free.popleft()
                one.sendall(b"".join(wrong_login() for _ in range(TOGETHER)))
                owed[one] = TOGETHER
        rest = max(0.0, began + number * TOGETHER / per_s - time.monotonic())
        for one in select.select(owed, (), (), min(rest, 0.1))[0]:
            got = received(one)
            answered.value += got
            owed[one] -= got
            if got and owed[one]:
                continue
            del owed[one]
            if got and not from_many:
                free.append(one)
            else:
                one.close()


def connect(port: int, place: int | None) -> socket.socket:
    """A connection from this machine's usual address, or from the one of this place."""
    source = None if place is None else (socket.inet_ntoa((FIRST_ADDRESS + place).to_bytes(4)), 0)
    return socket.create_connection((HOST, port), CONNECT_SECONDS, source)


def wrong_login() -> bytes:
    return command(b"AUTH", secrets.token_hex(16).encode())


def received(one: socket.socket) -> int:
    """The number of answers that have come; 0: the connection has ended."""
    try:
        return one.recv(RECEIVE_BYTES).count(b"\n")
    except ConnectionError:
        return 0


def kept(all_times: list[float], times: list[float]) -> list[float]:
    all_times += times
    return times


def level(times: list[float], percent: int) -> float:
    return statistics.quantiles(times, n=100)[percent - 1]


def show(turn: str, wrong_per_s: float, times: list[float], wants: argparse.Namespace) -> None:
    p50, p99 = level(times, 50) * 1000, level(times, 99) * 1000
    print(f"{turn:8} {wants.xadds:7} {wrong_per_s:8.0f}  {p50:8.2f}  {p99:8.2f}", flush=True)


if __name__ == "__main__":
    main()
