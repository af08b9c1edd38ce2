"""A peer's words on what regions have: the part that counts, as numbers may be used again.

Source: ``rules`` 18.

A region that lost effects begins an incarnation, and uses their numbers again.  What was known of
the lost ones is forgotten when that is heard (``Region`` does so).  But earlier words may still be
under way, from regions that had not heard of it when they sent them:

    R3 ── to R2: "R4 has 1:7" ─────────────────────────────┄┄> R2   takes this 1:7 for the new one
    R1 has lost 1:7, begins an incarnation after 1:6, and issues 1:7 ──> R2, not yet R3 and R4

So a word is about the incarnations that the peer named as its call began.  It says nothing beyond
what they share with the incarnations that are known here.  A region that hears of a new incarnation
begins all its calls again, so this state is short.

A peer that names none is believed.
"""

from collections.abc import Mapping
from typing import Final

from crdtstream.core.clock import VersionVector, capped
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Lineages, decode_incarnations, ends
from crdtstream.region.numbering import Numbering

NO_ENDS: Final[Mapping[RegionId, int]] = {}


class Words:
    """The words of one call."""

    __slots__ = ("_compared", "_ends", "_numbering", "_theirs")

    def __init__(self, numbering: Numbering, said: bytes) -> None:
        """Begin a call.

        Args:
            said: the incarnations that the peer knows, as received; empty: it names none.
        """
        self._numbering = numbering
        self._theirs: Lineages | None = decode_incarnations(said).lineages if said else None
        # The lineages here that it was compared with, and the ends that resulted.
        self._compared: Lineages | None = None
        self._ends = NO_ENDS

    def counting(self, region: RegionId, durable_vv: VersionVector) -> VersionVector | None:
        """The part of a word that counts, on the effects that a region durably has; None: nothing.

        If the region itself has begun again since, it has to report all of it again.
        """
        mine = self._numbering.heard_lineages
        if self._theirs is not None and mine is not self._compared:
            self._compared = mine
            self._ends = ends(mine, self._theirs)
        return None if region in self._ends else capped(durable_vv, self._ends)
