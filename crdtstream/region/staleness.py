"""What bounds the replication lag (``lag.py``): how much a lost region may take with it.

An operator may bound how many effects lag (``lag_effects_max``) and for how long
(``lag_ms_max``).  What happens at the bound is his choice:

    warn       a line in the log, and INFO says so
    throttle   a write waits until the others have caught up so far, at most WAIT_MS
    refuse     a write is answered LAGGED

``admits`` is asked before each write runs, in the same turn as it runs, and an effect counts from
the moment it is issued.  So a pipeline, or many clients in one tick, cannot pass the bound
together (I15): with ``refuse`` no more than ``lag_effects_max`` acknowledged writes are ever
missing elsewhere.  A write that is many effects (COPY, a DEL of many keys) counts as one when it
is admitted, and in full afterwards.

What a group hands out and what is acknowledged goes on: losing that loses no entry, only
deliveries come again.  So do effects that nobody was promised (a key that expires).
"""

from collections.abc import Callable, Iterable
from enum import Enum, StrEnum
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.tick import Tick

# The longest that one write waits when it is throttled.  Clients commonly give up after 5 s.
WAIT_MS: Final = Size(1_000, least=1)
# At the bound for so long: worth a line in the log, and the region's health says so.  At full
# speed a small bound is reached, and left again, hundreds of times a second.  Clients that were
# refused look at our health twice, half a second apart, before they come back: by then it must
# say no.
STEADY_MS: Final = Size(400, least=1)
UNBOUNDED: Final = 1 << 62
# The highest bounds that can be set.  24 days; and more effects than a log holds in that time.
LAG_MS_MAX_HIGHEST: Final = (1 << 31) - 1
LAG_EFFECTS_MAX_HIGHEST: Final = 10**12


class LagAction(Enum):
    """What happens at the bound."""

    WARN = "warn"
    THROTTLE = "throttle"
    REFUSE = "refuse"


class LagState(StrEnum):
    """How the replication lag stands to its bounds.

    ALONE: there is no other region.  OFF: there is no bound.  UNKNOWN: no other region has said yet
    what it has of an earlier run.  EXCEEDED: the next write finds a bound reached.
    """

    ALONE = "alone"
    OFF = "off"
    UNKNOWN = "unknown"
    WITHIN = "within"
    EXCEEDED = "exceeded"


