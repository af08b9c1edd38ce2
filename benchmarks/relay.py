"""Counts the bytes of TCP connections: a relay that passes on what comes, both ways."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.processes import HOST

CHUNK_BYTES: Final = 1 << 16


class Relay:
    """A port that leads to another one.

    Attributes:
        port: where it listens.
        target: the port that it leads to; 0: none yet, so connections are closed at once.
        passed_bytes: what was passed on, in both directions, without TCP's own headers.
    """

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self.passed_bytes = 0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either end closes it."""
        try:
            there, back = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.close()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass(reader, back))
            group.create_task(self._pass(there, writer))

    async def _pass(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(CHUNK_BYTES):
                self.passed_bytes += len(data)
                to.write(data)
                await to.drain()
        except OSError:
            # The other direction ends by itself, as its connection is gone.
            pass
        finally:
            to.close()


@contextmanager
def relay() -> Iterator[Relay]:
    """A relay in a thread of its own."""
    found, listening, loops = Relay(), threading.Event(), []

    async def serve(over: asyncio.Event) -> None:
        server = await asyncio.start_server(found.connect, HOST, 0)
        found.port = server.sockets[0].getsockname()[1]
        listening.set()
        await over.wait()
        server.close()

    def run() -> None:
        over = asyncio.Event()
        with asyncio.Runner() as runner:
            loops.append((runner.get_loop(), over))
            runner.run(serve(over))

    thread = threading.Thread(target=run)
    thread.start()
    listening.wait()
    try:
        yield found
    finally:
        ((loop, over),) = loops
        loop.call_soon_threadsafe(over.set)
        thread.join()
