"""Refusing a command before it runs: what the client hears, and what that does to its transaction.

A command that is refused inside MULTI makes EXEC abort.  EXEC itself, refused for how it was
called, ends the transaction at once.

Source: the words are Redis's, of processCommand.
"""

from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.database.acl.log import Refused
from crdtstream.database.acl.selectors import Denial
from crdtstream.database.acl.texts import refusal_of
from crdtstream.database.session import Handler, Session
from crdtstream.database.statistics import Statistics
from crdtstream.database.transactions import Transactions

NO_AUTH: Final = "NOAUTH Authentication required."
NOT_IN_MULTI: Final = "ERR Command not allowed inside a transaction"
# Commands that a RESP2 client may call while it listens to a channel: there, only its shape
# distinguishes a message from a reply.
FOR_SUBSCRIBERS: Final = frozenset(
    prefix + word for prefix in (b"", b"p", b"s") for word in (b"subscribe", b"unsubscribe")
) | {b"ping", b"quit", b"reset"}


class Refusals:
    """Refuses commands, and counts what it refused."""

    def __init__(self, statistics: Statistics, transactions: Transactions) -> None:
        self._statistics = statistics
        self._transactions = transactions

    def refuse(
        self, session: Session, error: CommandError, handler: Handler | None = None
    ) -> CommandError:
        """Answer a command with an error instead of running it; no handler: it is unknown."""
        if session.queue is not None:
            session.queue_broken = True
        if handler is not None:
            handler.stats.rejected += 1
        self._statistics.note_error(error.text)
        return error

    def wrong_arity(self, session: Session, handler: Handler) -> CommandError:
        """Too few arguments, or too many."""
        return self._refuse_call(
            session, handler, f"wrong number of arguments for '{handler.name.decode()}' command"
        )

    def not_permitted(
        self, session: Session, handler: Handler, denial: Denial, refused: Refused
    ) -> CommandError:
        """The user has no right to what the command does, or touches."""
        return self.not_now(session, handler, f"NOPERM {refusal_of(denial, refused)}")

    def not_for_subscribers(self, session: Session, handler: Handler) -> CommandError:
        """A RESP2 client that listens to channels may not call it."""
        return self._refuse_call(
            session,
            handler,
            f"Can't execute '{handler.name.decode()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / "
            "PING / QUIT / RESET are allowed in this context",
        )

    def not_now(self, session: Session, handler: Handler, text: str) -> CommandError:
        """Refuse a command with this text; EXEC hears it behind EXECABORT."""
        if handler.name == b"exec":
            self._transactions.end(session)
            text = f"EXECABORT Transaction discarded because of: {text}"
        return self.refuse(session, CommandError(text), handler)

    def _refuse_call(self, session: Session, handler: Handler, what: str) -> CommandError:
        """Refuse a command for how, or when, it was called."""
        if handler.name != b"exec":
            what = f"ERR {what}"
        return self.not_now(session, handler, what)
