"""Sleeping of a link's loop, with a thought for a node that was held up itself.

    event loop   ──────── held up: a large transaction ────────┐
    link         sleeps until 3.0 s  ·  ·  ·  ·  ·  ·  ·  ·  · woken at 6.2 s
    its peer     said something at 3.5, 4.5 and 5.5 s: that waits in the socket

Judged at 6.2 s, the peer would be silent for too long, though it was this node that did not listen.
So a link that is woken late first lets its reader read.
"""

import asyncio
import contextlib
from typing import Final

from crdtstream.core.size import Seconds

# A loop that wakes a link this late was held up.
LATE_SECONDS: Final = Seconds(0.2, least=0)
# Time in which the reader hears what came meanwhile.
READ_SECONDS: Final = Seconds(0.25, least=0)


async def sleep_until(wake: asyncio.Event, until: float | None) -> None:
    """Return at a time of the event loop, or when the event is set; None: only then."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await wake.wait()
    if until is not None and asyncio.get_running_loop().time() > until + LATE_SECONDS.value:
        await asyncio.sleep(READ_SECONDS.value)
