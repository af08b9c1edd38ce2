"""Groups whose acknowledged run may have grown, and what is to be issued of it.

An XACK does not issue an effect by itself: it notes here which lanes of its group are to be looked
at.  At the end of a tick - or before something that would change the group - one AckFrontier for
each group says how far the runs reach.  So acknowledging one by one costs one effect a tick.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from crdtstream.core.effects import AckFrontier
from crdtstream.core.ids import RegionId
from crdtstream.core.keyspace.stream import Stream

# A key and a group of it.
GroupName: TypeAlias = tuple[bytes, bytes]


class GrownRuns:
    """See the module's text.

    Attributes:
        lanes: which are to be looked at, by group, in the order in which the groups were noted; one
            and the same dictionary for good.
    """

    __slots__ = ("lanes",)

    def __init__(self) -> None:
        self.lanes: dict[GroupName, set[RegionId]] = {}

    def note(self, key: bytes, group: bytes, lanes: Iterable[RegionId]) -> None:
        self.lanes.setdefault((key, group), set()).update(lanes)

    def forget(self, name: GroupName) -> None:
        """The group is gone: there is nothing to be issued of it."""
        self.lanes.pop(name, None)

    def clear(self) -> None:
        self.lanes.clear()

    def of_key(self, key: bytes) -> list[GroupName]:
        return [name for name in self.lanes if name[0] == key]

    def all(self) -> list[GroupName]:
        return list(self.lanes)

    def take(
        self, names: Iterable[GroupName], streams: Mapping[bytes, Stream]
    ) -> list[AckFrontier]:
        """One AckFrontier for each group that can vouch for more than is known; they are noted no
        more.

        Raises:
            ColdError: entries are needed to find how far a run reaches; all are still noted.
        """
        names = list(names)
        frontiers = self.frontiers(names, streams)
        for name in names:
            del self.lanes[name]
        return frontiers

    def frontiers(
        self, names: Iterable[GroupName], streams: Mapping[bytes, Stream]
    ) -> list[AckFrontier]:
        """As ``take``, and they stay noted."""
        found = [self._frontier_of(name, streams) for name in names]
        return [frontier for frontier in found if frontier is not None]

    def _frontier_of(self, named: GroupName, streams: Mapping[bytes, Stream]) -> AckFrontier | None:
        key, name = named
        stream = streams.get(key)
        group = None if stream is None else stream.groups.get(name)
        if stream is None or group is None:
            # A batch that removed references ended the group, too.
            return None
        intervals = {
            region: interval
            for region in sorted(self.lanes[named])
            if group.may_vouch_for(region)
            and (interval := group.vouched_for(region, stream.lanes.get(region))) is not None
        }
        return AckFrontier(key, name, intervals) if intervals else None
