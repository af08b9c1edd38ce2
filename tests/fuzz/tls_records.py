"""Records of TLS at the ports of a node: those of a client, changed on their way.

    client ── records ── changed, cut off, doubled, left out … ──> RESP, gRPC or HTTP port

A story names the port, and then for each piece that the client sends the change to it: first for
the two of its handshake, then for one of each request.  The client is OpenSSL in memory.

Always so: a request is answered only if it arrived as it was sent, and all before it did; the
connection ends once the client's side has ended; and the next client is served.
"""

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crdtstream.access.server_credentials import server_credentials
from crdtstream.http.server import http_server, listening_socket
from crdtstream.http.tls import HttpsContexts
from crdtstream.node.ports import LIMITS_OF_CALLERS
from crdtstream.settings.node_settings import NodeSettings
from tests.fuzz.damage import damaged_bytes, damaging_story, one_of, pieces_of, story
from tests.fuzz.surface import Surface
from tests.patience import seconds
from tests.resp.node import Node, request
from tests.resp.tls import Party

REQUESTS: Final = 4
PORTS: Final = ("resp", "grpc", "http")
VERSIONS: Final = ("1.3", "1.2")
# By the first byte of a change.
VERBS: Final = (
    "sent",
    "turned",
    "cut",
    "doubled",
    "left out",
    "behind",
    "before",
    "other",
    "later",
)
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
PING_FRAME: Final = b"\0\0\x08\6\0\0\0\0\0"
# Parts of records: headers of each type, alerts, a change of cipher, a hello of SSL 2.
BITS: Final = (
    *(bytes((kind, 3, 3)) + size for kind in range(20, 25) for size in (b"\0\0", b"\xff\xff")),
    *(b"\x15\3\3\0\2\1\0", b"\x15\3\3\0\2\2\x28", b"\x14\3\3\0\1\1", b"\x16\3\3\0\4\0\0\0\0"),
    *(b"\x80\x2e\1\3\1", b"GET / HTTP/1.1\r\n\r\n", b"*1\r\n$4\r\nPING\r\n"),
)  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A node whose ports speak TLS, and contexts of a client by version."""

    ports: dict[str, int]
    contexts: dict[str, ssl.SSLContext]
    bugs: list[str]
    running: tuple[object, ...]


@cache
def served() -> Served:
    """The ports; they run in a thread until this process ends."""
    bugs: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        party = Party.of(Path(folder))
        certificates = party.certificates()
        contexts = {version: party.context("client", version=version) for version in VERSIONS}
    node = Node(NodeSettings(region=1, dir=Path("unused")), certificates=certificates)
    node.start()

    async def others() -> tuple[int, int, tuple[object, ...]]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, told: bugs.append(str(told)))
        options = (*LIMITS_OF_CALLERS, ("grpc.http2.max_ping_strikes", 0))
        server = grpc.aio.server(options=options)
        number = server.add_secure_port("127.0.0.1:0", server_credentials(certificates))
        await server.start()
        listener = listening_socket("127.0.0.1", 0)
        pages = http_server(
            Starlette(routes=[Route("/", page)]), HttpsContexts(certificates).context
        )
        task = asyncio.create_task(pages.serve(sockets=[listener]))
        return number, listener.getsockname()[1], (node, server, task)

    grpc_port, http_port, running = node.run(others())
    ports = {"resp": node.tls_port, "grpc": grpc_port, "http": http_port}
    return Served(ports, contexts, bugs, running)


async def page(_request: Request) -> Response:
    return Response(b"here")


# --- Requests and their answers -------------------------------------------------------------------


def request_of(port: str, number: int) -> bytes:
    match port:
        case "resp":
            return request(b"ECHO", b"%d" % number)
        case "http":
            return b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        case _:
            return (b"" if number else PREFACE) + PING_FRAME + number.to_bytes(8, "big")


def answers_in(port: str, plain: bytes) -> int:
    """Number of requests that these bytes of a node answer, each whole and in its turn."""
    if port == "resp":
        wanted = [b"$1\r\n%d\r\n" % number for number in range(REQUESTS)]
        assert b"".join(wanted).startswith(plain), plain
        return len(plain) // len(wanted[0])
    if port == "http":
        return plain.count(b"\r\n\r\nhere")
    found = [data for head, data in _frames(plain) if head == PING_FRAME[3] and data is not None]
    assert found == [number.to_bytes(8, "big") for number in range(len(found))]
    return len(found)


def _frames(plain: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Frames of HTTP/2: the type, and the content if it has the flag of an acknowledgement."""
    while len(plain) >= len(PING_FRAME):
        end = len(PING_FRAME) + int.from_bytes(plain[:3], "big")
        if len(plain) < end:
            return
        yield plain[3], plain[len(PING_FRAME) : end] if plain[4] & 1 else None
        plain = plain[end:]


