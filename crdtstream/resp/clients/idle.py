"""Disconnects clients that are silent for too long.

There is one timer, set only while a client is connected and the setting is not 0.  It fires a few
times in the span that a client may be silent, so a client is disconnected at most a quarter of that
span late.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.size import Seconds
from crdtstream.resp.clients.connection import Connection

# Idle clients are looked for this often at most.
CHECK_SECONDS_MIN: Final = Seconds(1.0, least=0.01)


class IdleClients:
    """Hangs up on clients that say nothing.

    Attributes:
        seconds_max: how long a client may be silent; 0: as long as it likes.  Call ``watch``
            after a change.

    Args:
        connections: of all clients, by session ID; it changes as they connect and leave.
        may_be_silent: True for a client that waits for something and need not send.
    """

    def __init__(
        self,
        connections: Mapping[int, Connection],
        *,
        seconds_max: int,
        now: Callable[[], Millis],
        may_be_silent: Callable[[Connection], bool],
    ) -> None:
        self.seconds_max = seconds_max
        self._connections = connections
        self._now = now
        self._may_be_silent = may_be_silent
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """See to it that the timer is set if it is wanted; cheap when it is."""
        if self.seconds_max and self._timer is None and self._connections:
            seconds = max(CHECK_SECONDS_MIN.value, self.seconds_max / 4)
            self._timer = asyncio.get_running_loop().call_later(seconds, self.hang_up)

    def stop(self) -> None:
        """Disconnect no client from now on."""
        if self._timer is not None:
            self._timer.cancel()

    def hang_up(self) -> None:
        """Hang up on the silent ones, and set the timer again."""
        self._timer = None
        oldest = self._now() - self.seconds_max * 1000
        if self.seconds_max:
            for connection in list(self._connections.values()):
                if connection.active_ms < oldest and not self._may_be_silent(connection):
                    connection.abort()
        self.watch()
