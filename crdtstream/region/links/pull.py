"""The link by which this region pulls from one peer, as a state machine without any IO.

A loop asks ``next`` and does what it says.  The results go into ``receive`` and ``lost``:

    next ──> Connect   make the call
             Send      write this message
             HangUp    end the call
             Sleep     ask again when woken, or at this time
             Over      the region does not pull from this peer any more

One call lasts from Connect to HangUp or ``lost``.  Its first message is Open; then come acks, soon
after something became durable, and at intervals.  ``link.py`` has the states between the calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from crdtstream.core.clock import VersionVector, join, missing
from crdtstream.core.effects import EffectBatch
from crdtstream.core.histories import Difference
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.inbox import Inbox
from crdtstream.core.size import Seconds
from crdtstream.region.beginning import bootstrap_reason, cut_off, needs_bootstrap
from crdtstream.region.freshness import to_ms
from crdtstream.region.links.acks import NEXT_MS_MAX, Acks, quiet_seconds, silence_seconds
from crdtstream.region.links.errors import PeerError, RefusedError
from crdtstream.region.links.gossip import Gossip
from crdtstream.region.links.link import (
    BackoffOver,
    CaughtUp,
    CutOff,
    Failed,
    Link,
    LinkEvent,
    LinkState,
    Pause,
    Refused,
    Reopen,
    Resume,
    Welcomed,
)
from crdtstream.region.links.listeners import Heard
from crdtstream.region.links.messages import (
    PROTOCOL_VERSION,
    FromServer,
    Open,
    Progress,
    Publications,
    Received,
    Stamps,
    Standing,
    ToServer,
    Welcome,
)
from crdtstream.region.links.own_side import OwnSide
from crdtstream.region.links.publications import Arrived
from crdtstream.region.links.stats import PullStats
from crdtstream.region.links.words import Words
from crdtstream.region.readiness import Answer

# Interval at which a link looks at its routes, and whether what it waits for has come, while
# nothing wakes it and time may change what it wants.
WATCH_SECONDS: Final = Seconds(0.25, least=0.01)
BETWEEN_ATTEMPTS: Final = (LinkState.WAITING, LinkState.REFUSED, LinkState.NEEDS_BOOTSTRAP)
WITHOUT_CALL: Final = (*BETWEEN_ATTEMPTS, LinkState.PAUSED)


@dataclass(frozen=True, slots=True)
class Connect:
    """Make a call to the peer's address."""


