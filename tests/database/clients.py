"""Clients of one region's database, without sockets, time by hand."""

from dataclasses import dataclass, field

import hiredis

from crdtstream.commands.reply import (
    Blocked,
    CommandError,
    Encoded,
    PerKey,
    Reply,
)
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database, Waiting
from crdtstream.database.session import Session
from crdtstream.database.waiting import Waiter


class CountingDatabase(Database):
    """Counts how often a blocked command is tried again."""

    tries = 0

    def try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        self.tries += 1
        return super().try_again(waiter, now)


@dataclass
class Clients:
    """A region with clients, each made when it first speaks.

    ``say`` calls and settles; what others were served meanwhile is in ``served``, by name.
    """

    region: int = 1
    now: int = 1000
    served: list[tuple[str, Reply]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replica = Replica(RegionId(self.region))
        self.database = CountingDatabase(self.replica)
        self.sessions: dict[str, Session] = {}

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            self.sessions[name] = self.database.open_session()
        return self.sessions[name]

    def say(self, name: str, line: str) -> Reply | Waiting:
        reply = self.database.call(self.session(name), Millis(self.now), line.encode().split())
        self.settle()
        return reply

    def settle(self) -> None:
        self.note(self.database.settle(Millis(self.now)))

    def expire(self, now: int) -> None:
        self.now = now
        self.note(self.database.expire(Millis(now)))

    def note(self, served: list[tuple[Session, Reply]]) -> None:
        names = {session.id: name for name, session in self.sessions.items()}
        self.served += [(names[session.id], reply) for session, reply in served]

    def take_served(self) -> list[tuple[str, Reply]]:
        served, self.served = self.served, []
        return served


def ids_of(reply: Reply | Waiting) -> list[str]:
    assert isinstance(reply, Encoded)
    reader = hiredis.Reader()
    reader.feed(reply.data)
    return [entry_id.decode() for entry_id, _ in reader.gets()]


def text(reply: Reply | Waiting) -> str:
    assert isinstance(reply, CommandError), reply
    return reply.text


def flat(reply: Reply | Waiting) -> bytes:
    """All bytes of a reply, to look for an ID or a value in."""
    match reply:
        case Encoded(data):
            return data
        case PerKey(pairs):
            return b"".join(key + flat(value) for key, value in pairs)
        case list():
            return b"".join(map(flat, reply))
        case bytes():
            return reply
        case _:
            raise AssertionError(reply)
