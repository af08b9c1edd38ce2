"""Two nodes that get the same requests, one of them each command by itself.

The other one gets them as they come over TCP, in pieces with many commands: there they make runs.
Nothing that a client or a peer may learn is to tell the two from each other.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis
from crdtstream.engine.engine import Engine
from crdtstream.region.ready import Ready
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.server import RespServer
from crdtstream.resp.wire import id_runs, parser
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region
from tests.resp.node import request
from tests.resp.node import settings as node_settings


class Wire(asyncio.Transport):
    """The client's end of a connection: it keeps what it gets."""

    def __init__(self, port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 6379)})
        self.got = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.got += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Side:
    """A node without a socket and a disk; its clock stands still until it is moved."""

    def __init__(self, peers: tuple[int, ...] = (), *, password: str = "") -> None:
        self.clock = 1_000
        self.region = make_region(1, peers)
        self.engine = Engine(self.region, MemoryLog(), now=lambda: Millis(self.clock))
        self.server = RespServer(self.engine, node_settings(requirepass=password))
        self.database = self.region.database
        self.database.clock = lambda: 0
        self.records: list[Record] = []
        self.wires = [Wire(40_000 + number) for number in range(4)]
        self.connections = [self._connect(wire) for wire in self.wires]

    def _connect(self, wire: Wire) -> Connection:
        connection = Connection(self.server, self.region, self.engine.now)
        connection.connection_made(wire)
        return connection

    def send(self, client: int, data: bytes) -> None:
        self.connections[client].data_received(data)

    async def end_tick(self) -> None:
        """End ticks until nothing more happens."""
        while self._commit().woken or self.region.tick.is_open:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _commit(self) -> Ready:
        ready = self.region.ready(self.engine.now())
        self.records += ready.records
        # A run that breaks is called one by one: clients see nothing of that, the log does.
        assert not [one.details for one in ready.notices if one.level == "error"]
        ready.tell()
        if ready.records:
            self.region.log.note_logged(len(self.records), self.engine.now(), durable=True)
        return ready

    async def pass_time(self, ms: int) -> None:
        self.clock += ms
        self.region.pass_time(self.engine.now())
        await self.end_tick()

    def state(self) -> dict[str, object]:
        """All that somebody may learn of what was done."""
        replica, statistics = self.region.replica, self.database.statistics
        sessions = [connection.session for connection in self.connections]
        return {
            "replies": [untimed(wire.got) for wire in self.wires],
            "closed": [wire.is_closed for wire in self.wires],
            "records": self.records,
            "digest": replica.digest(),
            "vv": dict(replica.vv),
            "nodes": {
                key: [
                    (node.key, list(node.n), list(node.lengths), bytes(node.fields))
                    for lane in stream.lanes.values()
                    for node in lane.macro_nodes()
                ]
                for key in replica
                if (stream := replica.stream(key)) is not None
            },
            "calls": [
                (name, one.calls, one.usec, one.rejected, one.failed)
                for name, one in statistics.used()
            ],
            "errors": statistics.errors_by_kind(),
            "commands": [connection.commands for connection in self.connections],
            "bytes": [(one.bytes_in, one.bytes_out) for one in self.connections],
            "sessions": [
                (one.wrote_n, one.wrote_record, one.has_open_write, one.last_command, one.dirty)
                for one in sessions
            ],
            "slow": self.server.slowlog.calls(),
            "traffic": self.server.traffic.totals(),
        }


def untimed(replies: bytes) -> bytes:
    """Without what MONITOR says of the time of day."""
    return re.sub(rb"\+\d{10}\.\d{6} \[", b"+TIME [", replies)


@dataclass
class Step:
    """One client's bytes of one tick, their cuts, and the time that passes after them.

    Attributes:
        ms: goes by behind it; the region takes note, and a tick ends.
        ms_before: goes by before it; the region learns of that from the first command only.
    """

    client: int
    requests: list[bytes]
    cuts: list[int] = field(default_factory=list)
    ms: int = 0
    ends_tick: bool = True
    ms_before: int = 0


async def do(steps: Sequence[Step], *, in_pieces: bool) -> Side:
    """A side that got all that, as it comes over TCP or each command by itself."""
    side = Side()
    for step in steps:
        side.clock += step.ms_before
        requests = b"".join(step.requests)
        pieces = (
            [requests[start:stop] for start, stop in pairwise([0, *step.cuts, len(requests)])]
            if in_pieces
            else step.requests
        )
        for piece in filter(None, pieces):
            side.send(step.client, piece)
        if step.ends_tick:
            await side.end_tick()
        if step.ms:
            await side.pass_time(step.ms)
    side.send(3, request(b"CLIENT", b"UNPAUSE"))
    await side.end_tick()
    await side.pass_time(1_000)
    return side


def both_do(steps: Sequence[Step]) -> tuple[Side, Side]:
    """Two sides that got the same, one of them each command by itself.

    Each has a loop of its own: what one waits for must not let the other one's callbacks run.
    """
    piped = asyncio.run(do(steps, in_pieces=True))
    with _no_runs():
        single = asyncio.run(do(steps, in_pieces=False))
    return piped, single


@contextmanager
def _no_runs() -> Iterator[None]:
    """Parse no runs: requests that are held while clients are paused come together afterwards."""
    bounds = {parser.RUNS_MAX: 0, id_runs.COMMANDS_MAX: 1, id_runs.XDELS_MAX: 1}
    kept = {bound: bound.value for bound in bounds}
    try:
        for bound, value in bounds.items():
            bound.value = value
        yield
    finally:
        for bound, value in kept.items():
            bound.value = value


def lines(*texts: str) -> list[bytes]:
    return [request(*text.encode().split()) for text in texts]


def calls_of(do: Callable[[], None]) -> int:
    """Number of calls of functions of Python and of C."""
    calls = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(None)
    return calls
