"""Bounds of the replication lag (``lag.py``): how much may be lost with a region.

An operator may bound how many effects lag (``lag_effects_max``) and for how long (``lag_ms_max``),
and chooses what happens at the bound:

    warn       a line in the log, and INFO says so
    throttle   a write waits until the others have caught up so far, at most WAIT_MS
    refuse     a write is answered LAGGED

``admits`` is asked before each write runs, in the same turn as it runs, and an effect counts from
the moment it is issued.  So a pipeline, or many clients in one tick, cannot exceed the bound
together (I15): with ``refuse`` no more than ``lag_effects_max`` acknowledged writes are ever
missing elsewhere.  A write that is many effects (COPY, a DEL of many keys) counts as one when it is
admitted, and in full afterwards.

Deliveries of groups and acknowledgements go on: if they are lost, no entry is lost, and only
deliveries are repeated.  So do effects that no client was promised (a key that expires).
"""

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.database.database import Database
from crdtstream.region.client_table import ClientTable
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.tick import Tick

# The longest that one write waits when it is throttled.  Clients commonly give up after 5 s.
WAIT_MS: Final = Size(1_000, least=1)
# Time at the bound after which it is worth a line in the log, and the region's health reports it.
# At full speed a small bound is reached, and left again, hundreds of times a second.  Refused
# clients look at our health twice, half a second apart, before they return: by then it must say no.
STEADY_MS: Final = Size(400, least=1)
UNBOUNDED: Final = 1 << 62
# The highest bounds that can be set.  24 days; and more effects than a log holds in that time.
LAG_MS_MAX_HIGHEST: Final = (1 << 31) - 1
LAG_EFFECTS_MAX_HIGHEST: Final = 10**12


class LagAction(Enum):
    """Action at the bound."""

    WARN = "warn"
    THROTTLE = "throttle"
    REFUSE = "refuse"


