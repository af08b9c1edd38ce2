"""Proofs that a page of this node asked for an action, for the user who sends it.

    start . microseconds . number . HMAC(key, user, action, start, microseconds, number)

A browser presents user and password to requests of other sites, too, and the console keeps no
sessions.  So a page that offers an action carries a proof: no other site can read it, and none can
make one.  It is good for one user, one action with all its values, and ``SECONDS_MAX``.  The key is
made when the process starts: after a restart or an upgrade an old page proves nothing.

Its number names the outcome, so a form that is sent twice acts once.
"""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.core.size import Seconds

SECONDS_MAX: Final = Seconds(600.0, least=0.01)
KEY_BYTES: Final = 32
PROOF_LENGTH_MAX: Final = 256


class ProofError(Exception):
    """A proof proves nothing; the text says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The page that a form came from.

    Attributes:
        number: names the outcome of its form.
        asked_s: when the page was made, by the clock of ``Proofs.make``; never later than that.
    """

    number: str
    asked_s: float


class Proofs:
    """The proofs of one process."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(KEY_BYTES)
        # Known to all: it tells an old page from a forged one.
        self._start = secrets.token_hex(4)

    def make(self, user: bytes, action: Sequence[bytes], now_s: float) -> str:
        """A proof for a page.

        Args:
            action: its name and all its values.
            now_s: by a clock that only goes forward.
        """
        head = f"{self._start}.{int(now_s * 1_000_000)}.{secrets.token_hex(16)}"
        return f"{head}.{self._mac(head, user, action)}"

    def proven(self, proof: str, user: bytes, action: Sequence[bytes], now_s: float) -> Proven:
        """The page that is named by the proof that a form carries.

        Raises:
            ProofError: it is none, too old, of another start, or for another user or action.
        """
        head, _, mac = proof.rpartition(".")
        parts = head.split(".")
        if len(proof) > PROOF_LENGTH_MAX or not proof.isascii() or len(parts) != 3:
            raise ProofError("The form has no proof that a page of this node asked.")
        start, microseconds, number = parts
        if start != self._start:
            raise ProofError("The node was restarted or upgraded after this page was loaded.")
        if not hmac.compare_digest(mac, self._mac(head, user, action)):
            raise ProofError("The page was made for another user, or for another action.")
        asked_s = int(microseconds) / 1_000_000
        if now_s - asked_s > SECONDS_MAX.value:
            raise ProofError(f"The page is older than {SECONDS_MAX.value:g} seconds.")
        return Proven(number, asked_s)

    def _mac(self, head: str, user: bytes, action: Sequence[bytes]) -> str:
        # Each with its length before it: no two lists are the same bytes.
        texts = [head.encode(), user, *action]
        content = b"".join(b"%d:%s" % (len(text), text) for text in texts)
        return hmac.digest(self._key, content, "sha256").hex()
