"""Messages as a peer could send them."""

from typing import TypedDict

from crdtstream.v1 import effects_pb2


class BatchFields(TypedDict, total=False):
    """Fields of an EffectBatch on the wire, right or wrong."""

    origin: int
    first_n: int
    count: int
    context: effects_pb2.VersionVector
    issued_after_ms: int
    columns: bytes
    keys: list[bytes]
    fields: bytes
    others: list[effects_pb2.Effect]
