"""The query service of region nodes: one of several that answers, and on to the next one.

    attempt at a → unavailable, silent or behind → attempt at b → … → pause → attempt at a → …

Every region holds the same entries under the same dots, so a call that failed at one node is sent
to the next, until the time for failing over has expired.  A scan goes on behind the last dot that
it returned, so each entry is returned once.  Writes may be sent again, too: an append is numbered,
and a trim removes what it names or nothing.

An error that every node would return (a wrong password, a request that is not well-formed) ends a
call at once.

Dots have a meaning only in their own database.  The first node that answers says which one that is,
unless it was known before.  Every call names it from then on, and a node of another database
refuses the call, instead of going on with entries that only look alike.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Self, TypeVar

import grpc
import pyarrow as pa

from crdtstream.spark.attempts import Attempts
from crdtstream.spark.connecting import (
    DATABASE_KEY,
    DataLossError,
    NodesError,
    OtherDatabaseError,
    StaleAppendError,
    UnansweredError,
    UnnamedDatabaseError,
    channel_to,
    credentials_of,
)
from crdtstream.spark.options import NodesOptions, Security
from crdtstream.spark.pieces import Pieces
from crdtstream.spark.vectors import Vector
from crdtstream.v1 import query_pb2, query_pb2_grpc

__all__ = [
    "DataLossError",
    "Nodes",
    "NodesError",
    "OtherDatabaseError",
    "Scanning",
    "StaleAppendError",
    "UnansweredError",
]

_T = TypeVar("_T")

# A call that is answered at once, or not at all: planning over many streams is the longest.
CALL_SECONDS_MAX: Final = 60.0
POSITION_SECONDS_MAX: Final = 5.0


class Nodes:
    """The query service at several addresses; a context manager, as it holds connections.

    Connects when first asked, so it may be made where nothing answers yet.  Not for several threads
    at once, and not to be pickled: each process makes its own.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        security: Security,
        failover_seconds: float,
        database_uid: str = "",
    ) -> None:
        """
        Args:
            database_uid: identity of the database that is meant; empty: the one of the first node
                that answers.
        """
        assert addresses, "no address to ask"
        self.addresses = tuple(addresses)
        self.failover_seconds = failover_seconds
        self._security = security
        self._channels: dict[str, grpc.Channel] = {}
        self._stubs: dict[str, Any] = {}
        self._credentials = credentials_of(security)
        self._database_uid = database_uid
        # The node that answered last is asked first: a node that is down costs its time once.
        self._preferred = 0

    @classmethod
    def of(cls, options: NodesOptions) -> "Nodes":
        """The nodes that ``options`` name."""
        return cls(
            options.addresses, options.security, options.failover_seconds, options.database_uid
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back; the next call makes new ones."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        self._stubs.clear()

    def only(self, address: str) -> "Nodes":
        """One node alone, for calls that need that very region; to be closed on its own."""
        return Nodes((address,), self._security, self.failover_seconds, self._database_uid)

    def position(
        self, address: str | None = None, *, read: Vector | None = None
    ) -> query_pb2.Position:
        """Ask a node for its region and its durable vector; ``address``, or any that answers.

        Args:
            read: a vector; the answer says which part of it exists nowhere, and of which part the
                node has not heard yet.

        Raises:
            NodesError: none answers, or it is of another database.
        """
        if address is not None:
            with self.only(address) as node:
                return node.position(read=read)
        request = _about(read)
        return self._retried(
            "GetPosition", lambda address: self._position_at(address, request), introduced=True
        )

    @property
    def database_uid(self) -> str:
        """The identity of the database, 32 hexadecimal digits; asked for unless it is known.

        Raises:
            NodesError: no node says it in time.
        """
        if not self._database_uid:
            self.position()
        return self._database_uid

    def _position_at(self, address: str, request: query_pb2.PositionRequest) -> query_pb2.Position:
        """Ask a node for its position, and learn or check its database."""
        position: query_pb2.Position = self.stub(address).GetPosition(
            request, timeout=POSITION_SECONDS_MAX, metadata=self.metadata
        )
        uid = position.database_uid.hex()
        if not uid:
            raise UnnamedDatabaseError(position.fault or "its regions are still to agree on one")
        if self._database_uid not in ("", uid):
            raise OtherDatabaseError(
                f"{address} holds database {uid}, and {self._database_uid} is meant; what was kept "
                "of one database says nothing about another: begin again, or name nodes of that "
                "database"
            )
        self._database_uid = uid
        return position

    def positions(self, read: Vector | None = None) -> dict[str, query_pb2.Position]:
        """The positions of all nodes that answer, all asked at once; no node is waited for long.

        ``read`` as of :meth:`position`.

        A node that does not know its database yet counts as one that does not answer.

        Raises:
            NodesError: they are regions of different databases, or refuse the credentials.
        """
        calls = {
            address: self.stub(address).GetPosition.future(
                _about(read),
                timeout=min(POSITION_SECONDS_MAX, max(1.0, self.failover_seconds)),
                metadata=self.metadata,
            )
            for address in self.addresses
        }
        found: dict[str, query_pb2.Position] = {}
        attempts = self.attempts("GetPosition")
        for address, call in calls.items():
            try:
                position = call.result()
            except grpc.RpcError as error:
                attempts.failed(address, error)
            else:
                if position.database_uid:
                    found[address] = position
        self._refuse_strangers(found)
        return found

    def _refuse_strangers(self, positions: dict[str, query_pb2.Position]) -> None:
        databases = {(one.database_uid.hex(), one.database_id) for one in positions.values()}
        uids = {uid for uid, _ in databases} | ({self._database_uid} - {""})
        if len(databases) > 1 or len(uids) > 1:
            told = [
                f"{address} is of {one.database_uid.hex()} ({one.database_id!r})"
                for address, one in positions.items()
            ]
            meant = f", and {self._database_uid} is meant" if self._database_uid else ""
            raise OtherDatabaseError(
                f"the nodes are regions of different databases: {', '.join(told)}{meant}; name "
                "nodes of one database"
            )
        self._database_uid = next(iter(uids), "")

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
            return list(stub.ListStreams(request, timeout=CALL_SECONDS_MAX, metadata=self.metadata))

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
            call = self.stub(address).ScanPending(request, metadata=self.metadata)
            with Pieces(call) as pieces:
                return list(pieces.batches())

        yield from self._retried("ScanPending", read)

    def append(self, request: query_pb2.AppendRequest) -> query_pb2.AppendReply:
        """Append the rows of a numbered producer; a row that any region has is not added again.

        Raises:
            StaleAppendError: later batches were committed since.
            NodesError: no node takes it in time; the outcome is unknown, append it again.
        """
        reply: query_pb2.AppendReply = self._call("Append", request)
        return reply

    def trim_read(self, request: query_pb2.TrimReadRequest) -> query_pb2.TrimReadReply:
        reply: query_pb2.TrimReadReply = self._call("TrimRead", request)
        return reply

    def plan_trim(self, request: query_pb2.TrimReadRequest) -> query_pb2.TrimPlan:
        """Ask which entries :meth:`trim_read` would remove now."""
        plan: query_pb2.TrimPlan = self._call("PlanTrim", request)
        return plan

    def stub(self, address: str) -> Any:
        """The service at an address, connected when first used."""
        if address not in self._stubs:
            self._stubs[address] = query_pb2_grpc.QueryStub(self.channel(address))
        return self._stubs[address]

    def channel(self, address: str) -> grpc.Channel:
        """The connection to an address, for calls of other services of that node."""
        if address not in self._channels:
            self._channels[address] = channel_to(address, self._security)
        return self._channels[address]

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of every call: the credentials, and the database, once it is known."""
        named = ((DATABASE_KEY, self._database_uid),) if self._database_uid else ()
        return self._credentials + named

    def in_turn(self) -> tuple[str, ...]:
        """The addresses in the order in which to ask."""
        at = self._preferred
        return self.addresses[at:] + self.addresses[:at]

    def attempts(self, method: str) -> Attempts:
        """Addresses to ask for something, until the time for failing over is up."""
        return Attempts(method, self.in_turn, self.failover_seconds, tls=self._security.tls)

    def prefer(self, address: str) -> None:
        self._preferred = self.addresses.index(address)

    def introduce(self, address: str) -> None:
        """Ask a node for its database, if it is not known which one is meant.

        Raises:
            grpc.RpcError: the node does not answer.
            UnnamedDatabaseError: it does not know yet.
        """
        if not self._database_uid:
            self._position_at(address, _about(None))

    def _call(self, method: str, request: object) -> Any:
        return self._retried(
            method,
            lambda address: getattr(self.stub(address), method)(
                request, timeout=CALL_SECONDS_MAX, metadata=self.metadata
            ),
        )

    def _retried(self, method: str, call: Callable[[str], _T], *, introduced: bool = False) -> _T:
        """Answer of the first node that answers.

        Args:
            introduced: the call itself asks the node for its database.
        """
        attempts = self.attempts(method)
        for address in attempts:
            try:
                if not introduced:
                    self.introduce(address)
                reply = call(address)
            except UnnamedDatabaseError as error:
                attempts.not_yet(address, str(error))
            except grpc.RpcError as error:
                attempts.failed(address, error)
            else:
                self.prefer(address)
                return reply
        raise AssertionError("attempts end by an error")


def _about(read: Vector | None) -> query_pb2.PositionRequest:
    return query_pb2.PositionRequest(token=read.token if read else "")


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
        attempts = self._nodes.attempts("Scan")
        for address in attempts:
            try:
                self._nodes.introduce(address)
                for batch in self._read(address):
                    attempts.progressed()
                    yield batch
            except UnnamedDatabaseError as error:
                attempts.not_yet(address, str(error))
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
        with Pieces(call) as pieces:
            for batch in pieces.batches():
                self._lost_n = max(self._lost_n, pieces.lost_n)
                if batch.num_rows:
                    self._position_n = batch.column("n")[-1].as_py()
                    yield batch
            self._lost_n = max(self._lost_n, pieces.lost_n)
