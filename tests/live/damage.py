"""Damage that no checksum tells of: a region applied something else than what it was sent.

It is as if memory had been wrong for a moment.  The log has what others have, and so has the
history of effects; a checkpoint has the damage.
"""

import signal
from typing import Final

from crdtstream.core import replica
from crdtstream.core.effects import EffectBatch
from crdtstream.core.wire.codec import decode_batch
from tests.live.cluster import NODE_PROGRAM, Node

READ_WRONGLY: Final = b"a batch is read wrongly"


def flip(node: Node, old: bytes, new: bytes) -> None:
    """Start a stopped node that reads ``new`` where its log has ``old``, save that, and kill it."""
    assert len(old) == len(new)
    before = node.log.stat().st_size
    wrong = f"from tests.live.damage import read_wrongly; read_wrongly({old!r}, {new!r})"
    # Compiled code does not look its functions up, so the sources must run.
    sources = "import os; os.environ['CRDTSTREAM_PURE'] = '1'"
    node.program = f"{sources}; {wrong}; {NODE_PROGRAM}"
    node.start()
    node.client.save()
    node.end(signal.SIGKILL)
    assert READ_WRONGLY in node.log.read_bytes()[before:]
    node.program = None


def read_wrongly(old: bytes, new: bytes) -> None:
    """Have this process decode batches with ``new`` in place of ``old``; it says so each time."""

    def decode_wrongly(data: bytes) -> EffectBatch:
        if old in data:
            print(READ_WRONGLY.decode(), flush=True)
        return decode_batch(data.replace(old, new))

    replica.decode_batch = decode_wrongly  # type: ignore[attr-defined]
