"""The region as its membership uses it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.members import Members
from crdtstream.core.replica import Replica


class Spread(Protocol):
    """The spread of the effect of a change of the members."""

    def has_stable_members(self, members: Members) -> bool:
        """True if the last effect of these members is causally stable here."""

    def lacking_members(self, members: Members) -> list[RegionId]:
        """Regions that are not known to have it durably."""


class Surroundings(Spread, Protocol):
    """See the module's text."""

    @property
    def is_level(self) -> bool:
        """True if this region has what the others have, and may issue except for its status."""

    def issue_members(self, effect: ChangeMembers) -> None:
        """Issue it, unless the disk refuses: then it is asked again later."""

    def others_have(self) -> Mapping[RegionId, int]:
        """Number of effects of this region that each other active region durably has."""

    def hand_over(self, change: Callable[[Replica, Millis], object], now: Millis) -> None:
        """Change the replica although writes are refused, and serve clients that waited for it.

        Raises:
            CommandError: it cannot be.
            UnreadableError: an entry that it needs cannot be read.
        """
