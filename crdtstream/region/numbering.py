"""Numbering: the incarnation of this region, and what it knows of others' (``rules`` 18).

``core/incarnations.py`` has the value, ``bidding.py`` asks for a new incarnation.  Here they meet
the folder and the links:

    newest   a peer reported it, or it was granted or begun here; the folder is to have it
    known    the folder has it: only this counts, and only this is sent to others

While the folder does not have yet what peers said, nothing is applied, and no peer is answered.  So
no effect of an incarnation is ever in a folder that does not know of the incarnation.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from crdtstream.core.bids import Bid, BidAnswer, BidLetter
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import (
    NO_LINEAGE,
    Begin,
    IncarnationError,
    Incarnations,
    Lineage,
    Lineages,
    decode_incarnations,
    differ,
    encode_incarnations,
    ends,
    granted,
    joined,
)
from crdtstream.core.replica import Replica
from crdtstream.region.bidding import Bidding
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.events import EffectsEnded, NewerFolder, Signal
from crdtstream.region.folder_share import FolderShare
from crdtstream.region.peers import Peers, PeersChange
from crdtstream.region.readiness import Recovery
from crdtstream.region.ready import StoreIncarnations
from crdtstream.region.tick import Tick

# Begins that a refused region hears at most: they are metadata of a call, which are bounded.
TOLD_BEGINS_MAX: Final = 32


class Numbering:
    """Incarnations, as one region knows them.

    Attributes:
        known: what the folder has.
        bidding: a new incarnation of this region, which is asked for.
    """

    def __init__(
        self,
        replica: Replica,
        tick: Tick,
        peers: Peers,
        deadlines: Deadlines,
        *,
        kept: Incarnations,
        run_id: int,
        make_folder: Callable[[], bytes],
        recovery: Recovery,
        now: Millis,
    ) -> None:
        """Start with what the folder of a node has.

        Args:
            now: start of the node, by which its incarnations are numbered.
            run_id: of this node.
            make_folder: 16 random bytes.
            recovery: whether this region may issue nothing yet, as it may have lost effects.
        """
        self.known = kept
        self.bidding = Bidding(peers, tick, deadlines, run_id=run_id, make_folder=make_folder)
        self._here = replica.region
        self._replica = replica
        self._tick = tick
        self._run_id = run_id
        self._recovery = recovery
        self._started = now
        self._newest = kept
        # Run of the node of each region that recovers; that run may bid.
        self._recovering_runs: dict[RegionId, int] = {}
        # Per peer the incarnation of the folder that spoke last.
        self._folders: dict[RegionId, Begin | None] = {}
        # Reason why this folder can never go on: some of its effects do not count any more.
        self._ended: str | None = None
        self._share = FolderShare(tick)
        replica.lineages = kept.lineages

    def follow_peers(self, change: PeersChange) -> None:
        self.bidding.follow_peers(change)
        for peer in change.removed:
            self._recovering_runs.pop(peer, None)
            self._folders.pop(peer, None)

    # --- The folder -----------------------------------------------------------------------------

    @property
    def folder_change(self) -> StoreIncarnations | None:
        """The next thing that the folder is to have; None: it has all that it should."""
        if self.is_kept:
            return None
        return StoreIncarnations(self._newest, self._share.wanted)

    @property
    def is_kept(self) -> bool:
        """True if the folder has all that was heard; until then nothing may follow from it."""
        return self._share.is_whole

    def note_folder(self, change: StoreIncarnations) -> None:
        """Note that the folder has it, durably."""
        before, self.known = self.known, change.kept
        self._share.note_kept(change.version)
        self._replica.lineages = self.known.lineages
        for region, lineage in self.known.lineages.items():
            past = before.lineages.get(region, NO_LINEAGE)
            has_begun = lineage.begins != past.begins
            if region != self._here and (has_begun or lineage.highest != past.highest):
                self._tick.post(NewerFolder(region, has_begun))
        self._tick.open()

    def _keep(self, newest: Incarnations) -> None:
        if newest == self._newest:
            return
        ended = ends(self._newest.lineages, newest.lineages)
        self._newest = newest
        self._share.note_changed()
        if ended:
            self._tick.post(EffectsEnded(ended))

    def _keep_lineage(self, region: RegionId, lineage: Lineage) -> None:
        if lineage != self._lineage_of(region):
            lineages = {**self._newest.lineages, region: lineage}
            self._keep(replace(self._newest, lineages=lineages))

    def _lineage_of(self, region: RegionId) -> Lineage:
        return self._newest.lineages.get(region, NO_LINEAGE)

    # --- What peers say -------------------------------------------------------------------------

    def said(self) -> bytes:
        """Bytes that go with an Open, a Welcome or a state."""
        return encode_incarnations(replace(self.known, successor=None))

    def told_refused(self, region: RegionId) -> bytes:
        """Bytes for a region whose link is refused: in which incarnation it is now."""
        lineage = self.known.lineages.get(region)
        if lineage is None:
            return b""
        lineage = lineage.shortened(TOLD_BEGINS_MAX)
        return encode_incarnations(Incarnations(lineages={region: lineage}))

    def hear(
        self, peer: RegionId, run_id: int, vv: VersionVector, data: bytes, *, recovers: bool
    ) -> str | None:
        """Take in what a peer said as a link opened, in this run of its node.

        Args:
            vv: what it has.
            recovers: it may have lost effects of its own, and issues none.

        Returns:
            Reason why there can be no link; None if there can.
        """
        try:
            said = decode_incarnations(data) if data else Incarnations()
        except ContentError as error:
            return str(error)
        reason = (
            self._earlier_folder(peer, said.own, recovers=recovers, is_silent=not data)
            or self._hear_own(peer, said.lineages, vv)
            or self._hear_others(peer, said.lineages, vv)
        )
        if reason is not None:
            return reason
        self._folders[peer] = said.own
        self._recovering_runs.pop(peer, None)
        if recovers:
            self._recovering_runs[peer] = run_id
        self.bidding.note_run(peer, run_id, knows=bool(data))
        self.bidding.note_known(peer, said.lineages.get(self._here, NO_LINEAGE).bid)
        return None

    def hear_state(self, sender: RegionId, vv: VersionVector, data: bytes) -> str | None:
        """Take in what comes with a state that is to be copied from a peer.

        Returns:
            Reason why it cannot be taken; None if it can, once the folder has what was heard.
        """
        try:
            lineages = decode_incarnations(data).lineages if data else {}
        except ContentError as error:
            return str(error)
        return self._hear_own(sender, lineages, vv) or self._hear_others(sender, lineages, vv)

    def hear_refused(self, peer: RegionId, data: bytes) -> None:
        """Take in what a peer said as it refused a link."""
        try:
            lineages = decode_incarnations(data).lineages if data else {}
        except ContentError:
            return
        self._hear_own(peer, lineages, {})

    def is_newest(self, peer: RegionId) -> bool:
        """True if a peer speaks for its region: no newer folder of it is known.

        A peer that recovers does: it says what it has, and issues nothing before it has bid.
        """
        highest = self._lineage_of(peer).highest
        if highest is None or peer in self._recovering_runs:
            return True
        return not _is_below(self._folders.get(peer), highest)

    def _earlier_folder(
        self, peer: RegionId, own: Begin | None, *, recovers: bool, is_silent: bool
    ) -> str | None:
        """Reason why a peer is not heard: its folder is an earlier one; None: it is not."""
        highest = self._lineage_of(peer).highest
        if recovers or highest is None or not _is_below(own, highest):
            return None
        if is_silent:
            return (
                f"region {peer} runs a version that knows of no incarnations, and did not before:"
                " run the same version everywhere"
            )
        return told_earlier(peer, own, highest)

    def _hear_own(self, peer: RegionId, lineages: Lineages, vv: VersionVector) -> str | None:
        """Take in what a peer knows of this region's incarnations."""
        here, theirs = self._here, lineages.get(self._here, NO_LINEAGE)
        highest = theirs.highest
        self.bidding.note_number(highest)
        # The peer granted this bid to a folder, which may have begun, or not.  So only what has
        # begun is taken over, and a new bid is above it.
        theirs = replace(theirs, bid=None)
        n, mine = self._replica.issued, self._lineage_of(here)
        if (
            not self._recovery.is_recovering
            and highest is not None
            and _is_below(self._newest.own, highest)
        ):
            self._stand_back(highest)
            return self.obstacle
        try:
            newest = joined(mine, n, theirs)
        except IncarnationError:
            self._stand_back(theirs.begins[-1])
            self._ended = self._told_own(theirs.begins[-1], is_over=True)
            self._tick.post(Signal.REASONS)
            return self._ended
        reason = self._told_difference(peer, here, mine, n, theirs, vv.get(here, 0))
        if reason is None:
            self._keep_lineage(here, newest)
        return reason

    def _hear_others(self, peer: RegionId, lineages: Lineages, vv: VersionVector) -> str | None:
        """Take in what a peer knows of other regions' incarnations, and of its own."""
        found: dict[RegionId, Lineage] = {}
        for region in self._newest.lineages.keys() | lineages.keys():
            if region == self._here:
                continue
            mine, theirs = self._lineage_of(region), lineages.get(region, NO_LINEAGE)
            if region == peer:
                # Its folder may have a bid that it granted to itself; its letters say what it asks
                # for.
                theirs = replace(theirs, bid=None)
            n = self._replica.vv.get(region, 0)
            reason = self._told_difference(peer, region, mine, n, theirs, vv.get(region, 0))
            if reason is not None:
                return reason
            found[region] = joined(mine, n, theirs)
        for region, lineage in found.items():
            self._keep_lineage(region, lineage)
        return None

    def _told_difference(
        self, peer: RegionId, region: RegionId, mine: Lineage, n: int, theirs: Lineage, their_n: int
    ) -> str | None:
        """Reason why two regions can have no link: what they have of a region differs."""
        count = differ(mine, n, theirs, their_n)
        if count is None:
            return None
        return (
            f"the effects of region {region} from {count + 1} on are others in region {peer} than"
            f" in region {self._here}: it numbered them in two folders. One of the two regions must"
            " begin with an empty folder"
        )

    def _stand_back(self, successor: Begin) -> None:
        """Note that the region goes on in another folder than this one."""
        before = self._newest.successor
        if before is not None and before.number >= successor.number:
            return
        if before is None:
            self._tick.notice(
                "error",
                "this folder is an earlier one of its region: it takes no writes",
                incarnation=successor.number,
                after=successor.after_n,
            )
        self._keep(replace(self._newest, successor=successor))
        self._tick.post(Signal.REASONS)

    # --- Bids -----------------------------------------------------------------------------------

    def receive(self, sender: RegionId, letter: BidLetter, now: Millis) -> None:
        """Take in a bid of a peer, or its answer to one of this region."""
        if isinstance(letter, Bid):
            self._answer(sender, letter)
        else:
            self.bidding.note_answer(sender, letter)
            self._tick.post(Signal.REASONS)
        self._tick.open()

    def _answer(self, sender: RegionId, letter: Bid) -> None:
        """Grant a bid, or say why not.

        A run of the sender that is not known to recover is not answered: its letter may be late,
        and the region may have begun since.  Its link must be heard first.
        """
        if self._recovering_runs.get(sender) != letter.run_id:
            return
        lineage = granted(self._lineage_of(sender), self._replica.vv.get(sender, 0), letter.begin)
        if lineage is not None:
            self._keep_lineage(sender, lineage)
        highest = self._lineage_of(sender).highest
        number = -1 if highest is None else highest.number
        is_granted = lineage is not None
        answer = BidAnswer(sender, self._run_id, letter.begin.folder, is_granted, number)
        self._share.send([answer])

    def bid(self) -> None:
        """Bid for a new incarnation: all members have answered, and nothing lacks."""
        n, lineage = self._replica.issued, self._lineage_of(self._here)
        self.bidding.want(n, lineage, self._started)
        bid = self.bidding.bid
        if self.bidding.is_granted and self._newest.own != bid:
            assert bid is not None
            lineages = {**self._newest.lineages, self._here: lineage.begun(bid)}
            self._keep(Incarnations(own=bid, lineages=lineages))

    @property
    def has_begun(self) -> bool:
        """True if the folder says that the incarnation that was asked for has begun."""
        return self.bidding.bid is not None and self.known.own == self.bidding.bid

    def finish(self) -> None:
        """Go on with this folder: peers are to hear what has begun."""
        begun = self.bidding.end()
        assert begun == self.known.own
        self._tick.notice("info", "incarnation", number=begun.number, after=begun.after_n)
        self._tick.post(Signal.FOLDER_BEGUN)

    # --- What follows ---------------------------------------------------------------------------

    @property
    def obstacle(self) -> str | None:
        """Reason why this region takes no writes; None: no other folder of it goes on."""
        if self._ended is not None:
            return self._ended
        successor = self._newest.successor
        if successor is None or self._recovery.is_recovering:
            return None
        return self._told_own(successor, is_over=False)

    def _told_own(self, successor: Begin, *, is_over: bool) -> str:
        """
        Args:
            is_over: the region already went on there, without effects that are here.
        """
        here, issued = self._here, self._replica.issued
        told = (
            f"region {here} goes on in another folder, which began after its effect"
            f" {successor.after_n} (incarnation {successor.number}); this one is an earlier folder."
        )
        if issued > successor.after_n:
            told += (
                f" Its effects from {successor.after_n + 1} to {issued} are not in the other one:"
                " stop this node and keep the folder, of which `crdtstream crdb salvage` appends"
                " them again."
            )
        else:
            told += " Stop this node."
        if is_over:
            return told.removesuffix(".")
        return (
            f"{told} If the other folder is gone for good, or was started by mistake, and the"
            " region is to go on from here: remove the file 'opened' from this folder and start the"
            " node again; it then asks all members"
        )

    def is_early(self, origin: RegionId, n: int) -> bool:
        """True if an effect must wait until an incarnation of its region is known to have begun."""
        lineage = self.known.lineages.get(origin)
        return lineage is not None and lineage.bid is not None and n > lineage.bid.after_n

    def wrong_state(self, vv: VersionVector) -> str | None:
        """Reason why a state that was copied cannot be merged; None: it can."""
        for origin, n in sorted(vv.items()):
            if self.is_early(origin, n):
                return f"region {origin} asks for a new incarnation, and may have lost effects"
        return None

    @property
    def own(self) -> Begin | None:
        """The incarnation of this folder; None: it has begun none."""
        return self.known.own

    @property
    def lineages(self) -> Mapping[RegionId, Lineage]:
        """Lineages of all regions, as the folder has them."""
        return self.known.lineages

    @property
    def heard_lineages(self) -> Lineages:
        """The same, as the folder has them or is to have them."""
        return self._newest.lineages


def told_earlier(region: RegionId, own: Begin | None, highest: Begin) -> str:
    """Reason why a folder has no links: it is an earlier one."""
    number = 0 if own is None else own.number
    return (
        f"region {region} goes on in another folder, which began after its effect"
        f" {highest.after_n} (incarnation {highest.number}); the folder that links is of"
        f" incarnation {number}: stop its node"
    )


def _is_below(one: Begin | None, other: Begin) -> bool:
    """True if a folder is of an earlier incarnation than the other one."""
    return one is None or (one.number, one.folder) < (other.number, other.folder)
