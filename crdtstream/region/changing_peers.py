"""Changing peers: links, and what is kept for a peer, follow the members.

the folder has newer members ── follow_members ─┬─> change ──> links begin and end, and the
                                                │              parts that keep something for a
                                                │              peer follow
                                                └─> cuts are final: who waits for effects beyond
                                                    one is told that they are lost
"""

from collections.abc import Collection, Mapping, Set

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.lost import removed_ends
from crdtstream.region.assembled import Assembled
from crdtstream.region.links.links import Links
from crdtstream.region.peers import Peer


class ChangingPeers:
    """See the module's text."""

    def __init__(self, made: Assembled, links: Links) -> None:
        ground = made.ground
        self._replica, self._peers, self._tick = ground.replica, ground.peers, ground.tick
        self._clients = made.client_side.clients
        self._bootstrap, self._retention = made.storage.bootstrap, made.storage.retention
        self._membership, self._opening = made.participation.membership, made.participation.opening
        self._staleness, self._stability = made.others.staleness, made.others.stability
        self._participation, self._others = made.participation, made.others
        self._links = links
        self._cuts_noted: Set[RegionId] = frozenset()

    def change(
        self,
        now: Millis,
        peers: Mapping[RegionId, Peer],
        *,
        leaving: Collection[RegionId] = (),
        gone: Collection[RegionId] = (),
        is_active_here: bool = True,
    ) -> None:
        """Change the other regions; see ``Peers.change``.

        Links begin and end by themselves.  Nothing happens if nothing has changed.
        """
        change = self._peers.change(
            now, peers, leaving=leaving, gone=gone, is_active_here=is_active_here
        )
        if change is None:
            return
        self._retention.follow_peers(change)
        self._others.follow_peers(change)
        self._participation.follow_peers(change)
        self._links.follow_peers(change)
        self._tick.notice(
            "info",
            "the peers have changed",
            peers=self._peers.addresses,
            added=change.added,
            removed=change.removed,
        )
        for peer in change.removed:
            self._opening.forget(peer)
            self._bootstrap.note_removed(peer)
        self._replica.note_peers(self._peers.counting)
        self._staleness.note_peers()
        self._opening.look()
        self._opening.note_time(now)
        self._stability.forget_stable()
        # They may wait for a removed region, or have what an activated one has.
        self._clients.settle_acks(now)
        self._tick.open()

    def follow_members(self, heard_at: Millis) -> None:
        """Begin and end links by the members that are known now.

        Args:
            heard_at: time of the folder's last news.
        """
        members = self._membership.known
        cuts, here = self._membership.cuts, self._replica.region
        # A removed region counts itself as before: what it keeps is what can be salvaged.
        own = {here} if self._membership.members.is_removed else frozenset()
        self.change(
            # The clock of a region that has done nothing yet does not show the time.
            Millis(max(self._replica.keys.now, heard_at)),
            self._membership.members.peers,
            leaving=cuts.leaving | own,
            gone=cuts.final.keys() - own,
            is_active_here=self._membership.members.obstacle is None,
        )
        self._note_ends({one.region: one.cut for one in members.regions if one.cut is not None})
        self._opening.look()
        self._stability.forget_stable()
        # They speak at this epoch from here on.
        self._links.tell_standing()

    def _note_ends(self, cuts: Mapping[RegionId, int]) -> None:
        """Note that the cuts of these removed regions are final, and the folder has them: clients
        that wait for effects beyond one, and readers of streams, are told that they are lost."""
        if cuts.keys() == self._cuts_noted:
            return
        self._cuts_noted = cuts.keys()
        self._replica.ends = removed_ends(cuts)
        self._clients.serve_all(self._replica.keys.now)
        self._tick.open()
