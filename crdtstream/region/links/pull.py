"""The link by which this region pulls from one peer, as a state machine without any IO.

A loop asks ``next`` and does what it says; what comes of it goes into ``receive`` and ``lost``:

    next ──> Connect   make the call
             Send      write this message
             HangUp    end the call
             Sleep     ask again when woken, or at this time
             Over      the region pulls from this peer no more

One call lasts from Connect to HangUp or ``lost``.  Its first message is Open; then come acks, soon
after something became durable, and now and then.  ``link.py`` has the states between the calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from crdtstream.core.clock import VersionVector, join, missing
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.inbox import Inbox
from crdtstream.core.size import Seconds
from crdtstream.region.freshness import to_ms
from crdtstream.region.links.acks import NEXT_MS_MAX, Acks, quiet_seconds, silence_seconds
from crdtstream.region.links.beginning import bootstrap_reason, cut_off, needs_bootstrap
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
from crdtstream.region.links.readiness import Answer
from crdtstream.region.links.stats import PullStats

# How often a link looks at its routes, and whether what is waited for came, while nothing wakes it
# and time may change what it wants.
WATCH_SECONDS: Final = Seconds(0.25, least=0.01)
BETWEEN_ATTEMPTS: Final = (LinkState.WAITING, LinkState.REFUSED, LinkState.NEEDS_BOOTSTRAP)


@dataclass(frozen=True, slots=True)
class Connect:
    """Make a call to the peer's address."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write a message to the call."""

    message: ToServer


@dataclass(frozen=True, slots=True)
class HangUp:
    """End the call."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do until the link is woken, or until this time; None: only when it is woken."""

    until: float | None


@dataclass(frozen=True, slots=True)
class Over:
    """There is no such peer any more: nothing is to be done, ever."""


PullAction: TypeAlias = Connect | Send | HangUp | Sleep | Over


