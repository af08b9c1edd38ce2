"""Clients of a TLS port, from accept until their handshake is done.

A handshake costs as much processor time as a hundred commands, and a client may take any time for
its part.  So they are bounded:

    accept ── at most HANDSHAKES_MAX ──> waits for the client <──┐
                                            │ readable           │ wants more
                                            └──> due ── a step ──┴──> done: a transport
                                                  at most STEPS_PER_TURN in a turn of the event loop

One that is not done in time is dropped.  When there are HANDSHAKES_MAX, accepting stops, and the
system keeps further clients waiting.  The time is shorter then, so that clients that only connect
cannot keep others out for long.

A client that is refused gets an alert with the reason.  In TLS 1.3 it is done before the node is,
and sends its first commands.  A socket that is closed with bytes unread is reset, and then these
commands fail in the client before it reads the alert.  So the node ends its own side, and reads on
for a moment.

Always so: a client that has not shown what the context demands never gets a transport.
"""

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog

from crdtstream.core.size import Scope, Seconds, Size
from crdtstream.resp.transport.tls import TlsTransport

logger = structlog.get_logger(__name__)

HANDSHAKES_MAX: Final = Size(256, least=1, scope=Scope.CLIENTS)
STEPS_PER_TURN: Final = Size(4, least=1)
HANDSHAKE_SECONDS_MAX: Final = Seconds(10.0, least=0.01, scope=Scope.CLIENTS)
# The same while there are HANDSHAKES_MAX: more than a client's three round trips around the world.
CROWDED_SECONDS_MAX: Final = Seconds(1.0, least=0.01, scope=Scope.CLIENTS)
# Connections that are accepted in one turn of the event loop.
ACCEPTS_PER_TURN: Final = Size(32, least=1)
# Rest after the system has refused to accept, as when no more files may be open.
REFUSED_SECONDS: Final = Seconds(1.0, least=0.01)
# A client that is refused has this time and sends this much until it has read the reason.
REFUSED_CLIENT_SECONDS_MAX: Final = Seconds(1.0, least=0.01, scope=Scope.CLIENTS)
REFUSED_CLIENT_BYTES_MAX: Final = Size(65_536, least=1, scope=Scope.CLIENTS)
# Failures are in the log this often at most.
LOG_SECONDS: Final = Seconds(60.0, least=0.0)

# The system has no room for another connection at present.
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_NO_TLS: Final = "the client does not speak TLS, which this port wants (redis-cli --tls)"
# OpenSSL's words for the usual mistakes, and ours.
_USUAL: Final = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate (tls_auth_clients)",
    "CERTIFICATE_VERIFY_FAILED": "no authority in tls_ca_cert_file vouches for the client's"
    " certificate, or it has expired",
    "UNSUPPORTED_PROTOCOL": "the client speaks none of tls_protocols",
    "NO_SHARED_CIPHER": "the client speaks none of tls_ciphers",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority of this node's certificate",
}


@dataclass(slots=True)
class HandshakeCounts:
    """Handshakes of a TLS port since the start of the node.

    Attributes:
        done: the client was connected.
        failed: the client, or what it showed, was refused, or it hung up.
        late: dropped, as the client took too long.
    """

    done: int = 0
    failed: int = 0
    late: int = 0


class _Handshake:
    """A client that has been accepted.

    Attributes:
        own: its socket; plain until its first step.
        fd: the number of its file.
        began_s: by the event loop's clock.
        is_due: it waits for its step, not for its client.
        is_refused: it has failed, and its client may still read the reason.
        discarded_bytes: what its client has sent since then.
    """

    def __init__(self, own: socket.socket, address: str, began_s: float) -> None:
        self.own = own
        self.fd = own.fileno()
        self.address = address
        self.began_s = began_s
        self.timer: asyncio.TimerHandle | None = None
        self.is_due = False
        self.is_refused = False
        self.discarded_bytes = 0
        self.watches_read = False
        self.watches_write = False


