"""Comparing the histories of effects with those of peers (``core/histories.py``).

Two regions compare what they have as a link opens.  While it is up, heartbeats carry what is new,
as copies of a third region's folder may each have a link to one of them.

Histories that differ are never merged: the link is refused.  If the peer has other effects under
this region's own numbers, a copy of this folder has been in use.  No peer that took the copy's
effects will ever take those of this one, so what clients write here would be in this folder only.
While no peer is known to have this folder's, writes are refused.
"""

from crdtstream.core.checkpoint.contents import ContentError, packed
from crdtstream.core.histories import Difference, Point, content_of, difference, heard, said
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.region.events import HistoriesDiffer, Signal
from crdtstream.region.peers import PeersChange
from crdtstream.region.tick import Tick


class Compared:
    """Peers that have other effects than are here, in this run of the node."""

    def __init__(self, replica: Replica, tick: Tick) -> None:
        self._replica = replica
        self._tick = tick
        # Peers that have other effects of this region, and how they differ; and those that have the
        # same ones.
        self._apart: dict[RegionId, Difference] = {}
        self._alike: set[RegionId] = set()

    def follow_peers(self, change: PeersChange) -> None:
        was_apart = len(self._apart)
        for peer in change.removed:
            self._apart.pop(peer, None)
            self._alike.discard(peer)
        if len(self._apart) != was_apart:
            self._tick.post(Signal.REASONS)

    def said(self) -> bytes:
        """The points that go with an Open, a Welcome or a state."""
        return said(self._replica.histories)

    def hear(self, peer: RegionId, data: bytes) -> str | None:
        """Compare with the points of a peer: as a link opened, or of a state that is to be copied.

        Returns:
            Why there can be no link; None if there can.
        """
        try:
            theirs = heard(data)
        except ContentError as error:
            return str(error)
        found = difference(self._replica.histories.points(), theirs)
        if found is not None:
            return self.note_apart(peer, found)
        self._alike.add(peer)
        if self._apart.pop(peer, None) is not None:
            self._tick.post(Signal.REASONS)
        return None

    def news(self, told: dict[RegionId, Point]) -> bytes:
        """The points that go with a heartbeat: the newest ones that the peer has not heard of.

        Args:
            told: those that it has; from now on also these.
        """
        newest = self._replica.histories.newest()
        fresh = {origin: [point] for origin, point in newest.items() if told.get(origin) != point}
        told.update(newest)
        return packed(content_of(fresh)) if fresh else b""

    def hear_news(self, peer: RegionId, data: bytes) -> str | None:
        """Compare with points that came with a heartbeat; returns why the link cannot go on."""
        try:
            theirs = heard(data)
        except ContentError as error:
            return str(error)
        histories = self._replica.histories
        for origin, points in theirs.items():
            for point in points:
                if histories.parts_from(origin, point):
                    return self.note_apart(peer, Difference(origin, 0, point.n))
        return None

    def note_apart(self, peer: RegionId, found: Difference) -> str:
        """Note that a peer has, or sent, another history; returns why there can be no link."""
        here = self._replica.region
        self._alike.discard(peer)
        self._tick.post(HistoriesDiffer(peer))
        if found.region == here:
            if peer not in self._apart:
                self._tick.notice(
                    "error",
                    "a peer has other effects of this region: two copies of its folder were used",
                    peer=peer,
                    same=found.same_n,
                    differs=found.by_n,
                )
            self._apart[peer] = found
            self._tick.post(Signal.REASONS)
        told = f"{_told(found, peer, here)}. Nothing is merged."
        if found.region in (here, peer):
            other = here if found.region == peer else peer
            return (
                f"{told} Either the copy that region {found.region} now runs is not to go on: stop"
                " its node, keep its folder, and start the other copy. Or it is: then region"
                f" {other} must begin with an empty folder"
            )
        return f"{told} One of the two regions must begin with an empty folder"

    @property
    def obstacle(self) -> str | None:
        """Reason why this region takes no writes; None: no peer has other effects of it, or some
        peer has those that are here."""
        if self._alike or not self._apart:
            return None
        peer, found = min(self._apart.items())
        return (
            f"{_told(found, peer, self._replica.region)}, and no region is linked that has those of"
            " this one. If the other copy is to go on, stop this node and keep its folder; if"
            f" this one is, region {peer} must begin with an empty folder"
        )


def _told(found: Difference, peer: RegionId, here: RegionId) -> str:
    region, same_n, by_n = found
    same = f"they are the same up to {same_n}, and not" if same_n else "they are not the same"
    return (
        f"the effects of region {region} are others in region {peer} than in region {here}: {same}"
        f" up to {by_n}. It numbered them in two copies of one folder"
    )