class Staleness:
    """See the module's text.

    Attributes:
        lag_effects_max, lag_ms_max: the bounds; 0: none.
        action: what happens there.
        lag: what is bounded.
        refused, throttled: writes that were answered LAGGED, and writes that had to wait.
        exceeded_count: how often the bound was reached for longer than STEADY_MS.
        on_limit: called when writes are to be asked for, or no longer: see ``limits_writes``.
        on_room: called with the session of a write that waited and is to be tried again; returns
            whether that client is still there.
    """

    def __init__(self, replica: Replica, lag: ReplicationLag, tick: Tick, *, now: Millis) -> None:
        self.lag = lag
        self.lag_effects_max = 0
        self.lag_ms_max = 0
        self.action = LagAction.WARN
        self.refused = 0
        self.throttled = 0
        self.exceeded_count = 0
        self.on_limit: Callable[[], None] = _nobody_asks
        self.on_room: Callable[[int], bool] = _nobody_waits
        self._replica = replica
        self._tick = tick
        self._now = now
        # Sessions that wait, with the time until which they do.
        self._waiting: dict[int, Millis] = {}
        self._tried_until = now
        self._exceeded_since: Millis | None = None
        self._is_told = False
        self._is_on = False
        self._n_max = UNBOUNDED
        self._until = UNBOUNDED
        lag.on_change = self._follow_lag

    @property
    def waiting_count(self) -> int:
        """How many clients' writes wait, throttled."""
        return len(self._waiting)

    @property
    def state(self) -> LagState:
        """How the lag stands to the bounds, as of the last tick."""
        if self.lag.is_alone:
            return LagState.ALONE
        if not self._is_on:
            return LagState.OFF
        if not self.lag.is_known:
            return LagState.UNKNOWN
        return LagState.WITHIN if self._has_room(1, self._now) else LagState.EXCEEDED

    # --- The bounds ---------------------------------------------------------------------------

    def tune(
        self,
        *,
        lag_effects_max: int | None = None,
        lag_ms_max: int | None = None,
        action: LagAction | None = None,
    ) -> None:
        """Set bounds, or what happens there."""
        if lag_effects_max is not None:
            self.lag_effects_max = lag_effects_max
        if lag_ms_max is not None:
            self.lag_ms_max = lag_ms_max
        if action is not None:
            self.action = action
        self._is_on = self._has_bound
        self._exceeded_since = None
        self._is_told = False
        self._set_bounds()
        if not self.limits_writes or self.action is LagAction.REFUSE:
            waiting, self._waiting = self._waiting, {}
            for session in waiting:
                self.on_room(session)
        self.on_limit()
        self._tick.open()

    @property
    def _has_bound(self) -> bool:
        return bool(self.lag_effects_max or self.lag_ms_max) and not self.lag.is_alone

    def note_peers(self) -> None:
        """There are other peers: the first one came, or the last one went."""
        if self._has_bound is not self._is_on:
            self.tune()

    @property
    def limits_writes(self) -> bool:
        """Whether ``admits`` is to be asked before a write."""
        return self._is_on and self.action is not LagAction.WARN

    def _set_bounds(self) -> None:
        """Work out once what ``admits`` compares with."""
        self._n_max = self._until = UNBOUNDED
        if not self._is_on:
            return
        if not self.lag.is_known:
            self._n_max = -1
            return
        if self.lag_effects_max:
            self._n_max = self.lag.known_n + self.lag_effects_max
        if self.lag_ms_max and self.lag.since_ms is not None:
            self._until = self.lag.since_ms + self.lag_ms_max

    def _follow_lag(self) -> None:
        """Others have caught up, or something began to lag."""
        self._set_bounds()
        # As many of those who wait as there is room for.
        if self._waiting:
            room = self._n_max - self._replica.issued
            self._try_again(list(self._waiting)[: max(0, room)])

    def _has_room(self, count: int, now: Millis) -> bool:
        return self._replica.issued + count <= self._n_max and now <= self._until

    # --- Writes -------------------------------------------------------------------------------

    def admits(self, session: int, count: int, now: Millis) -> bool:
        """Whether ``count`` writes may run now, for a client, or for a program (session 0)."""
        if self._has_room(count, now):
            if self._waiting:
                self._waiting.pop(session, None)
            return True
        return self.action is LagAction.THROTTLE and self._has_waited(session, now)

    def _has_waited(self, session: int, now: Millis) -> bool:
        """Whether a throttled write has waited for long enough; it begins to, if it has not."""
        due = self._waiting.get(session)
        if due is None:
            self.throttled += 1
            due = self._waiting[session] = Millis(now + WAIT_MS.value)
            self._tick.open()
        if now < due:
            return False
        del self._waiting[session]
        return True

    def holds_back(self, writes: int, asked_ms: Millis, now: Millis) -> bool:
        """Whether a program that asked to write then has to wait, throttled."""
        is_bounded = self.limits_writes and self.throttles
        return (
            is_bounded
            and not self._has_room(writes, now)
            and asked_ms <= now < asked_ms + WAIT_MS.value
        )

    @property
    def throttles(self) -> bool:
        """A write that is not admitted waits; else it is refused."""
        return self.action is LagAction.THROTTLE

    def refuse(self, count: int, now: Millis) -> str:
        """Count a write that is refused; why it is, as the text of its error."""
        self.refused += 1
        return f"LAGGED {self._reason(count, now)}"

    def _reason(self, count: int, now: Millis) -> str:
        """Why writes are refused, and what to do."""
        region = self._replica.region
        if not self.lag.is_known:
            return (
                f"region {region} started again and no other region has said yet what it has of "
                "it: try again in a moment; if it stays so, look at the links (crdtstream status)"
            )
        if self.lag_effects_max and count > self.lag_effects_max:
            return (
                f"{count} writes at once never fit into max_replication_lag_effects "
                f"{self.lag_effects_max}: divide them, or have the bound raised"
            )
        bounds = [
            f"{name} is {value}"
            for name, value in (
                ("max_replication_lag_effects", self.lag_effects_max),
                ("max_replication_lag_ms", self.lag_ms_max),
            )
            if value
        ]
        return (
            f"region {region} has {self.lag.effects} effects that no other region durably has, the "
            f"oldest for {self.lag.ms(now)} ms; {', '.join(bounds)}. Try again when the others "
            "have caught up, or write in another region"
        )

    def forget(self, session: int) -> None:
        """The client is gone."""
        self._waiting.pop(session, None)

    def _try_again(self, sessions: Iterable[int]) -> None:
        for session in sessions:
            if not self.on_room(session):
                del self._waiting[session]

    # --- Time ---------------------------------------------------------------------------------

    @property
    def obstacle(self) -> str | None:
        """Why writes are refused, if they have been for longer than a moment."""
        if self._is_told and self.action is LagAction.REFUSE:
            return self._reason(1, self._now)
        return None

    def look(self, now: Millis) -> None:
        """See how things stand, at the end of a tick."""
        self.lag.pass_time(now)
        if now < self._now:
            self._set_back(now)
        self._now = now
        if not self._is_on:
            return
        if self._has_room(1, now):
            self._note_within(now)
        elif self._exceeded_since is None or now < self._exceeded_since:
            self._exceeded_since = now
        elif now - self._exceeded_since >= STEADY_MS.value and not self._is_told:
            self._note_exceeded(now)

    def _set_back(self, now: Millis) -> None:
        """The clock was: nobody waits longer for that."""
        self._tried_until = min(self._tried_until, now)
        latest = Millis(now + WAIT_MS.value)
        self._waiting = {session: min(due, latest) for session, due in self._waiting.items()}

    def _note_exceeded(self, now: Millis) -> None:
        self._is_told = True
        self.exceeded_count += 1
        self._tick.notice(
            "warning",
            "too much of this region is in no other region",
            action=self.action.value,
            reason=self._reason(1, now),
        )

    def _note_within(self, now: Millis) -> None:
        self._exceeded_since = None
        if self._is_told:
            self._is_told = False
            self._tick.notice(
                "info",
                "enough of this region is in another region again",
                lag_effects=self.lag.effects,
                lag_ms=self.lag.ms(now),
            )

    def pass_time(self, now: Millis) -> None:
        """Have those tried again who have waited for long enough."""
        before, self._tried_until = self._tried_until, now
        if self._waiting:
            self._try_again(
                [session for session, due in self._waiting.items() if before < due <= now]
            )

    def next_deadline(self) -> Millis | None:
        """When time is to be passed next."""
        if not self._is_on:
            return None
        # Once only: who is held up by something else by then must not make time pass without end.
        tried = self._tried_until
        waiting = next((due for due in self._waiting.values() if due > tried), None)
        times = [] if waiting is None else [waiting]
        if self._exceeded_since is None:
            times += [Millis(self._until + 1)] if self._until < UNBOUNDED else []
        elif not self._is_told:
            times.append(Millis(self._exceeded_since + STEADY_MS.value))
        return min(times, default=None)


def _nobody_asks() -> None:
    pass


def _nobody_waits(_session: int) -> bool:
    return False
