"""Clients of one replica that may wait: replies as RESP2 has them, in plain Python."""

import shlex
from collections.abc import Iterable
from typing import Any

import hiredis

from crdtstream.commands.reply import Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database, Waiting
from crdtstream.database.serving import Served
from crdtstream.database.session import Session
from crdtstream.resp.wire.encode import encode


class Clients:
    """Clients by name, and a clock that stands still until it is moved.

    Errors are their text; who waits gets WAITING, and the answer from ``settle`` or ``wait``.
    """

    def __init__(self, replica: Replica, now: int = 1000) -> None:
        self._database = Database(replica)
        self._names: dict[int, str] = {}
        self._sessions: dict[str, Session] = {}
        self.now = now

    def __call__(self, line: str, client: str = "A") -> Any:
        """Run one command; others who are satisfied by it are answered by ``settle``."""
        argv = [word.encode() for word in shlex.split(line)]
        reply = self._database.call(self._session(client), Millis(self.now), argv)
        return reply if isinstance(reply, Waiting) else plain(reply)

    def settle(self) -> dict[str, Any]:
        """Answers to clients because of changes since the last call."""
        return self._answers(self._database.settle(Millis(self.now)))

    def wait(self, ms: int) -> dict[str, Any]:
        """Let time pass, stopping whenever something is due; who is answered."""
        until = self.now + ms
        answers: dict[str, Any] = {}
        while (due := self.next_time()) is not None and due <= until:
            assert due > self.now, "what is due is not done: this would go on for ever"
            self.now = due
            answers |= self._answers(self._database.expire(Millis(self.now)))
        self.now = until
        return answers

    def next_time(self) -> int | None:
        """When the clock is to be looked at next."""
        return self._database.next_deadline()

    def _session(self, client: str) -> Session:
        if client not in self._sessions:
            session = self._database.open_session()
            self._sessions[client] = session
            self._names[session.id] = client
        return self._sessions[client]

    def _answers(self, served: Iterable[Served]) -> dict[str, Any]:
        return {self._names[session.id]: plain(reply) for session, reply in served}


def plain(reply: Reply) -> Any:
    """A reply as a RESP2 client would read it."""
    chunks: list[bytes] = []
    encode(reply, 2, chunks)
    reader = hiredis.Reader()
    reader.feed(b"".join(chunks))
    return _texts(reader.gets())


def _texts(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode()
        case list():
            return [_texts(item) for item in value]
        case Exception():
            return str(value)
        case _:
            return value
