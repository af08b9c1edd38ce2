"""Admission: well-formed commands that may not run at present are postponed, or refused.

    CLIENT PAUSE stops it             postponed   (``Pause``)
    too much lags behind              postponed or refused, as the operator chose   (``WriteLimit``)
    there is no room for more data    refused   (``Fullness``)

EXEC counts as what is queued: as a write if one of its commands is one, and as many writes as it
has.
"""

from enum import Enum
from typing import Protocol

from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis
from crdtstream.database.session import Handler, Session


class Pause(Enum):
    """Commands that CLIENT PAUSE stops."""

    WRITE = "write"
    ALL = "all"

    def stops(self, session: Session, handler: Handler) -> bool:
        """True if the client's command waits until the pause ends."""
        return (
            self is Pause.ALL
            or handler.may_write
            or (
                handler.name == b"exec"
                and any(queued.may_write for queued, _ in session.queue or ())
            )
        )


class PostponedError(Exception):
    """CLIENT PAUSE stops this command, or it is throttled: nothing has happened, call it again when
    that ends."""


class WriteLimit(Protocol):
    """Limit that decides whether another write may run; see ``region/staleness.py``.

    Attributes:
        throttles: a write that is not admitted is postponed; else it is refused.
    """

    @property
    def throttles(self) -> bool: ...

    def admits(self, session: int, count: int, now: Millis) -> bool:
        """True if a client's ``count`` writes may run now."""

    def refuse(self, count: int, now: Millis) -> str:
        """Count a refusal; the text of its error."""

    def forget(self, session: int) -> None:
        """The client is gone."""


class Fullness(Protocol):
    """State of a region without room for more data; see ``region/room.py``."""

    def is_full_now(self) -> bool:
        """True if that still holds; asked before a command is refused."""

    def refuse(self) -> CommandError:
        """Count a command that would add data; its error."""


def queued_writes(session: Session) -> int:
    """Number of writes of an EXEC that a bound on what lags may stop; 0 if it aborts."""
    if session.queue is None or session.queue_broken or session.dirty:
        return 0
    return sum(handler.is_limited for handler, _ in session.queue)


def adds_by_exec(session: Session, handler: Handler) -> bool:
    """True if it is an EXEC that will run a command which adds data."""
    return (
        handler.name == b"exec"
        and session.queue is not None
        and any(queued.adds for queued, _ in session.queue)
    )
