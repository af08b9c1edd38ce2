"""Events: news of one part of a region that other parts have to follow.

    part ── tick.post(event) ──> Region._follow ──> the parts that it concerns

A part knows nothing of those that follow it: all reactions stand in ``Region._follow``.  An event
is followed before ``post`` returns, so a part posts it when its own state is whole.  What a part
promises others holds by then: effects of a peer that recovers, for one, are dropped before the
peer is answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from crdtstream.core.ids import RegionId


class Signal(Enum):
    """Events that say nothing but what changed.

    Attributes:
        MEMBERS: the folder has newer members.
        REMOVAL: a removal is known: what is held unapplied is dropped.
        FOLDER_BEGUN: an incarnation of this region has begun: all peers are to hear of it.
        REASONS: a reason for taking no writes came or went.
        STANDING: peers should hear at once how this region stands.
        LOSS: the folder turns out to have lost something, though it proved itself.
        ASKING: all peers must answer (again), so all links must begin again.
        ROUTES: the origins that a link is asked for may be others, now or as time passes.
        CHECKPOINT_ENDED: a checkpoint was written, or could not be.
    """

    MEMBERS = auto()
    REMOVAL = auto()
    FOLDER_BEGUN = auto()
    REASONS = auto()
    STANDING = auto()
    LOSS = auto()
    ASKING = auto()
    ROUTES = auto()
    CHECKPOINT_ENDED = auto()


@dataclass(frozen=True, slots=True)
class NewerFolder:
    """A newer incarnation of another region, or a bid for one, is known.

    Attributes:
        has_begun: it is no mere bid.
    """

    region: RegionId
    has_begun: bool


@dataclass(frozen=True, slots=True)
class EffectsEnded:
    """Incarnations are known by which effects of earlier ones end.

    Attributes:
        ends: by region the number of effects that count.
    """

    ends: Mapping[RegionId, int]


@dataclass(frozen=True, slots=True)
class BidUnanswered:
    """A peer was asked to grant a bid, and has not answered in time."""

    peer: RegionId


@dataclass(frozen=True, slots=True)
class HeldChanged:
    """A region's effects begin to be held, or may be taken again."""

    region: RegionId


@dataclass(frozen=True, slots=True)
class HistoriesDiffer:
    """A peer has other effects than are here: the links both ways are to end.

    The other end hears of it by the link over which it was seen; by the other link it may never see
    it.
    """

    peer: RegionId


Event: TypeAlias = (
    Signal | NewerFolder | EffectsEnded | BidUnanswered | HeldChanged | HistoriesDiffer
)
