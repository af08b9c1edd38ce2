"""Last writes of clients: the effect and the record that WAIT and WAITAOF wait for.

Most commands say so at once: the number of effects issued so far.  XACK does not.  It changes this
region only; what it issues for the others is known when the open section ends.  So a client that
wrote in the open section is remembered until then:

    XACK ── note ──> has_open_write ──┬── note_sealed   the section has ended: what it came to
                                      └── measure       WAIT asks before: end it for this client

Always so: ``session.has_open_write`` says whether the client is remembered here.
"""

from crdtstream.core.replica import Replica
from crdtstream.database.session import Session


class OpenWrites:
    """The clients that wrote in the open section.

    Attributes:
        sessions: those whose last write is not yet known to be in a certain record; one and the
            same list for good.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.sessions: list[Session] = []
        # Every write looks at these.
        self._vv = replica.vv
        self._region = replica.region
        self._note_settled = replica.note_settled

    def note(self, session: Session) -> None:
        """The client has run a command that writes."""
        session.wrote_n = self._vv.get(self._region, 0)
        if self._note_settled() and not session.has_open_write:
            session.has_open_write = True
            self.sessions.append(session)

    def measure(self, session: Session) -> None:
        """Issue the client's acknowledgements, so that they can be waited for."""
        if session.has_open_write:
            replica = self._replica
            replica.issue_frontiers()
            replica.note_settled()
            session.wrote_n = replica.issued
            # Without an open section, what it wrote was sealed within this tick.
            session.wrote_record = replica.record_count + replica.has_open_section

    def note_sealed(self) -> None:
        """The open section has ended: its acknowledgements are measured, and it is a record.

        Except those that need entries from disk: clients that wait for those keep waiting.
        """
        if self._replica.has_open_changes:
            return
        for session in self.sessions:
            session.has_open_write = False
            session.wrote_n = self._replica.issued
            session.wrote_record = self._replica.record_count
        self.sessions.clear()
