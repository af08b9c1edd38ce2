"""Letters between simulated regions: each is a call, so they come late, in any order, or never.

They travel as the bytes of the real protocol, and are taken as a node's service takes them.  A
letter of a process that was killed may still come.  One of a folder that was put back since then
does not: what an operator does between the two takes longer than any call.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.ids import RegionId
from crdtstream.region.ready import AnyLetter
from crdtstream.replication.letters import LetterError, encode_letter, take_letter
from crdtstream.sim.simulated_node import SimNode
from crdtstream.v1 import membership_pb2 as pb

# Letters of one region to another one; if they are more, the oldest is lost.
UNDER_WAY_MAX: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Posted:
    source: RegionId
    target: RegionId
    data: bytes


class Post:
    """All letters that are on their way."""

    def __init__(self) -> None:
        self._letters: list[_Posted] = []

    def take_in(self, node: SimNode, letters: Sequence[AnyLetter]) -> None:
        """Take in the letters that a region sends."""
        for letter in letters:
            data = encode_letter(node.region, letter).SerializeToString()
            self._letters.append(_Posted(node.number, letter.to, data))
            under_way = self.between(node.number, letter.to)
            if len(under_way) > UNDER_WAY_MAX:
                self._letters.remove(under_way[0])

    def between(self, source: RegionId, target: RegionId) -> list[_Posted]:
        """Letters of one region to another one, the oldest first."""
        return [one for one in self._letters if (one.source, one.target) == (source, target)]

    def deliver(self, source: RegionId, to: SimNode, *, at: int = 0) -> bool:
        """Deliver a letter; return True if it existed.

        Args:
            at: index among the letters that are on their way, from the oldest.
        """
        letters = self.between(source, to.number)
        if not letters:
            return False
        letter = letters[at % len(letters)]
        self._letters.remove(letter)
        if to.is_up:
            with suppress(LetterError, ContentError):
                take_letter(to.region, pb.MembershipLetter.FromString(letter.data), to.clock)
        return True

    def lose(self, *, source: RegionId | None = None, target: RegionId | None = None) -> None:
        """Lose all letters of a region, or all to it."""
        self._letters = [
            one for one in self._letters if source != one.source and target != one.target
        ]
