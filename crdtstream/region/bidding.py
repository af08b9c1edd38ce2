"""Bids: a region whose folder proves nothing asks its peers to grant it a new incarnation.

    recovers ─> all have answered, nothing lacks ─> bids: a letter to each peer
                                                      │ the peer's folder has the bid,
                                                      v then the peer answers
                     issues effects <─ folder says: begun <─ granted by all

There are two rounds, as asking leaves nothing behind: a copy that is started by accident, and that
not all members answer, does not lock the region out.  A bid does leave something, at those that
granted it.  So a region can still be locked out by a copy that all members answer and that vanishes
before it has begun; ``Numbering.obstacle`` says what to do then.

A grant holds for one run of the peer's node: a node that was started again may have forgotten it,
and is asked again.  A peer that names no incarnations is not asked.

A peer may not be able to reach this region although this region reaches it: then its answers are
lost.  As a link opens, the peer reports the bid that its folder has, and that is an answer as well.
So a link to a silent peer is opened again.
"""

from collections.abc import Callable
from typing import Final

from crdtstream.core.bids import Bid, BidAnswer
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Lineage
from crdtstream.core.size import Size
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.events import BidUnanswered
from crdtstream.region.peers import Peers, PeersChange
from crdtstream.region.tick import Tick

# A bid is sent again after this time without an answer.
RESEND_MS: Final = Size(500, least=1)


class Bidding:
    """The bid of this region, and the answers to it.

    Attributes:
        bid: what it asks for, or has begun in this recovery; None: nothing.
        deadline: when ``look`` is to be called next.
    """

    def __init__(
        self,
        peers: Peers,
        tick: Tick,
        deadlines: Deadlines,
        *,
        run_id: int,
        make_folder: Callable[[], bytes],
    ) -> None:
        """
        Args:
            run_id: of this node.
            make_folder: 16 random bytes.
        """
        self.bid: Begin | None = None
        self._peers = peers
        self._tick = tick
        self._run_id = run_id
        self._make_folder = make_folder
        # The run of its node in which a peer spoke last; only of peers that know of incarnations.
        self._runs: dict[RegionId, int] = {}
        self._granted_by: set[RegionId] = set()
        # The peers that this bid was sent to.
        self._sent_to: set[RegionId] = set()
        # The highest number that a peer knows of this region's incarnations, the bid's not counted.
        self._number_elsewhere = -1
        self.deadline = deadlines.new()

    def follow_peers(self, change: PeersChange) -> None:
        for peer in change.removed:
            self._runs.pop(peer, None)
            self._granted_by.discard(peer)

    # --- What peers say -------------------------------------------------------------------------

    def note_run(self, peer: RegionId, run_id: int, *, knows: bool) -> None:
        """Note that a peer opened a link, or welcomed one.

        Args:
            knows: it knows of incarnations.
        """
        if not knows:
            self._runs.pop(peer, None)
            return
        if self._runs.get(peer) != run_id:
            self._runs[peer] = run_id
            self._granted_by.discard(peer)
            self._ask_soon()

    def note_number(self, highest: Begin | None) -> None:
        """Note an incarnation of this region that a peer knows: begun, or asked for."""
        if highest is not None and highest != self.bid:
            self._number_elsewhere = max(self._number_elsewhere, highest.number)

    def note_known(self, peer: RegionId, bid: Begin | None) -> None:
        """Note the bid of this region that a peer's folder has, as it said when a link opened."""
        if bid is not None and bid == self.bid and peer in self._runs:
            self._granted_by.add(peer)

    def note_answer(self, sender: RegionId, answer: BidAnswer) -> None:
        """Note a peer's answer; ignore one to an earlier bid, or of an earlier run of the peer."""
        bid = self.bid
        if bid is None or bid.folder != answer.folder:
            return
        if self._runs.get(sender) != answer.run_id:
            return
        if answer.is_granted:
            self._granted_by.add(sender)
        elif answer.number >= bid.number:
            self._number_elsewhere = max(self._number_elsewhere, answer.number)

    # --- The bid --------------------------------------------------------------------------------

    def want(self, n: int, known: Lineage, started: Millis) -> None:
        """Ask for a new incarnation that begins after ``n`` effects.

        Args:
            started: when this node started.
        """
        bid = self.bid
        if bid is not None and bid.after_n == n and bid.number > self._number_elsewhere:
            return
        # Some peers may have granted the bid before.
        taken = max(self._number_elsewhere, -1 if bid is None else bid.number)
        number = max(known.next_number(started), taken + 1)
        self.bid = Begin(number, self._make_folder(), n)
        self._granted_by.clear()
        self._sent_to.clear()
        self._ask_soon()

    @property
    def is_granted(self) -> bool:
        """True if all peers have granted the bid."""
        return self.bid is not None and not self._asked

    @property
    def _asked(self) -> list[RegionId]:
        """Peers that have not granted it yet."""
        return sorted(
            peer
            for peer in self._peers.addresses
            if peer in self._runs and peer not in self._granted_by
        )

    def end(self) -> Begin:
        """Note that the region has begun, and goes on."""
        begun, self.bid = self.bid, None
        assert begun is not None
        self._granted_by.clear()
        self._sent_to.clear()
        self.deadline.set(None)
        return begun

    # --- Asking ---------------------------------------------------------------------------------

    def _ask_soon(self) -> None:
        if self.bid is not None:
            self.deadline.set(Millis(0))
            self._tick.open()

    def look(self, now: Millis) -> None:
        """Ask peers that have not granted the bid, if it is time."""
        due = self.deadline.at
        if self.bid is None or due is None or now < due:
            return
        asked = self._asked
        self._tick.send([Bid(peer, self._run_id, self.bid) for peer in asked])
        for peer in asked:
            if peer in self._sent_to:
                self._tick.post(BidUnanswered(peer))
        self._sent_to.update(asked)
        self.deadline.set(Millis(now + RESEND_MS.value) if asked else None)
        self._tick.open()
