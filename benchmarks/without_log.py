"""A region node that keeps no log: it shows what the log costs, and loses everything when it ends.

    python -m benchmarks.without_log node --config FILE

Records are numbered and handed to links as always.  They are neither encoded for the disk nor
written.  A client is answered as if they were.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

from crdtstream.cli.start import program
from crdtstream.store.log import Logged
from crdtstream.store.sqlite import SqliteLog

# What starts such a node, behind the Python and before the options of ``crdtstream node``.
PROGRAM: Final = ("-m", "benchmarks.without_log", "node")


def leave_out() -> None:
    """Have the log of this process take records, and write none of them."""

    def write_at_once(self: SqliteLog, logged: Sequence[Logged]) -> int | None:
        return 0

    def write_in_thread(
        self: SqliteLog, connection: sqlite3.Connection, logged: Sequence[Logged]
    ) -> int:
        return 0

    def check_there(self: SqliteLog, seq: int) -> None:
        """No check: the last record is not in the file."""

    SqliteLog._write_at_once = write_at_once  # type: ignore[method-assign]
    SqliteLog._write_in_thread = write_in_thread  # type: ignore[method-assign]
    SqliteLog._check_there = check_there  # type: ignore[method-assign]


if __name__ == "__main__":
    leave_out()
    program(["node"])()
