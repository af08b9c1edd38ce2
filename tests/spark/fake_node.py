"""A query service that says what a test wants it to say, over real gRPC."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa

from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc

# Of the database that fakes belong to, unless they say otherwise.
UID = "5f0c" * 8

ENTRIES = pa.schema(
    [
        pa.field("ms", pa.uint64(), nullable=False),
        pa.field("seq", pa.uint64(), nullable=False),
        pa.field("n", pa.uint64(), nullable=False),
        pa.field("fields", pa.binary(), nullable=False),
        pa.field("producer", pa.binary()),
        pa.field("idempotent_id", pa.binary()),
    ]
)


def entries(first_n: int, last_n: int) -> pa.RecordBatch:
    """Entries with these dots, and IDs that tell them."""
    numbers = list(range(first_n, last_n + 1))
    blobs = [b"*2\r\n$1\r\nn\r\n$%d\r\n%d\r\n" % (len(str(n)), n) for n in numbers]
    nothing = [None] * len(numbers)
    columns = [[1_000 + n for n in numbers], [1] * len(numbers), numbers, blobs, nothing, nothing]
    arrays = [pa.array(c, kind.type) for c, kind in zip(columns, ENTRIES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRIES)


def ipc(*batches: pa.RecordBatch) -> bytes:
    """An Arrow stream of these batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ENTRIES) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


class FakeNode(rpc.QueryServicer):
    """Answers every call by a function of the test's, and keeps what it was asked.

    Without one for GetPosition it says to which database it belongs.

    Attributes:
        on: by method's name ``(request, context) -> reply``; absent: UNIMPLEMENTED.
        asked: (method, request, metadata) in order.
    """

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        position = pb.Position(database_uid=bytes.fromhex(UID))
        self.on: dict[str, Callable[[Any, grpc.ServicerContext], Any]] = {
            "GetPosition": lambda _request, _context: position
        }
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        self.scan_ended = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(8))
        rpc.add_QueryServicer_to_server(self, self._server)
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def requests(self, method: str) -> list[Any]:
        return [request for name, request, _ in self.asked if name == method]

    def _answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        metadata: Any = context.invocation_metadata()
        self.asked.append((method, request, dict(metadata)))
        if method not in self.on:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "not in this test")
        return self.on[method](request, context)

    def GetPosition(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._answer("GetPosition", request, context)

    def ListStreams(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        yield from self._answer("ListStreams", request, context)

    def Plan(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._answer("Plan", request, context)

    def Append(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return self._answer("Append", request, context)

    def Scan(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: N802
        context.add_callback(self.scan_ended.set)
        yield from self._answer("Scan", request, context)


def pieces(data: bytes, *, size: int, lost_n: int = 0) -> Iterator[pb.ScanPiece]:
    """An Arrow stream in pieces of ``size`` bytes."""
    for at in range(0, len(data), size):
        yield pb.ScanPiece(data=data[at : at + size], lost_n=0 if at else lost_n)
