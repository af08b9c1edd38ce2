"""A whole node in one process without sockets and disk: its services and its Redis clients."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
from structlog.testing import capture_logs

from crdtstream.engine.engine import Engine
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.server import RespServer
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region

# Reading and checking settings takes longer than most stories; nothing changes them.
SETTINGS: Final = NodeSettings(region=1, dir=Path("none"))
# Turns of the event loop that whatever needs no clock takes at most.
TURNS: Final = 12


class Server(RespServer):
    """A server whose bugs end the target, and not only the node."""

    def stop_on_bug(self, error: Exception) -> None:
        raise error


class Transport(asyncio.Transport):
    """Takes what is written, and never has more to do."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._is_closing = False

    def get_extra_info(self, name: str, default: object = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class AbortedError(Exception):
    """A call is refused, with a status and a reason."""

    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")


class Context:
    """A gRPC call as a service sees it."""

    def __init__(self, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self._metadata = metadata
        self.written: list[object] = []

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    async def abort(
        self, code: grpc.StatusCode, reason: str = "", _trailing: object = ()
    ) -> NoReturn:
        # It is sent: it must be text.
        reason.encode()
        raise AbortedError(code, reason)

    async def write(self, message: Any) -> None:
        self.written.append(message.SerializeToString())


class FuzzedNode:
    """One region, its engine and its server."""

    def __init__(self) -> None:
        self.settings = SETTINGS
        self.region = make_region(1, (2, 3))
        self.log = MemoryLog()
        self.engine = Engine(self.region, self.log, now=self.region_now)
        self.server = Server(self.engine, self.settings)
        # Replies about time must be the same each time.
        self.region.database.clock = iter(range(1_000_000_000)).__next__
        self.clients: list[tuple[Connection, Transport]] = []

    @staticmethod
    def region_now() -> Any:
        return 1000

    def connect(self) -> tuple[Connection, Transport]:
        connection = Connection(self.server, self.region, self.region_now)
        transport = Transport()
        connection.connection_made(transport)
        self.clients.append((connection, transport))
        return connection, transport


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[FuzzedNode]:
    """A node, with two clients.  A bug that its engine met is raised in the end."""
    node = FuzzedNode()
    await node.engine.begin()
    engine = asyncio.create_task(node.engine.run())
    node.connect()
    node.connect()
    try:
        await turns()
        yield node
        await turns()
    finally:
        for connection, _ in node.clients:
            connection.connection_lost(None)
        node.engine.stop()
        await engine


async def turns(count: int = TURNS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


_LOOP: Final = asyncio.new_event_loop()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run it to its end; what it logs is of no interest."""
    with capture_logs():
        _LOOP.run_until_complete(coroutine)
