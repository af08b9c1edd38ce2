"""Logins of calls and requests: judged, counted, logged, and slowed down where they are wrong.

One function decides whether user and password are right (``Judge``); all doors ask it.  Passwords
and user names appear in no log line: a user may have typed the password in the wrong place.

Guesses slow down the address that they come from, and others may share it.  Two things keep that
from them: a connection whose login was right is not slowed as long as it presents the same one, and
a wrong login that is repeated is no new guess.  Neither helps to guess.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

import structlog

from crdtstream.access.basic import DEFAULT_USER, decode_basic, login_of_region
from crdtstream.access.rights import UNLIMITED, Needs, Rights
from crdtstream.access.slowing import Slowing, source_of
from crdtstream.core.size import Seconds, Size

# Attempts of one address that wait at a time; those beyond are refused unjudged.
WAITING_MAX: Final = Size(16, least=1)
LOG_SECONDS: Final = Seconds(60.0, least=0.001)
# Connections whose login is remembered: more than all ports serve at a time.
PROVEN_MAX: Final = Size(1024, least=1)
KEY_BYTES: Final = 32

# The rights of the user with this name and password; None if one of them is wrong.
Judge: TypeAlias = Callable[[bytes, bytes], "Rights | None"]

logger = structlog.get_logger(__name__)


class Door(Enum):
    """The kind of port at which a login is asked for."""

    GRPC = "grpc"
    HTTP = "http"
    # Of Redis clients, with or without TLS.
    RESP = "resp"


class Verdict(Enum):
    """Outcome of a login; the value names it in metrics."""

    ADMITTED = "admitted"
    MISSING = "missing"
    WRONG = "wrong"
    # Not judged: too many attempts of this address wait.
    SLOWED = "slowed"
    # User and password are right, and the user has no right to the call or page.
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class RefusedLogin:
    """A login that is wrong, or has no right to what it is for.

    Attributes:
        verdict: WRONG or FORBIDDEN.
        user: the name that was presented; empty if it cannot be read.
        what: the call or page.
        address: of the program.
    """

    door: Door
    verdict: Verdict
    user: bytes
    what: str
    address: str


# At the port of Redis clients.
JUDGED: Final = (Verdict.WRONG, Verdict.SLOWED)
REFUSED: Final = (Verdict.MISSING, Verdict.WRONG, Verdict.SLOWED, Verdict.FORBIDDEN)

REASONS: Final = {
    Verdict.MISSING: "this node needs user and password",
    Verdict.WRONG: "user or password is wrong",
    Verdict.SLOWED: "too many wrong logins from this address; wait, and correct the password",
    Verdict.FORBIDDEN: "this user has no right to that; see docs/acl.md for what it needs",
}


def one_user(requirepass: str) -> Judge:
    """A judge who knows the user ``default`` only, with the password ``requirepass``.

    Without a password nobody is asked for one, so all are right.
    """
    if not requirepass:
        return lambda _user, _password: UNLIMITED
    wanted = _digest(DEFAULT_USER.encode()), _digest(requirepass.encode())

    def judged(user: bytes, password: bytes) -> Rights | None:
        # Digests, as comparing texts would show in which length they differ; both, as stopping
        # after the user would show which users exist.
        is_user = hmac.compare_digest(_digest(user), wanted[0])
        is_right = hmac.compare_digest(_digest(password), wanted[1]) & is_user
        return UNLIMITED if is_right else None

    return judged


def region_or_user(users: Judge, requirepass: str, database_id: str) -> Judge:
    """A judge who knows the regions of a database besides users; see ``login_of_region``."""
    region = login_of_region(requirepass, database_id)
    if not requirepass:
        return users
    wanted = _digest(region.user.encode()), _digest(region.password.encode())

    def judged(name: bytes, password: bytes) -> Rights | None:
        is_region = hmac.compare_digest(_digest(name), wanted[0])
        is_region &= hmac.compare_digest(_digest(password), wanted[1])
        user = users(name, password)
        return UNLIMITED if is_region else user

    return judged


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


class Logins:
    """Logins at the doors of one node.

    Args:
        asks: True while a login is needed.
        anonymous: rights of a caller that presents none while none is needed.

    Attributes:
        refused: count by door and verdict, since the node started.  At the port of Redis clients
            an AUTH or HELLO is WRONG or SLOWED; commands before a login are not counted.
        slowing: addresses that sent wrong logins; Redis clients' AUTH asks it too.
        on_refused: called for each that is wrong or has no right (ACL LOG).  Attempts without a
            login, and those that were not judged, are only counted.
    """

    def __init__(
        self,
        judge: Judge,
        *,
        asks: Callable[[], bool],
        anonymous: Callable[[], Rights] = lambda: UNLIMITED,
    ) -> None:
        self._asks = asks
        self._anonymous = anonymous
        self.refused: Counter[tuple[Door, Verdict]] = Counter()
        self._judge = judge
        self.slowing = Slowing()
        self.on_refused: Callable[[RefusedLogin], None] = lambda _refused: None
        # Attempts that wait, by source.
        self._waiting: Counter[str] = Counter()
        # By connection the digest of the login that was right there; the last used is the last.
        self._proven: dict[str, bytes] = {}
        self._key = secrets.token_bytes(KEY_BYTES)
        self._log_from = 0.0
        self._unlogged = 0

    @property
    def asks(self) -> bool:
        """True while a login is needed."""
        return self._asks()

    def rights(self, header: bytes, judge: Judge | None = None) -> Rights | None:
        """Rights of the caller that presents a login; None if it is wrong, or missing while needed.

        ``admit`` decides whether its call may go on, and when.
        """
        given = decode_basic(header)
        found = None if given is None else (judge or self._judge)(*given)
        return found if found is not None or self.asks else self._anonymous()

    async def admit(
        self,
        header: bytes,
        address: str,
        door: Door,
        judge: Judge | None = None,
        needs: Needs | None = None,
        *,
        what: str,
        connection: str = "",
    ) -> Verdict:
        """Judge the login of a call.

        Args:
            header: value of ``authorization``; empty if there is none.
            address: IP address of the caller.
            judge: decides in the place of the usual one; None: that one.
            needs: what the caller needs the right to; None: nothing but a login.
            what: the call or page, for ACL LOG.
            connection: names the caller's connection while it is open; empty: not known.
        """
        verdict = Verdict.ADMITTED
        if self.asks:
            verdict = Verdict.MISSING
            if header:
                verdict = await self._verdict(
                    header, source_of(address), judge or self._judge, connection
                )
        if verdict is Verdict.ADMITTED and needs is not None:
            rights = self.rights(header, judge)
            if rights is None or not needs(rights):
                verdict = Verdict.FORBIDDEN
        if verdict is not Verdict.ADMITTED:
            self.note_refused(door, verdict, address)
        if verdict in (Verdict.WRONG, Verdict.FORBIDDEN):
            given = decode_basic(header)
            user = given[0] if given is not None else b""
            self.on_refused(RefusedLogin(door, verdict, user, what, address))
        return verdict

    def note_refused(self, door: Door, verdict: Verdict, address: str) -> None:
        """Count a refused login, and log it if it is wrong."""
        self.refused[door, verdict] += 1
        if verdict is Verdict.WRONG:
            self._note_wrong(address, door)

    def refused_by_verdict(self) -> dict[Verdict, int]:
        """Count of refused logins at all doors together, by verdict; each verdict is there."""
        return {verdict: sum(self.refused[door, verdict] for door in Door) for verdict in REFUSED}

    async def _verdict(self, header: bytes, source: str, judge: Judge, connection: str) -> Verdict:
        digest = hmac.digest(self._key, header, "sha256")
        wait = self.slowing.wait(source, _now())
        if wait and not self._is_no_guess(digest, source, connection):
            if self._waiting[source] >= WAITING_MAX.value:
                return Verdict.SLOWED
            self._waiting[source] += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._waiting[source] -= 1
                if not self._waiting[source]:
                    del self._waiting[source]
        if self.rights(header, judge) is None:
            self.slowing.note_wrong(source, _now(), digest)
            return Verdict.WRONG
        if connection:
            self._note_right(connection, digest)
        return Verdict.ADMITTED

    def _is_no_guess(self, digest: bytes, source: str, connection: str) -> bool:
        """True if an answer says nothing about a password that was not tried before."""
        proven = self._proven.get(connection)
        if proven is not None and hmac.compare_digest(proven, digest):
            return True
        # Another login: a guess, or another program that has the port of one that is gone.
        self._proven.pop(connection, None)
        return self.slowing.is_repeated(source, digest, _now())

    def _note_right(self, connection: str, digest: bytes) -> None:
        self._proven.pop(connection, None)
        self._proven[connection] = digest
        if len(self._proven) > PROVEN_MAX.value:
            del self._proven[next(iter(self._proven))]

    def _note_wrong(self, address: str, door: Door) -> None:
        """Log a wrong login, at most once a minute; a line says how many there were."""
        self._unlogged += 1
        if _now() < self._log_from:
            return
        logger.warning(
            "wrong user or password", address=address, port=door.value, count=self._unlogged
        )
        self._unlogged = 0
        self._log_from = _now() + LOG_SECONDS.value


def _now() -> float:
    return asyncio.get_running_loop().time()
