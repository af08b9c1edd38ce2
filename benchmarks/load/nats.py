"""As much of NATS's protocol as the benchmark needs, on a raw socket.

A request to JetStream is a message to a subject ``$JS.API.…`` with an inbox for the reply; both are
JSON.  Source: docs.nats.io, "Client protocol" and "JetStream wire API".
"""

import json
import socket
from typing import Any, Final

from benchmarks.load.wire import HOST, RECEIVE_BYTES, LoadError

INBOX: Final = "_INBOX.api"
SECONDS_MAX: Final = 60


class NatsConnection:
    """A connection that said CONNECT."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._subscriptions = 0
        self._left = b""
        self._is_subscribed = False
        self.send(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
        # INFO came first.
        while b"PONG\r\n" not in self._left:
            self._left += self.receive()
        self._left = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Some bytes; PINGs of the server are answered.

        Raises:
            LoadError: the connection ended.
        """
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError("nats-server closed the connection")
        if b"PING\r\n" in data:
            self.send(b"PONG\r\n")
        return data

    def subscribe(self, subject: str) -> None:
        self._subscriptions += 1
        self.send(f"SUB {subject} {self._subscriptions}\r\n".encode())

    def api(self, call: str, body: dict[str, Any], *, domain: str = "") -> dict[str, Any]:
        """Ask JetStream; nothing else comes over this connection meanwhile.

        Args:
            domain: empty: the server's own.

        Raises:
            LoadError: it refused.
        """
        prefix = f"$JS.{domain}.API" if domain else "$JS.API"
        if not self._is_subscribed:
            self.subscribe(INBOX)
            self._is_subscribed = True
        data = json.dumps(body).encode()
        self.send(f"PUB {prefix}.{call} {INBOX} {len(data)}\r\n".encode() + data + b"\r\n")
        reply: dict[str, Any] = json.loads(self._message())
        if "error" in reply:
            raise LoadError(f"{call}: {reply['error']}")
        return reply

    def _message(self) -> bytes:
        """The body of the next message."""
        while True:
            head, end, rest = self._left.partition(b"\r\n")
            words = head.split()
            if end and words[:1] == [b"MSG"]:
                size = int(words[-1])
                if len(rest) >= size + 2:
                    self._left = rest[size + 2 :]
                    return rest[:size]
            elif end and words[:1] == [b"HMSG"]:
                headers, size = int(words[-2]), int(words[-1])
                if len(rest) >= size + 2:
                    self._left = rest[size + 2 :]
                    raise LoadError(rest[:headers].decode().strip())
            elif end:
                self._left = rest
                continue
            self._left += self.receive()

    def make_stream(self, name: str, **config: Any) -> None:
        self.api(f"STREAM.CREATE.{name}", {"name": name, "storage": "file", **config})

    def make_push_consumer(self, stream: str, deliver: str) -> None:
        """From now on messages of the stream come to the subject."""
        config = {"deliver_subject": deliver, "deliver_policy": "new", "ack_policy": "none"}
        self.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})

    def length(self, stream: str) -> int:
        return int(self.api(f"STREAM.INFO.{stream}", {})["state"]["messages"])


def publish(*, port: int, subject: str, count: int, size: int) -> dict[str, Any]:
    """Publish messages, a thousand at a time, each acknowledged by the stream."""
    connection = NatsConnection(port)
    connection.subscribe("_INBOX.acks")
    request = f"PUB {subject} _INBOX.acks {size}\r\n".encode() + b"v" * size + b"\r\n"
    left = count
    while left:
        some = min(left, 1_000)
        connection.send(request * some)
        acknowledged = 0
        tail = b""
        while acknowledged < some:
            data = tail + connection.receive()
            acknowledged += data.count(b"MSG _INBOX.acks ")
            # A head that was cut in two is counted once it is whole.
            cut = data.rfind(b"MSG _INBOX.acks ")
            tail = data[max(cut + 1, len(data) - 15) :]
        left -= some
    return {"messages": count}
