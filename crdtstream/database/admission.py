"""What may not run at present, although it is well-formed: it is postponed, or refused.

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
    """Which commands CLIENT PAUSE stops."""

    WRITE = "write"
    ALL = "all"

    def stops(self, session: Session, handler: Handler) -> bool:
        """Whether the client's command waits until the pause is over."""
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
    that is over."""


class WriteLimit(Protocol):
    """Who says whether another write may run; see ``region/staleness.py``.

    Attributes:
        throttles: a write that is not admitted is postponed; else it is refused.
    """

    @property
    def throttles(self) -> bool: ...

    def admits(self, session: int, count: int, now: Millis) -> bool:
        """Whether a client's ``count`` writes may run now."""

    def refuse(self, count: int, now: Millis) -> str:
        """Count a refusal; the text of its error."""

    def forget(self, session: int) -> None:
        """The client is gone."""


class Fullness(Protocol):
    """Who has no room for more data; see ``region/room.py``."""

    def is_full_now(self) -> bool:
        """Whether that still holds, as a command is about to be refused."""

    def refuse(self) -> CommandError:
        """Count a command that would add data; its error."""


def queued_writes(session: Session) -> int:
    """How many writes EXEC will run that a bound on what lags stops; none, if it aborts."""
    if session.queue is None or session.queue_broken or session.dirty:
        return 0
    return sum(handler.is_limited for handler, _ in session.queue)


def adds_by_exec(session: Session, handler: Handler) -> bool:
    """Whether it is an EXEC that will run something which adds data."""
    return (
        handler.name == b"exec"
        and session.queue is not None
        and any(queued.adds for queued, _ in session.queue)
    )
