"""The two sides of a comparison: a real server behind sockets, and one region of ours.

Both are spoken to in the same way: ``call`` a command as one of several clients, which answers or
tells that the client waits; then ``woken`` says who of the waiting was answered by it.
"""

import select
import socket
import time
from collections.abc import Sequence
from enum import Enum
from io import BufferedReader, BytesIO
from itertools import groupby
from typing import Protocol, TypeAlias

from crdtstream.commands.reply import Reply
from crdtstream.core.ids import IdMode, Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database, Waiting
from crdtstream.database.session import Session
from crdtstream.resp.wire.encode import encode
from tests.like_redis import wire
from tests.like_redis.wire import Failure, Nothing, Read, Simple, read_reply, request


class Blocked(Enum):
    """The result of a call that leaves its client waiting."""

    BLOCKED = "blocked"


BLOCKED = Blocked.BLOCKED
Answer: TypeAlias = Read | Blocked
OK = Simple(b"OK")
# Subscribers in RESP2 may send it as well.
END = b"no-such-command"
ENDED = Failure(f"ERR unknown command '{END.decode()}', with args beginning with: ")


def shown(answer: Answer) -> str:
    """An answer for people."""
    return "<waits>" if isinstance(answer, Blocked) else wire.shown(answer)


class Side(Protocol):
    """One of the two that are compared; clients have names and are there when first used."""

    def call(self, client: str, argv: Sequence[bytes]) -> Answer:
        """Run a command of a client that is not waiting."""

    def woken(self) -> dict[str, Read]:
        """Clients that got an answer since the last call, with it."""

    def run_out(self, client: str) -> Read:
        """Let the time of a waiting client run out; its answer."""

    def unblock(self, client: str, *, with_error: bool) -> Answer:
        """CLIENT UNBLOCK; the client's answer."""

    def close(self) -> None: ...


# --- Sockets ------------------------------------------------------------------------------------


