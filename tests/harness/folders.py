"""Folders of regions as their links and letters see them: what each knows of incarnations."""

from collections.abc import Sequence

from crdtstream.core.bids import Bid, BidAnswer, BidLetter
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Incarnations
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.events import NewerFolder
from crdtstream.region.numbering import Numbering
from crdtstream.region.tick import Tick
from tests.harness.parts import noted
from tests.harness.peers import peers_of
from tests.harness.regions import Node

NOW = Millis(1000)


class Folder:
    """One folder of a region, and the run of a node that has it open.

    Attributes:
        disk: what it has; a copy of it is another ``Folder`` with the same.
        node: the effects that are in it.
        news: the regions of which a newer folder became known, and whether it has begun.
    """

    def __init__(
        self,
        node: Node,
        peers: Sequence[int],
        *,
        disk: Incarnations | None = None,
        run_id: int = 1,
        is_recovering: bool = False,
    ) -> None:
        self.disk = disk or Incarnations()
        self.node = node
        self.here = RegionId(node.region)
        self.run_id = run_id
        self.is_recovering = is_recovering
        self._drawn = 0
        self._tick = Tick()
        self.numbering = Numbering(
            node.replica,
            self._tick,
            peers_of(self.here, *map(RegionId, peers)),
            Deadlines(),
            kept=self.disk,
            run_id=run_id,
            make_folder=self._draw,
            recovery=self,
            now=NOW,
        )
        self.events = noted(self._tick)

    @property
    def news(self) -> list[tuple[RegionId, bool]]:
        """The newer folders that it has heard of, each with whether it has begun."""
        found = [event for event in self.events if isinstance(event, NewerFolder)]
        return [(event.region, event.has_begun) for event in found]

    def _draw(self) -> bytes:
        self._drawn += 1
        return bytes([self.here, self.run_id, self._drawn]).ljust(16, b".")

    def keep(self) -> None:
        """The folder has what it should."""
        change = self.numbering.folder_change
        if change is not None:
            self.disk = change.kept
            self.numbering.note_folder(change)

    def hear(self, other: "Folder") -> str | None:
        """The other one opens a link, or welcomes one of this."""
        reason = self.numbering.hear(
            other.here,
            other.run_id,
            other.node.replica.vv,
            other.numbering.said(),
            recovers=other.is_recovering,
        )
        self.keep()
        return reason

    def link(self, other: "Folder") -> str | None:
        """Pull from the other one; returns why that is refused, by one or the other."""
        reason = other.hear(self)
        if reason is not None:
            self.numbering.hear_refused(other.here, other.numbering.told_refused(self.here))
            self.keep()
            return reason
        return self.hear(other)

    # --- Bids -----------------------------------------------------------------------------------

    def bid(self) -> Begin:
        """It has recovered, and asks for an incarnation."""
        self.numbering.bid()
        assert self.numbering.bidding.bid is not None
        return self.numbering.bidding.bid

    def take_letters(self, *, at: int = NOW) -> list[BidLetter]:
        """Letters that it sends, once its folder is up to date."""
        self.numbering.bidding.look(Millis(at))
        letters = self._tick.take_letters()
        return [letter for letter in letters if isinstance(letter, Bid | BidAnswer)]

    def receive(self, sender: "Folder", letters: Sequence[BidLetter]) -> None:
        """Those of the letters that are for it."""
        for letter in letters:
            if letter.to == self.here:
                self.numbering.receive(sender.here, letter, NOW)

    def ask(self, *others: "Folder", at: int = NOW) -> None:
        """Its bid goes to the others, and their answers come back; all folders are written."""
        letters = self.take_letters(at=at)
        for other in others:
            other.receive(self, letters)
            other.keep()
            self.receive(other, other.take_letters())
        self.numbering.bid()
        self.keep()

    @property
    def has_begun(self) -> bool:
        return self.numbering.has_begun

    def go_on(self) -> None:
        """It is ready: from here on it issues effects."""
        assert self.has_begun
        self.numbering.finish()
        self.is_recovering = False


def bids(letters: Sequence[BidLetter]) -> list[RegionId]:
    """Regions that the letters ask."""
    return [letter.to for letter in letters if isinstance(letter, Bid)]
