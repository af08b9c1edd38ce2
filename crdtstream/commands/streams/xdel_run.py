"""A run of XDELs: what one client sends of them for one stream, one ID each, one right behind the
other.

    XDEL s 9-2      XDEL s 7-1      XDEL s 7-1025
          └──────────────┴───────────────┘
    ids       9-2  7-1  7-1025                    one pass parses them, one effect removes them

Clients delete each job when it is done, and send that in pipelines.  The IDs of a run are looked up
together, and one effect removes them all, as with one XDEL of many IDs, or with XDELs of one tick
whose IDs ascend.  Only the replies are each command's own.

Always so: a run has the replies that its commands have one by one, and leaves the same entries.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from crdtstream.commands.lookup import stream_or_none
from crdtstream.commands.streams.range import remove_observed
from crdtstream.core.id_columns import IdColumns
from crdtstream.core.replica import Replica

# Bytes that an ID adds to the open batch, with its share of those before the IDs.
_ID_BYTES: Final = 32


@dataclass(slots=True)
class XdelRun:
    """XDELs of one ID each, of one stream.

    Attributes:
        name: the command as the client spells it.
        key: the stream's.
        texts: the IDs as the client wrote them.
        ids: the same, parsed; in any order, and one may be there more than once.
    """

    name: bytes
    key: bytes
    texts: list[bytes]
    ids: IdColumns

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def batch_bytes(self) -> int:
        """The most that it adds to the open batch."""
        return len(self.key) + _ID_BYTES * len(self.texts)

    def requests(self) -> Iterator[list[bytes]]:
        """Its commands, as the client sent them."""
        for text in self.texts:
            yield [self.name, self.key, text]

    def behind(self, count: int) -> "XdelRun":
        """The rest of it, behind the first ``count`` commands."""
        return XdelRun(self.name, self.key, self.texts[count:], self.ids[count:])


def xdel_run(replica: Replica, run: XdelRun) -> bytes:
    """XDEL key id for each of a run; nothing that it deletes is on disk only.

    Returns:
        The replies, one behind the other: in how many lanes each ID stood.
    """
    stream = stream_or_none(replica, run.key)
    if stream is None:
        return b":0\r\n" * len(run)
    named = run.ids if run.ids.ascend() else run.ids.ascending()
    removed = remove_observed(replica, run.key, stream, named)
    if len(removed) == 1 and sum(map(len, removed.values())) == len(run):
        # Each was there, in the same lane: then none is named twice.
        return b":1\r\n" * len(run)
    # The first of those that name an ID removes it, in all lanes; the others come too late.
    counts = Counter(chain.from_iterable(removed.values()))
    return b"".join([b":%d\r\n" % counts.pop(entry_id, 0) for entry_id in run.ids])
