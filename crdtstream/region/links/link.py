"""A pulling link as a state machine, without any IO.

                 Welcomed           CaughtUp
    CONNECTING ────────────> CATCHING_UP ──────> LIVE          Reopen: back to CONNECTING
        ^  │ Failed               │ Failed        │ Failed
        │  └──────────> WAITING <─┴───────────────┘
        └───────────────────┘ BackoffOver                      Refused: to REFUSED, which is
                                                               WAITING with the longest pause
    any ── Pause ──> PAUSED ── Resume ──> CONNECTING
    CONNECTING ── CutOff ──> NEEDS_BOOTSTRAP, which is WAITING with the longest pause, too

``pull.py`` decides what happens in each state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, assert_never


class LinkState(Enum):
    CONNECTING = "connecting"
    CATCHING_UP = "catching up"
    LIVE = "live"
    WAITING = "waiting"
    REFUSED = "refused"
    NEEDS_BOOTSTRAP = "needs bootstrap"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Welcomed:
    """The peer has welcomed this region and begins to send."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that the peer had at its last heartbeat is applied here."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The call ended, or the peer was silent for too long, or sent something that cannot be
    used."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The peer refuses a link with this region.

    Attributes:
        is_duplicate: another node is linked as this region.
        incarnations: the folder in which this region goes on, as the peer knows it.
    """

    reason: str
    is_duplicate: bool = False
    incarnations: bytes = b""


@dataclass(frozen=True, slots=True)
class CutOff:
    """The peer's log begins behind what this region lacks of it (``rules`` 17)."""

    reason: str


@dataclass(frozen=True, slots=True)
class BackoffOver:
    """The pause has ended."""


@dataclass(frozen=True, slots=True)
class Pause:
    """An operator pauses the link: nothing is pulled."""


@dataclass(frozen=True, slots=True)
class Resume:
    """An operator resumes the link."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Other origins are wanted: the link begins again from its version vector."""


LinkEvent: TypeAlias = (
    Welcomed | CaughtUp | Failed | Refused | CutOff | BackoffOver | Pause | Resume | Reopen
)

# Events that are missing here change nothing: a failure while paused, a pause while paused.
TRANSITIONS: Final[dict[LinkState, dict[type[LinkEvent], LinkState]]] = {
    LinkState.CONNECTING: {
        Welcomed: LinkState.CATCHING_UP,
        Failed: LinkState.WAITING,
        Refused: LinkState.REFUSED,
        CutOff: LinkState.NEEDS_BOOTSTRAP,
        Pause: LinkState.PAUSED,
    },
    LinkState.CATCHING_UP: {
        CaughtUp: LinkState.LIVE,
        Failed: LinkState.WAITING,
        Refused: LinkState.REFUSED,
        Pause: LinkState.PAUSED,
        Reopen: LinkState.CONNECTING,
    },
    LinkState.LIVE: {
        Failed: LinkState.WAITING,
        Refused: LinkState.REFUSED,
        Pause: LinkState.PAUSED,
        Reopen: LinkState.CONNECTING,
    },
    LinkState.WAITING: {
        BackoffOver: LinkState.CONNECTING,
        Pause: LinkState.PAUSED,
    },
    LinkState.REFUSED: {
        BackoffOver: LinkState.CONNECTING,
        Pause: LinkState.PAUSED,
    },
    LinkState.NEEDS_BOOTSTRAP: {
        BackoffOver: LinkState.CONNECTING,
        Pause: LinkState.PAUSED,
    },
    LinkState.PAUSED: {
        Resume: LinkState.CONNECTING,
    },
}


class Link:
    """State of a link.

    Attributes:
        state: changed by ``feed`` only.
        error: of the last failure; empty once the link is live.
        failures: in a row.
        reconnects: times the link left CATCHING_UP or LIVE by a failure.
    """

    def __init__(
        self, uniform: Callable[[float, float], float], *, backoff_ms_min: int, backoff_ms_max: int
    ) -> None:
        self.state = LinkState.CONNECTING
        self.error = ""
        self.failures = 0
        self.reconnects = 0
        self._uniform = uniform
        self._backoff_ms_min = backoff_ms_min
        self._backoff_ms_max = backoff_ms_max

    @property
    def is_up(self) -> bool:
        """True if the peer sends."""
        return self.state in (LinkState.CATCHING_UP, LinkState.LIVE)

    def feed(self, event: LinkEvent) -> bool:
        """Take in an event; return True if the state changed."""
        before = self.state
        after = TRANSITIONS[before].get(type(event))
        if after is None:
            return False
        match event:
            case Failed(reason) | Refused(reason, _) | CutOff(reason):
                self.reconnects += self.is_up
                self.error = reason
                self.failures += 1
            case CaughtUp():
                self.error = ""
                self.failures = 0
            case Welcomed() | BackoffOver() | Pause() | Resume() | Reopen():
                pass
            case _:
                assert_never(event)
        assert after is not LinkState.LIVE or not self.error
        self.state = after
        return True

    def backoff_seconds(self) -> float:
        """Time to pause now: doubling, bounded, and between half and whole by chance.

        By chance, so that regions which were cut off together do not reconnect all at once.
        """
        longest_ms = self._backoff_ms_max
        assert not self.is_up, "a link that is up does not pause"
        if self.state is LinkState.WAITING:
            assert self.failures > 0
            doublings = min(self.failures - 1, 16)
            longest_ms = min(longest_ms, self._backoff_ms_min << doublings)
        return longest_ms / 1000 * self._uniform(0.5, 1.0)
