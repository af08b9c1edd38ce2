"""A plain client connection: sends commands, reads replies, with a bound on every wait."""

import socket
import ssl
import time
from typing import Final

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.scenario.replies import WAITING, Answer, ErrorReply, ReplyReader

_CHUNK_BYTES: Final = 1 << 16


class ConnectionClosedError(Exception):
    """The node closed the connection, or cannot be reached."""


class Connection:
    """One client of a node at ``host:port``.

    Args:
        tls: the port speaks TLS, with a certificate of the authorities of ``login``.
        login: presented to the node.

    Raises:
        ConnectionClosedError: no node is there, or it does not take the login.
    """

    def __init__(
        self,
        address: str,
        *,
        tls: bool = False,
        login: Login = NO_LOGIN,
        connect_seconds_max: float = 5.0,
    ) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection(
                (host.strip("[]"), int(port)), timeout=connect_seconds_max
            )
        except OSError as error:
            raise ConnectionClosedError(f"{address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = ReplyReader()
        self._address = address
        if tls:
            self._socket = self._over_tls(login)
        if login.password:
            self._log_in(login, connect_seconds_max)

    def _over_tls(self, login: Login) -> ssl.SSLSocket:
        if login.certificates is None:
            # The system's authorities, and no certificate of ours.
            context = ssl.create_default_context()
        else:
            context = login.certificates.client_context()
        try:
            return context.wrap_socket(
                self._socket, server_hostname=self._address.rpartition(":")[0].strip("[]")
            )
        except (OSError, ssl.SSLError) as error:
            self._socket.close()
            raise ConnectionClosedError(f"{self._address}: {error}") from error

    def _log_in(self, login: Login, seconds_max: float) -> None:
        self.send((b"AUTH", login.user.encode(), login.password.encode()))
        answer = self.read(seconds_max=seconds_max)
        if isinstance(answer, ErrorReply) or answer is WAITING:
            self.close()
            said = answer.text if isinstance(answer, ErrorReply) else "no answer to AUTH"
            raise ConnectionClosedError(f"{self._address}: user {login.user}: {said}")

    def send(self, argv: tuple[bytes, ...]) -> None:
        parts = [b"*%d\r\n" % len(argv)]
        parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in argv]
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise ConnectionClosedError(f"{self._address}: {error}") from error

    def read(self, *, seconds_max: float) -> Answer:
        """The next reply, or WAITING if none comes within the time.

        Raises:
            ConnectionClosedError: and none will come.
        """
        deadline = time.monotonic() + seconds_max
        while True:
            answer = self._reader.next()
            if answer is not WAITING:
                return answer
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except TimeoutError:
                return WAITING
            except OSError as error:
                raise ConnectionClosedError(f"{self._address}: {error}") from error
            if not data:
                raise ConnectionClosedError(f"{self._address}: closed by the node")
            self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()