class LagState(StrEnum):
    """State of the replication lag, by its bounds.

    ALONE: the only region.  OFF: without a bound.  UNKNOWN: no other region has said yet what it
    has of an earlier run.  EXCEEDED: the next write finds a bound reached.
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
        action: what happens at them.
        lag: what is bounded.
        refused, throttled: writes that were answered LAGGED, and writes that had to wait.
        exceeded_count: number of times that the bound was reached for longer than STEADY_MS.
        deadline: when ``pass_time`` or ``look`` has something to do.
    """

    def __init__(
        self,
        replica: Replica,
        lag: ReplicationLag,
        tick: Tick,
        database: Database,
        clients: ClientTable,
        deadlines: Deadlines,
        *,
        now: Millis,
    ) -> None:
        self.lag = lag
        self.lag_effects_max = 0
        self.lag_ms_max = 0
        self.action = LagAction.WARN
        self.refused = 0
        self.throttled = 0
        self.exceeded_count = 0
        self._database = database
        self._clients = clients
        self._replica = replica
        self._tick = tick
        # Sessions that wait, each with the time until which it does.
        self._waiting: dict[int, Millis] = {}
        self._tried_until = now
        # When the bound has been reached for longer than STEADY_MS; None: there is room.
        self._tell_at: Millis | None = None
        self._is_told = False
        self.is_on = False
        self._n_max = UNBOUNDED
        self._until = UNBOUNDED
        self.deadline = deadlines.new()

    @property
    def waiting_count(self) -> int:
        """Number of clients whose writes wait, throttled."""
        return len(self._waiting)

    @property
    def state(self) -> LagState:
        """State of the lag, as of the last tick."""
        if self.lag.is_alone:
            return LagState.ALONE
        if not self.is_on:
            return LagState.OFF
        if not self.lag.is_known:
            return LagState.UNKNOWN
        return LagState.WITHIN if self._has_room(1, self.lag.now) else LagState.EXCEEDED

    # --- The bounds ---------------------------------------------------------------------------

    def tune(
        self,
        *,
        lag_effects_max: int | None = None,
        lag_ms_max: int | None = None,
        action: LagAction | None = None,
    ) -> None:
        """Set bounds, or the action at them."""
        if lag_effects_max is not None:
            self.lag_effects_max = lag_effects_max
        if lag_ms_max is not None:
            self.lag_ms_max = lag_ms_max
        if action is not None:
            self.action = action
        self.is_on = self._has_bound
        self._tell_at = None
        self._is_told = False
        self._set_bounds()
        if not self.limits_writes or self.action is LagAction.REFUSE:
            waiting, self._waiting = self._waiting, {}
            for session in waiting:
                self._clients.try_again(session)
        self._database.limit = self if self.limits_writes else None
        self._set_deadline()
        self._tick.open()

    @property
    def _has_bound(self) -> bool:
        return bool(self.lag_effects_max or self.lag_ms_max) and not self.lag.is_alone

    def note_peers(self) -> None:
        """Note other peers: the first one was added, or the last one removed."""
        if self._has_bound is not self.is_on:
            self.tune()

    @property
    def limits_writes(self) -> bool:
        """True if ``admits`` is to be asked before a write."""
        return self.is_on and self.action is not LagAction.WARN

    def _set_bounds(self) -> None:
        """Precompute the values that ``admits`` compares with."""
        self._n_max = self._until = UNBOUNDED
        if not self.is_on:
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
        self.lag.has_changed = False
        self._set_bounds()
        # As many waiting writes as have room.
        if self._waiting:
            room = self._n_max - self._replica.issued
            self._try_again(list(self._waiting)[: max(0, room)])

    def _has_room(self, count: int, now: Millis) -> bool:
        return self._replica.issued + count <= self._n_max and now <= self._until

    # --- Writes -------------------------------------------------------------------------------

    def admits(self, session: int, count: int, now: Millis) -> bool:
        """True if ``count`` writes may run now, for a client, or for a program (session 0)."""
        if self.lag.has_changed:
            self._follow_lag()
        if self._has_room(count, now):
            if self._waiting:
                self._waiting.pop(session, None)
            return True
        return self.action is LagAction.THROTTLE and self._has_waited(session, now)

    def _has_waited(self, session: int, now: Millis) -> bool:
        """True if a throttled write has waited for long enough; it begins to, if it has not."""
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
        """True if a program that asked to write at ``asked_ms`` still has to wait, throttled."""
        if self.lag.has_changed:
            self._follow_lag()
        is_bounded = self.limits_writes and self.throttles
        return (
            is_bounded
            and not self._has_room(writes, now)
            and asked_ms <= now < asked_ms + WAIT_MS.value
        )

    @property
    def throttles(self) -> bool:
        """True if a write that is not admitted waits; else it is refused."""
        return self.action is LagAction.THROTTLE

    def refuse(self, count: int, now: Millis) -> str:
        """Count a write that is refused; return the reason, as the text of its error."""
        self.refused += 1
        return f"LAGGED {self._reason(count, now)}"

    def _reason(self, count: int, now: Millis) -> str:
        """Reason why writes are refused, and what to do."""
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
        """Forget a client that has disconnected."""
        self._waiting.pop(session, None)

    def _try_again(self, sessions: Iterable[int]) -> None:
        for session in sessions:
            if not self._clients.try_again(session):
                del self._waiting[session]

    # --- Time ---------------------------------------------------------------------------------

    @property
    def obstacle(self) -> str | None:
        """Reason why writes are refused, if they have been for longer than a moment."""
        if self._is_told and self.action is LagAction.REFUSE:
            return self._reason(1, self.lag.now)
        return None

    def look(self, now: Millis) -> None:
        """Look at the lag as a tick ends: a bound is set, or ``lag`` says that it is due."""
        if now < self.lag.now:
            self._set_back(now)
        self.lag.pass_time(now)
        if not self.is_on:
            return
        if self.lag.has_changed:
            self._follow_lag()
        if self._has_room(1, now):
            self._note_within(now)
        elif self._tell_at is None or now + STEADY_MS.value < self._tell_at:
            # The bound is reached, or the clock was set back.
            self._tell_at = Millis(now + STEADY_MS.value)
        elif now >= self._tell_at and not self._is_told:
            self._note_exceeded(now)
        self._set_deadline()

    def _set_back(self, now: Millis) -> None:
        """Handle a clock that was set back: no client waits longer by that."""
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
        self._tell_at = None
        if self._is_told:
            self._is_told = False
            self._tick.notice(
                "info",
                "enough of this region is in another region again",
                lag_effects=self.lag.effects,
                lag_ms=self.lag.ms(now),
            )

    def pass_time(self, now: Millis) -> None:
        """Try the writes again that have waited for long enough."""
        before, self._tried_until = self._tried_until, now
        if self._waiting:
            self._try_again(
                [session for session, due in self._waiting.items() if before < due <= now]
            )

    def _set_deadline(self) -> None:
        """Set when time is to be passed next: as a tick ends, or with another bound."""
        if not self.is_on:
            self.deadline.set(None)
            return
        # Once only: a write that is held up by something else by then must not make time pass
        # without end.
        tried = self._tried_until
        waiting = next((due for due in self._waiting.values() if due > tried), None)
        times = [] if waiting is None else [waiting]
        if self._tell_at is None:
            times += [Millis(self._until + 1)] if self._until < UNBOUNDED else []
        elif not self._is_told:
            times.append(self._tell_at)
        self.deadline.set(min(times, default=None))
