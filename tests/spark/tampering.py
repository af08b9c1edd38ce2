"""A region whose answers are changed on the way: what a region that went wrong would say.

A proxy before a node's gRPC port passes every call on as it is, but for the answers that a test
wants otherwise.  The node itself stays sound, and so does everything that it tells its peers.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
import pyarrow as pa

from crdtstream.v1 import query_pb2
from tests.patience import seconds

_STREAMING: Final = {"Scan", "ListStreams", "ScanPending"}
_QUERY: Final = "/crdtstream.v1.Query/"


def _same_table(_request: query_pb2.ScanRequest, table: pa.Table) -> pa.Table:
    return table


def _same_streams(
    found: list[query_pb2.StreamDescription],
) -> list[query_pb2.StreamDescription]:
    return found


@dataclass(slots=True)
class Tampering:
    """The changes: of entries of a scan, of descriptions of streams."""

    scan: Callable[[query_pb2.ScanRequest, pa.Table], pa.Table] = _same_table
    streams: Callable[[list[query_pb2.StreamDescription]], list[query_pb2.StreamDescription]] = (
        _same_streams
    )
    scans: int = 0


class _PassOn(grpc.GenericRpcHandler):
    def __init__(self, upstream: grpc.Channel, tampering: Tampering) -> None:
        self._upstream = upstream
        self._tampering = tampering

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        method = details.method
        if method.rpartition("/")[2] in _STREAMING:
            call: Any = self._upstream.unary_stream(method)

            def stream(request: bytes, _context: object) -> Iterator[bytes]:
                yield from self._changed(method, request, call(request, timeout=seconds()))

            return grpc.unary_stream_rpc_method_handler(stream)
        ask: Any = self._upstream.unary_unary(method)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, _context: ask(request, timeout=seconds())
        )

    def _changed(self, method: str, request: bytes, answers: Iterator[bytes]) -> Iterator[bytes]:
        match method.removeprefix(_QUERY):
            case "Scan":
                self._tampering.scans += 1
                pieces = [query_pb2.ScanPiece.FromString(answer) for answer in answers]
                data = b"".join(piece.data for piece in pieces)
                table = pa.ipc.open_stream(data).read_all()
                wanted = query_pb2.ScanRequest.FromString(request)
                changed = _encoded(self._tampering.scan(wanted, table))
                lost_n = max(piece.lost_n for piece in pieces)
                yield query_pb2.ScanPiece(data=changed, lost_n=lost_n).SerializeToString()
            case "ListStreams":
                found = [query_pb2.StreamDescription.FromString(answer) for answer in answers]
                for one in self._tampering.streams(found):
                    yield one.SerializeToString()
            case _:
                yield from answers


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@contextmanager
def tampered(address: str, tampering: Tampering) -> Iterator[str]:
    """The address of a proxy before the node at ``address``."""
    with grpc.insecure_channel(address) as upstream:
        server = grpc.server(
            ThreadPoolExecutor(max_workers=8), handlers=[_PassOn(upstream, tampering)]
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(grace=1).wait()
