"""AUTH and HELLO from addresses that guess: each attempt waits, and blocks nothing but its client.

The command is postponed, as by CLIENT PAUSE, until its time has come; then it is run again.  One
table of addresses serves all doors of a node (``access/slowing.py``), so an address that guesses at
one door waits at every door.
"""

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final

from crdtstream.access.logins import KEY_BYTES, REASONS, WAITING_MAX, Verdict
from crdtstream.access.slowing import Slowing, source_of
from crdtstream.commands.reply import CommandError
from crdtstream.database.admission import PostponedError
from crdtstream.database.session import Session

TOO_MANY: Final = f"ERR {REASONS[Verdict.SLOWED]}"


class WaitingLogins:
    """Attempts to log in that wait.

    Args:
        slowing: the table of addresses.
        address_of: host and port of a client.
        go_on: lets the client of this session go on.
        note_refused: notes an attempt that is WRONG or SLOWED, and the client's IP address.
    """

    def __init__(
        self,
        slowing: Slowing,
        *,
        address_of: Callable[[Session], str],
        go_on: Callable[[int], None],
        note_refused: Callable[[Verdict, str], None],
    ) -> None:
        self._slowing = slowing
        self._note_refused = note_refused
        self._address_of = address_of
        self._go_on = go_on
        # By session id: from where its attempt comes.
        self._waiting: dict[int, str] = {}
        # Those of them whose time has come.  Only the timer decides that: it may ring a moment
        # before the time that the clock says, as the clock has whole milliseconds.
        self._due: set[int] = set()
        self._by_source: Counter[str] = Counter()
        self._key = secrets.token_bytes(KEY_BYTES)

    def admit(self, session: Session, digest: bytes) -> None:
        """Let an attempt pass, if its address has sent few wrong ones, or it has waited.

        Args:
            digest: of user and password.  A wrong login that is repeated is no new guess.

        Raises:
            PostponedError: it has to wait; the client goes on when its time has come.
            CommandError: too many attempts of its address wait; or it cannot wait in a transaction.
        """
        if session.id in self._waiting:
            if session.id not in self._due:
                raise PostponedError
            self.forget(session)
            return
        now = _now()
        address = self._address(session)
        source = source_of(address)
        wait = self._slowing.wait(source, now)
        if not wait or self._slowing.is_repeated(source, digest, now):
            return
        if session.in_exec or self._by_source[source] >= WAITING_MAX.value:
            self._note_refused(Verdict.SLOWED, address)
            raise CommandError(TOO_MANY)
        self._waiting[session.id] = source
        self._by_source[source] += 1
        asyncio.get_running_loop().call_later(wait, self._come_due, session.id)
        raise PostponedError

    def _come_due(self, session_id: int) -> None:
        if session_id in self._waiting:
            self._due.add(session_id)
            self._go_on(session_id)

    def note_wrong(self, session: Session, digest: bytes) -> None:
        """An attempt was wrong."""
        address = self._address(session)
        self._slowing.note_wrong(source_of(address), _now(), digest)
        self._note_refused(Verdict.WRONG, address)

    def digest_of(self, name: bytes, password: bytes) -> bytes:
        """A digest of a login, by which it is known again; nothing can be guessed from it."""
        return hmac.digest(self._key, b"%d %b %b" % (len(name), name, password), "sha256")

    def forget(self, session: Session) -> None:
        """The client has gone on, or is gone."""
        source = self._waiting.pop(session.id, None)
        if source is None:
            return
        self._due.discard(session.id)
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def _address(self, session: Session) -> str:
        return self._address_of(session).rpartition(":")[0].strip("[]")


def _now() -> float:
    return asyncio.get_running_loop().time()
