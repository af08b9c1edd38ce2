"""XREAD as a client has it: by ID, or from what its connection was given.

A command on the replica knows nothing of its caller.  To skip nothing XREAD has to, so it is a
command of the session.
"""

from crdtstream.commands.command import documented
from crdtstream.commands.reply import Blocked, Reply
from crdtstream.commands.streams.never_skip import GivenReplies, xread_never_skip
from crdtstream.commands.streams.xread import xread
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.xread_mode import XreadMode
from crdtstream.database.session import Session, SessionCommand


class SessionReads:
    """The commands that read for a session."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def commands(self) -> list[SessionCommand]:
        return documented(SessionCommand, {b"xread": self._xread})

    def _xread(self, session: Session, now: Millis, argv: list[bytes]) -> Reply | Blocked:
        if self._replica.xread_mode is XreadMode.BY_ID:
            return xread(self._replica, now, argv)
        if session.given is None:
            session.given = GivenReplies()
        return xread_never_skip(session.given, self._replica, now, argv)