class Handshakes:
    """Accepts clients and shakes hands with them.

    Attributes:
        counts: see there.

    Args:
        context: returns the context of new connections.
        make_protocol: makes the protocol of a client.
        describe: returns what ``get_extra_info`` knows of a client besides its addresses.
    """

    def __init__(
        self,
        *,
        context: Callable[[], ssl.SSLContext],
        make_protocol: Callable[[], asyncio.Protocol],
        describe: Callable[[ssl.SSLSocket], dict[str, Any]],
    ) -> None:
        self.counts = HandshakeCounts()
        self._loop = cast(asyncio.AbstractEventLoop, None)
        self._context = context
        self._make_protocol = make_protocol
        self._describe = describe
        self._listening: list[socket.socket] = []
        self._is_accepting = False
        self._accept_timer: asyncio.TimerHandle | None = None
        # By number of their file, the oldest first.
        self._open: dict[int, _Handshake] = {}
        self._due: deque[_Handshake] = deque()
        self._is_stepping = False
        self._log_due_s = 0.0

    @property
    def count(self) -> int:
        """Handshakes in progress."""
        return len(self._open)

    # --- Accepting ----------------------------------------------------------------------------

    def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Accept clients at these sockets, which listen and do not block, in place of others."""
        self._loop = asyncio.get_running_loop()
        self.stop_listening()
        self._listening = list(sockets)
        self._accept_on()

    def stop_listening(self) -> None:
        """Accept no more clients; handshakes in progress go on."""
        self._accept_off()
        for listening in self._listening:
            listening.close()
        self._listening = []

    def close(self) -> None:
        """Stop listening, and drop the handshakes in progress."""
        self.stop_listening()
        for handshake in list(self._open.values()):
            self._drop(handshake)

    def _accept_on(self) -> None:
        if self._accept_timer is not None:
            self._accept_timer.cancel()
            self._accept_timer = None
        if self._is_accepting or not self._listening:
            return
        self._is_accepting = True
        for listening in self._listening:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept_off(self) -> None:
        if self._accept_timer is not None:
            self._accept_timer.cancel()
            self._accept_timer = None
        if self._is_accepting:
            self._is_accepting = False
            for listening in self._listening:
                self._loop.remove_reader(listening.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN.value):
            if len(self._open) >= HANDSHAKES_MAX.value and not self._drop_slowest():
                self._wait_for_room()
                return
            try:
                own, name = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._begin(own, name)

    def _begin(self, own: socket.socket, name: Any) -> None:
        own.setblocking(False)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        handshake = _Handshake(own, str(name[0]), self._loop.time())
        handshake.timer = self._loop.call_later(
            HANDSHAKE_SECONDS_MAX.value, self._drop_late, handshake
        )
        self._open[handshake.fd] = handshake
        # Nothing is spent on a client before it has sent something.
        self._wait_readable(handshake)

    def _drop_slowest(self) -> bool:
        """Make room: drop the oldest handshake, if its client has had CROWDED_SECONDS_MAX."""
        oldest = next(iter(self._open.values()))
        if oldest.is_due or self._crowded_until_s(oldest) > self._loop.time():
            return False
        self._drop_late(oldest)
        return True

    def _crowded_until_s(self, handshake: _Handshake) -> float:
        return handshake.began_s + CROWDED_SECONDS_MAX.value

    def _wait_for_room(self) -> None:
        """Accept again when a handshake is done, or when the oldest one may be dropped."""
        self._accept_off()
        oldest = next(iter(self._open.values()))
        rest_s = max(0.0, self._crowded_until_s(oldest) - self._loop.time())
        self._accept_timer = self._loop.call_later(rest_s, self._accept_on)

    def _rest(self, error: OSError) -> None:
        """The system refuses to accept: tell it, and try again later."""
        if error.errno not in _NO_ROOM:
            self._log_seldom("a client cannot be accepted", "?", str(error))
            return
        self._accept_off()
        self._log_seldom(
            "no client can be accepted; raise the limit of open files", "?", str(error)
        )
        self._accept_timer = self._loop.call_later(REFUSED_SECONDS.value, self._accept_on)

    # --- Shaking hands ------------------------------------------------------------------------

    def _wait_readable(self, handshake: _Handshake) -> None:
        handshake.watches_read = True
        self._loop.add_reader(handshake.fd, self._note_ready, handshake)

    def _wait_writable(self, handshake: _Handshake) -> None:
        handshake.watches_write = True
        self._loop.add_writer(handshake.fd, self._note_ready, handshake)

    def _stop_waiting(self, handshake: _Handshake) -> None:
        if handshake.watches_read:
            handshake.watches_read = False
            self._loop.remove_reader(handshake.fd)
        if handshake.watches_write:
            handshake.watches_write = False
            self._loop.remove_writer(handshake.fd)

    def _note_ready(self, handshake: _Handshake) -> None:
        """Its client has done its part: the next step is due."""
        self._stop_waiting(handshake)
        handshake.is_due = True
        self._due.append(handshake)
        if not self._is_stepping:
            self._is_stepping = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        """Do the next steps that are due, at most STEPS_PER_TURN.

        A handshake that breaks is dropped, and the others go on.
        """
        due = self._due
        try:
            for _ in range(min(STEPS_PER_TURN.value, len(due))):
                handshake = due.popleft()
                if not handshake.is_due:
                    continue
                handshake.is_due = False
                try:
                    self._go_on(handshake)
                except Exception as bug:  # noqa: BLE001 - the others go on
                    self._fail(handshake, bug)
        finally:
            if due:
                self._loop.call_soon(self._step)
            else:
                self._is_stepping = False

    def _go_on(self, handshake: _Handshake) -> None:
        try:
            own = self._wrapped(handshake)
            own.do_handshake()
        except ssl.SSLWantReadError:
            self._wait_readable(handshake)
        except ssl.SSLWantWriteError:
            self._wait_writable(handshake)
        except OSError as error:
            self._fail(handshake, error)
        else:
            self._connect(handshake, own)

    def _wrapped(self, handshake: _Handshake) -> ssl.SSLSocket:
        own = handshake.own
        if not isinstance(own, ssl.SSLSocket):
            own = self._context().wrap_socket(
                own,
                server_side=True,
                do_handshake_on_connect=False,
                suppress_ragged_eofs=False,
            )
            handshake.own = own
        return own

    def _connect(self, handshake: _Handshake, own: ssl.SSLSocket) -> None:
        try:
            transport = TlsTransport(self._loop, own, self._describe(own))
        except (OSError, ValueError) as error:
            self._fail(handshake, error)
            return
        self._forget(handshake)
        self.counts.done += 1
        transport.start(self._make_protocol())

    # --- Ending -------------------------------------------------------------------------------

    def _fail(self, handshake: _Handshake, error: Exception) -> None:
        self.counts.failed += 1
        # Most ports are probed by load balancers, which hang up at once: that is no error.
        if isinstance(error, ssl.SSLEOFError | ConnectionError):
            self._drop(handshake)
            return
        self._log_seldom("TLS handshake failed", handshake.address, _reason(error))
        if isinstance(error, ssl.SSLError) and self._is_open(handshake):
            self._refuse(handshake)
        else:
            self._drop(handshake)

    def _refuse(self, handshake: _Handshake) -> None:
        """Let the client read the alert that OpenSSL has sent."""
        self._stop_waiting(handshake)
        try:
            handshake.own.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(handshake)
            return
        handshake.is_refused = True
        assert handshake.timer is not None
        handshake.timer.cancel()
        handshake.timer = self._loop.call_later(
            REFUSED_CLIENT_SECONDS_MAX.value, self._drop, handshake
        )
        handshake.watches_read = True
        self._loop.add_reader(handshake.fd, self._discard, handshake)

    def _discard(self, handshake: _Handshake) -> None:
        """Read what a refused client sends, until it hangs up."""
        try:
            data = handshake.own.recv(REFUSED_CLIENT_BYTES_MAX.value)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        handshake.discarded_bytes += len(data)
        if not data or handshake.discarded_bytes >= REFUSED_CLIENT_BYTES_MAX.value:
            self._drop(handshake)

    def _drop_late(self, handshake: _Handshake) -> None:
        if not handshake.is_refused:
            self.counts.late += 1
            self._log_seldom("TLS handshake dropped", handshake.address, "the client took too long")
        self._drop(handshake)

    def _drop(self, handshake: _Handshake) -> None:
        self._stop_waiting(handshake)
        if self._is_open(handshake):
            self._forget(handshake)
        handshake.own.close()

    def _is_open(self, handshake: _Handshake) -> bool:
        """False of one that breaks as its connection begins: it is no longer here."""
        return self._open.get(handshake.fd) is handshake

    def _forget(self, handshake: _Handshake) -> None:
        assert handshake.timer is not None
        handshake.timer.cancel()
        handshake.is_due = False
        del self._open[handshake.fd]
        self._accept_on()

    def _log_seldom(self, what: str, address: str, reason: str) -> None:
        now_s = self._loop.time()
        if now_s >= self._log_due_s:
            self._log_due_s = now_s + LOG_SECONDS.value
            logger.warning(what, address=address, reason=reason)


def _reason(error: Exception) -> str:
    """The error, in words for the usual mistake."""
    if not isinstance(error, OSError):
        return repr(error)
    if not isinstance(error, ssl.SSLError):
        return str(error)
    return _USUAL.get(error.reason, error.reason) or str(error)
