"""Cuts of removed regions: how many of their effects count, as this region reports and hears.

``core/membership/region_cut.py`` has the rule.  This module has its inputs: the start of its node
in which a peer speaks, the epoch, and what is durable here.  A final cut is kept in the folder.  It
is reported only to the removed region itself, which hears no words and cannot find it.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members
from crdtstream.core.membership.region_cut import Adoption, CutSearch, Word, word_of
from crdtstream.core.replica import Replica
from crdtstream.region.outstanding import Durable
from crdtstream.region.readiness import Recovery


class Cuts:
    """The cuts of all removed regions.

    Attributes:
        final: by removed region its cut, once it is reached here; of this region itself, once it is
            told.
        searches: for the cuts of the others.
    """

    def __init__(
        self,
        replica: Replica,
        members: Members,
        *,
        durable: Durable,
        recovery: Recovery,
    ) -> None:
        """Cuts as of the start of a node.

        Args:
            members: the newest that are known, with the final cuts that the folder has.
            durable: what a power cut cannot take back.
            recovery: whether this region may get back what it had lost.
        """
        self.final = {one.region: one.cut for one in members.regions if one.cut is not None}
        self._replica = replica
        self._durable = durable
        self._recovery = recovery
        self._members = members
        self._adoption = Adoption(members.epoch, dict(replica.vv))
        # Per peer the run of its node, and the number of that start.
        self._runs: dict[RegionId, tuple[int, int]] = {}
        self.searches: dict[RegionId, CutSearch] = {}
        self._search()

    def _search(self) -> None:
        for region in self._members.removed:
            if region not in self.final and region not in self.searches:
                search = CutSearch(region, self._members)
                for peer, (_, start) in self._runs.items():
                    search.started(peer, start)
                self.searches[region] = search

    def adopt(self, members: Members) -> bool:
        """Note that newer members are known from here on.

        Returns:
            True if they remove a region.
        """
        if members.epoch <= self._members.epoch:
            return False
        removed = set(members.removed) - set(self._members.removed)
        self._members = members
        self._adoption = Adoption(members.epoch, dict(self._replica.vv))
        for search in self.searches.values():
            search.adopt(members)
        self._search()
        return bool(removed)

    @property
    def epoch_of_words(self) -> int:
        """The epoch at which this region's durable version vector is its word; 0: it is none."""
        word = word_of(
            self._replica.region,
            here=self._replica.region,
            start=0,
            adoption=self._adoption,
            durable_vv=self._durable.durable_vv,
            recovers=self._recovery.is_recovering,
        )
        return 0 if word is None else word.epoch

    def note_run(self, peer: RegionId, run_id: int) -> None:
        """Note that a peer opened a link, or welcomed one, in this run of its node."""
        run, start = self._runs.get(peer, (None, 0))
        if run == run_id:
            return
        self._runs[peer] = (run_id, start + 1)
        for search in self.searches.values():
            search.started(peer, start + 1)

    def hear(self, peer: RegionId, run_id: int, epoch: int, durable_vv: VersionVector) -> None:
        """Note what a peer durably has, at an epoch; 0: it is no word."""
        run, start = self._runs.get(peer, (None, 0))
        if not self.searches or not epoch or run != run_id:
            return
        for removed, search in self.searches.items():
            search.hear(Word(peer, start, epoch, durable_vv.get(removed, 0)))

    def look(self) -> bool:
        """True if cuts became final now; they must be kept then."""
        if not self.searches:
            return False
        here, durable_vv = self._replica.region, self._durable.durable_vv
        epoch = self.epoch_of_words
        are_new = False
        for removed, search in list(self.searches.items()):
            if epoch:
                search.hear(Word(here, 0, epoch, durable_vv.get(removed, 0)))
            if search.reach(durable_vv):
                assert search.final is not None
                self.final[removed] = search.final
                del self.searches[removed]
                are_new = True
        return are_new

    def learn_own(self, cut: int) -> bool:
        """Note the number of this removed region's effects that count, as a member says.

        Returns:
            True if that is new; it must be kept then.
        """
        here = self._replica.region
        if here in self.final:
            return False
        self.final[here] = cut
        self.searches.pop(here, None)
        return True

    def with_final(self, members: Members) -> Members:
        """The members with the cuts that are final here, and no others."""
        for one in members.regions:
            cut = self.final.get(one.region)
            if one.cut != cut:
                members = members.with_cut(one.region, cut)
        return members

    @property
    def leaving(self) -> frozenset[RegionId]:
        """Removed regions whose effects may still be on their way from other members."""
        return frozenset(self.searches)

    def is_beyond(self, origin: RegionId, n: int) -> bool:
        """True if an effect does not count."""
        return bool(self.final) and n > self.final.get(origin, n)

    def missing(self, removed: RegionId) -> tuple[RegionId, ...]:
        """Members that have not yet said how many effects of a removed region they have."""
        search = self.searches.get(removed)
        return () if search is None else search.silent
