"""Claims of peers that cannot be true, and are not believed (``rules`` 3, 18).

WAIT, causal stability, the replication lag and the cutting of the log rest on what peers say that
they have.  Only for *this region's own* effects can such a word be judged here: each of them left
by a link of this region, in this run or an earlier one.

    own effects   1 ·············· 40 ·········· 60 ·········· 80
                  └ earlier runs ──┘             │             └ logged, and not sent yet
                    may have sent all            └ sent in this run: no peer has more

Of a third region's effects a peer may have more than was sent here, and more than this region has:
it has other links.  Such words cannot be judged, and are believed.

    word                          too much of own effects            what happens
    Open                          more than the log has              the link is refused
    acknowledgement               more than was sent (below)         the link ends, PeerError
    heartbeat                     more than was issued               this region recovers (18)
                                  else more than was sent            the link ends, PeerError
    what either reports of others    more than was sent to any peer     that word is ignored

With one peer, a region knows what that peer can have: what its Open said, and what was sent to it
since.  With several peers, or if there were others since this region started, each may have got
from another one what was sent to any of them.  If a former peer of an earlier run relays something
to the only peer, that peer's link ends once; its next Open says that it has it.

What a peer reports of others may have been true once: it does not hear at once that a third region
lost its disk, and then this region may use those numbers again.  So such a word does not end the
link; it is ignored.

A region that recovers may have lost the end of its log, so peers truly have more of its effects.
Then no link ends.  Only what was lost is learned from such a word; the peer repeats the word when
that is back.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.region.links.errors import PeerError
from crdtstream.region.opening import Opening
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.peers import Peers, PeersChange


class Claims:
    """Own effects that other regions can have."""

    def __init__(
        self,
        peers: Peers,
        outstanding: Outstanding,
        opening: Opening,
    ) -> None:
        self._region = peers.here
        # True in all of this run.
        self._has_one_peer = len(peers.addresses) == 1
        self._outstanding = outstanding
        self._opening = opening
        # Own effects that links of this run sent, or that Opens claimed.
        self._sent_n = 0

    def follow_peers(self, change: PeersChange) -> None:
        if change.added or change.removed:
            self._has_one_peer = False

    def own_n(self, vv: VersionVector) -> int:
        """Number of this region's effects that a version vector has."""
        return vv.get(self._region, 0)

    @property
    def logged_n(self) -> int:
        """Number of effects of its own that this region has in its log."""
        return self.own_n(self._outstanding.logged_vv)

    @property
    def elsewhere_n(self) -> int:
        """Highest number of this region's effects that any other region can have."""
        return min(self.logged_n, max(self._opening.issued_before, self._sent_n))

    def note_sent(self, n: int) -> None:
        """Note that a peer was sent own effects up to ``n``, or opened a link with them."""
        self._sent_n = max(self._sent_n, min(n, self.logged_n))

    def wrong_open(self, vv: VersionVector) -> str | None:
        """Reason why a peer cannot have what it opens a link with; None: it can."""
        n = self.own_n(vv)
        if self._opening.is_recovering or n <= self.logged_n:
            return None
        return (
            f"vv: it says to have {n} effects of region {self._region}, whose log has "
            f"{self.logged_n}. Either this is not the peer that it should be, or region "
            f"{self._region} has lost the end of its log: then it learns so by its own link to "
            "this peer, and takes them back"
        )

    def check_ack(self, peer: RegionId, vv: VersionVector, *, sent_n: int) -> bool:
        """Check what a peer acknowledges against what it was sent.

        Args:
            sent_n: own effects that its link sent to it, or that it opened the link with.

        Returns:
            True if the word may be believed; if not, this region has yet to get back what it lost.

        Raises:
            PeerError: it cannot have that.
        """
        return self._check(peer, vv, sent_n if self._has_one_peer else self.elsewhere_n)

    def check_heartbeat(self, peer: RegionId, vv: VersionVector, *, issued: int) -> bool:
        """Check likewise what a peer says in a heartbeat that it durably has.

        More than was ``issued`` is a reason to recover (``readiness.py``), and not believed.
        """
        return self.own_n(vv) <= issued and self._check(peer, vv, self.elsewhere_n)

    def _check(self, peer: RegionId, vv: VersionVector, most_n: int) -> bool:
        n = self.own_n(vv)
        if self._opening.is_recovering:
            return n <= self.logged_n
        advice = f"See that nothing but region {peer} can link as region {peer}"
        if most_n > self.logged_n:
            # The link was opened while this region recovered, and now it has all effects.
            raise PeerError(
                peer,
                f"vv: it opened its link with {most_n} effects of region {self._region}, which "
                f"has only issued {self.logged_n}. {advice}",
            )
        if n > most_n:
            raise PeerError(
                peer,
                f"durable_vv: it says to have {n} effects of region {self._region}; it can have "
                f"{most_n} at most, of {self.logged_n} in the log. {advice}",
            )
        return True

    def is_possible(self, vv: VersionVector) -> bool:
        """True if a third region can have what a peer reports of it."""
        most_n = self.logged_n if self._opening.is_recovering else self.elsewhere_n
        return self.own_n(vv) <= most_n
