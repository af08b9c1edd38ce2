"""Messages of a link, as values.

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
from crdtstream.region.readiness import DatabaseIdentity

# Regions that speak different protocols refuse each other.  1 and 2 were taken before the first
# release, so the number does not begin at 1 again.
PROTOCOL_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a node for its peers; ``run_id`` differs from one start of the node to the
    next."""

    region: RegionId
    database_id: str
    run_id: int


@dataclass(slots=True, init=False)
class Standing:
    """Standing of a region, as it says itself (see the message of that name in the protocol).

    Attributes:
        recovering: it recovers, and some member has not yet answered it.
        regains: it recovers, and may get back effects of its own that it lost.
    """

    database: Final[DatabaseIdentity]
    recovering: Final[bool]
    regains: Final[bool]

    def __init__(self, database: DatabaseIdentity, recovering: bool, regains: bool) -> None:
        self.database = database
        self.recovering = recovering
        self.regains = regains


@dataclass(frozen=True, slots=True)
class Open:
    """A puller's first message: its identity, what it has, what it wants.

    Attributes:
        membership: what it reports on the members (``Membership.said``).
        incarnations: what it reports on incarnations (``Numbering.said``).
        histories: what it reports on its effects (``Compared.said``).
    """

    region: RegionId
    database_id: str
    run_id: int
    origins: frozenset[RegionId]
    vv: VersionVector
    standing: Standing
    membership: bytes = b""
    incarnations: bytes = b""
    histories: bytes = b""
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Welcome:
    """The server's first message; to a puller that recovers it is the answer.

    Attributes:
        own_n: number of the puller's effects that are applied here, logged or not.
        begins: of each origin the last effect that was cut from the server's log.
        membership, incarnations, histories: as of ``Open``.
    """

    region: RegionId
    run_id: int
    vv: VersionVector
    standing: Standing
    own_n: int
    begins: VersionVector = field(default_factory=dict)
    membership: bytes = b""
    incarnations: bytes = b""
    histories: bytes = b""
    protocol: int = PROTOCOL_VERSION


@dataclass(slots=True, init=False)
class Progress:
    """Progress of a region, and what it knows of others: acks and heartbeats.

    Attributes:
        durable_vv: what a power cut cannot take back.
        now: the sender's clock.
        others: the same of other regions, as far as known and counting for causal stability.
        taken_bytes, taken_publication_bytes: in acks, size of what was taken since the link opened.
        stamp_ms: the sender's monotonic clock; 0: unknown.
        echo_ms: the receiver's last stamp on this link and the time since then; 0: none came.
        acks_awaited: in heartbeats, a client waits to hear what the puller has.
        next_ms: time within which the next one on this link comes; 0: it does not say.
        staging_vv: what the sender will have when it has taken over the state of another region;
            None: it does not take one over.
        epoch: of the members, at which ``durable_vv`` is the sender's word on removed regions; 0:
            it is none (``region/members/cuts.py``).
        histories: in heartbeats, the news of the sender's effects (``Compared.news``).
    """

    durable_vv: Final[VersionVector]
    now: Final[Millis]
    standing: Final[Standing]
    others: Final[Mapping[RegionId, VersionVector]]
    taken_bytes: Final[int]
    taken_publication_bytes: Final[int]
    stamp_ms: Final[int]
    echo_ms: Final[int]
    acks_awaited: Final[bool]
    next_ms: Final[int]
    staging_vv: Final[VersionVector | None]
    epoch: Final[int]
    histories: Final[bytes]

    def __init__(
        self,
        durable_vv: VersionVector,
        now: Millis,
        standing: Standing,
        others: Mapping[RegionId, VersionVector] | None = None,
        taken_bytes: int = 0,
        taken_publication_bytes: int = 0,
        stamp_ms: int = 0,
        echo_ms: int = 0,
        acks_awaited: bool = False,
        next_ms: int = 0,
        staging_vv: VersionVector | None = None,
        epoch: int = 0,
        histories: bytes = b"",
    ) -> None:
        self.durable_vv = durable_vv
        self.now = now
        self.standing = standing
        self.others = {} if others is None else others
        self.taken_bytes = taken_bytes
        self.taken_publication_bytes = taken_publication_bytes
        self.stamp_ms = stamp_ms
        self.echo_ms = echo_ms
        self.acks_awaited = acks_awaited
        self.next_ms = next_ms
        self.staging_vv = staging_vv
        self.epoch = epoch
        self.histories = histories


class Stamps:
    """Stamps of one link: what the other end sent last, to send it back."""

    def __init__(self) -> None:
        self._theirs_ms = 0
        self._came_at = 0.0

    def note(self, message: Progress, at: float) -> None:
        """Note a message of the other end."""
        self._theirs_ms = message.stamp_ms
        self._came_at = at

    def echo_ms(self, at: float) -> int:
        """Time that has passed on the other end's clock by now, at least."""
        if not self._theirs_ms:
            return 0
        return self._theirs_ms + max(0, int((at - self._came_at) * 1000))


@dataclass(slots=True, init=False)
class Batches:
    """Encoded batches, in the order in which the server applied them."""

    batches: Final[Sequence[bytes]]

    def __init__(self, batches: Sequence[bytes]) -> None:
        self.batches = batches


@dataclass(slots=True, init=False)
class Received:
    """The same batches at the other end, each well-formed, decoded and as it came."""

    batches: Final[Sequence[tuple[EffectBatch, bytes]]]

    def __init__(self, batches: Sequence[tuple[EffectBatch, bytes]]) -> None:
        self.batches = batches


@dataclass(frozen=True, slots=True)
class Publications:
    """Publications by clients of ``origin``, the server's region, and its numbers of listeners."""

    origin: RegionId
    publications: Sequence[Publication]
    listeners: Sequence[ListenerCount] = ()


ToServer: TypeAlias = Open | Progress
ToPuller: TypeAlias = Welcome | Progress | Batches | Publications
FromServer: TypeAlias = Welcome | Progress | Received | Publications


class RefusalKind(Enum):
    """Kind of fault of an Open."""

    MALFORMED = "malformed"
    # Another protocol, another database, the same region, more of our effects than there are.
    MISMATCH = "mismatch"
    DUPLICATE = "duplicate"  # another node is linked as the same region
    UNKNOWN = "unknown"  # no peer of this region


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why there can be no link; the text says what to do.

    Attributes:
        incarnations: what the refused region should hear of its own incarnations.
    """

    kind: RefusalKind
    reason: str
    incarnations: bytes = b""
