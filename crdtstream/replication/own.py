"""Effects of this region that only others still have (``rules`` 18); without any IO.

A dot must never be used twice with different content.  A node whose log lost its end - a power cut
without fsync, a folder restored from a copy - may have given out dots that peers hold.  So it
issues nothing while it knows of such a dot, and, if its log cannot be trusted, until every peer
has said how many of its effects it has.  Meanwhile it pulls them back like any other origin's.
"""

from collections.abc import Iterable

from crdtstream.core.ids import Region


class OwnEffects:
    """How many effects of this region each peer has, and whether another node issues them too."""

    def __init__(self, region: Region, peers: Iterable[Region], *, log_is_whole: bool) -> None:
        self._region = region
        self._unanswered = set() if log_is_whole else set(peers)
        self._known_n = 0
        self._duplicate_by_peer: dict[Region, str] = {}

    def note_duplicate(self, peer: Region, reason: str) -> None:
        """``peer`` refuses this node, because another one is linked to it as the same region."""
        self._duplicate_by_peer[peer] = reason

    def note_welcome(self, peer: Region) -> None:
        """``peer`` takes this node for its region's own."""
        self._duplicate_by_peer.pop(peer, None)

    def note(self, peer: Region, n: int) -> None:
        """``peer`` has ``n`` effects of this region."""
        self._unanswered.discard(peer)
        self._known_n = max(self._known_n, n)

    def are_lost(self, issued: int) -> bool:
        """Whether a peer has more of them than this region itself."""
        return self._known_n > issued

    def obstacle(self, issued: int) -> str | None:
        """Why nothing may be issued now; None if it may."""
        for reason in self._duplicate_by_peer.values():
            return reason
        if self.are_lost(issued):
            return (
                f"region {self._region} has lost effects that its peers have (it has {issued} of "
                f"{self._known_n}) and is pulling them back; try again in a moment"
            )
        if self._unanswered:
            regions = ", ".join(str(region) for region in sorted(self._unanswered))
            return (
                f"region {self._region} was not shut down cleanly with fsync off; it waits for "
                f"region {regions} to say which of its effects are known there"
            )
        return None
