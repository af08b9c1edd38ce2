"""The cut of a removed region: how many of its effects count, for good and everywhere.

    region 3 is removed at epoch 5; it had issued 3:1 to 3:9
    region 1 has 3:1 to 3:7        says 7 at epoch 5 ─┐
    region 2 has 3:1 to 3:4        says 4 at epoch 5 ─┴─> cut 7: region 2 gets 3:5 to 3:7 from 1,
                                                         3:8 and 3:9 are lost, and refused
                                                         from every peer

The cut is the maximum over the remaining members of what each durably has of the region.  It holds
only if no member can still get more of it, nor lose what was counted.  So a member's word counts if

  * it was said at the newest epoch: after its own removal a member is not heard any more, and
    others may have more from it than they said before;
  * all that was applied before the member adopted that epoch is durable there.  The epoch may
    arrive ahead of the log, and then a batch may be applied that the word does not count;
  * the member does not recover: it gets back what it had lost, and that may be more;
  * it is of the member's present start: a restart may have lost what was not durable elsewhere.

Once the maximum is reached here, it is final: it is kept, and no later word moves it.  It is not
passed on: a member that was only told of it could outlive all that have reached it.

A member that adopts a removal drops what it holds unapplied of batches of every removed origin, and
all that came over links of a removed region (``region/links/links.py``).
"""

from dataclasses import dataclass

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members


@dataclass(frozen=True, slots=True)
class Word:
    """A member's statement on a removed region.

    Attributes:
        start: number of the start of its node that says it; ascending.
        epoch: the newest one that the member has adopted.
        n: number of effects of the removed region that are durable there.
    """

    member: RegionId
    start: int
    epoch: int
    n: int


@dataclass(frozen=True, slots=True)
class Adoption:
    """A member's adoption of its newest epoch; or its restart, which loses what was not durable.

    Attributes:
        applied_vv: what was applied there at that moment, durable or not.
    """

    epoch: int
    applied_vv: VersionVector


def word_of(
    removed: RegionId,
    *,
    here: RegionId,
    start: int,
    adoption: Adoption,
    durable_vv: VersionVector,
    recovers: bool,
) -> Word | None:
    """This member's statement on a removed region; None: it may not make one yet."""
    if recovers or not covers(durable_vv, adoption.applied_vv):
        return None
    return Word(here, start, adoption.epoch, durable_vv.get(removed, 0))


class CutSearch:
    """One member's search for the cut of one removed region.

    Attributes:
        removed: the region.
        final: the cut, once it is reached here; the caller keeps it.
    """

    __slots__ = ("_members", "_starts", "_words", "final", "removed")

    def __init__(self, removed: RegionId, members: Members, final: int | None = None) -> None:
        self.removed = removed
        self.final = final
        self._members = members
        self._words: dict[RegionId, Word] = {}
        self._starts: dict[RegionId, int] = {}

    def adopt(self, members: Members) -> None:
        """A newer epoch: all that was said at earlier ones counts no more."""
        assert members.epoch >= self._members.epoch
        if members.epoch > self._members.epoch:
            self._members = members
            self._words.clear()

    def started(self, member: RegionId, start: int) -> None:
        """A member began again and was answered: what it said before counts no more."""
        if start > self._starts.get(member, 0):
            self._starts[member] = start
            word = self._words.get(member)
            if word is not None and word.start < start:
                del self._words[member]

    def hear(self, word: Word) -> None:
        """A member's word, this one's own included.  A later one replaces an earlier one."""
        if word.epoch != self._members.epoch or word.member not in self._members.remaining:
            return
        if word.start < self._starts.get(word.member, 0):
            return
        self.started(word.member, word.start)
        self._words[word.member] = word

    @property
    def silent(self) -> tuple[RegionId, ...]:
        """The remaining members whose word is missing."""
        return tuple(one for one in self._members.remaining if one not in self._words)

    @property
    def cut(self) -> int | None:
        """The cut as far as is known; None while a word is missing."""
        if self.final is not None:
            return self.final
        return None if self.silent else max(word.n for word in self._words.values())

    def reach(self, durable_vv: VersionVector) -> bool:
        """Make the cut final if all of it is durable here.

        Returns:
            Whether it became final now; it must be kept then.
        """
        cut = self.cut
        if self.final is not None or cut is None or durable_vv.get(self.removed, 0) < cut:
            return False
        self.final = cut
        return True
