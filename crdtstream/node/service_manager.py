"""Words to the service manager that started this node, as systemd defines them (sd_notify).

    systemd ── NOTIFY_SOCKET, WATCHDOG_USEC ──> node
            <── READY=1 ──  it serves clients       units that come after it may start
            <── WATCHDOG=1 ─ the event loop turns   else it is killed, and restarted
            <── STOPPING=1 ─ it closes its log

Each word is a datagram.  A sign of life that finds the manager's queue full is dropped, as another
follows.  The other words are said once, so they are tried again for a while.  Without NOTIFY_SOCKET
there is no manager, and nothing is sent.
"""

import asyncio
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import structlog

from crdtstream.core.size import Seconds

# Of the time after which systemd kills a silent service, this part passes between two signs of
# life: systemd asks for half, and one of them may be late.
WATCHDOG_SHARE: Final = 1 / 3
# While the queue of the manager is full: how long a word is tried again, and how often.
AGAIN_SECONDS: Final = Seconds(1.0, least=0.0)
PAUSE_SECONDS: Final = Seconds(0.01, least=0.001)
_MICROSECONDS: Final = 1_000_000

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class ServiceManager:
    """The manager of this process.

    Attributes:
        address: of its socket, as ``sendto`` takes it; empty: there is no manager.
        watchdog_s: it kills this process after so many seconds without a sign of life; 0: never.
    """

    address: str = ""
    watchdog_s: float = 0.0

    @classmethod
    def of_environment(cls, variables: Mapping[str, str]) -> Self:
        """The manager that these variables name.

        What they say is warned of and left out if it makes no sense: the node runs without it.
        """
        named = variables.get("NOTIFY_SOCKET", "")
        match named[:1]:
            case "":
                return cls()
            case "/":
                address = named
            case "@":
                # An abstract socket, which is no file.
                address = "\0" + named[1:]
            case _:
                logger.warning("NOTIFY_SOCKET is no path: the service manager is told nothing")
                return cls()
        return cls(address, _watchdog_s(variables))

    def tell(self, *words: str) -> None:
        """Send words, such as ``WATCHDOG=1``, if there is a manager.  A failure is logged."""
        try:
            self._send(words)
        except OSError as error:
            _log_untold(words, error)

    async def tell_surely(self, *words: str) -> None:
        """Send words that are said once, such as ``READY=1``, if there is a manager.

        While its queue is full they are tried again, for ``AGAIN_SECONDS`` at most.  A failure is
        logged.
        """
        deadline = time.monotonic() + AGAIN_SECONDS.value
        while True:
            try:
                self._send(words)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    _log_untold(words, error)
                    return
            except OSError as error:
                _log_untold(words, error)
                return
            else:
                return
            await asyncio.sleep(PAUSE_SECONDS.value)

    def _send(self, words: Sequence[str]) -> None:
        """Send words in one datagram, if there is a manager.

        Raises:
            BlockingIOError: the queue of the manager is full.
            OSError: it cannot be reached.
        """
        if not self.address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
            sender.sendto("\n".join(words).encode(), self.address)

    async def keep_alive(self) -> None:
        """Give signs of life, from the event loop: none is given while something holds it up."""
        while self.watchdog_s:
            self.tell("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s * WATCHDOG_SHARE)


def _log_untold(words: Sequence[str], error: OSError) -> None:
    logger.warning("the service manager cannot be told", words=words, reason=error.strerror)


def _watchdog_s(variables: Mapping[str, str]) -> float:
    """Seconds of the watchdog, if it is of this process; else 0."""
    text = variables.get("WATCHDOG_USEC", "")
    if not text or variables.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    if not (text.isascii() and text.isdigit()):
        logger.warning("WATCHDOG_USEC is no number: the service manager gets no signs of life")
        return 0.0
    return int(text) / _MICROSECONDS
