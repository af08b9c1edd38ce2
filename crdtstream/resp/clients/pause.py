"""CLIENT PAUSE: clients' commands wait for a while, and nothing polls.

The database refuses to run a paused command, and the connection keeps it.  One timer, or CLIENT
UNPAUSE, lets all of them go on.  Batches of other regions are applied all the time.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from crdtstream.core.size import Seconds
from crdtstream.database.admission import Pause
from crdtstream.database.database import Database

# A timer is set for no longer than this, and set again.
TIMER_SECONDS_MAX: Final = Seconds(86_400.0, least=0.01)


class ClientPause:
    """The pause of all clients; ``database.pause`` says which commands it stops.

    Args:
        go_on: called when the pause ends: runs the postponed commands.
    """

    def __init__(self, database: Database, go_on: Callable[[], None]) -> None:
        self._database = database
        self._go_on = go_on
        # By the event loop's clock.
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, pause: Pause, timeout_ms: int) -> None:
        """Pause; one that is on becomes longer and wider, never shorter or narrower."""
        if self._database.pause is not Pause.ALL:
            self._database.pause = pause
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        self._until_s = max(self._until_s, until_s)
        self._arm()

    def end(self) -> None:
        """Let all clients go on, when the event loop comes to it."""
        self._until_s = 0.0
        self._database.pause = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        asyncio.get_running_loop().call_soon(self._go_on)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        seconds = min(self._until_s - loop.time(), TIMER_SECONDS_MAX.value)
        self._timer = loop.call_later(max(0.0, seconds), self._look)

    def _look(self) -> None:
        self._timer = None
        if asyncio.get_running_loop().time() < self._until_s:
            self._arm()
        else:
            self.end()
