"""One client's connection: bytes to requests, requests to replies, replies to bytes.

    data_received ── parse ── call ── encode ──> chunks ── engine.defer ──> written when durable

What has arrived is run at once, in the same turn of the event loop, and its replies leave
together, when what they tell is durable.  No task, no await and no write per command.  A client
with much to run takes turns with the others.

A connection *holds* - keeps requests instead of running them - while one of its commands is
blocked or postponed by CLIENT PAUSE, while the client does not fetch its replies, while the disk
is behind, and between its turns.  When it holds much, it stops reading, so that TCP slows the
client down.

Messages of channels come from other clients' requests and leave by the same way, held or not.

Always so: replies leave in the order of the requests; requests are run in order; a held
connection runs nothing; a message leaves after the replies that were owed before it, and never
between the parts of one.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, cast

import structlog

from crdtstream.commands.reply import CommandError, Pushes, Reply
from crdtstream.core.ids import Millis
from crdtstream.database.database import WAITING, PostponedError
from crdtstream.database.session import Session, Talk
from crdtstream.resp.clients.pubsub import UnreadBound
from crdtstream.resp.wire.encode import encode, encode_error
from crdtstream.resp.wire.parser import RequestError, RequestParser

if TYPE_CHECKING:
    from crdtstream.resp.server import RespServer

logger = structlog.get_logger(__name__)

# Requests held because the client does not fetch replies or the disk is behind; beyond it nothing
# more is read.
HELD_BYTES_MAX: Final = 1 << 20
# Requests held behind a blocked command.  It may wait for ever, and reading is the only way to
# learn that the client has gone; so reading goes on, and who sends more than this is cut off.
HELD_BLOCKED_BYTES_MAX: Final = 16 << 20
# Replies are weighed after so many pieces, or when one is large.
MEASURE_CHUNKS: Final = 64
# A client with more to run than this takes turns with the others.
TURN_NS: Final = 5_000_000
# After an error that ends the connection the client gets so long to read it: closing at once with
# its bytes unread would make TCP throw the error away.
LINGER_SECONDS: Final = 1.0
# What Linux takes.
KEEPALIVE_SECONDS_MAX: Final = 32_767
# Web pages can make a browser send commands; these words are its, no client's (as in Redis).
FOREIGN_WORDS: Final = frozenset({b"post", b"host:"})

OUTCOME_UNKNOWN: Final = (
    "MISCONF the disk refused while this command was being made durable: its outcome is unknown. "
    "Look at the server's log and at INFO persistence, then read back what you wrote"
)


class Connection(asyncio.Protocol):
    """A client, from accept to close.

    Attributes:
        session: the client as the commands see it.
        address, local_address: host:port of both ends.
        connected_ms, active_ms: when it came, and when it last sent something.
        bytes_in, bytes_out, commands: how much it sent, got, and asked for.
        no_evict, no_touch: what CLIENT NO-EVICT and NO-TOUCH said; nothing is ever evicted.
        is_postponed: its next command waits for the end of CLIENT PAUSE.
    """

    def __init__(self, server: "RespServer") -> None:
        self.session: Session = server.database.open_session()
        self.address = ""
        self.local_address = ""
        self.connected_ms = self.active_ms = server.engine.now()
        self.bytes_in = 0
        self.bytes_out = 0
        self.commands = 0
        self.no_evict = False
        self.no_touch = False
        self.is_postponed = False
        self._server = server
        self._engine = server.engine
        self._database = server.database
        self._replica = server.engine.replica
        self._parser = RequestParser(server.limits.request)
        self._transport = cast(asyncio.Transport, None)
        # Requests that wait, and a RequestError at the end if that came after them.
        self._held: deque[list[bytes] | RequestError] = deque()
        self._held_bytes = 0
        self._waiting = False
        self._turn_is_over = False
        self._broken = False
        self._reading = True
        self._write_paused = False
        # Replies that are not written yet because they are not durable.
        self._pending_flushes = 0
        self._pending_replies = 0
        self._pending_bytes = 0
        # What the command that is running told this very client, besides its reply.
        self._is_running = False
        self._pushes: list[bytes] = []
        self._shown: list[bytes] = []
        self._unread_bound = UnreadBound()
        self._ended = False
        self._linger = False

    @property
    def fd(self) -> int:
        """The socket's number, -1 when it is closed."""
        own = self._transport.get_extra_info("socket")
        return -1 if own is None else int(own.fileno())

    @property
    def held_bytes(self) -> int:
        """Requests received and not run yet."""
        return self._held_bytes

    @property
    def unsent_bytes(self) -> int:
        """Replies that the client has not got yet."""
        return self._pending_bytes + self._transport.get_write_buffer_size()

    # --- From the transport -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.address = _host_and_port(transport.get_extra_info("peername"))
        self.local_address = _host_and_port(transport.get_extra_info("sockname"))
        self._transport.set_write_buffer_limits(high=self._server.limits.output_pause_bytes)
        _keep_alive(transport.get_extra_info("socket"), self._server.tcp_keepalive_s)
        refusal = self._server.admit(self)
        if refusal is not None:
            self._ended = True
            self._transport.write(encode_error(refusal))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._server.remove(self)

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        if self._ended or self._broken:
            return
        self.active_ms = now = self._engine.now()
        if now >= self._server.rates_due_ms:
            self._server.sample_rates(now)
        self._parser.trusted = self.session.authenticated
        requests = iter(self._parser.parse(data))
        if self._held or self._must_hold():
            self._hold(requests)
        else:
            self._run(requests, now)
        if self._held:
            self._held_bytes += len(data)
            self._steer_reading()

    def eof_received(self) -> bool:
        """The client sends no more: it gets what it is still owed, and the connection closes.

        Held requests and a blocked command are dropped: a client that died looks the same.
        """
        self._linger = False
        self._end()
        self._close_if_done()
        return True

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.resume()

    # --- Running requests ---------------------------------------------------------------------

    def _run(self, requests: Iterator[list[bytes]], now: Millis) -> None:
        """Run requests until they end or the connection has to hold the rest."""
        session, replica = self.session, self._replica
        call = self._database.call
        untrusted = not session.authenticated
        room = self._server.limits.output_pause_bytes - self._pending_bytes
        chunks: list[bytes] = []
        replies = size = measured = 0
        turn_ends = perf_counter_ns() + TURN_NS
        self._is_running = True
        try:
            for argv in requests:
                self.commands += 1
                reply = call(session, now, argv)
                if replica.touched:
                    self._server.settle(now)
                if self._shown:
                    chunks += self._shown
                    self._shown.clear()
                if reply is WAITING:
                    self._waiting = True
                    self._engine.schedule()
                    break
                if untrusted:
                    self._parser.trusted = session.authenticated
                is_silent = session.talk is not Talk.ON and self._is_silenced()
                if type(reply) is Pushes:
                    self._pushes.append(_encoded(reply, session.protocol))
                elif not is_silent:
                    encode(reply, session.protocol, chunks)
                    replies += 1
                if isinstance(reply, CommandError) and argv[0].lower() in FOREIGN_WORDS:
                    self._cut_off("it speaks HTTP")
                    return
                if session.closing:
                    break
                if self._pushes:
                    self._send_with_pushes(chunks, replies)
                    chunks, replies, size, measured = [], 0, 0, 0
                    room = self._server.limits.output_pause_bytes - self._pending_bytes
                    if self._ended or room < 0:
                        break
                # Measured now and then: it costs more than a PING.
                if len(chunks) - measured >= MEASURE_CHUNKS or (chunks and len(chunks[-1]) > 4096):
                    size += sum(map(len, chunks[measured:]))
                    measured = len(chunks)
                    if size > room:
                        break
                if perf_counter_ns() > turn_ends:
                    self._end_turn()
                    break
        except PostponedError:
            self.is_postponed = True
            self.commands -= 1
            requests = chain([argv], requests)
        except RequestError as error:
            self._refuse(error, chunks)
            replies += 1
        finally:
            self._is_running = False
        size += sum(map(len, chunks[measured:]))
        if chunks:
            self._send_when_durable(chunks, replies, size)
        if session.closing:
            self._end()
            self._close_if_done()
        elif not self._ended:
            self._hold(requests)

    def _is_silenced(self) -> bool:
        """CLIENT REPLY: whether this command goes unanswered; SKIP spares it and the next."""
        session = self.session
        if session.talk is Talk.SKIP_NEXT:
            session.talk = Talk.SKIP_THIS
        elif session.talk is Talk.SKIP_THIS:
            session.talk = Talk.ON
        return True

    def _refuse(self, error: RequestError, chunks: list[bytes]) -> None:
        """Malformed input: one last reply, and nothing more is read."""
        self._database.statistics.note_error(error.text)
        chunks.append(encode_error(error.text))
        self._linger = True
        self._end()

    # --- Holding ------------------------------------------------------------------------------

    def _must_hold(self) -> bool:
        limits = self._server.limits
        return (
            self._waiting
            or self.is_postponed
            or self._write_paused
            or self._turn_is_over
            # While the disk refuses, writes do too, and reads are to be answered.
            or (self._engine.congested and self._engine.fault is None)
            or self._pending_bytes > limits.output_pause_bytes
            or self._pending_replies > limits.pending_replies_max
        )

    def _hold(self, requests: Iterator[list[bytes]]) -> None:
        try:
            self._held.extend(requests)
        except RequestError as error:
            self._held.append(error)
            self._broken = True

    def resume(self) -> None:
        """Go on with what is held, if nothing forbids it."""
        if self._ended or not self._held or self._must_hold():
            return
        held, self._held = self._held, deque()
        self._run(_released(held), self._engine.now())
        if not self._held:
            self._held_bytes = 0
        self._steer_reading()

    def _end_turn(self) -> None:
        """Let others run; whoever sends much at once would hold them up."""
        self._turn_is_over = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._turn_is_over = False
        if self._held:
            self.resume()
        else:
            self._steer_reading()

    def go_on(self) -> None:
        """CLIENT PAUSE is over."""
        if self.is_postponed:
            self.is_postponed = False
            self.resume()

    def _steer_reading(self) -> None:
        if self._waiting and self._held_bytes > HELD_BLOCKED_BYTES_MAX:
            self._cut_off("it sends without end behind a blocked command")
            return
        wanted = self._waiting or (self._held_bytes <= HELD_BYTES_MAX and not self._turn_is_over)
        if wanted == self._reading or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # --- Replies and messages -----------------------------------------------------------------

    def push(self, message: bytes) -> None:
        """Send a message of a channel, behind all that this client is owed by now.

        One that the client's own command publishes stands behind the reply of that command.  A
        client that leaves too much unread is cut off.
        """
        if self._ended:
            return
        if self._is_running:
            self._pushes.append(message)
            return
        self._send_when_durable([message], 0, len(message))
        excess = self._unread_bound.excess(self.unsent_bytes, self._engine.now())
        if excess is not None:
            self._server.cut_off_unread += 1
            self._cut_off(excess)

    def show(self, line: bytes) -> None:
        """Send a line of MONITOR: as ``push``, but its own command's before that one's reply."""
        if self._is_running and not self._ended:
            self._shown.append(line)
        else:
            self.push(line)

    def _send_with_pushes(self, chunks: list[bytes], replies: int) -> None:
        """Send the replies so far, and what the last command told this client besides."""
        if chunks:
            self._send_when_durable(chunks, replies, sum(map(len, chunks)))
        pushes, self._pushes = self._pushes, []
        self._is_running = False
        for message in pushes:
            self.push(message)
        self._is_running = True

    def deliver(self, reply: Reply) -> None:
        """The reply of the blocked command."""
        assert self._waiting
        self._waiting = False
        if self.session.talk is Talk.ON or not self._is_silenced():
            chunks: list[bytes] = []
            encode(reply, self.session.protocol, chunks)
            self._send_when_durable(chunks, 1, sum(map(len, chunks)))
        # Not from here: this may be called in the middle of another connection's requests.
        asyncio.get_running_loop().call_soon(self.resume)

    def _send_when_durable(self, chunks: list[bytes], replies: int, size: int) -> None:
        self._pending_flushes += 1
        self._pending_replies += replies
        self._pending_bytes += size
        self._engine.defer(partial(self._flush, chunks, replies, size))

    def _flush(self, chunks: list[bytes], replies: int, size: int, durable: bool) -> None:
        self._pending_flushes -= 1
        self._pending_replies -= replies
        self._pending_bytes -= size
        transport = self._transport
        if transport.is_closing():
            return
        # Messages are no replies, and promise nothing: they leave in any case.
        is_told = durable or not replies
        data = b"".join(chunks) if is_told else self._unknown_outcomes(replies)
        transport.write(data)
        self.bytes_out += len(data)
        bytes_max = self._server.limits.output_buffer_bytes_max
        if bytes_max and transport.get_write_buffer_size() > bytes_max:
            self._server.cut_off_unread += 1
            self._cut_off(f"it leaves more than {bytes_max} bytes of replies unread")
        elif self._ended:
            self._close_if_done()
        elif self._held:
            self.resume()

    def _unknown_outcomes(self, replies: int) -> bytes:
        self._database.statistics.note_error(OUTCOME_UNKNOWN, replies)
        return encode_error(OUTCOME_UNKNOWN) * replies

    # --- Ending -------------------------------------------------------------------------------

    def close(self) -> None:
        """Run nothing more; hang up when the client has what it is owed."""
        self._end()
        self._close_if_done()

    def abort(self) -> None:
        """Hang up at once."""
        self._end()
        self._transport.abort()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._held.clear()
            self._database.forget(self.session)

    def _close_if_done(self) -> None:
        if self._pending_flushes or self._transport.is_closing():
            return
        if self._linger and self._transport.can_write_eof():
            self._linger = False
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()

    def _cut_off(self, why: str) -> None:
        logger.warning("client cut off", address=self.address, why=why)
        self.abort()


def _encoded(reply: Reply, protocol: int) -> bytes:
    chunks: list[bytes] = []
    encode(reply, protocol, chunks)
    return b"".join(chunks)


def _released(held: Iterable[list[bytes] | RequestError]) -> Iterator[list[bytes]]:
    for request in held:
        if isinstance(request, RequestError):
            raise request
        yield request


def _keep_alive(own: socket.socket | None, interval_s: int) -> None:
    """Have TCP ask a silent peer every ``interval_s`` whether it is there; 0: never."""
    if own is None or not interval_s:
        return
    interval_s = min(interval_s, KEEPALIVE_SECONDS_MAX)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, interval_s)
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, interval_s // 3))
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _host_and_port(name: object) -> str:
    """As CLIENT LIST prints it: ``127.0.0.1:6381``, ``[::1]:6381``."""
    if not isinstance(name, tuple) or len(name) < 2:
        return "?:0"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
