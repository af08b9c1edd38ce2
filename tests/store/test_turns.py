"""A checkpoint's work in one turn of the event loop is bounded, whatever the size of the state.

No times: a turn's work is counted in lines of Python that are run, and the checkpointer's clock
goes by the same count.
"""

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId, make_id
from crdtstream.core.replica import Replica
from crdtstream.engine.checkpointer import Checkpointer
from crdtstream.engine.engine import Engine
from crdtstream.engine.turns import TURN_NS
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from tests.harness.driven import make_region

# Lines are counted in the sources only.
pytestmark = pytest.mark.pure

R1 = RegionId(1)
NOW = Millis(1_000)
# A turn is over after so many lines; then the step that is under way ends, of which the longest
# puts the entries of one macro node together.
TURN_LINES: Final = 2_000
LINES_MAX: Final = 8 * TURN_LINES
# So many that one line for each would be more than a turn may have.
ENTRIES: Final = 6_000


# The loop runs it once a turn.
TURN_CODE: Final = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]


class Lines:
    """Counts the lines of Python that this thread runs, and the most of one turn of the loop."""

    def __init__(self) -> None:
        self.count = self.most = 0
        self._before = 0

    def __enter__(self) -> "Lines":
        self._before = self.count
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.count += 1
        elif event == "call" and frame.f_code is TURN_CODE:
            self.most = max(self.most, self.count - self._before)
            self._before = self.count
        return self._trace

    def as_ns(self) -> int:
        return self.count * TURN_NS // TURN_LINES


def write(replica: Replica, first: int) -> None:
    """Entries of one stream, and one of each of as many others, which are the same each time."""
    fields = encode_fields([b"f", b"v"])
    for number in range(first, first + ENTRIES):
        replica.append(b"s", make_id(2_000 + number, 1), fields)
        replica.append(b"key %d" % (number % ENTRIES), make_id(2_000 + number, 1), fields)


@pytest.mark.long
async def test_a_turn_of_a_checkpoint_is_bounded(tmp_path: Path) -> None:
    """Of the first one, all of whose parts are new, and of one that replaces all of them."""
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.NO)
    try:
        region = make_region()
        engine = Engine(region, log, now=lambda: NOW)
        await engine.begin()
        lines = Lines()
        checkpoints = await SqliteCheckpoints.open(log)
        checkpointer = Checkpointer(
            region, log, checkpoints, engine, now=lambda: NOW, timer_ns=lines.as_ns
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(engine.run())
            for first in (0, ENTRIES):
                await engine.change(lambda replica, _now, first=first: write(replica, first))  # type: ignore[misc]
                parts = checkpointer.stats.parts
                with lines:
                    await checkpointer.checkpoint()
                assert checkpointer.stats.parts - parts > 2 * ENTRIES
                assert 0 < lines.most <= LINES_MAX
            engine.stop()
    finally:
        await log.abandon()
