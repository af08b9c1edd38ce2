"""One client's connection: bytes to requests, and parcels to bytes.

    data_received ── parse ── Client.run ··> parcel, when what it tells is in the log ──> written

Requests run as soon as they have arrived, in the same turn of the event loop, and their replies
leave together.  There is no task, no await and no write per command.  A client with many requests
takes turns with the others.

A connection *holds*, that is, keeps requests instead of running them: while one of its commands is
blocked or postponed by CLIENT PAUSE, while the disk is behind, and between its turns.  All of these
end without the client, but the first.  So when it holds much, it stops reading, and TCP slows the
client down; behind a blocked command it reads on up to ``client-query-buffer-limit``.

It never waits for the client to read.  Many clients write a whole pipeline first, and would wait
for it in turn.  Replies that the client does not fetch are kept, up to
``client-output-buffer-limit``.

A client that sends no more, or has gone, is run to the end of what it sent, or to the first command
that would wait.

Always so: requests are run in order; a held connection runs nothing.  ``region/clients.py`` makes
sure that replies leave in the order of the requests, with messages of channels between them.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import length_hint
from typing import Final, Protocol, cast

import structlog

from crdtstream.core.ids import Millis
from crdtstream.core.size import Scope, Seconds, Size
from crdtstream.database.session import Session
from crdtstream.region.clients import Stop
from crdtstream.region.ready import Parcel
from crdtstream.region.region import Region
from crdtstream.resp.clients.arrivals import Arrivals
from crdtstream.resp.clients.limits import ConnectionLimits
from crdtstream.resp.clients.output_limits import UnreadBound
from crdtstream.resp.wire.encode import encode_error
from crdtstream.resp.wire.id_runs import Request
from crdtstream.resp.wire.parser import RequestError, RequestParser, RequestTooBigError

logger = structlog.get_logger(__name__)

# Requests held for something that ends by itself; beyond it nothing more is read.
HELD_BYTES_MAX: Final = Size(1 << 20, least=1)
# Larger replies are handed to the transport in pieces, while it takes them; and while the system
# has not taken this much of earlier ones, the transport gets no more.
PIECE_BYTES: Final = Size(1 << 18, least=1)
# A client that reads as fast as it is written to takes turns with the others.
WRITTEN_AT_ONCE_MAX: Final = Size(1 << 20, least=1)
# Before its login a client gets this many bytes of replies at once, and is cut off when it leaves
# more unread (Redis: 1 KiB behind a buffer of 16 KiB).
UNTRUSTED_REPLY_BYTES_MAX: Final = 16 << 10
UNTRUSTED_UNREAD_BYTES_MAX: Final = UNTRUSTED_REPLY_BYTES_MAX + (1 << 10)
# After an error that ends the connection the client has this time to read it: closing at once with
# its bytes unread would make TCP throw the error away.
LINGER_SECONDS: Final = Seconds(1.0, least=0.01, scope=Scope.CLIENTS)
# Pause after the time of the soft bound, until the client is judged by it.
SOFT_SPARE_SECONDS: Final = Seconds(0.1, least=0.01)
# Bytes of each connection by itself, and of each of its watches and subscriptions, roughly.
CONNECTION_BYTES: Final = 8 << 10
NAME_BYTES: Final = 128
# The greatest value that Linux takes.
KEEPALIVE_SECONDS_MAX: Final = 32_767

# The common name of the client's certificate, among what a transport knows (``get_extra_info``).
CERTIFICATE_NAME: Final = "certificate_name"

OUTCOME_UNKNOWN: Final = (
    "MISCONF the disk refused while this command was being made durable: its outcome is unknown. "
    "Look at the server's log and at INFO persistence, then read back what you wrote"
)


class TrafficCounts(Protocol):
    """Counters of all clients that a connection updates beside its own.

    Attributes:
        rates_due_ms: when ``sample`` is to be called next, by a connection that runs something.
        cut_off_unread: how many clients were cut off as they left too much unread.
        cut_off_asking: how many as they sent more than a connection may before it is run.
    """

    rates_due_ms: int
    cut_off_unread: int
    cut_off_asking: int

    def sample(self, now: Millis) -> None:
        """Remember how much was done until now."""


class MemoryWatch(Protocol):
    """The bound on the memory of all clients, as a connection sees it.

    Attributes:
        weighs: clients have to be weighed.
    """

    weighs: bool

    def weigh(self, connection: "Connection") -> None:
        """Note what a client has now; it or others may be ended for it."""


class Acceptor(Protocol):
    """The server that accepted a connection, as the connection sees it.

    Attributes:
        limits: of each connection; may be replaced at any time.
        tcp_keepalive_s: seconds of silence after which the peer is probed; 0: never.
    """

    limits: ConnectionLimits
    tcp_keepalive_s: int

    @property
    def memory(self) -> MemoryWatch:
        """The bound on the memory of all clients."""

    @property
    def traffic(self) -> TrafficCounts:
        """Counters of all clients."""

    def stop_on_bug(self, error: Exception) -> None:
        """A command broke half-way: a bug of ours, and the node must stop."""

    def admit(self, connection: "Connection") -> str | None:
        """Take a client in; or why not, as error text."""

    def note_cut_off(self, connection: "Connection", why: str) -> None:
        """A client that has not logged in is cut off; the log need not have each."""

    def remove(self, connection: "Connection") -> None:
        """A client is gone."""


class Connection(asyncio.Protocol):
    """A client, from accept to close.

    Attributes:
        client: its requests and replies.
        address, local_address: host:port of both ends.
        connected_ms, active_ms: when it came, and when it last sent something.
        bytes_in, bytes_out: how much it sent and got.
        no_evict, no_touch: as set by CLIENT NO-EVICT and NO-TOUCH.
        is_tracking: it said CLIENT TRACKING ON OPTIN; nothing is tracked.
    """

    def __init__(self, acceptor: Acceptor, region: Region, now: Callable[[], Millis]) -> None:
        self.client = region.clients.connect(self)
        self.address = ""
        self.local_address = ""
        self.connected_ms = self.active_ms = now()
        self.bytes_in = 0
        self.bytes_out = 0
        self.no_evict = False
        self.no_touch = False
        self.is_tracking = False
        self._acceptor = acceptor
        self._region = region
        self._now = now
        self._parser = RequestParser(acceptor.limits.request)
        self._transport = cast(asyncio.Transport, None)
        # What is left of the input that was parsed last, and its size; a command before that is
        # to be run again; and the input behind it.
        self._requests: Iterator[Request] | None = None
        self._input_bytes = 0
        self._again: list[bytes] | None = None
        self._arrivals = Arrivals()
        self._turn_is_over = False
        self._reading = True
        # It sends no more; its connection is lost, and what it has sent is still run.
        self._sends_no_more = False
        self._has_gone = False
        self._write_paused = False
        # Replies that the transport has not taken yet, behind those that it has.
        self._unwritten: deque[bytes | bytearray | memoryview] = deque()
        self._unwritten_bytes = 0
        self._unread_bound = UnreadBound()
        # Looks once more when the time of the soft bound has passed.
        self._unread_timer: asyncio.TimerHandle | None = None
        self._linger = False
        # Its end was sent, and what it sends is still read for a while.
        self._is_lingering = False

    @property
    def session(self) -> Session:
        """The client as the commands see it."""
        return self.client.session

    @property
    def commands(self) -> int:
        """Number of commands that the client has sent."""
        return self.client.commands

    @property
    def is_postponed(self) -> bool:
        """Its next command waits for the end of CLIENT PAUSE."""
        return self.client.is_postponed

    @property
    def fd(self) -> int:
        """The socket's number, -1 when it is closed."""
        own = self._transport.get_extra_info("socket")
        return -1 if own is None else int(own.fileno())

    @property
    def certificate_name(self) -> str | None:
        """The user that the client's certificate names; None: that does not count."""
        name: str | None = self._transport.get_extra_info(CERTIFICATE_NAME)
        return name

    @property
    def tls(self) -> ssl.SSLSocket | None:
        """The connection as OpenSSL has it; None without TLS."""
        own = self._transport.get_extra_info("socket")
        return own if isinstance(own, ssl.SSLSocket) else None

    @property
    def has_ended(self) -> bool:
        """Nothing of it is run any more."""
        return self.client.has_ended

    @property
    def held_bytes(self) -> int:
        """Requests received and not run yet, also a part of one."""
        parsed = 0 if self._requests is None else self._input_bytes
        return parsed + self._arrivals.size + self._parser.pending_bytes

    @property
    def memory_bytes(self) -> int:
        """Memory that it takes, about."""
        session = self.session
        names = session.subscriptions + len(session.watched)
        own = self.held_bytes + self.unsent_bytes + session.queue_bytes
        return CONNECTION_BYTES + NAME_BYTES * names + own

    @property
    def unsent_bytes(self) -> int:
        """Replies that the client has not got yet."""
        return self.client.owed_bytes + self._written_bytes

    @property
    def is_trusted(self) -> bool:
        """It has logged in, or need not."""
        return self.client.session.authenticated or not self._region.database.users.ask

    @property
    def _written_bytes(self) -> int:
        """Replies that have left and the system has not taken yet."""
        return self._unwritten_bytes + self._transport.get_write_buffer_size()

    # --- From the transport -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.address = _host_and_port(transport.get_extra_info("peername"))
        self.local_address = _host_and_port(transport.get_extra_info("sockname"))
        self._transport.set_write_buffer_limits(high=PIECE_BYTES.value)
        _keep_alive(transport.get_extra_info("socket"), self._acceptor.tcp_keepalive_s)
        refusal = self._acceptor.admit(self)
        if refusal is not None:
            self._end()
            self._transport.write(encode_error(refusal))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        self._unwritten.clear()
        self._unwritten_bytes = 0
        # A stranger has nothing to be run, and would keep its place.
        if self._holds() and self.is_trusted and not self._waits():
            self._sends_no_more = self._has_gone = True
            return
        self._end()
        self._leave()

    def _leave(self) -> None:
        self._region.clients.disconnect(self.client)
        self._acceptor.remove(self)

    def data_received(self, data: bytes) -> None:
        now = self._now()
        # A sample has the bytes of those commands that it has: these are still to run.
        if now >= self._acceptor.traffic.rates_due_ms:
            self._acceptor.traffic.sample(now)
        self.bytes_in += len(data)
        client = self.client
        if client.has_ended:
            return
        self.active_ms = now
        if self._requests is not None or self._arrivals.size or self._must_hold():
            self._arrivals.add(data)
        else:
            self._run(self._parsed(data), now)
        if self._requests is not None or self._arrivals.size:
            self._steer_reading()
        if self._parser.has_begun or client.session.queue is not None or client.is_blocked:
            self._check_asking()
        if self._acceptor.memory.weighs:
            self._acceptor.memory.weigh(self)

    def _parsed(self, data: bytes) -> Iterator[Request]:
        """The requests in the next input, as ``Client.run`` takes them."""
        self._input_bytes = len(data)
        if self._parser.limits is not self._acceptor.limits.request:
            self._parser.set_limits(self._acceptor.limits.request)
        trusted = self._parser.trusted = self.is_trusted
        requests = self._parser.parse(data)
        if not trusted:
            requests = self._trusting(iter(requests))
        elif isinstance(requests, list) and len(requests) == 1 and isinstance(requests[0], list):
            # Most often: no run, and nothing behind it.
            return iter(requests)
        return self.client.taking_runs(requests)

    def _check_asking(self) -> None:
        """Cut the client off if a request or a transaction of it has no end."""
        pending = self._parser.pending_bytes
        self._parser.has_begun = pending > 0
        if self.client.is_blocked:
            # It may wait without end.  Reading goes on, as in Redis: that is the only way to learn
            # that the client has gone.
            pending = self.held_bytes
        size = pending + self.session.queue_bytes
        if size > self._acceptor.limits.request.request_bytes_max and not self.has_ended:
            self._cut_off_asking()

    def _cut_off_asking(self) -> None:
        self._acceptor.traffic.cut_off_asking += 1
        self._cut_off("it sends more than client-query-buffer-limit without an end")

    def _trusting(self, requests: Iterator[Request]) -> Iterator[Request]:
        """Have the parser's bounds follow an AUTH before it reads on."""
        for argv in requests:
            yield argv
            self._parser.trusted = self.is_trusted

    def eof_received(self) -> bool:
        """The client sends no more: what it sent is run, it gets what it is owed, and the
        connection closes.

        A command that waits is dropped, with all behind it: a client that died looks the same.
        """
        self._linger = self._is_lingering = False
        self._sends_no_more = True
        self._end_if_all_has_run()
        return True

    def _end_if_all_has_run(self) -> None:
        if self._waits() or not self._holds():
            self._end()
            self._close_if_done()

    def _waits(self) -> bool:
        """Its command waits for others: it is blocked, or postponed.

        It may do so for long, and connections that have gone would take the places of living ones.
        """
        return self.client.is_blocked or self.client.is_postponed

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._write_on()

    # --- Running requests ---------------------------------------------------------------------

    def _run(self, requests: Iterator[Request], now: Millis) -> None:
        """Run requests until they end or the connection has to hold the rest."""
        client = self.client
        bytes_max = self._acceptor.limits.output_pause_bytes
        if not client.session.authenticated:
            bytes_max = min(bytes_max, UNTRUSTED_REPLY_BYTES_MAX)
        again, self._again, self._requests = self._again, None, None
        try:
            stop = client.run(
                requests if again is None else chain([again], requests), now, bytes_max=bytes_max
            )
        except RequestError as error:
            self._refuse(error)
            return
        except Exception as bug:  # noqa: BLE001 - the event loop would log it, and go on
            self._acceptor.stop_on_bug(bug)
            return
        match stop:
            case Stop.END:
                return
            case Stop.POSTPONED | Stop.COLD:
                assert client.postponed is not None
                self._again = client.postponed
            case Stop.TURN:
                self._end_turn()
            case Stop.FOREIGN:
                self._cut_off("it speaks HTTP")
            case Stop.CLOSING:
                self._end()
                self._close_if_done()
            case Stop.BLOCKED | Stop.FULL:
                pass
        is_rest = self._again is not None or length_hint(requests, 1) > 0
        if is_rest and not client.has_ended:
            self._requests = requests

    def _refuse(self, error: RequestError) -> None:
        """Malformed input: one last reply, and nothing more is read."""
        if isinstance(error, RequestTooBigError):
            self._cut_off_asking()
            return
        self._region.database.statistics.note_error(error.text)
        self._linger = True
        self.client.refuse(encode_error(error.text))
        self._end()

    # --- Holding ------------------------------------------------------------------------------

    def _must_hold(self) -> bool:
        client, limits = self.client, self._acceptor.limits
        return (
            client.is_blocked
            or client.is_postponed
            or client.is_cold
            or self._turn_is_over
            or self._region.log.is_congested
            or client.owed_bytes > limits.output_pause_bytes
            or client.owed_replies > limits.pending_replies_max
        )

    def _holds(self) -> bool:
        return self._requests is not None or self._arrivals.size > 0

    def resume(self) -> None:
        """Go on with what is held, if nothing forbids it."""
        if self.client.has_ended or not self._holds() or self._must_hold():
            return
        turn_bytes = 0
        is_rest = True
        while is_rest:
            requests = self._requests
            if requests is None:
                requests = self._parsed(self._arrivals.take())
            turn_bytes += self._input_bytes
            self._run(requests, self._now())
            if self.has_ended:
                return
            if self._parser.has_begun or self.session.queue is not None:
                self._check_asking()
            if self._sends_no_more:
                self._end_if_all_has_run()
            is_rest = self._holds() and not self._must_hold()
            is_within = self.is_trusted and self._arrivals.is_next_within(turn_bytes)
            if is_rest and not is_within:
                # Long input has a turn of its own, and so has each piece of a stranger.
                self._end_turn()
                is_rest = False
        self._steer_reading()

    def _end_turn(self) -> None:
        """Let others run; a client that sends much at once would hold them up."""
        if self._turn_is_over:
            # The next one is to begin already.
            return
        self._turn_is_over = True
        asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._turn_is_over = False
        self._write_on()
        if self._holds():
            self.resume()
        else:
            self._steer_reading()

    def _steer_reading(self) -> None:
        if self._sends_no_more:
            return
        if self.is_trusted:
            is_little = self._arrivals.size <= HELD_BYTES_MAX.value and not self._turn_is_over
            wanted = is_little or self.client.is_blocked
        else:
            wanted = not (self._holds() or self._turn_is_over)
        if wanted == self._reading or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # --- Replies and messages -----------------------------------------------------------------

    def push(self, message: bytes) -> None:
        """Send a message of a channel; a client that leaves too much unread is cut off."""
        self.client.push(message)
        self._check_unread()

    def show(self, line: bytes) -> None:
        """Send a line of MONITOR."""
        self.client.show(line)
        self._check_unread()

    def _check_unread(self) -> None:
        """Cut the client off if it leaves too much unread, or has for too long."""
        if self.client.has_ended or self._transport.is_closing():
            return
        limits = self._acceptor.limits.output
        limit = limits.pubsub if self.session.subscriptions else limits.normal
        bound = self._unread_bound
        now = self._now()
        excess = bound.excess(limit, self.unsent_bytes, now)
        if excess is not None:
            self._acceptor.traffic.cut_off_unread += 1
            self._cut_off(excess)
        elif bound.much_since is not None and self._unread_timer is None:
            # Nothing more may ever be sent to it.
            rest_s = limit.soft_s - max(0, now - bound.much_since) / 1000
            self._unread_timer = asyncio.get_running_loop().call_later(
                rest_s + SOFT_SPARE_SECONDS.value, self._look_at_unread_again
            )

    def _look_at_unread_again(self) -> None:
        self._unread_timer = None
        self._check_unread()

    def receive(self, parcel: Parcel) -> None:
        """Write what may leave now."""
        client, transport = self.client, self._transport
        client.note_told(parcel)
        if not transport.is_closing():
            self._write(parcel)
        if client.has_ended:
            self._close_if_done()
        elif self._requests is not None or self._arrivals.size:
            self.resume()

    def _write(self, parcel: Parcel) -> None:
        # Messages are no replies, and promise nothing: they leave in any case.
        is_told = parcel.certain or not parcel.replies
        chunks = parcel.chunks if is_told else [self._unknown_outcomes(parcel.replies)]
        if self._unwritten or self._write_paused or parcel.size > PIECE_BYTES.value:
            self._write_in_pieces(chunks)
        else:
            data = b"".join(chunks)
            self._transport.write(data)
            self.bytes_out += len(data)
        written = self._written_bytes
        if written or self._unread_bound.much_since is not None:
            self._look_at_unread(written)

    def _look_at_unread(self, written: int) -> None:
        """Judge what the client has not fetched yet; it, or others, may be ended for it."""
        if not self.is_trusted and written > UNTRUSTED_UNREAD_BYTES_MAX:
            self._acceptor.traffic.cut_off_unread += 1
            self._cut_off("it leaves replies unread before its login")
        else:
            self._check_unread()
        if self._acceptor.memory.weighs:
            self._acceptor.memory.weigh(self)

    def _write_in_pieces(self, chunks: Sequence[bytes]) -> None:
        """Write replies as the transport takes them, in place of a copy of all that it would keep
        while the client reads slowly."""
        size = sum(map(len, chunks))
        unwritten = self._unwritten
        if size > PIECE_BYTES.value:
            unwritten.extend(chunks)
        elif (
            unwritten
            and isinstance(last := unwritten[-1], bytearray)
            and len(last) + size <= PIECE_BYTES.value
        ):
            # Many short replies take no more than their bytes.
            last += b"".join(chunks)
        else:
            unwritten.append(bytearray().join(chunks))
        self._unwritten_bytes += size
        self.bytes_out += size
        self._write_on()

    def _write_on(self) -> None:
        """Hand the transport more of what it has not taken yet."""
        unwritten = self._unwritten
        if not unwritten:
            return
        left = WRITTEN_AT_ONCE_MAX.value
        while unwritten and not self._write_paused and not self._transport.is_closing():
            if left <= 0:
                self._end_turn()
                return
            piece = self._next_piece()
            left -= len(piece)
            self._unwritten_bytes -= len(piece)
            self._transport.write(piece)
        if not unwritten and self.client.has_ended:
            self._close_if_done()

    def _next_piece(self) -> bytes | memoryview:
        unwritten = self._unwritten
        first = unwritten.popleft()
        if len(first) > PIECE_BYTES.value:
            unwritten.appendleft(memoryview(first)[PIECE_BYTES.value :])
            return memoryview(first)[: PIECE_BYTES.value]
        parts, size = [first], len(first)
        while unwritten and size + len(unwritten[0]) <= PIECE_BYTES.value:
            size += len(unwritten[0])
            parts.append(unwritten.popleft())
        return b"".join(parts)

    def _unknown_outcomes(self, replies: int) -> bytes:
        self._region.database.statistics.note_error(OUTCOME_UNKNOWN, replies)
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
        if not self.client.has_ended:
            self.client.end()
            self._requests = self._again = None
            self._arrivals.clear()
            if self._has_gone:
                self._leave()

    def _close_if_done(self) -> None:
        if self.client.owed_parcels or self._unwritten or self._transport.is_closing():
            return
        if self._linger and self._transport.can_write_eof():
            self._linger = False
            self._is_lingering = True
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(LINGER_SECONDS.value, self._transport.close)
        elif not self._is_lingering:
            self._transport.close()

    def _cut_off(self, why: str) -> None:
        if self.is_trusted:
            logger.warning("client cut off", address=self.address, why=why)
        else:
            self._acceptor.note_cut_off(self, why)
        self.abort()


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