def changed(piece: bytes, change: bytes) -> bytes:
    """The bytes that are sent in place of a piece."""
    rest = change[1:]
    at = int.from_bytes(rest[:2], "big") % len(piece)
    match VERBS[change[0] % len(VERBS)]:
        case "turned":
            turned = piece[at] ^ (rest[2] if len(rest) > 2 else 1)
            return piece[:at] + bytes([turned]) + piece[at + 1 :]
        case "cut":
            return piece[:at]
        case "doubled":
            return piece + piece
        case "left out":
            return b""
        case "behind":
            return piece + rest
        case "before":
            return rest + piece
        case "other":
            return rest
        case _:
            return piece


# --- The client -----------------------------------------------------------------------------------


class Client:
    """A client, what it has asked, and what was answered.

    Attributes:
        is_changed: what came to the node is not what the client sent.
        intact: requests that came as they were sent, with all before them.
        plain: what the node has answered.
    """

    def __init__(self, name: str, version: str, changes: Sequence[bytes]) -> None:
        self.name = name
        self.is_changed = False
        self.intact = 0
        self.plain = b""
        self._changes = iter(changes)
        self._later = b""
        self._down, self._up = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = served().contexts[version]
        context.set_alpn_protocols(["h2" if name == "grpc" else "http/1.1"])
        self._tls = context.wrap_bio(self._down, self._up, server_hostname="localhost")
        where = ("127.0.0.1", served().ports[name])
        self._socket = socket.create_connection(where, timeout=seconds())
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        """All requests, until something was changed; then the end of the client's side."""
        with self._socket:
            if self._shake_hands():
                self._ask()
            with contextlib.suppress(OSError):
                self._send_later()
                self._socket.shutdown(socket.SHUT_WR)
                while self._receive():
                    pass

    def _shake_hands(self) -> bool:
        while not self.is_changed:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._pass_on(may_wait=False)
                if not self.is_changed:
                    assert self._receive(), "the node hung up on a good client"
            else:
                self._pass_on(may_wait=False)
                return not self.is_changed
        return False

    def _ask(self) -> None:
        for number in range(REQUESTS):
            self._tls.write(request_of(self.name, number))
            self._pass_on(may_wait=True)
            if self.is_changed:
                return
            if number == REQUESTS - 1:
                self._send_later()
            while not self._later and answers_in(self.name, self.plain) <= number:
                assert self._receive(), f"request {number} is not answered"

    def _pass_on(self, *, may_wait: bool) -> None:
        """Send the next piece, changed or not, or have it wait for the one that follows."""
        piece = self._up.read()
        if not piece:
            return
        change = next(self._changes, b"") or bytes(1)
        waits = may_wait and VERBS[change[0] % len(VERBS)] == "later"
        sent = changed(piece, change)
        self.is_changed = sent != piece
        self.intact += may_wait and sent.startswith(piece)
        self._later += sent
        if not waits:
            self._send_later()

    def _send_later(self) -> None:
        data, self._later = self._later, b""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            assert self.is_changed, "the node hung up on a good client"

    def _receive(self) -> bool:
        """Take what the node sends; False: it has ended the connection."""
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError:
            return False
        self._down.write(data)
        with contextlib.suppress(ssl.SSLError):
            while more := self._tls.read(1 << 16):
                self.plain += more
        return bool(data)


def target(data: bytes) -> object:
    first, *changes = [*pieces_of(data), b""]
    name = PORTS[first[0] % len(PORTS)] if first else PORTS[0]
    version = VERSIONS[first[1] % len(VERSIONS)] if len(first) > 1 else VERSIONS[0]
    client = Client(name, version, changes)
    client.run()
    answered = answers_in(name, client.plain)
    assert answered <= client.intact
    assert client.is_changed or answered == REQUESTS
    after = Client(name, version, ())
    after.run()
    assert answers_in(name, after.plain) == REQUESTS
    assert served().bugs == []
    return client.is_changed, client.intact


def seeds() -> list[bytes]:
    plans: list[tuple[bytes, ...]] = [
        (),
        (b"\0", b"\0", b"\x08", b"\x08", b"\x08", b"\x08"),
        *(((b"\0",) * at + (bytes([verb]) + b"\0\7\x10",)) for at in range(4) for verb in (1, 5)),
        (b"\0", b"\0", b"\x08", b"\x08", b"\1\0\x20"),
    ]
    heads = [bytes((port, at % 2)) for at in range(2) for port in range(len(PORTS))]
    return [story(heads[at % len(heads)], *plan) for at, plan in enumerate(plans)]


def another_change(data: bytes, draw: Random) -> bytes:
    _, *changes = [*pieces_of(data), b""]
    at = draw.randrange(2 + REQUESTS)
    changes += [bytes(1)] * (at + 1 - len(changes))
    rest = draw.choice(
        (draw.randbytes(3), draw.choice(BITS), draw.choice(BITS) + draw.randbytes(40))
    )
    changes[at] = bytes([draw.randrange(len(VERBS))]) + rest
    return story(bytes([draw.randrange(6), draw.randrange(2)]), *changes)


TLS_RECORDS: Final = Surface(
    "tls_records",
    target,
    seeds,
    one_of(another_change, another_change, damaging_story(damaged_bytes)),
    "records of TLS at the RESP, gRPC and HTTP ports: changed, cut off, doubled, left out",
)
