"""The connection that writes the log: at once in the caller's thread, or in a thread of its own.

Handing a commit to a thread and back costs more than the commit itself.  On a busy event loop it
costs many times more, as the thread has to wait for the interpreter's lock before it can report the
end.  So a commit of microseconds runs in the caller's thread.  A commit that may take long, or has
to wait for the lock of another connection, runs in the writer's thread.

One connection serves both, so that its prepared statements and its way of syncing are the same.
Only one of the two may be under way: the caller has the turn (``connections.py``), and keeps it
until the thread is done, even if the caller is cancelled.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from crdtstream.core.size import Size

T = TypeVar("T")

# Longest wait of the thread for the lock of another process, say a shell of SQLite's.
LOCK_MS_MAX: Final = Size(5_000, least=100)


class Writer:
    """A connection in autocommit mode: each statement is a transaction."""

    def __init__(self, path: Path) -> None:
        """Connect to the database, which is made if it is not there.

        Raises:
            sqlite3.Error: it cannot be opened.
        """
        self._connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        self._lock_ms = 0
        # It starts with the first call that needs it.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-writer")

    def execute_at_once(self, statement: str, values: Sequence[object]) -> bool:
        """Run a statement that returns nothing, without waiting for a lock.

        Returns:
            False: another connection is writing, and nothing was done.

        Raises:
            sqlite3.Error: nothing was done.
        """
        if self._lock_ms:
            self._wait_for_locks(0)
        try:
            self._connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            if is_locked(error):
                return False
            raise
        return True

    async def execute(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Run a statement in the thread; returns its rows.

        Raises:
            sqlite3.Error: nothing was done.
        """
        return await self.call(_execute, statement, values)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function of the connection in the thread; returns when it is done.

        Raises:
            sqlite3.Error: as the function.
        """
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, self._call, function, *args)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The next caller must not find the connection in use, however often this is cancelled.
            while not running.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((running,))
            raise

    def _call(self, function: Callable[..., T], *args: Any) -> T:
        if not self._lock_ms:
            self._wait_for_locks(LOCK_MS_MAX.value)
        return function(self._connection, *args)

    def _wait_for_locks(self, ms: int) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {ms}")
        self._lock_ms = ms

    async def close(self) -> None:
        """Close the connection; the last one to the database moves the write-ahead log, too."""
        await self.call(sqlite3.Connection.close)
        self._thread.shutdown()


def is_locked(error: sqlite3.Error) -> bool:
    """True if a statement failed because another connection is writing."""
    # The lower byte is the kind of error, the others are details.
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _execute(connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> list[Any]:
    return connection.execute(statement, values).fetchall()