@dataclass(slots=True, init=False)
class Send:
    """Write a message to the call."""

    message: Final[ToServer]

    def __init__(self, message: ToServer) -> None:
        self.message = message


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the call."""


@dataclass(slots=True, init=False)
class Sleep:
    """Do nothing until the link is woken, or until this time; None: only when it is woken."""

    until: Final[float | None]

    def __init__(self, until: float | None) -> None:
        self.until = until


@dataclass(frozen=True, slots=True)
class Over:
    """Do nothing, ever again: the peer is none any more."""


PullAction: TypeAlias = Connect | Send | HangUp | Sleep | Over


class _Call:
    """One call to the peer: what holds from its beginning to its end, and no longer.

    Attributes:
        is_opened: the first message was sent.
        asks: this region recovered when it sent that, so the Welcome is an answer to it.
        greets: it asks for no effects, as this region could not apply them yet.
        must_reopen: the link is to begin again; what comes until then is dropped.
        rejected: reason why a batch cannot be applied.
        apart: what a batch does not continue.
        heard_at: time of the last message; None: the peer could not send, it has its time from now.
        silence_seconds: time for which the peer may be silent.
        untaken_bytes: size of batches that were read and are not out of the peer's window.
        peer_run: the run of the peer's node, once it has welcomed.
        acks, stamps, gossip, words: what was said on this call.
    """

    __slots__ = (
        "acks",
        "apart",
        "asks",
        "gossip",
        "greets",
        "heard_at",
        "is_opened",
        "must_reopen",
        "peer_run",
        "rejected",
        "silence_seconds",
        "stamps",
        "untaken_bytes",
        "words",
    )

    def __init__(self, own: OwnSide, peer: RegionId, at: float) -> None:
        self.is_opened = self.asks = self.must_reopen = False
        self.greets = own.holding.greets_only
        self.rejected: str | None = None
        self.apart: Difference | None = None
        self.heard_at: float | None = at
        self.silence_seconds = silence_seconds(own.limits, 0)
        self.untaken_bytes = 0
        self.peer_run = 0
        self.acks = Acks(own.limits)
        self.stamps = Stamps()
        self.gossip = Gossip(peer, own.knowledge)
        self.words = Words(own.numbering, b"")


class Pull:
    """Link by which this region pulls from one peer.

    Times named ``at`` are in seconds of a monotonic clock.

    Attributes:
        peer, address: the region, and the address to pull from: its own, or until it has answered
            there the one before, in turns.
        origins: the regions whose effects the call asks for.
        link: the state.
        unserved: the ones of these that the peer's log cannot bring (``beginning.py``).
        inbox: what came and cannot be applied yet.
        waits_since: time since when its first batch cannot be applied; None while nothing waits.
        peer_pulls: whether the peer pulls from this region too, and so hears its heartbeats.
        is_over: it is no peer any more.
    """

    def __init__(
        self,
        peer: RegionId,
        address: str,
        own: OwnSide,
        *,
        now: Millis,
        uniform: Callable[[float, float], float],
        former: str = "",
    ) -> None:
        """A link that is not up.

        Args:
            former: the address before, as far as it is known; empty: none is.
        """
        limits = own.limits
        self.peer = peer
        self.address = address
        # The newest first.
        self._choices = _choices(address, former)
        # The last one at which the peer has answered.
        self._reached = former
        self._takes_other_choice = False
        self.stats = PullStats()
        self.origins = frozenset({peer})
        self.unserved: frozenset[RegionId] = frozenset()
        # The same of the last call in which the peer said it.
        self._left_out: frozenset[RegionId] = frozenset()
        self._begins: VersionVector = {}
        self.link = Link(
            uniform, backoff_ms_min=limits.backoff_ms_min, backoff_ms_max=limits.backoff_ms_max
        )
        self.inbox = Inbox(
            own.replica,
            batches_max=limits.inbox_batches_max,
            bytes_max=limits.inbox_bytes_max,
        )
        self.waits_since: Millis | None = None
        self.peer_pulls = False
        self.is_over = False
        self._own = own
        self._made_ms = now
        self._publications = Arrived()
        self._listeners = Heard(peer, own.database.channels.elsewhere)
        # By address: those to which a link goes in turns fail for reasons of their own.
        self._logged_errors: dict[str, str] = {}
        self._call: _Call | None = None
        self._must_hang_up = False
        self._retry_at: float | None = None
        self._skips_backoff = False

    # --- What operators see and want ----------------------------------------------------------

    def pause(self, now: Millis) -> None:
        """Pull nothing until ``resume``; what waits in the inbox is dropped, and comes again."""
        self._end_call()
        self._feed(Pause(), now)
        self.inbox.discard()
        self._publications.clear()

    def resume(self, now: Millis) -> None:
        self.address = self._choices[0]
        self._takes_other_choice = False
        self._feed(Resume(), now)

    @property
    def lacking(self) -> frozenset[RegionId]:
        """Origins whose effects lack here, and that the peer has cut from its log."""
        return cut_off(self._left_out, self._own.replica.vv, self._begins)

    @property
    def lag_effects(self) -> int:
        """Number of effects of these origins that the peer is known to have and that lack here.

        Known from the link itself; while it is paused or down, from the peer's acks.
        """
        known = dict(self.stats.peer_vv)
        join(known, self._own.knowledge.of(self.peer))
        wanted = {region: n for region, n in known.items() if region in self.origins}
        return missing(self._own.replica.vv, wanted)

    def lag_ms(self, now: Millis) -> int:
        """Lag of the newest batch; or, if the link is not up, the silence if that is longer."""
        if not self.lag_effects:
            return 0
        if self.link.is_up:
            return self.stats.lag.newest
        return max(self.stats.lag.newest, self.silent_ms(now))

    def silent_ms(self, now: Millis) -> int:
        """Time for which the peer has sent nothing; if it never did, since the node started."""
        return max(0, now - (self.stats.heard_ms or self._made_ms))

    # --- What the region reports to its links -------------------------------------------------

    def end(self) -> None:
        """End, as it is no peer any more; what came from it and is not applied is dropped."""
        self.is_over = True
        self._end_call()
        self.inbox.discard()
        self._publications.clear()

    def move(self, address: str, now: Millis) -> None:
        """Begin again at another address of the peer.

        It may be a wrong one: until the peer has answered there, the one at which it did last is
        tried as well.
        """
        self.address = address
        self._choices = _choices(address, self._reached)
        self._takes_other_choice = False
        self._logged_errors.clear()
        self._begin_again(now)
        self._try_now()

    def reopen(self) -> None:
        """Begin again, and drop what the call brought and was not applied yet."""
        self.inbox.discard()
        if self._call is not None:
            self._call.must_reopen = True
        self._try_now()

    def note_held(self, origin: RegionId) -> None:
        """Note that the effects of an origin are held from now on, or are not any more."""
        if origin in self.origins:
            self.reopen()
        else:
            self._try_now()

    def _try_now(self) -> None:
        """End the wait between two attempts, if it is in one."""
        self._skips_backoff = self.link.state in BETWEEN_ATTEMPTS
        self._own.tick.wake_link(self)

    def ack_soon(self) -> None:
        """Send an ack soon: on new durable effects, or to report how this region stands."""
        if self._call is not None and self._call.acks.want():
            self._own.tick.wake_link(self)

    def note_logged(self) -> None:
        """Note that something that came by this link is in the log."""
        self._hand_out_publications()
        self.ack_soon()

    def reject(self, reason: str) -> None:
        """Note that a batch that it brought cannot be applied."""
        self.inbox.discard()
        if self._call is not None:
            self._call.rejected = reason
        self._own.tick.wake_link(self)

    def note_apart(self, found: Difference) -> None:
        """Note that a batch that it brought does not continue what is here."""
        self.inbox.discard()
        if self._call is not None:
            self._call.apart = found
        self._own.tick.wake_link(self)

    def note_room(self) -> None:
        """Note that a run of batches was applied: the link may read again if its inbox has room."""
        call = self._call
        if call is not None and call.untaken_bytes and self._has_room:
            self._take_bytes(call)

    @property
    def _has_room(self) -> bool:
        """True if the inbox may take more; while nothing is applied, one that is not empty may
        not."""
        inbox = self.inbox
        return not inbox.full and not (len(inbox) and self._own.holding.holds_links)

    # --- The loop's side ----------------------------------------------------------------------

    @property
    def may_read(self) -> bool:
        """True if the next message may be read: the inbox may take more."""
        return self._call is None or not self._call.untaken_bytes

    def next(self, now: Millis, at: float, *, may_send: bool = True) -> PullAction:
        """The next thing to do.

        Args:
            may_send: False while a message is still being written: no other one may follow.
        """
        if self._must_hang_up:
            self._must_hang_up = False
            return HangUp()
        if self.is_over:
            return Over()
        state = self.link.state
        assert self._call is None or state not in WITHOUT_CALL
        if state is LinkState.PAUSED:
            return Sleep(None)
        if state in BETWEEN_ATTEMPTS:
            if self._retry_at is None:
                self._retry_at = at + self.link.backoff_seconds()
            if at < self._retry_at and not self._skips_backoff:
                return Sleep(self._retry_at)
            self._feed(BackoffOver(), now)
        call = self._call
        if call is None:
            self._begin_call(now, at)
            return Connect()
        if not call.is_opened and may_send:
            call.is_opened = True
            call.acks.note_opened(at)
            return Send(self._open(call))
        return self._watch(call, now, at, may_send=may_send)

    def receive(self, message: FromServer, now: Millis, at: float) -> None:
        """Take in a message of the peer."""
        call = self._call
        if call is None:
            return
        self._own.tick.open()
        call.heard_at = at
        try:
            match message:
                case Received(batches):
                    self._take_batches(call, batches)
                case Progress():
                    self._take_progress(call, message, now, at)
                case Welcome():
                    self._take_welcome(call, message, now, at)
                case Publications():
                    self._take_publications(call, message)
                case _:
                    assert_never(message)
        except RefusedError as refusal:
            self._refuse(Refused(str(refusal)), now)
        except PeerError as error:
            self._fail(str(error), now)

    def lost(self, event: Failed | Refused, now: Millis) -> None:
        """Note that the call ended, or that what it brought cannot be read."""
        if self._call is None:
            return
        if isinstance(event, Refused):
            self._own.membership.note_refused(self.peer)
            self._refuse(event, now)
        else:
            self._fail(event.reason, now)

    # --- Calls --------------------------------------------------------------------------------

    def _begin_call(self, now: Millis, at: float) -> None:
        assert self._call is None, "one call at a time"
        if self._takes_other_choice:
            self._takes_other_choice = False
            if len(self._choices) > 1:
                is_newest = self.address == self._choices[0]
                self.address = self._choices[1 if is_newest else 0]
        self.origins = self._own.routes.wanted(self.peer, now)
        self._call = _Call(self._own, self.peer, at)
        self._skips_backoff = False
        self.unserved = frozenset()
        self.inbox.discard()
        self._publications.clear()
        self._listeners.forget()

    def _end_call(self) -> None:
        # From here on it is unknown if names still have listeners there.
        self._listeners.forget()
        if self._call is not None:
            # A reader that waits for room in the inbox waits no longer.
            self._call = None
            self._must_hang_up = True
            self._own.lags.forget_announced(self.peer)
        self._own.tick.wake_link(self)

    def _fail(self, reason: str, now: Millis) -> None:
        self._takes_other_choice = True
        self._end_call()
        self._feed(Failed(reason), now)

    def _refuse(self, event: Refused, now: Millis) -> None:
        self._own.numbering.hear_refused(self.peer, event.incarnations)
        readiness = self._own.opening.readiness
        note = readiness.note_duplicate if event.is_duplicate else readiness.note_refusal
        note(self.peer, event.reason)
        self._own.opening.look()
        self._takes_other_choice = True
        self._end_call()
        self._feed(event, now)

    def _begin_again(self, now: Millis) -> None:
        self._end_call()
        self._feed(Reopen(), now)

    def _feed(self, event: LinkEvent, now: Millis) -> None:
        before = self.link.state
        if not self.link.feed(event):
            return
        self._retry_at = None
        tick = self._own.tick
        tick.wake_link(self)
        after = self.link.state
        self._own.routes.note(
            self.peer, is_up=self.link.is_up, paused=after is LinkState.PAUSED, now=now
        )
        about: dict[str, object] = {"peer": self.peer, "address": self.address}
        match event:
            # A peer that stays away is logged once, not at each attempt.
            case Failed(reason) | Refused(reason) if self._is_news(reason):
                tick.notice("warning", "link down", reason=reason, **about)
            case CutOff(reason) if self._is_news(reason):
                tick.notice("error", "link needs a bootstrap", reason=reason, **about)
            case CaughtUp():
                self._logged_errors.clear()
                tick.notice("info", "link live", origins=sorted(self.origins), **about)
            case _:
                tick.notice("debug", "link", before=before.value, after=after.value, **about)

    def _is_news(self, reason: str) -> bool:
        """True if this reason was not logged for the address, and is now."""
        before = self._logged_errors.get(self.address)
        self._logged_errors[self.address] = reason
        return before != reason

    def _open(self, call: _Call) -> Open:
        own = self._own
        standing = own.standing()
        call.asks = standing.recovering
        return Open(
            region=own.identity.region,
            database_id=own.identity.database_id,
            run_id=own.identity.run_id,
            origins=frozenset() if call.greets else self.origins,
            vv=dict(own.replica.vv),
            standing=standing,
            membership=own.membership.said(),
            incarnations=own.numbering.said(),
            histories=own.compared.said(),
        )

    # --- While the call lasts -----------------------------------------------------------------

    def _watch(self, call: _Call, now: Millis, at: float, *, may_send: bool) -> PullAction:
        """Acknowledge; end the call if the peer is silent, its batches are bad, or other origins
        are wanted."""
        if call.must_reopen:
            self._begin_again(now)
            return self.next(now, at)
        if call.apart is not None:
            reason = self._own.compared.note_apart(self.peer, call.apart)
            self._refuse(Refused(str(RefusedError(self.peer, reason))), now)
            return self.next(now, at)
        if call.rejected is not None:
            self._fail(str(PeerError(self.peer, call.rejected)), now)
            return self.next(now, at)
        if call.heard_at is None:
            call.heard_at = at
        silent_after = call.silence_seconds
        watch_at = at + (silent_after if self._is_calm(call) else WATCH_SECONDS.value)
        if self.may_read:
            silent_at = call.heard_at + silent_after
            if at >= silent_at:
                self._fail(str(PeerError(self.peer, f"silent for {silent_after:g} s")), now)
                return self.next(now, at)
            watch_at = min(watch_at, silent_at)
        self._ask_for_what_is_waited_for(now)
        if self.unserved and self._can_be_served():
            self._begin_again(now)
            return self.next(now, at)
        # Only a link that is up begins again; another one asks for the right origins anyway.
        if self.link.is_up and self._wants_others(call, now):
            self._begin_again(now)
            return self.next(now, at)
        if not may_send:
            return Sleep(watch_at)
        ack_at = call.acks.next_at(self._quiet_seconds)
        if at >= ack_at:
            call.acks.note_sent(at, self._quiet_seconds)
            return Send(self._ack(call, now, at))
        return Sleep(min(ack_at, watch_at))

    @property
    def _quiet_seconds(self) -> float:
        return quiet_seconds(self._own.limits, peer_pulls=self.peer_pulls)

    def _is_calm(self, call: _Call) -> bool:
        """True if time changes nothing except that an ack is due, or a message of the peer."""
        return (
            self.link.state is LinkState.LIVE
            and not call.greets
            and self.waits_since is None
            and not self.unserved
            and self._own.routes.are_usual
        )

    def _wants_others(self, call: _Call, now: Millis) -> bool:
        """True if other origins are wanted than the call asks for."""
        if call.greets:
            return not self._own.holding.greets_only
        return self._own.routes.wanted(self.peer, now) != self.origins

    def _can_be_served(self) -> bool:
        """True if others brought what was left out of the link because this region lacked it."""
        left_out = cut_off(self.unserved, self._own.replica.vv, self._begins)
        return self.link.is_up and left_out < self.unserved

    def _ask_for_what_is_waited_for(self, now: Millis) -> None:
        since = self.waits_since
        if since is None or now - since <= self._own.limits.inbox_wait_ms_max:
            return
        self.waits_since = now
        waited_for = self.inbox.waiting_for()
        if self._own.routes.ask(self.peer, waited_for, now):
            self._own.tick.notice(
                "info",
                "batches wait for other origins: asking this peer for them too",
                peer=self.peer,
                origins=sorted(waited_for),
            )

    def _ack(self, call: _Call, now: Millis, at: float) -> Progress:
        own = self._own
        # A peer that pulls from here hears the same by heartbeats, in time unless a client waits.
        is_told = self.peer_pulls and not call.acks.is_awaited
        others = {} if is_told else call.gossip.take(at)
        return Progress(
            durable_vv=own.outstanding.durable_vv,
            now=now,
            others=others,
            taken_bytes=call.acks.taken_bytes,
            taken_publication_bytes=self._publications.taken_bytes,
            standing=own.standing(),
            stamp_ms=to_ms(at),
            echo_ms=call.stamps.echo_ms(at),
            next_ms=round(self._quiet_seconds * 1000),
            staging_vv=own.bootstrap.announced_vv,
            epoch=own.membership.cuts.epoch_of_words,
        )

    # --- Receiving ----------------------------------------------------------------------------

    def _take_welcome(self, call: _Call, welcome: Welcome, now: Millis, at: float) -> None:
        if welcome.region != self.peer:
            raise RefusedError(
                self.peer,
                f"{self.address} is region {welcome.region}, not region {self.peer}; "
                "correct the peer's address",
            )
        if welcome.protocol != PROTOCOL_VERSION:
            raise RefusedError(
                self.peer,
                f"region {self.peer} speaks link protocol {welcome.protocol}, not "
                f"{PROTOCOL_VERSION}; run the same version everywhere",
            )
        self.stats.peer_vv = welcome.vv
        self._own.replication_lag.note_lost(self.peer, welcome.own_n)
        self._note_database(welcome.standing)
        refusal = self._own.membership.hear(self.peer, welcome.run_id, welcome.membership)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)
        numbering = self._own.numbering
        refusal = numbering.hear(
            self.peer,
            welcome.run_id,
            welcome.vv,
            welcome.incarnations,
            recovers=welcome.standing.regains,
        )
        if refusal is None:
            refusal = self._own.compared.hear(self.peer, welcome.histories)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)
        opening = self._own.opening
        self._own.lags.note(self.peer, welcome.vv, to_ms(at))
        opening.readiness.note_welcome(self.peer)
        answer = Answer(welcome.own_n, welcome.vv)
        if not numbering.is_newest(self.peer):
            opening.note_earlier_folder(self.peer)
        elif call.asks:
            opening.note_answer(self.peer, answer)
        else:
            opening.note_standing(self.peer, answer)
        call.words = Words(numbering, welcome.incarnations)
        self._begins = welcome.begins
        self.unserved = cut_off(self.origins, self._own.replica.vv, welcome.begins)
        self._left_out = self.unserved
        is_cut_off = needs_bootstrap(self.peer, self.origins, self.unserved)
        reason = ""
        if is_cut_off:
            vv = self._own.replica.vv
            reason = bootstrap_reason(self.peer, self.unserved, vv, welcome.begins)
        else:
            self._feed(Welcomed(), now)
        self._reached = self.address
        if self.address == self._choices[0]:
            self._choices = (self.address,)
        opening.note_cut_off(self.peer, reason)
        opening.catching_up.note_answer(self.peer, welcome.run_id, welcome.vv)
        self._look_at_own_effects()
        opening.note_time(now)
        call.peer_run = welcome.run_id
        opening.peer_runs.note_start(
            self.peer, call.peer_run, recovering=welcome.standing.recovering
        )
        if is_cut_off:
            self._end_call()
            self._feed(CutOff(reason), now)

    def _note_database(self, standing: Standing) -> None:
        refusal = self._own.opening.readiness.note_database(self.peer, standing.database)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)

    def _take_progress(self, call: _Call, progress: Progress, now: Millis, at: float) -> None:
        own = self._own
        self._note_database(progress.standing)
        refusal = own.compared.hear_news(self.peer, progress.histories)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)
        durable_vv = progress.durable_vv
        is_believed = own.claims.check_heartbeat(self.peer, durable_vv, issued=own.replica.issued)
        call.stamps.note(progress, at)
        call.acks.is_awaited = progress.acks_awaited
        next_ms = min(progress.next_ms, NEXT_MS_MAX)
        call.silence_seconds = silence_seconds(own.limits, next_ms)
        self.stats.heard_ms = now
        under_way_ms = max(0, to_ms(at) - progress.echo_ms) if progress.echo_ms else 0
        self._note_skew(progress.now - now, under_way_ms)
        self.stats.peer_vv = durable_vv
        vv = call.words.counting(self.peer, durable_vv) if is_believed else None
        if vv is not None:
            at_ms, echo_ms = to_ms(at), progress.echo_ms
            own.lags.note(self.peer, vv, at_ms, echo_ms, next_ms=next_ms)
            own.stability.learn(self.peer, vv, by=self.peer, regains=progress.standing.regains)
            own.membership.cuts.hear(self.peer, call.peer_run, progress.epoch, vv)
            own.membership.look_at_cuts()
            own.replication_lag.note_durable(self.peer, own.claims.own_n(vv))
        own.retention.note_staging(self.peer, progress.staging_vv)
        own.learn_others(progress.others, call.words, by=self.peer)
        self._look_at_own_effects()
        own.opening.peer_runs.note(
            self.peer, call.peer_run, recovering=progress.standing.recovering
        )
        self._hand_out_publications()
        if self.link.state is LinkState.CATCHING_UP and self.lag_effects == 0:
            self._feed(CaughtUp(), now)

    def _note_skew(self, skew_ms: int, under_way_ms: int) -> None:
        """Report a clock that is far from ours, once until it is near again.

        A message that comes late, because the line, the peer or this node was held up, looks as one
        of a clock that is behind.  So much of the difference is no skew.

        Args:
            skew_ms: the peer's clock when it sent a message, less ours now.
            under_way_ms: for how long the message may have been under way, by our clock.
        """
        if skew_ms < 0:
            skew_ms = min(0, skew_ms + under_way_ms)
        far = self._own.limits.skew_warning_ms
        if far and abs(skew_ms) > far >= abs(self.stats.clock_skew_ms):
            self._own.tick.notice("warning", "clocks differ", peer=self.peer, skew_ms=skew_ms)
        self.stats.clock_skew_ms = skew_ms

    def _look_at_own_effects(self) -> None:
        """Stop issuing, or go on, by the number of this region's effects that the peers have."""
        own = self._own
        readiness = own.opening.readiness
        readiness.note_known(self.peer, self.stats.peer_vv.get(own.identity.region, 0))
        own.routes.note_own_lost(readiness.are_lost(own.replica.issued))
        own.opening.look()

    def _take_batches(self, call: _Call, batches: Sequence[tuple[EffectBatch, bytes]]) -> None:
        if call.must_reopen:
            return
        stats = self.stats
        applied = self._own.replica.vv
        for batch, encoded in batches:
            if batch.origin not in self.origins:
                raise PeerError(
                    self.peer,
                    f"batch {batch.origin}:{batch.first_n}: origin: not asked for on this link",
                )
            known_n = applied.get(batch.origin, 0)
            if batch.first_n <= known_n < batch.last_n:
                # A batch is applied as a whole, and has the same effects everywhere.
                apart = Difference(batch.origin, 0, batch.last_n)
                raise RefusedError(self.peer, self._own.compared.note_apart(self.peer, apart))
            stats.batches += 1
            stats.effects += batch.count
            stats.bytes_uncompressed += len(encoded)
            if batch.last_n <= known_n:
                stats.bytes_again += len(encoded)
            self.inbox.offer(batch, encoded)
            call.untaken_bytes += len(encoded)
        self._own.tick.may_apply = True
        if self._has_room:
            self._take_bytes(call)

    def _take_bytes(self, call: _Call) -> None:
        """Move the peer's window, and read on, as the inbox has room."""
        assert self._has_room, "the peer would send more than the inbox may take"
        call.acks.take(call.untaken_bytes)
        call.untaken_bytes = 0
        # Until now the peer was not the one that was silent.
        call.heard_at = None
        # The reader may be waiting for room.
        self._own.tick.wake_link(self)

    def _take_publications(self, call: _Call, message: Publications) -> None:
        if call.must_reopen:
            return
        for told in message.listeners:
            self._listeners.note(told)
        for publication in message.publications:
            if not self._publications.offer(publication):
                raise PeerError(self.peer, "publications: more than their window allows")
        self._hand_out_publications()

    def _hand_out_publications(self) -> None:
        """Hand out the publications that do not wait for effects of the peer any more."""
        applied_n = self._own.replica.vv.get(self.peer, 0)
        for publication in self._publications.take(applied_n):
            self._own.database.channels.hand_out(
                publication.channel, publication.payload, sharded=publication.sharded
            )
            self.stats.publications += 1
            self.ack_soon()


def _choices(address: str, former: str) -> tuple[str, ...]:
    return (address,) if former in ("", address) else (address, former)
