"""The answer to a call that sends Arrow record batches in pieces."""

import io
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa

from crdtstream.spark.connecting import NodesError


class Pieces(io.RawIOBase):
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
        # A call that is not read to its end would hold the node's memory until the node notices.
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
            NodesError: the answer is no Arrow stream.
        """
        try:
            if self._more():
                with pa.ipc.open_stream(pa.PythonFile(self, mode="r")) as reader:
                    yield from reader
                # Behind the stream's end come its call's outcome and the last losses.
                while self._more():
                    self._rest = memoryview(b"")
        except (pa.ArrowInvalid, OSError) as error:
            if self._error is None:
                raise NodesError(f"a node's answer is no Arrow stream: {error}") from error
        if self._error is not None:
            raise self._error

    def _more(self) -> bool:
        """True if there are bytes to read; gets the next piece if none are left."""
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
