"""Rows of a log: those whose checksum is right are replayed, whatever they say."""

from functools import cache, partial
from random import Random
from typing import Final

import msgspec

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import BatchError
from crdtstream.core.wire.local_codec import decode_local
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Logged
from crdtstream.store.rows import RowPacker, RowReader, columns_crc
from crdtstream.store.staging import MemoryStaging, staged_state
from tests.fuzz.batches import DAMAGE_TO_BATCH, DAMAGE_TO_LOCAL
from tests.fuzz.damage import damaged_bytes, damaged_tree, packed, pieces_of, story
from tests.fuzz.histories import HERE, node_with_something, peer_with_everything
from tests.fuzz.surface import Surface

COLUMNS: Final = 7


def target(data: bytes) -> object:
    """A story of rows."""
    replica = Replica(HERE, peers=[RegionId(2), RegionId(3)], implicit_mkstream=True)
    replica.staged = partial(staged_state, MemoryStaging())
    reader = RowReader()
    with replica.residency.in_place():
        for piece in pieces_of(data):
            try:
                columns = msgspec.msgpack.decode(piece)
            except (ValueError, RecursionError):
                continue
            if not isinstance(columns, list):
                continue
            logged, is_sound = reader.read(columns)
            if logged is None or not is_sound:
                continue
            try:
                if _has_changes(logged.record):
                    # Of what only this region knows, and no other one can send, the promise is that
                    # it is read: a state that it does not fit stops the start.
                    break
                replica.replay(logged.record)
            except (BatchError, ContentError, StoreError, UnreadableError) as error:
                # A node does not start then.
                return str(error)
        return sorted(replica.vv.items()), replica.digest()


def _has_changes(record: Record) -> bool:
    """
    Raises:
        BatchError: its local part is none.
    """
    return record.local is not None and bool(decode_local(record.local).changes)


@cache
def seeds() -> list[bytes]:
    node, peer = node_with_something(), peer_with_everything()
    node.pull(peer)
    node.run("XREADGROUP GROUP g e COUNT 3 STREAMS x >", "XCLAIM x g f 0 10-0", "XACK x g 11-0")
    node.run("XGROUP DELCONSUMER x g e", "XGROUP SETID x g 0")
    rows = [
        packed(RowPacker().columns(Logged(seq, record))) for seq, record in enumerate(node.log, 1)
    ]
    return [story(*rows), story(*rows[-6:]), story(rows[0])]


def damage(data: bytes, draw: Random) -> bytes:
    pieces = pieces_of(data)
    if not pieces:
        return damaged_bytes(data, draw)
    at = draw.randrange(len(pieces))
    if draw.random() < 0.1:
        return packed(damaged_tree(pieces, draw))
    try:
        columns = msgspec.msgpack.decode(pieces[at])
    except (ValueError, RecursionError):
        return damaged_bytes(data, draw)
    if not isinstance(columns, list) or len(columns) != COLUMNS:
        return damaged_bytes(data, draw)
    pieces[at] = packed(_damaged(columns, draw))
    return story(*pieces)


def _damaged(columns: list[object], draw: Random) -> list[object]:
    """A row with another value, and mostly the right checksum."""
    _, _, _, _, batch, local, _ = columns
    match draw.randrange(4):
        case 0 if isinstance(batch, bytes):
            columns[4] = DAMAGE_TO_BATCH(batch, draw)
        case 1 if isinstance(local, bytes):
            columns[5] = DAMAGE_TO_LOCAL(local, draw)
        case 2 if isinstance(batch, bytes) and not batch.startswith(b"\x28"):
            columns[4] = DAMAGE_TO_BATCH(batch, draw)
        case _:
            columns = damaged_tree(columns, draw)
    match columns:
        case [
            int(seq),
            int(origin),
            int(first_n),
            int(last_n),
            (bytes() | None) as batch,
            (bytes() | None) as local,
            _,
        ] if draw.random() < 0.95:
            columns[6] = columns_crc(seq, origin, first_n, last_n, batch, local)
    return columns


RECORDS: Final = Surface(
    "records", target, seeds, damage, "rows of the log: read, and replayed at a start"
)
