"""How many effects of each removed region count: what this region says of that, and hears.

``core/membership/cut.py`` has the rule.  Here is what it looks at: which start of its node a peer
speaks in, at which epoch, and what is durable here.  A cut that is final is kept in the folder, and
is told to nobody.
"""

from collections.abc import Callable

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.cut import Adoption, CutSearch, Word, word_of
from crdtstream.core.membership.members import Members
from crdtstream.core.replica import Replica


class Cuts:
    """The cuts of all removed regions.

    Attributes:
        final: by removed region its cut, once it is reached here.
    """

    def __init__(
        self,
        replica: Replica,
        members: Members,
        *,
        durable_vv: Callable[[], VersionVector],
        recovers: Callable[[], bool],
    ) -> None:
        """Cuts as of the start of a node.

        Args:
            members: the newest that are known, with the final cuts that the folder has.
            durable_vv: what a power cut cannot take back.
            recovers: whether this region may get back what it had lost.
        """
        self.final = {one.region: one.cut for one in members.regions if one.cut is not None}
        self._replica = replica
        self._durable_vv = durable_vv
        self._recovers = recovers
        self._members = members
        self._adoption = Adoption(members.epoch, dict(replica.vv))
        # Of each peer the run of its node, and which start that is.
        self._runs: dict[RegionId, tuple[int, int]] = {}
        self._searches: dict[RegionId, CutSearch] = {}
        self._search()

    def _search(self) -> None:
        for region in self._members.removed:
            if region not in self.final and region not in self._searches:
                search = CutSearch(region, self._members)
                for peer, (_, start) in self._runs.items():
                    search.started(peer, start)
                self._searches[region] = search

    def adopt(self, members: Members) -> bool:
        """Newer members are known from here on.

        Returns:
            Whether a region is removed by them.
        """
        if members.epoch <= self._members.epoch:
            return False
        removed = set(members.removed) - set(self._members.removed)
        self._members = members
        self._adoption = Adoption(members.epoch, dict(self._replica.vv))
        for search in self._searches.values():
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
            durable_vv=self._durable_vv(),
            recovers=self._recovers(),
        )
        return 0 if word is None else word.epoch

    def note_run(self, peer: RegionId, run_id: int) -> None:
        """A peer opened a link, or welcomed one, in this run of its node."""
        run, start = self._runs.get(peer, (None, 0))
        if run == run_id:
            return
        self._runs[peer] = (run_id, start + 1)
        for search in self._searches.values():
            search.started(peer, start + 1)

    def hear(self, peer: RegionId, run_id: int, epoch: int, durable_vv: VersionVector) -> None:
        """What a peer durably has, at an epoch; 0: it is no word."""
        run, start = self._runs.get(peer, (None, 0))
        if not self._searches or not epoch or run != run_id:
            return
        for removed, search in self._searches.items():
            search.hear(Word(peer, start, epoch, durable_vv.get(removed, 0)))

    def look(self) -> bool:
        """Whether cuts became final now; they must be kept then."""
        if not self._searches:
            return False
        here, durable_vv = self._replica.region, self._durable_vv()
        epoch = self.epoch_of_words
        are_new = False
        for removed, search in list(self._searches.items()):
            if epoch:
                search.hear(Word(here, 0, epoch, durable_vv.get(removed, 0)))
            if search.reach(durable_vv):
                assert search.final is not None
                self.final[removed] = search.final
                del self._searches[removed]
                are_new = True
        return are_new

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
        return frozenset(self._searches)

    def is_beyond(self, origin: RegionId, n: int) -> bool:
        """Whether an effect is one that does not count."""
        return bool(self.final) and n > self.final.get(origin, n)

    def missing(self, removed: RegionId) -> tuple[RegionId, ...]:
        """Who has still to say how many effects of a removed region it has."""
        search = self._searches.get(removed)
        return () if search is None else search.silent
