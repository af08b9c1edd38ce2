"""A region node without peers and without a disk, served from a thread of its own."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Self, TypeVar

import uvloop

from crdtstream.certificates.watching import Certificates
from crdtstream.core.effects import Record
from crdtstream.engine.engine import Engine
from crdtstream.resp.server import RespServer
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import Limits
from crdtstream.store.errors import StoreError
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region
from tests.patience import seconds

T = TypeVar("T")


class ObstinateLog(MemoryLog):
    """A log that can be told to wait or to refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.refusal: str | None = None

    def append_at_once(self, records: Sequence[Record]) -> bool:
        return self.gate.is_set() and super().append_at_once(records)

    async def append(self, records: Sequence[Record]) -> None:
        await self.gate.wait()
        await super().append(records)

    def _put(self, records: Sequence[Record]) -> None:
        if self.refusal is not None:
            raise StoreError(self.refusal)
        super()._put(records)


class Node:
    """A node as tests use it; everything goes through its event loop."""

    def __init__(
        self,
        settings: NodeSettings,
        config_file: Path | None = None,
        peers: Iterable[int] = (),
        certificates: Certificates | None = None,
    ) -> None:
        self.certificates = certificates
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self.log = ObstinateLog()
        self.region = make_region(settings.region, peers, clock=time.perf_counter_ns)
        self.replica = self.region.replica
        self.database = self.region.database
        self.engine = Engine(self.region, self.log)
        self.server = RespServer(
            self.engine, settings, config_file=config_file, certificates=certificates
        )
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self._is_up = threading.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def tls_port(self) -> int:
        return self.server.tls_port

    def start(self) -> None:
        self.thread.start()
        assert self._is_up.wait(seconds())

    def stop(self) -> None:
        self.run(self.server.stop(patience_ms=1000))
        self.call(self.engine.stop)
        self.thread.join(seconds())
        assert not self.thread.is_alive()
        self.loop.close()

    def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Run a coroutine on the event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(seconds())

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the event loop."""

        async def run() -> T:
            return function()

        return self.run(run())

    def client(self) -> "RawClient":
        return RawClient(self.port)

    def connect(self) -> socket.socket:
        return self.client().socket

    @contextmanager
    def each_command_taking(self, ms: int) -> Iterator[None]:
        """Let every command take exactly so long, by the clock that measures commands."""
        kept = self.database.clock
        ticks = count(0, ms * 1_000_000)
        self.call(lambda: setattr(self.database, "clock", lambda: next(ticks)))
        try:
            yield
        finally:
            self.call(lambda: setattr(self.database, "clock", kept))

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._main())

    async def _main(self) -> None:
        await self.server.start("127.0.0.1", 0, None if self.certificates is None else 0)
        self._is_up.set()
        await self.engine.begin()
        await self.engine.run()


class RawClient:
    """Bytes to and from a node."""

    def __init__(self, port: int) -> None:
        self.socket: socket.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=seconds()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, count: int) -> bytes:
        """Exactly so many bytes, or as many as came before the end."""
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                break
            data += more
        return data

    def read_line(self) -> bytes:
        """Up to the end of a line, without it."""
        line = b""
        while not line.endswith(b"\r\n"):
            more = self.read(1)
            assert more, f"the end came after {line!r}"
            line += more
        return line[:-2]

    def read_reply(self) -> bytes:
        """A reply that is one line, or one string: its bytes without framing."""
        line = self.read_line()
        if line[:1] in b"$=" and line[1:] != b"-1":
            return self.read(int(line[1:]) + 2)[:-2]
        return line

    def expect(self, data: bytes) -> None:
        assert self.read(len(data)) == data

    def expect_closed(self) -> None:
        with suppress(ConnectionResetError):
            assert self.socket.recv(1) == b""

    def ask(self, request: bytes, reply: bytes) -> None:
        self.send(request)
        self.expect(reply)


def settings(requirepass: str = "", **limits: int) -> NodeSettings:
    return NodeSettings(
        region=1, dir=Path("unused"), requirepass=requirepass, limits=Limits(**limits)
    )


@contextmanager
def running(
    node_settings: NodeSettings | None = None,
    config_file: Path | None = None,
    *,
    peers: Iterable[int] = (),
    certificates: Certificates | None = None,
) -> Iterator[Node]:
    node = Node(node_settings or settings(), config_file, peers, certificates)
    node.start()
    try:
        yield node
    finally:
        node.stop()


def request(*arguments: bytes) -> bytes:
    """A request as clients send it."""
    bulks = b"".join(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments)
    return b"*%d\r\n%b" % (len(arguments), bulks)
