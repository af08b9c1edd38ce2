"""The query service of region nodes: one of several that answers, and on to the next one.

    attempt at a → unavailable, silent or behind → attempt at b → … → pause → attempt at a → …

Every region holds the same entries under the same dots, so a call that failed at one node is asked
of the next, until the time for failing over is up.  A scan goes on behind the last dot that it gave
out, hence each entry comes once.  Asking again is safe also for what writes: an append is numbered
and a trim removes what it says or nothing.

What no other node would judge differently (a wrong password, a request that is not well-formed)
ends a call at once.
"""

import base64
import io
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc
import pyarrow as pa

from crdtstream.spark.options import NodesOptions, Security
from crdtstream.v1 import query_pb2, query_pb2_grpc

_T = TypeVar("_T")

# A call that is answered at once, or not at all: planning over many streams is the longest.
CALL_SECONDS_MAX: Final = 60.0
POSITION_SECONDS_MAX: Final = 5.0
PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_SECONDS_MAX: Final = 1.0

_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    # Each object its own connection: one that just failed is not waited for.
    ("grpc.use_local_subchannel_pool", 1),
    # Pieces are far smaller; a list of streams' descriptions or a plan may be larger.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # How long one attempt to connect takes, and how soon the next one follows.
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A node that vanished without a word is noticed, also while a slow reader asks for nothing.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
)

