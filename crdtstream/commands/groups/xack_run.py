"""A run of XACKs: what one client sends of them for one group, one ID each, one right behind the
other.

    XACK s g 7-1      XACK s g 7-1025      XACK s g 9-2
           └─────────────────┴──────────────────┘
    ids              7-1  7-1025  9-2                 one pass parses them

Clients acknowledge each entry when they are done with it, and send that in pipelines.  The IDs of a
run are looked up together, and one local change takes them all, as one XACK of many IDs would; only
the replies are each command's own.

Always so: a run has the replies that its commands have one by one, and leaves the same state.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from crdtstream.commands.lookup import group_or_none
from crdtstream.core.effects import Ack
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica


@dataclass(slots=True)
class XackRun:
    """XACKs of one ID each, of one group.

    Attributes:
        name: the command as the client spells it.
        key: the stream's.
        group: the group's name.
        texts: the IDs as the client wrote them.
        ids: the same, parsed; in any order, and one may be there more than once.
    """

    name: bytes
    key: bytes
    group: bytes
    texts: list[bytes]
    ids: IdColumns

    def __len__(self) -> int:
        return len(self.texts)

    def requests(self) -> Iterator[list[bytes]]:
        """Its commands, as the client sent them."""
        for text in self.texts:
            yield [self.name, self.key, self.group, text]

    def behind(self, count: int) -> "XackRun":
        """The rest of it behind the first ``count`` commands."""
        return XackRun(self.name, self.key, self.group, self.texts[count:], self.ids[count:])


def xack_run(replica: Replica, run: XackRun) -> bytes:
    """XACK key group id for each of a run.

    Returns:
        The replies, one behind the other: in how many lanes each ID was pending.
    """
    found = group_or_none(replica, run.key, run.group)
    if found is None:
        return b":0\r\n" * len(run)
    _, group = found
    named = run.ids if run.ids.ascend() else run.ids.ascending()
    acknowledged: dict[RegionId, Ids] = {}
    for region, progress in group.lanes.items():
        pending = progress.pel.among(named)
        if pending:
            acknowledged[region] = pending
    if not acknowledged:
        return b":0\r\n" * len(run)
    replica.note(Ack(run.key, run.group, acknowledged))
    if len(acknowledged) == 1 and sum(map(len, acknowledged.values())) == len(run):
        # Each was pending, in the same lane: then none is named twice.
        return b":1\r\n" * len(run)
    # The first of those that name an ID acknowledges it, in all lanes; the others come too late.
    counts = Counter(chain.from_iterable(acknowledged.values()))
    return b"".join([b":%d\r\n" % counts.pop(entry_id, 0) for entry_id in run.ids])
