"""Union of two states, each a set of dotted things with a version vector.

    in both                                        stays
    in one, and the other's vector covers its dot  is removed: the other has seen it, and removed it
    in one, and the other's vector does not        is new to the other, and stays

So no tombstone of a thing is needed.  Delete-wins is another matter: a value or a create that is
new to the other state may be concurrent to a destroy there, and dies then.

    here    EXPIRE x, dot 1:9                 there    DEL x, dot 2:4; vector there 1:8, 2:4
            vector here 1:9, 2:3              the union has no deadline: the DEL had not observed
                                              it, nor it the DEL
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from crdtstream.core.clock import Dot, VersionVector, covers_dot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Both:
    """The version vectors of two states that are merged.

    Attributes:
        here: of this region's state, as it was before.
        there: of the other region's.
    """

    here: VersionVector
    there: VersionVector

    def is_new_here(self, dot: Dot) -> bool:
        """True if this region had not applied the effect."""
        return not covers_dot(self.here, dot)

    def is_new_there(self, dot: Dot) -> bool:
        """True if the other region had not applied the effect."""
        return not covers_dot(self.there, dot)

    def united(self, here: Mapping[Dot, T], there: Mapping[Dot, T]) -> dict[Dot, T]:
        """Things by dot: those of this region that stay, then those that are new here.

        Of what both have, this region's is taken.
        """
        kept = {dot: one for dot, one in here.items() if dot in there or self.is_new_there(dot)}
        kept.update((dot, one) for dot, one in there.items() if self.is_new_here(dot))
        return kept

    def without_destroyed(
        self, things: Mapping[Dot, T], here: Iterable[Dot], there: Iterable[Dot]
    ) -> dict[Dot, T]:
        """The united things, without those that a concurrent destroy removed.

        Args:
            here, there: dots of the destroys that each region remembers.
        """
        unheard_there = any(map(self.is_new_there, here))
        unheard_here = any(map(self.is_new_here, there))
        if not unheard_here and not unheard_there:
            return dict(things)
        return {
            dot: one
            for dot, one in things.items()
            # New there, so of this region, and a destroy is new here; and the other way round.
            if not (unheard_here and self.is_new_there(dot))
            and not (unheard_there and self.is_new_here(dot))
        }
