"""A task's rows on their way to the nodes: numbered requests, in each stream one after the other.

Only then has a failed task appended, in each stream, exactly the first of its rows.  Different
streams do not wait for each other, and rows are encoded while the rows before them are sent.
"""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa

from crdtstream.spark.layout import SinkError
from crdtstream.spark.nodes import Nodes
from crdtstream.spark.options import SinkOptions
from crdtstream.v1 import query_pb2

# One request, unless a single row is larger.
REQUEST_BYTES_MAX: Final = 1 << 20
# A node takes messages of 64 MiB; the rest is for names and framing.
ROW_BYTES_MAX: Final = 63 << 20
# Requests under way at once, to different streams.
IN_FLIGHT_MAX: Final = 4

# Streams and rows to append to each, as RESP; streams apart, rows in order.
Groups: TypeAlias = list[tuple[bytes, pa.BinaryArray]]


@dataclass(frozen=True, slots=True)
class Producer:
    """By what names a task's rows are known: any attempt of the task has the same.

    Attributes:
        name: of the query or write, and the partition.
        batch: Spark's number of the micro-batch; 0 of a batch write.
    """

    name: bytes
    batch: int


class Lanes:
    """The streams that one task appends to: in each, one request after the other.

    Only rows that come one after the other go out one after the other, so what is appended when a
    task fails is, in each stream, a beginning of its rows.  Different streams do not wait for each
    other, and the next rows are encoded while the last ones are under way.

    Attributes:
        appended: rows that were appended, of all that were waited for.
        known: rows that were there.
    """

    def __init__(self, options: SinkOptions, producer: Producer) -> None:
        self.appended = 0
        self.known = 0
        self._options = options
        self._producer = producer
        self._rows: dict[bytes, int] = defaultdict(int)
        self._threads = ThreadPoolExecutor(IN_FLIGHT_MAX, thread_name_prefix="append")
        self._under_way: list[Future[_Count]] = []
        # Connections that no thread has: each thread takes one for a stream's requests.
        self._idle: SimpleQueue[Nodes] = SimpleQueue()
        self._given_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._given_up = True
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()

    def append(self, groups: Groups) -> None:
        """Append rows to their streams, once those given before have been; returns before."""
        self.wait()
        for stream, encoded in groups:
            first_row = self._rows[stream]
            self._rows[stream] += len(encoded)
            self._under_way.append(self._threads.submit(self._send, stream, first_row, encoded))

    def wait(self) -> None:
        """Until all that was given is appended, and durable where it was.

        Raises:
            SinkError: a row is too large.
            NodesError: it was refused, or no node takes it in time.
        """
        for future in self._under_way:
            count = future.result()
            self.appended += count.appended
            self.known += count.known
        self._under_way.clear()

    def _send(self, stream: bytes, first_row: int, encoded: pa.BinaryArray) -> "_Count":
        try:
            nodes = self._idle.get_nowait()
        except Empty:
            nodes = Nodes.of(self._options.nodes)
        appended = known = 0
        try:
            for request in requests(
                stream,
                encoded,
                producer=self._producer,
                first_row=first_row,
                rows_max=self._options.append_rows_max,
            ):
                if self._given_up:
                    break
                reply = nodes.append(request)
                appended += reply.appended
                known += reply.known
        finally:
            self._idle.put(nodes)
        return _Count(appended, known)


class _Count(NamedTuple):
    appended: int
    known: int


def requests(
    stream: bytes,
    encoded: pa.BinaryArray,
    *,
    producer: Producer,
    first_row: int,
    rows_max: int,
) -> Iterator[query_pb2.AppendRequest]:
    """Rows of one stream as requests of bounded size; only a single row may be larger.

    Raises:
        SinkError: a row is larger than a node takes; rows before it have been given out.
    """
    if not len(encoded):
        return
    _, ends, data = encoded.buffers()
    offsets = np.frombuffer(ends, np.int32)[encoded.offset : encoded.offset + len(encoded) + 1]
    lengths = np.diff(offsets)
    start = 0
    while start < len(encoded):
        fitting = np.searchsorted(offsets, int(offsets[start]) + REQUEST_BYTES_MAX, "right") - 1
        stop = min(max(start + 1, int(fitting)), start + rows_max, len(encoded))
        if lengths[start] > ROW_BYTES_MAX:
            name = stream.decode(errors="replace")
            raise SinkError(
                f"row {first_row + start} (of 0, 1, …) of stream {name!r} has {lengths[start]:,} "
                f"bytes; a node takes {ROW_BYTES_MAX:,}"
            )
        yield query_pb2.AppendRequest(
            key=stream,
            producer=producer.name,
            batch=producer.batch,
            first_row=first_row + start,
            lengths=lengths[start:stop].astype("<u4").tobytes(),
            fields=data.slice(
                int(offsets[start]), int(offsets[stop] - offsets[start])
            ).to_pybytes(),
        )
        start = stop
