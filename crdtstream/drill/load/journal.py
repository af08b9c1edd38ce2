"""Journal of the clients' records, and of the counts that the screen shows during the load."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final

from crdtstream.drill.records import Given, Late, Outcome, Record, Request, Sent, encode

FLUSH_SECONDS: Final = 0.2
# Interval at which the loop measures its lateness.
LATE_SECONDS: Final = 0.02


class Journal:
    """Appends records to a file, and sends the counts to the runner, a JSON line each time.

    The file is whole after ``close``; a load that is killed before is not judged.
    """

    def __init__(self, path: Path) -> None:
        # Line by line would cost a system call each.
        self._file = path.open("w", encoding="utf-8", buffering=1 << 16)
        self._acknowledged: dict[int, int] = {}
        self._delivered = 0
        self._errors = 0

    def note(self, record: Record) -> None:
        self._file.write(encode(record))
        match record:
            case Sent(outcome=Outcome.OK, region=region):
                self._acknowledged[region] = self._acknowledged.get(region, 0) + 1
            case Given():
                self._delivered += 1
            case Request(outcome=outcome) if outcome is not Outcome.OK:
                self._errors += 1

    async def tell(self) -> None:
        """Flush, and print the counts so far, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self.flush()

    async def measure_lateness(self) -> None:
        """Note how late the loop wakes, until cancelled."""
        while True:
            due = time.monotonic() + LATE_SECONDS
            await asyncio.sleep(LATE_SECONDS)
            now = time.monotonic()
            self.note(Late(now, max(0.0, now - due)))

    def flush(self) -> None:
        self._file.flush()
        counts = {
            "at": time.monotonic(),
            "acknowledged": self._acknowledged,
            "delivered": self._delivered,
            "errors": self._errors,
        }
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        self.flush()
        self._file.close()
