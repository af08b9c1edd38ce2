"""What goes over a link, as values.

puller                              server
  Open ─────────────────────────────>
  <───────────────────────── Welcome
  <── Batches, Publications, Progress (heartbeats)
  Progress (acks) ──────────────────>
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.links.listeners import ListenerCount
from crdtstream.region.links.publications import Publication
from crdtstream.region.links.readiness import DatabaseIdentity

PROTOCOL_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a node is to peers; ``run_id`` differs from one start of the node to the next."""

    region: RegionId
    database_id: str
    run_id: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What a region says of itself (see the message of that name in the protocol).

    Attributes:
        recovering: it recovers, and some member has not yet answered it.
        regains: it recovers, and may get back effects of its own that it lost.
    """

    database: DatabaseIdentity
    recovering: bool
    regains: bool


@dataclass(frozen=True, slots=True)
class Open:
    """A puller's first message: who it is, what it has, what it wants.

    Attributes:
        membership: what it says of the members (``Membership.said``).
    """

    region: RegionId
    database_id: str
    run_id: int
    origins: frozenset[RegionId]
    vv: VersionVector
    standing: Standing
    membership: bytes = b""
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Welcome:
    """The server's first message; to a puller that recovers it is the answer.

    Attributes:
        own_n: how many of the puller's effects are applied here, logged or not.
        begins: of each origin the last effect that is in the server's log no more.
        membership: as of ``Open``.
    """

    region: RegionId
    run_id: int
    vv: VersionVector
    standing: Standing
    own_n: int
    begins: VersionVector = field(default_factory=dict)
    membership: bytes = b""
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a region stands, and what it knows of others: acks and heartbeats.

    Attributes:
        durable_vv: what a power cut cannot take back.
        now: the sender's clock.
        others: the same of other regions, as far as known and counting for causal stability.
        taken_bytes, taken_publication_bytes: in acks, what was taken since the link opened.
        stamp_ms: the sender's clock that only goes forward; 0: unknown.
        echo_ms: the receiver's last stamp on this link and the time since then; 0: none came.
        acks_awaited: in heartbeats, somebody waits to hear what the puller has.
        next_ms: the next one on this link comes after so long at the latest; 0: the sender is of a
            version that does not say, nor look at it.
        staging_vv: what the sender will have when it has taken over the state of another region;
            None: it does not take one over.
        epoch: of the members, at which ``durable_vv`` is the sender's word on removed regions; 0:
            it is none (``region/cuts.py``).
    """

    durable_vv: VersionVector
    now: Millis
    standing: Standing
    others: Mapping[RegionId, VersionVector] = field(default_factory=dict)
    taken_bytes: int = 0
    taken_publication_bytes: int = 0
    stamp_ms: int = 0
    echo_ms: int = 0
    acks_awaited: bool = False
    next_ms: int = 0
    staging_vv: VersionVector | None = None
    epoch: int = 0


class Stamps:
    """The stamps of one link: what the other end sent last, to send it back."""

    def __init__(self) -> None:
        self._theirs_ms = 0
        self._came_at = 0.0

    def note(self, message: Progress, at: float) -> None:
        """A message of the other end came."""
        self._theirs_ms = message.stamp_ms
        self._came_at = at

    def echo_ms(self, at: float) -> int:
        """By how much the other end's clock has passed by now, at least."""
        if not self._theirs_ms:
            return 0
        return self._theirs_ms + max(0, int((at - self._came_at) * 1000))


@dataclass(frozen=True, slots=True)
class Batches:
    """Encoded batches, in the order in which the server applied them."""

    batches: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Received:
    """The same at the other end, each well-formed, decoded and as it came."""

    batches: Sequence[tuple[EffectBatch, bytes]]


@dataclass(frozen=True, slots=True)
class Publications:
    """What clients of ``origin``, the server's region, published, and who listens there."""

    origin: RegionId
    publications: Sequence[Publication]
    listeners: Sequence[ListenerCount] = ()


ToServer: TypeAlias = Open | Progress
ToPuller: TypeAlias = Welcome | Progress | Batches | Publications
FromServer: TypeAlias = Welcome | Progress | Received | Publications


class RefusalKind(Enum):
    """What is wrong with an Open."""

    MALFORMED = "malformed"
    # Another protocol, another database, the same region, more of our effects than there are.
    MISMATCH = "mismatch"
    DUPLICATE = "duplicate"  # another node is linked as the same region
    UNKNOWN = "unknown"  # no peer of this region


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there can be no link; the reason says what to do."""

    kind: RefusalKind
    reason: str