# Passing states: another node, or this one a little later, may do it.
_PASSING: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
# A fault of one node, perhaps of all: each is asked once, and not again.
_FAULTS: Final = frozenset(
    {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
)


class NodesError(Exception):
    """The nodes did not do what they were asked.  The text says what to do next."""


class StaleBatchError(NodesError):
    """An append of a batch that is long committed: the task was overtaken, nothing was done."""


class DataLossError(NodesError):
    """Entries were trimmed before they were read."""


class Nodes:
    """The query service at several addresses; a context manager, as it holds connections.

    Connects when first asked, so it may be made where nothing answers yet.  Not for several threads
    at once, and not to be pickled: each process makes its own.
    """

    def __init__(
        self, addresses: Sequence[str], security: Security, failover_seconds: float
    ) -> None:
        assert addresses, "no address to ask"
        self.addresses = tuple(addresses)
        self.failover_seconds = failover_seconds
        self._security = security
        self._channels: dict[str, grpc.Channel] = {}
        self._stubs: dict[str, Any] = {}
        self._metadata = _credentials(security)
        # Who answered last is asked first: a node that is down costs its time once.
        self._preferred = 0

    @classmethod
    def of(cls, options: NodesOptions) -> "Nodes":
        """The nodes that ``options`` name."""
        return cls(options.addresses, options.security, options.failover_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back; the next call makes new ones."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._stubs.clear()

    def only(self, address: str) -> "Nodes":
        """One node alone, for who must talk to that very region; to be closed on its own."""
        return Nodes((address,), self._security, self.failover_seconds)

    def position(self, address: str | None = None) -> query_pb2.Position:
        """Who a node is and what it has durably; of ``address``, or of any that answers.

        Raises:
            NodesError: none answers.
        """
        request = query_pb2.PositionRequest()
        if address is None:
            found: query_pb2.Position = self._call(
                "GetPosition", request, seconds_max=POSITION_SECONDS_MAX
            )
            return found
        with self.only(address) as node:
            return node.position()

    def positions(self) -> dict[str, query_pb2.Position]:
        """The positions of all nodes that answer, asked at once; nobody is waited for long.

        Raises:
            NodesError: they are regions of different databases, or refuse who is asking.
        """
        calls = {
            address: self.stub(address).GetPosition.future(
                query_pb2.PositionRequest(),
                timeout=min(POSITION_SECONDS_MAX, max(1.0, self.failover_seconds)),
                metadata=self._metadata,
            )
            for address in self.addresses
        }
        found: dict[str, query_pb2.Position] = {}
        attempts = _Attempts(self, "GetPosition")
        for address, call in calls.items():
            try:
                found[address] = call.result()
            except grpc.RpcError as error:
                attempts.failed(address, error)
        _refuse_strangers(found)
        return found

    def refuse_strangers(self) -> None:
        """Make sure, of the nodes that answer, that what one lacks may be read at another.

        Raises:
            NodesError: they are regions of different databases.
        """
        if len(self.addresses) > 1:
            self.positions()

    def streams(
        self, patterns: Sequence[bytes] = (), *, with_groups: bool = False
    ) -> list[query_pb2.StreamDescription]:
        """The streams with their lanes, ascending by key; those that match one of ``patterns``."""
        request = query_pb2.ListStreamsRequest(patterns=patterns, with_groups=with_groups)

        def read(address: str) -> list[query_pb2.StreamDescription]:
            stub = self.stub(address)
            return list(
                stub.ListStreams(request, timeout=CALL_SECONDS_MAX, metadata=self._metadata)
            )

        return self._retried("ListStreams", read)

    def plan(self, request: query_pb2.PlanRequest) -> query_pb2.PlanReply:
        reply: query_pb2.PlanReply = self._call("Plan", request)
        return reply

    def scan(self, request: query_pb2.ScanRequest) -> "Scanning":
        """The entries of a range of dots, as the wire's record batches; see :class:`Scanning`."""
        return Scanning(self, request)

    def scan_pending(self, request: query_pb2.ScanPendingRequest) -> Iterator[pa.RecordBatch]:
        """Pending entries of groups; read whole before the first comes, so from one node alone."""

        def read(address: str) -> list[pa.RecordBatch]:
            call = self.stub(address).ScanPending(request, metadata=self._metadata)
            with _Pieces(call) as pieces:
                return list(pieces.batches())

        yield from self._retried("ScanPending", read)

    def append(self, request: query_pb2.AppendRequest) -> query_pb2.AppendReply:
        """Append the rows of a numbered producer; a row that any region has is not added again.

        Raises:
            StaleBatchError: later batches were committed meanwhile.
            NodesError: nobody takes it in time; whether it was appended is unknown, ask again.
        """
        reply: query_pb2.AppendReply = self._call("Append", request)
        return reply

    def trim_read(self, request: query_pb2.TrimReadRequest) -> query_pb2.TrimReadReply:
        reply: query_pb2.TrimReadReply = self._call("TrimRead", request)
        return reply

    def stub(self, address: str) -> Any:
        """The service at an address, connected when first used."""
        if address not in self._stubs:
            self._stubs[address] = query_pb2_grpc.QueryStub(self.channel(address))
        return self._stubs[address]

    def channel(self, address: str) -> grpc.Channel:
        """The connection to an address, for who asks other services of that node."""
        if address not in self._channels:
            self._channels[address] = _channel(address, self._security)
        return self._channels[address]

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What goes with every call."""
        return self._metadata

    def in_turn(self) -> tuple[str, ...]:
        """The addresses in the order in which to ask."""
        at = self._preferred
        return self.addresses[at:] + self.addresses[:at]

    def prefer(self, address: str) -> None:
        self._preferred = self.addresses.index(address)

    def _call(self, method: str, request: object, *, seconds_max: float = CALL_SECONDS_MAX) -> Any:
        return self._retried(
            method,
            lambda address: getattr(self.stub(address), method)(
                request, timeout=seconds_max, metadata=self._metadata
            ),
        )

    def _retried(self, method: str, call: Callable[[str], _T]) -> _T:
        attempts = _Attempts(self, method)
        for address in attempts:
            try:
                reply = call(address)
            except grpc.RpcError as error:
                attempts.failed(address, error)
            else:
                self.prefer(address)
                return reply
        raise AssertionError("attempts end by an error")


class Scanning:
    """A range of dots being read: iterate once, over record batches of the wire's columns."""

    def __init__(self, nodes: Nodes, request: query_pb2.ScanRequest) -> None:
        self._nodes = nodes
        self._request = request
        # The dot up to which everything was given out.
        self._position_n: int = request.above_n
        self._lost_n = 0
        self._batches = self._run()
        self._ahead: list[pa.RecordBatch] = []

    @property
    def lost_n(self) -> int:
        """Highest dot of the lane that a trim or a DEL removed, as far as was heard until now.

        A scan that has not begun begins now.
        """
        if not self._ahead:
            self._ahead.extend(islice(self._batches, 1))
        return self._lost_n

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._ahead
        self._ahead.clear()
        yield from self._batches

    def _run(self) -> Iterator[pa.RecordBatch]:
        attempts = _Attempts(self._nodes, "Scan")
        for address in attempts:
            try:
                for batch in self._read(address):
                    attempts.progressed()
                    yield batch
            except grpc.RpcError as error:
                attempts.failed(address, error)
            else:
                self._nodes.prefer(address)
                return

    def _read(self, address: str) -> Iterator[pa.RecordBatch]:
        request = query_pb2.ScanRequest()
        request.CopyFrom(self._request)
        request.above_n = self._position_n
        if request.upto_n and request.above_n >= request.upto_n:
            return
        call = self._nodes.stub(address).Scan(request, metadata=self._nodes.metadata)
        with _Pieces(call) as pieces:
            for batch in pieces.batches():
                self._lost_n = max(self._lost_n, pieces.lost_n)
                if batch.num_rows:
                    self._position_n = batch.column("n")[-1].as_py()
                    yield batch
            self._lost_n = max(self._lost_n, pieces.lost_n)


class _Attempts:
    """Addresses to try, one after the other, with pauses, until the time for it is up."""

    def __init__(self, nodes: Nodes, method: str) -> None:
        self._nodes = nodes
        self._method = method
        self._problems: dict[str, str] = {}
        self._faulty: set[str] = set()
        self._deadline = time.monotonic() + nodes.failover_seconds
        self._pause_seconds = PAUSE_SECONDS_MIN

    def __iter__(self) -> Iterator[str]:
        while True:
            yield from self._nodes.in_turn()
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise NodesError(self._given_up())
            time.sleep(min(self._pause_seconds, remaining))
            self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)

    def progressed(self) -> None:
        """Something came: the next failure has its own time."""
        self._problems.clear()
        self._faulty.clear()
        self._deadline = time.monotonic() + self._nodes.failover_seconds
        self._pause_seconds = PAUSE_SECONDS_MIN

    def failed(self, address: str, error: grpc.RpcError) -> None:
        """Take note of a failure.

        Raises:
            NodesError: asking again, or another node, would not help.
        """
        code, details = error.code(), error.details() or "no reason given"
        told = f"{address}: {details}"
        match code:
            case _ if code in _PASSING:
                self._problems[address] = told
            case grpc.StatusCode.FAILED_PRECONDITION if details.startswith("behind"):
                self._problems[address] = told
            case grpc.StatusCode.FAILED_PRECONDITION if details.startswith("stale"):
                raise StaleBatchError(told) from error
            case _ if code in _FAULTS and address not in self._faulty:
                self._faulty.add(address)
                self._problems[address] = f"{told} ({code.name})"
            case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
                raise NodesError(f"{told}: give the options user and password") from error
            case grpc.StatusCode.UNIMPLEMENTED:
                raise NodesError(
                    f"what answers at {address} is no region node of this version:"
                    " name its gRPC port (738r), or that of its [query]"
                ) from error
            case _:
                raise NodesError(f"{self._method} at {told} ({code.name})") from error

    def _given_up(self) -> str:
        tried = "; ".join(self._problems.values())
        return (
            f"no node did {self._method} within {self._nodes.failover_seconds:g} s: {tried}."
            " Start the nodes, name others in the option 'nodes', or raise failoverSeconds"
        )


class _Pieces(io.RawIOBase):
    """The pieces of one answer as a file that Arrow reads its stream from.

    An error of the call looks like the end of the file to Arrow and is raised by :meth:`batches`.
    """

    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call
        self._error: grpc.RpcError | None = None
        self._rest = memoryview(b"")
        self.lost_n = 0

    def close(self) -> None:
        # A call that nobody reads to its end would hold the node's memory until it notices.
        if not self.closed:
            self._call.cancel()
        super().close()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Exactly ``size`` bytes, fewer only at the end."""
        parts = []
        wanted = size
        while wanted and self._more():
            part = self._rest if wanted < 0 else self._rest[:wanted]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            wanted -= len(part) if wanted > 0 else 0
        return b"".join(parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches.

        Raises:
            grpc.RpcError: the call failed.
            NodesError: what came is no Arrow stream.
        """
        try:
            if self._more():
                with pa.ipc.open_stream(pa.PythonFile(self, mode="r")) as reader:
                    yield from reader
                # What comes behind the stream's end: its call's outcome, and the last losses.
                while self._more():
                    self._rest = memoryview(b"")
        except (pa.ArrowInvalid, OSError) as error:
            if self._error is None:
                raise NodesError(f"a node's answer is no Arrow stream: {error}") from error
        if self._error is not None:
            raise self._error

    def _more(self) -> bool:
        """Whether there are bytes to read; gets the next piece if none are left."""
        while not self._rest and self._error is None:
            try:
                piece = next(self._call, None)
            except grpc.RpcError as error:
                self._error = error
                return False
            if piece is None:
                return False
            self.lost_n = max(self.lost_n, piece.lost_n)
            self._rest = memoryview(piece.data)
        return bool(self._rest)


def _refuse_strangers(positions: dict[str, query_pb2.Position]) -> None:
    databases = {position.database_id for position in positions.values()}
    if len(databases) > 1:
        told = ", ".join(f"{address} is of {p.database_id!r}" for address, p in positions.items())
        raise NodesError(f"the nodes are regions of different databases: {told}; name one database")


def _credentials(security: Security) -> tuple[tuple[str, str], ...]:
    if not security.password:
        return ()
    pair = f"{security.user or 'default'}:{security.password}".encode()
    return (("authorization", f"Basic {base64.b64encode(pair).decode()}"),)


def _channel(address: str, security: Security) -> grpc.Channel:
    if not security.tls:
        return grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_file(security.tls_ca_file, "tlsCaFile"),
        private_key=_file(security.tls_key_file, "tlsKeyFile"),
        certificate_chain=_file(security.tls_cert_file, "tlsCertFile"),
    )
    return grpc.secure_channel(address, credentials, options=_CHANNEL_OPTIONS)


def _file(path: str, option: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NodesError(
            f"{option}={path!r}: {error.strerror}; every machine that runs tasks needs this file"
        ) from error


def patterns_literal(keys: Iterable[bytes]) -> list[bytes]:
    """Patterns that match these keys and no others."""
    return [re.sub(rb"([*?\[\\])", rb"\\\1", key) for key in keys]