class Pull:
    """What this region pulls from one peer.

    Times named ``at`` are in seconds, by a clock that only goes forward.

    Attributes:
        peer, address: where it pulls from.
        origins: whose effects the call asks for.
        link: the state.
        unserved: of these, those that the peer's log cannot bring (``beginning.py``).
        inbox: what came and cannot be applied yet.
        waits_since: since when its first batch cannot be applied; None while nothing waits.
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
    ) -> None:
        limits = own.limits
        self.peer = peer
        self.address = address
        self.stats = PullStats()
        self.origins = frozenset({peer})
        self.unserved: frozenset[RegionId] = frozenset()
        # The same of the last call in which the peer said so.
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
        self._listeners = Heard(peer, own.channels.elsewhere)
        self._logged_error = ""
        # Of the call.
        self._has_call = False
        self._must_hang_up = False
        self._opened = False
        self._asked = False
        self._peer_run = 0
        self._acks = Acks(limits)
        self._heard_at: float | None = None
        # How long the peer may be silent.
        self._silence_seconds = silence_seconds(limits, 0)
        # Of the call that goes on; it says so with its first heartbeat.
        self._peer_announces = False
        self._stamps = Stamps()
        self._gossip = Gossip(peer, own.knowledge)
        self._untaken_bytes = 0
        self._must_reopen = False
        self._rejected: str | None = None
        # Between calls.
        self._retry_at: float | None = None
        self._skips_backoff = False

    # --- What operators see and want ----------------------------------------------------------

    def pause(self, now: Millis) -> None:
        """Pull nothing until ``resume``; what waits in the inbox is forgotten, and comes again."""
        self._end_call()
        self._feed(Pause(), now)
        self.inbox.discard()
        self._publications.clear()

    def resume(self, now: Millis) -> None:
        self._feed(Resume(), now)

    @property
    def lacking(self) -> frozenset[RegionId]:
        """The origins whose effects lack here, and that the peer has cut from its log."""
        return cut_off(self._left_out, self._own.replica.vv, self._begins)

    @property
    def lag_effects(self) -> int:
        """What the peer is known to have of the origins asked for, and is not applied here.

        Known from the link itself, and, while it is paused or down, from the peer's acks.
        """
        known = dict(self.stats.peer_vv)
        join(known, self._own.knowledge.of(self.peer))
        wanted = {region: n for region, n in known.items() if region in self.origins}
        return missing(self._own.replica.vv, wanted)

    def lag_ms(self, now: Millis) -> int:
        """How late the newest batch was; of a link that is not up, how long nothing was heard."""
        if not self.lag_effects:
            return 0
        if self.link.is_up:
            return self.stats.lag.newest
        return max(self.stats.lag.newest, self.silent_ms(now))

    def silent_ms(self, now: Millis) -> int:
        """For how long the peer has said nothing; a peer that never did, since the node started."""
        return max(0, now - (self.stats.heard_ms or self._made_ms))

    # --- What the region tells its links ------------------------------------------------------

    def end(self) -> None:
        """It is no peer any more; what came from it and is not applied is forgotten."""
        self.is_over = True
        self._end_call()
        self.inbox.discard()
        self._publications.clear()

    def move(self, address: str, now: Millis) -> None:
        """The peer is somewhere else: begin again there."""
        self.address = address
        self._logged_error = ""
        self._begin_again(now)
        self._try_now()

    def reopen(self) -> None:
        """Begin again, and forget what the call brought and was not applied yet."""
        self.inbox.discard()
        self._must_reopen = True
        self._try_now()

    def note_held(self, origin: RegionId) -> None:
        """The effects of an origin are held from now on, or are not any more."""
        if origin in self.origins:
            self.reopen()
        else:
            self._try_now()

    def _try_now(self) -> None:
        """If the link waits between two attempts, it waits no longer."""
        self._skips_backoff = self.link.state in BETWEEN_ATTEMPTS
        self._own.tick.wake_link(self)

    def ack_soon(self) -> None:
        """Something became durable, or the peer should hear how this region stands."""
        if self._acks.want():
            self._own.tick.wake_link(self)

    def note_logged(self) -> None:
        """Something that came by this link is in the log."""
        self._hand_out_publications()
        self.ack_soon()

    def reject(self, reason: str) -> None:
        """A batch that it brought cannot be applied."""
        self.inbox.discard()
        self._rejected = reason
        self._own.tick.wake_link(self)

    def note_room(self) -> None:
        """A run of batches was applied: the link may read again if its inbox has room."""
        if self._untaken_bytes and self._has_room:
            self._take_bytes()

    @property
    def _has_room(self) -> bool:
        """Whether the inbox may take more; while nothing is applied, what is in it will do."""
        inbox = self.inbox
        return not inbox.full and not (len(inbox) and self._own.holds_links())

    # --- The loop's side ----------------------------------------------------------------------

    @property
    def may_read(self) -> bool:
        """Whether the next message may be read: the inbox may take more."""
        return not self._untaken_bytes

    def next(self, now: Millis, at: float, *, may_send: bool = True) -> PullAction:
        """What is to be done now.

        Args:
            may_send: False while a message is still being written: no other one comes.
        """
        if self._must_hang_up:
            self._must_hang_up = False
            return HangUp()
        if self.is_over:
            return Over()
        state = self.link.state
        if state is LinkState.PAUSED:
            return Sleep(None)
        if state in BETWEEN_ATTEMPTS:
            if self._retry_at is None:
                self._retry_at = at + self.link.backoff_seconds()
            if at < self._retry_at and not self._skips_backoff:
                return Sleep(self._retry_at)
            self._feed(BackoffOver(), now)
        if not self._has_call:
            self._begin_call(now, at)
            return Connect()
        if not self._opened and may_send:
            self._opened = True
            self._acks.note_opened(at)
            return Send(self._open())
        return self._watch(now, at, may_send=may_send)

    def receive(self, message: FromServer, now: Millis, at: float) -> None:
        """The peer sent a message."""
        if not self._has_call:
            return
        self._own.tick.open()
        self._heard_at = at
        try:
            match message:
                case Received(batches):
                    self._take_batches(batches)
                case Progress():
                    self._take_progress(message, now, at)
                case Welcome():
                    self._take_welcome(message, now, at)
                case Publications():
                    self._take_publications(message)
                case _:
                    assert_never(message)
        except RefusedError as refusal:
            self._refuse(Refused(str(refusal)), now)
        except PeerError as error:
            self._fail(str(error), now)

    def lost(self, event: Failed | Refused, now: Millis) -> None:
        """The call ended, or what it brought cannot be read."""
        if not self._has_call:
            return
        if isinstance(event, Refused):
            self._refuse(event, now)
        else:
            self._fail(event.reason, now)

    # --- Calls --------------------------------------------------------------------------------

    def _begin_call(self, now: Millis, at: float) -> None:
        self.origins = self._own.routes.wanted(self.peer, now)
        self._has_call = True
        self._opened = False
        self._must_reopen = self._skips_backoff = False
        self.unserved = frozenset()
        self._rejected = None
        self._untaken_bytes = 0
        self._acks.begin()
        self._heard_at = at
        self._silence_seconds = silence_seconds(self._own.limits, 0)
        self._peer_announces = False
        self._stamps = Stamps()
        self._gossip = Gossip(self.peer, self._own.knowledge)
        self.inbox.discard()
        self._publications.clear()
        self._listeners.forget()

    def _end_call(self) -> None:
        # Whether anybody listens there still is not known from here on.
        self._listeners.forget()
        if self._has_call:
            self._has_call = False
            self._must_hang_up = True
            self._own.lags.forget_announced(self.peer)
            # Who waits for room in the inbox waits no longer.
            self._untaken_bytes = 0
        self._own.tick.wake_link(self)

    def _fail(self, reason: str, now: Millis) -> None:
        self._end_call()
        self._feed(Failed(reason), now)

    def _refuse(self, event: Refused, now: Millis) -> None:
        readiness = self._own.opening.readiness
        note = readiness.note_duplicate if event.is_duplicate else readiness.note_refusal
        note(self.peer, event.reason)
        self._own.opening.look()
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
            # A peer that stays away is told of once, not at each attempt.
            case Failed(reason) | Refused(reason, _) if reason != self._logged_error:
                self._logged_error = reason
                tick.notice("warning", "link down", reason=reason, **about)
            case CutOff(reason) if reason != self._logged_error:
                self._logged_error = reason
                tick.notice("error", "link needs a bootstrap", reason=reason, **about)
            case CaughtUp():
                self._logged_error = ""
                tick.notice("info", "link live", origins=sorted(self.origins), **about)
            case _:
                tick.notice("debug", "link", before=before.value, after=after.value, **about)

    def _open(self) -> Open:
        own = self._own
        standing = own.standing()
        self._asked = standing.recovering
        return Open(
            region=own.identity.region,
            database_id=own.identity.database_id,
            run_id=own.identity.run_id,
            origins=self.origins,
            vv=dict(own.replica.vv),
            standing=standing,
            membership=own.membership.said(),
        )

    # --- While the call lasts -----------------------------------------------------------------

    def _watch(self, now: Millis, at: float, *, may_send: bool) -> PullAction:
        """Acknowledge; end the call when the peer is silent, its batches are bad, or others are
        wanted."""
        if self._must_reopen:
            self._begin_again(now)
            return self.next(now, at)
        if self._rejected is not None:
            self._fail(str(PeerError(self.peer, self._rejected)), now)
            return self.next(now, at)
        if self._heard_at is None:
            self._heard_at = at
        silent_after = self._silence_seconds
        watch_at = at + (silent_after if self._is_calm else WATCH_SECONDS.value)
        if self.may_read:
            silent_at = self._heard_at + silent_after
            if at >= silent_at:
                self._fail(str(PeerError(self.peer, f"silent for {silent_after:g} s")), now)
                return self.next(now, at)
            watch_at = min(watch_at, silent_at)
        self._ask_for_what_is_waited_for(now)
        if self.unserved and self._can_be_served():
            self._begin_again(now)
            return self.next(now, at)
        # Only a link that is up begins again; another one asks for the right origins anyway.
        if self.link.is_up and self._own.routes.wanted(self.peer, now) != self.origins:
            self._begin_again(now)
            return self.next(now, at)
        if not may_send:
            return Sleep(watch_at)
        ack_at = self._acks.next_at(self._quiet_seconds)
        if at >= ack_at:
            self._acks.note_sent(at, self._quiet_seconds)
            return Send(self._ack(now, at))
        return Sleep(min(ack_at, watch_at))

    @property
    def _quiet_seconds(self) -> float:
        return quiet_seconds(
            self._own.limits, peer_pulls=self.peer_pulls, peer_announces=self._peer_announces
        )

    @property
    def _is_calm(self) -> bool:
        """Whether time alone changes nothing but that it is time to speak, or to be heard."""
        return (
            self.link.state is LinkState.LIVE
            and self.waits_since is None
            and not self.unserved
            and self._own.routes.are_usual
        )

    def _can_be_served(self) -> bool:
        """Whether others brought what was left out of the link for want of it."""
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

    def _ack(self, now: Millis, at: float) -> Progress:
        own = self._own
        # A peer that pulls from here hears the same by heartbeats, in time for all but waiters.
        is_told = self.peer_pulls and not self._acks.is_awaited
        others = {} if is_told else self._gossip.take(at)
        return Progress(
            durable_vv=own.outstanding.durable_vv,
            now=now,
            others=others,
            taken_bytes=self._acks.taken_bytes,
            taken_publication_bytes=self._publications.taken_bytes,
            standing=own.standing(),
            stamp_ms=to_ms(at),
            echo_ms=self._stamps.echo_ms(at),
            next_ms=round(self._quiet_seconds * 1000),
            staging_vv=own.bootstrap.announced_vv,
            epoch=own.membership.cuts.epoch_of_words,
        )

    # --- Receiving ----------------------------------------------------------------------------

    def _take_welcome(self, welcome: Welcome, now: Millis, at: float) -> None:
        if welcome.region != self.peer:
            raise RefusedError(
                self.peer,
                f"{self.address} is region {welcome.region}, not region {self.peer}; "
                "correct the peer's address",
            )
        self.stats.peer_vv = welcome.vv
        self._own.replication_lag.note_lost(self.peer, welcome.own_n)
        self._note_database(welcome.standing)
        refusal = self._own.membership.hear(self.peer, welcome.run_id, welcome.membership)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)
        opening = self._own.opening
        self._own.lags.note(self.peer, welcome.vv, to_ms(at))
        opening.readiness.note_welcome(self.peer)
        answer = Answer(welcome.own_n, welcome.vv)
        if self._asked:
            opening.note_answer(self.peer, answer)
        else:
            opening.note_standing(self.peer, answer)
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
        opening.note_cut_off(self.peer, reason)
        opening.catching_up.note_answer(self.peer, welcome.run_id, welcome.vv)
        self._look_at_own_effects()
        opening.note_time(now)
        self._peer_run = welcome.run_id
        opening.peer_runs.note_start(
            self.peer, self._peer_run, recovering=welcome.standing.recovering
        )
        if is_cut_off:
            self._end_call()
            self._feed(CutOff(reason), now)

    def _note_database(self, standing: Standing) -> None:
        refusal = self._own.opening.readiness.note_database(self.peer, standing.database)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)

    def _take_progress(self, progress: Progress, now: Millis, at: float) -> None:
        own = self._own
        self._note_database(progress.standing)
        durable_vv = progress.durable_vv
        is_believed = own.claims.check_heartbeat(self.peer, durable_vv, issued=own.replica.issued)
        self._stamps.note(progress, at)
        self._acks.is_awaited = progress.acks_awaited
        next_ms = min(progress.next_ms, NEXT_MS_MAX)
        self._silence_seconds = silence_seconds(own.limits, next_ms)
        self._peer_announces = bool(next_ms)
        self.stats.heard_ms = now
        self._note_skew(progress.now - now)
        self.stats.peer_vv = durable_vv
        if is_believed:
            at_ms, echo_ms = to_ms(at), progress.echo_ms
            own.lags.note(self.peer, durable_vv, at_ms, echo_ms, next_ms=next_ms)
            own.learn(self.peer, durable_vv, by=self.peer, regains=progress.standing.regains)
            own.membership.cuts.hear(self.peer, self._peer_run, progress.epoch, durable_vv)
            own.membership.look_at_cuts()
            own.replication_lag.note_durable(self.peer, own.claims.own_n(durable_vv))
        own.retention.note_staging(self.peer, progress.staging_vv)
        own.learn_others(progress.others, by=self.peer)
        self._look_at_own_effects()
        own.opening.peer_runs.note(
            self.peer, self._peer_run, recovering=progress.standing.recovering
        )
        self._hand_out_publications()
        if self.link.state is LinkState.CATCHING_UP and self.lag_effects == 0:
            self._feed(CaughtUp(), now)

    def _note_skew(self, skew_ms: int) -> None:
        """Report a clock that is far from ours, once until it is near again."""
        far = self._own.limits.skew_warning_ms
        if far and abs(skew_ms) > far >= abs(self.stats.clock_skew_ms):
            self._own.tick.notice("warning", "clocks differ", peer=self.peer, skew_ms=skew_ms)
        self.stats.clock_skew_ms = skew_ms

    def _look_at_own_effects(self) -> None:
        """Stop issuing, or go on, by what the peers have of this region's effects."""
        own = self._own
        readiness = own.opening.readiness
        readiness.note_known(self.peer, self.stats.peer_vv.get(own.identity.region, 0))
        own.routes.note_own_lost(readiness.are_lost(own.replica.issued))
        own.opening.look()

    def _take_batches(self, batches: Sequence[tuple[EffectBatch, bytes]]) -> None:
        if self._must_reopen:
            return
        stats = self.stats
        applied = self._own.replica.vv
        for batch, encoded in batches:
            if batch.origin not in self.origins:
                raise PeerError(
                    self.peer,
                    f"batch {batch.origin}:{batch.first_n}: origin: not asked for on this link",
                )
            stats.batches += 1
            stats.effects += batch.count
            stats.bytes_uncompressed += len(encoded)
            if batch.last_n <= applied.get(batch.origin, 0):
                stats.bytes_again += len(encoded)
            self.inbox.offer(batch, encoded)
            self._untaken_bytes += len(encoded)
        self._own.arrived()
        if self._has_room:
            self._take_bytes()

    def _take_bytes(self) -> None:
        """The inbox has room: the peer's window moves, and the next message may be read."""
        self._acks.take(self._untaken_bytes)
        self._untaken_bytes = 0
        # It was not the peer who was silent meanwhile.
        self._heard_at = None
        # Who reads may be waiting for room.
        self._own.tick.wake_link(self)

    def _take_publications(self, message: Publications) -> None:
        if self._must_reopen:
            return
        for told in message.listeners:
            self._listeners.note(told)
        for publication in message.publications:
            if not self._publications.offer(publication):
                raise PeerError(self.peer, "publications: more than their window allows")
        self._hand_out_publications()

    def _hand_out_publications(self) -> None:
        """Tell those who listen here what does not wait for effects of the peer any more."""
        applied_n = self._own.replica.vv.get(self.peer, 0)
        for publication in self._publications.take(applied_n):
            self._own.channels.hand_out(
                publication.channel, publication.payload, sharded=publication.sharded
            )
            self.stats.publications += 1
            self.ack_soon()