class Connection:
    """A client's connection."""

    def __init__(self, connection: socket.socket, protocol: int) -> None:
        self._socket = connection
        self._source: BufferedReader = connection.makefile("rb")
        self.is_queueing = False
        self.call([b"HELLO", b"%d" % protocol])
        identity = self.call([b"CLIENT", b"ID"])
        assert isinstance(identity, int)
        self.id = identity

    def send(self, *commands: Sequence[bytes]) -> None:
        self._socket.sendall(b"".join(map(request, commands)))

    def read(self) -> Read:
        return read_reply(self._source)

    def call(self, argv: Sequence[bytes]) -> Read:
        self.send(argv)
        return self.read()

    def call_at_once(self, *commands: Sequence[bytes]) -> list[Read]:
        """Send all in one piece; everything that comes until the answer to an unknown command."""
        self.send(*commands, [END])
        answers: list[Read] = []
        while (answer := self.read()) != ENDED:
            answers.append(answer)
        return answers

    @property
    def has_reply(self) -> bool:
        """True if a reply has begun to arrive.  At most one is ever on its way."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def close(self) -> None:
        self._source.close()
        self._socket.close()


class Server(Protocol):
    """A server that accepts connections."""

    def connect(self) -> socket.socket: ...


class RealSide:
    """A server behind sockets, emptied: a real one, or a process of ours."""

    def __init__(self, server: Server, protocol: int) -> None:
        self._server = server
        self._protocol = protocol
        self._clients: dict[str, Connection] = {}
        self._waiting: dict[str, Connection] = {}
        self._listening: dict[str, Connection] = {}
        self._control = Connection(server.connect(), 2)
        # What an earlier comparison left waiting is gone before this one's first command.
        self._settle()
        assert self._control.call([b"FLUSHALL"]) == OK
        for name, default in ((b"entries", b"100"), (b"bytes", b"4096")):
            self._control.call([b"CONFIG", b"SET", b"stream-node-max-%b" % name, default])
        self._control.call([b"CONFIG", b"SET", b"notify-keyspace-events", b""])

    def call(self, client: str, argv: Sequence[bytes]) -> Answer:
        connection = self._client(client)
        assert client not in self._waiting, "a waiting client calls nothing"
        commands = [list(words) for is_word, words in groupby(argv, b";".__ne__) if is_word]
        if any(words[0].upper().endswith(b"SUBSCRIBE") for words in commands):
            self._listening[client] = connection
        if client in self._listening or len(commands) > 1:
            return list[Read](connection.call_at_once(*commands))
        if not may_wait(argv) or connection.is_queueing:
            reply = connection.call(argv)
            connection.is_queueing = is_queueing(connection.is_queueing, argv, reply)
            return reply
        connection.send(argv)
        self._settle()
        if connection.has_reply:
            return connection.read()
        self._waiting[client] = connection
        return BLOCKED

    def woken(self) -> dict[str, Read]:
        heard: dict[str, Read] = {
            name: list[Read](told)
            for name, one in self._listening.items()
            if (told := one.call_at_once())
        }
        if not self._waiting:
            return heard
        self._settle()
        served = {name: one.read() for name, one in self._waiting.items() if one.has_reply}
        for name in served:
            del self._waiting[name]
        return heard | served

    def run_out(self, client: str) -> Read:
        return self._waiting.pop(client).read()

    def unblock(self, client: str, *, with_error: bool) -> Answer:
        connection = self._client(client)
        how = b"ERROR" if with_error else b"TIMEOUT"
        if not self._control.call([b"CLIENT", b"UNBLOCK", b"%d" % connection.id, how]):
            return BLOCKED
        return self._waiting.pop(client).read()

    def close(self) -> None:
        for connection in (*self._clients.values(), self._control):
            connection.close()

    def _client(self, name: str) -> Connection:
        if name not in self._clients:
            protocol = int(name) if name.isdigit() else self._protocol
            self._clients[name] = Connection(self._server.connect(), protocol)
        return self._clients[name]

    def _settle(self) -> None:
        """Return when what was sent before has been run and answered.

        The server runs all that has arrived, then writes all replies, in no certain order.  So one
        PING is answered after everything sent before it was run, the next after it was written.
        Ours may need a third: its first can overtake what arrived together with it.  And what its
        log holds back holds back later PINGs, too (``rules`` 19).
        """
        for _ in range(3):
            assert self._control.call([b"PING"]) == Simple(b"PONG")


def may_wait(argv: Sequence[bytes]) -> bool:
    """True if a command could leave its client waiting."""
    return argv[0].upper() in (b"XREAD", b"XREADGROUP") and b"BLOCK" in (
        word.upper() for word in argv
    )


def is_queueing(before: bool, argv: Sequence[bytes], reply: Read) -> bool:
    """True if the client is inside MULTI after this command."""
    match argv[0].upper():
        case b"MULTI":
            return before or reply == OK
        case b"EXEC" | b"DISCARD" | b"RESET":
            return before and isinstance(reply, Failure) and not reply.text.startswith("EXECABORT")
    return before


# --- Ours ---------------------------------------------------------------------------------------


class OurSide:
    """One region in liberal mode, without a socket: time passes a millisecond per command."""

    def __init__(self, protocol: int) -> None:
        self._replica = Replica(RegionId(1), id_mode=IdMode.LIBERAL)
        self._database = Database(self._replica)
        self._protocol = protocol
        self._now = time.time_ns() // 1_000_000
        self._sessions: dict[str, Session] = {}
        self._woken: dict[str, Read] = {}

    def call(self, client: str, argv: Sequence[bytes]) -> Answer:
        self._now += 1
        if argv[0] == b"CONFIG":
            return self._configure(argv)
        session = self._session(client)
        reply = self._database.call(session, Millis(self._now), list(argv))
        self._note(self._database.settle(Millis(self._now)))
        return BLOCKED if isinstance(reply, Waiting) else self._read(reply)

    def woken(self) -> dict[str, Read]:
        woken, self._woken = self._woken, {}
        return woken

    def run_out(self, client: str) -> Read:
        deadline = self._database.next_deadline()
        assert deadline is not None
        self._now = deadline
        self._note(self._database.expire(deadline))
        return self._woken.pop(client)

    def unblock(self, client: str, *, with_error: bool) -> Answer:
        served = self._database.unblock(self._session(client).id, with_error=with_error)
        return BLOCKED if served is None else self._read(served[1])

    def close(self) -> None: ...

    def _session(self, client: str) -> Session:
        if client not in self._sessions:
            self._sessions[client] = self._database.open_session()
            self._sessions[client].protocol = self._protocol
        return self._sessions[client]

    def _note(self, served: list[tuple[Session, Reply]]) -> None:
        names = {session.id: name for name, session in self._sessions.items()}
        self._woken |= {names[session.id]: self._read(reply) for session, reply in served}

    def _read(self, reply: Reply) -> Read:
        chunks: list[bytes] = []
        encode(reply, self._protocol, chunks)
        data = BytesIO(b"".join(chunks))
        read = read_reply(data)
        assert not data.read(), "more than one reply"
        return read

    def _configure(self, argv: Sequence[bytes]) -> Read:
        """CONFIG belongs to the server around the commands; scripts want two settings of it."""
        limits = self._replica.node_limits
        match [word.lower() for word in argv[1:]]:
            case [b"set", b"stream-node-max-entries", value]:
                limits.entries_max = int(value)
            case [b"set", b"stream-node-max-bytes", value]:
                limits.bytes_max = int(value)
            case _:
                return Nothing.NULL
        return OK
