"""Listeners in other regions: a number for each name, as the regions have reported it.

It is right as of a region's last report, a tick or a round trip ago.  A region that is not
connected any more is forgotten as a whole.  Nothing here is replicated state.
"""

from collections.abc import Collection

from crdtstream.core.ids import RegionId
from crdtstream.database.listening import Kind, Patterns


class _Region:
    """The listeners of one region.

    Always so: no count is 0; ``patterns`` are the names of the kind PATTERN.
    """

    def __init__(self) -> None:
        self.counts: dict[Kind, dict[bytes, int]] = {kind: {} for kind in Kind}
        self.patterns = Patterns()

    def note(self, kind: Kind, name: bytes, count: int) -> None:
        counts = self.counts[kind]
        was_there = name in counts
        if count:
            counts[name] = count
        else:
            counts.pop(name, None)
        if kind is Kind.PATTERN and was_there is not bool(count):
            if count:
                self.patterns.add(name)
            else:
                self.patterns.remove(name)

    def told(self, channel: bytes, *, sharded: bool) -> int:
        """Number of messages that a publication makes there."""
        if sharded:
            return self.counts[Kind.SHARD].get(channel, 0)
        by_pattern = self.counts[Kind.PATTERN]
        count = self.counts[Kind.CHANNEL].get(channel, 0)
        if by_pattern:
            count += sum(by_pattern[pattern] for pattern in self.patterns.matching(channel))
        return count


class Elsewhere:
    """The listeners of other regions."""

    def __init__(self) -> None:
        self._regions: dict[RegionId, _Region] = {}

    def note(self, region: RegionId, kind: Kind, name: bytes, count: int) -> None:
        """A region said how many listen to a name there."""
        self._regions.setdefault(region, _Region()).note(kind, name, count)

    def forget(self, region: RegionId) -> None:
        """A region is not heard any more."""
        self._regions.pop(region, None)

    def names(self, kind: Kind) -> Collection[bytes]:
        """Names that have listeners in some other region."""
        return dict.fromkeys(
            name for region in self._regions.values() for name in region.counts[kind]
        )

    def count(self, kind: Kind, name: bytes) -> int:
        """Number of listeners to a name in all other regions together."""
        return sum(region.counts[kind].get(name, 0) for region in self._regions.values())

    def told(self, regions: Collection[RegionId], channel: bytes, *, sharded: bool) -> int:
        """Number of messages that a publication makes in these regions."""
        return sum(
            self._regions[region].told(channel, sharded=sharded)
            for region in regions
            if region in self._regions
        )
