"""The connection that writes: who is cancelled while its thread works."""

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

from crdtstream.store.writer import Writer


async def test_a_caller_cancelled_twice_keeps_the_connection_until_the_thread_ends(
    tmp_path: Path,
) -> None:
    writer, began, may_end = Writer(tmp_path / "log.sqlite"), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(_connection: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(began.set)
        may_end.wait()

    calling = asyncio.create_task(writer.call(work))
    try:
        await began.wait()
        for _ in range(3):
            calling.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not calling.done()
    finally:
        may_end.set()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        await writer.close()
    assert calling.cancelled()
