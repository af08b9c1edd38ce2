"""The commands of a transaction as EXEC calls them: its XADDs in runs, as those of a pipeline.

    MULTI                                EXEC calls
    XADD s * f a   XADD s * f b   …      a run of s             (``xadd_run.py``)
    XADD s * f c   XADD t * f d   …      a mixed run of s, t    (``mixed_run.py``)
    XACK s g 1-1                         a command

No other command comes between those of a transaction, and no client sees it half done.  So a run
may also be of streams that clients wait for or watch.

Always so: EXEC has the effects, the IDs and the replies that its commands have one by one.
"""

from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Final, TypeAlias

from crdtstream.commands.streams.mixed_run import MixedRun
from crdtstream.commands.streams.xadd import ENTRY_BYTES_MAX, xadd
from crdtstream.commands.streams.xadd_run import XaddRun
from crdtstream.core.fields import encode_fields
from crdtstream.core.size import Size
from crdtstream.database.session import Handler

Queued: TypeAlias = tuple[Handler, list[bytes]]

# Commands of a run: it has their fields once more in memory.
RUN_MAX: Final = Size(1024, least=2)
# From this number of XADDs for one stream on they are a run of that stream.
RUN_MIN: Final = Size(4, least=2)


def run_at(queue: Sequence[Queued], at: int) -> XaddRun | MixedRun | None:
    """The plain XADDs - key, ``*``, fields - that stand at an index; None: fewer than two do."""
    first = queue[at][1]
    key = first[1]
    keys: list[bytes] = []
    fields: list[bytes] = []
    is_of_one = True
    for handler, argv in islice(queue, at, at + RUN_MAX.value):
        if handler.on_replica is not xadd or argv[2] != b"*" or not len(argv) & 1:
            break
        if is_of_one and argv[1] != key:
            if len(keys) >= RUN_MIN.value:
                break
            is_of_one = False
        encoded = encode_fields(argv[3:])
        if len(encoded) > ENTRY_BYTES_MAX.value:
            break
        keys.append(argv[1])
        fields.append(encoded)
    if len(keys) < 2:
        return None
    lengths = array("I", map(len, fields))
    if is_of_one:
        return XaddRun(first[0], key, lengths, b"".join(fields))
    return MixedRun(first[0], keys, lengths, b"".join(fields))
