"""A node that only takes appends, as a model: what it is told to do wrong, it does."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeAlias

import grpc
import numpy as np

from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.spark.fake_node import UID

# Of a call: its number from 0 on, and the request; raises or returns nothing.
Fault: TypeAlias = Callable[[int, pb.AppendRequest], None]


class RefusedError(Exception):
    """The error that ends a call instead of a reply."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class AppendNode(rpc.QueryServicer):
    """Entries by stream, each with producer, batch and row, which make it one.

    Attributes:
        before, after: faults that strike before a request is looked at, and when it is done.
        calls: the requests, in the order in which they came.
        databases: that they named.
    """

    def __init__(self) -> None:
        self.entries: dict[bytes, dict[tuple[bytes, int, int], bytes]] = defaultdict(dict)
        self.calls: list[pb.AppendRequest] = []
        self.databases: set[object] = set()
        self.before: Fault = lambda _number, _request: None
        self.after: Fault = lambda _number, _request: None
        self.address = ""
        self._lock = Lock()

    def GetPosition(self, _request: pb.PositionRequest, _context: Any) -> pb.Position:  # noqa: N802
        return pb.Position(database_uid=bytes.fromhex(UID))

    def Append(self, request: pb.AppendRequest, context: Any) -> pb.AppendReply:  # noqa: N802
        with self._lock:
            self.databases.add(dict(context.invocation_metadata()).get("crdtstream-database"))
            try:
                return self._append(request)
            except RefusedError as error:
                context.abort(error.code, str(error))
                raise AssertionError("abort raises") from error

    def _append(self, request: pb.AppendRequest) -> pb.AppendReply:
        number = len(self.calls)
        self.calls.append(request)
        self.before(number, request)
        there = self.entries[request.key]
        ends = np.cumsum(np.frombuffer(request.lengths, "<u4"))
        assert len(ends) > 0
        assert ends[-1] == len(request.fields)
        appended = 0
        for at, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
            name = (request.producer, request.batch, request.first_row + at)
            if name not in there:
                there[name] = request.fields[start:end]
                appended += 1
        self.after(number, request)
        return pb.AppendReply(appended=appended, known=len(ends) - appended)

    def rows(self, stream: bytes) -> list[bytes]:
        """The fields of a stream's entries, in the order in which they were appended."""
        return list(self.entries[stream].values())


@contextmanager
def append_node() -> Iterator[AppendNode]:
    """A node that listens on a port of its own."""
    node = AppendNode()
    server = grpc.server(
        ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 64 << 20)]
    )
    rpc.add_QueryServicer_to_server(node, server)
    node.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield node
    finally:
        server.stop(0).wait()
