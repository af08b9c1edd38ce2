"""The other end of a link: serving a peer that pulls, as a state machine without any IO.

It sends what lies beyond the puller's version vector, from the log, then live.  It stands at a
record of the log and moves on; nothing is kept for it in memory except the message under way.  So a
slow puller costs disk, not memory: beyond a window of bytes that the puller has not taken yet, the
link rests.

A loop asks ``next`` and does what it says:

    next ──> Seek    find where to begin in the log, then call ``begin_at``
             Send    write this message
             Read    read records of the log, then call ``take``
             Sleep   ask again when woken, or at this time
             End     the link has ended, and why, if the puller is to hear that

A heartbeat is due every ``heartbeat_interval_ms`` while something happens.  When it has nothing new
to report, and the puller durably has all effects, the link is *quiet*: the next heartbeat may come
later, and the last one says so.  Any news ends the quiet at once.

Publications, which are in no log, have a bounded outbox of their own in each link
(``publications.py``), and take turns with the batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join
from crdtstream.core.effects import Record
from crdtstream.core.histories import Point
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Seconds, Size
from crdtstream.database.listening import Kind
from crdtstream.region.beats import beat_within
from crdtstream.region.beginning import cut_off, needs_bootstrap
from crdtstream.region.freshness import to_ms
from crdtstream.region.links.acks import quiet_heartbeat_seconds, silence_seconds
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.gossip import Gossip
from crdtstream.region.links.listeners import Telling
from crdtstream.region.links.messages import (
    Batches,
    Progress,
    Publications,
    Stamps,
    Standing,
    ToPuller,
    Welcome,
)
from crdtstream.region.links.own_side import OwnSide
from crdtstream.region.links.publications import Outbox, Publication
from crdtstream.region.links.stats import ServeStats
from crdtstream.region.links.words import Words
from crdtstream.region.peer_runs import PeerRun

# Sent and not yet taken, uncompressed.
WINDOW_BYTES: Final = Size(8 << 20, least=1)
# Between two messages of a live link: under load they gather more, an idle link does not wait.
SEND_SECONDS_MIN: Final = Seconds(0.002, least=0)
# The same once more effects than LOADED_EFFECTS are gathered: a message costs both ends about as
# much as a hundred effects, and at such a rate few readers notice some milliseconds.
SEND_SECONDS_LOADED: Final = Seconds(0.008, least=0)
LOADED_EFFECTS: Final = Size(100, least=0)
# Pause before the Welcome, until the folder has what the Open said.
KEPT_SECONDS: Final = Seconds(0.02, least=0)
# Pause while the log is being cut where the link stands.
CUT_SECONDS: Final = Seconds(0.02, least=0)


@dataclass(frozen=True, slots=True)
class Seek:
    """Find the first record with a batch of one of ``origins`` beyond ``vv``."""

    vv: VersionVector
    origins: frozenset[RegionId]


@dataclass(slots=True, init=False)
class Send:
    """Write a message to the call."""

    message: Final[ToPuller]

    def __init__(self, message: ToPuller) -> None:
        self.message = message


@dataclass(slots=True, init=False)
class Read:
    """Read the log from ``seq`` on, about ``bytes_max``."""

    seq: Final[int]
    bytes_max: Final[int]

    def __init__(self, seq: int, bytes_max: int) -> None:
        self.seq = seq
        self.bytes_max = bytes_max


@dataclass(slots=True, init=False)
class Sleep:
    """Do nothing until the link is woken, or until this time."""

    until: Final[float]

    def __init__(self, until: float) -> None:
        self.until = until


@dataclass(frozen=True, slots=True)
class End:
    """The link has ended; with a reason: the log cannot bring what the puller lacks."""

    reason: str = ""


ServeAction: TypeAlias = Seek | Send | Read | Sleep | End


class Serve:
    """Link by which one puller is served.

    Times named ``at`` are in seconds of a monotonic clock.

    Attributes:
        region, run_id: the puller, and the start of its node.
        origins: the regions whose effects it wants.
        sent_vv: what it has or was sent, per origin asked for.
        outbox: publications that it is to be sent.
        told_awaited: the puller knows, or hears next, that a client here waits to hear what it has.
        is_welcome: the puller was answered.
        is_quiet: the last heartbeat said that the next one comes late, as nothing happens.
        is_resting: it asks again by itself, a little after its last message; news need not wake it.
        is_over: the puller opened another link, or ended this one, or the node stops.
    """

    def __init__(
        self,
        region: RegionId,
        run_id: int,
        origins: frozenset[RegionId],
        vv: VersionVector,
        own: OwnSide,
        stats: ServeStats,
        *,
        at: float,
        incarnations: bytes = b"",
    ) -> None:
        self.region = region
        self.run_id = run_id
        self.origins = origins
        self.sent_vv: MutableVersionVector = {o: n for o, n in vv.items() if o in origins}
        # Own effects that the puller came with, or was sent (``claims.py``).
        self._own_n = own.claims.own_n(vv)
        own.claims.note_sent(self._own_n)
        self.told_awaited = False
        self.stats = stats
        self.is_over = False
        self._own = own
        self._seq: int | None = None
        # Reason why the log is of no use to the puller.
        self._cut_off = ""
        self._durable_vv: VersionVector = {}
        self.is_welcome = False
        self._heartbeat_at = at
        # Content and time of the last heartbeat; nothing new comes of it while the link is quiet.
        self._told_at = at
        self._told_vv: VersionVector | None = None
        self._told_standing: Standing | None = None
        self._told_staging: VersionVector | None = None
        self._told_points: dict[RegionId, Point] = {}
        self.is_quiet = False
        self._send_at = at
        self._has_sent = False
        self.is_resting = False
        # Size of the message that was sent last.
        self._message_effects = self._message_bytes = 0
        self._batches: list[bytes] = []
        self._sent_bytes = 0
        self._taken_bytes = 0
        self._heard_at = at
        # The time to its next message that the puller announced last; 0: it announced none.
        self._next_ms = 0
        self._stamps = Stamps()
        self._gossip = Gossip(region, own.knowledge)
        self._words = Words(own.numbering, incarnations)
        self.outbox = Outbox()
        self._listeners = Telling(own.database.channels)

    # --- From the region ----------------------------------------------------------------------

    def wake(self) -> None:
        self._own.tick.wake_link(self)

    def tell_standing(self) -> None:
        """Tell the puller at once how this region stands."""
        self._heartbeat_at = 0.0
        self.wake()

    def look_for_news(self) -> None:
        """Look at the end of a tick if this link, which is quiet, has something to report again."""
        if self._has_something_to_tell:
            self.is_quiet = False
            due_at = self._told_at + self._own.limits.heartbeat_interval_ms / 1000
            self._heartbeat_at = min(self._heartbeat_at, due_at)
            self.wake()

    @property
    def _has_something_to_tell(self) -> bool:
        """True if a heartbeat now would report anything new besides the time."""
        own = self._own
        durable_vv = own.outstanding.durable_vv
        return (
            # Usually the very same object: a comparison costs the more the more regions exist.
            (durable_vv is not self._told_vv and durable_vv != self._told_vv)
            or own.database.awaits_news is not self.told_awaited
            or own.standing() != self._told_standing
            or own.bootstrap.announced_vv != self._told_staging
            or self._gossip.has_news
        )

    def publish(self, publication: Publication) -> bool:
        """Send a publication; return True if it had room."""
        if self.is_over or not self.outbox.offer(publication):
            return False
        self.wake()
        return True

    def note_listeners(self, kind: Kind, name: bytes) -> None:
        """Note that the number of listeners to a name here has changed."""
        self._listeners.note(kind, name)
        self.wake()

    @property
    def has_news(self) -> bool:
        """True if the log has effects for the puller that it was not sent.

        Most of what a region logs came from others, and none of its pullers needs it: each has it
        from its origin.  Such records are passed over unread, and wake no link.
        """
        logged, sent = self._own.outstanding.logged_vv, self.sent_vv
        for origin in self.origins:  # noqa: SIM110 - each commit asks, for each link
            if logged.get(origin, 0) > sent.get(origin, 0):
                return True
        return False

    def end(self) -> None:
        """End the link; what its outbox holds is lost."""
        if self.is_over:
            return
        self.is_over = True
        self.stats.publications_lost += self.outbox.close()
        self.wake()

    # --- The loop's side ----------------------------------------------------------------------

    def next(self, now: Millis, at: float) -> ServeAction:
        """The next thing to do."""
        self.is_resting = False
        if self.is_over:
            return End()
        if self._seq is None and not self._cut_off:
            self._leave_out(self._own.retention.begins)
        if self._seq is None and not self._cut_off:
            return Seek(self.sent_vv, self.origins)
        if not self.is_welcome:
            if not self._own.numbering.is_kept:
                return Sleep(at + KEPT_SECONDS.value)
            self.is_welcome = True
            return Send(self._welcome())
        if self._is_behind_cut() and not self._skip_cut():
            return Sleep(at + CUT_SECONDS.value)
        if self._cut_off:
            self.end()
            return End(self._cut_off)
        assert self._seq is not None
        if at - self._heard_at > silence_seconds(self._own.limits, self._next_ms):
            self._own.tick.notice("warning", "puller is silent: its link ends", peer=self.region)
            self.end()
            return End()
        if at >= self._heartbeat_at:
            return Send(self._heartbeat(now, at))
        if self._batches:
            batches, self._batches = self._batches, []
            assert self.is_welcome, "the first message is the answer"
            return Send(Batches(batches))
        if self._has_sent:
            return self._rest(at)
        if at < self._send_at:
            return self._sleep_out()
        if self._seq <= self._last_seq and not self.has_news:
            self._seq = self._last_seq + 1
        if (
            self._sent_bytes - self._taken_bytes < WINDOW_BYTES.value
            and self._seq <= self._last_seq
        ):
            return Read(self._seq, self._own.limits.link_message_bytes_target)
        return self._rest(at)

    def _is_behind_cut(self) -> bool:
        """True if the log was cut where the link stands, or is being cut there."""
        return self._seq is not None and self._own.retention.is_gone(self._seq)

    def _skip_cut(self) -> bool:
        """Continue at the log's beginning, behind which the puller lacks nothing.

        Returns:
            True if that could be done; False: the log is being cut just now.
        """
        retention = self._own.retention
        if retention.is_gone(retention.first_seq):
            return False
        join(self.sent_vv, {o: n for o, n in self._durable_vv.items() if o in self.origins})
        self._leave_out(retention.begins)
        assert self._seq is not None
        assert self._seq <= retention.first_seq, "the log was cut in front of it only"
        self._seq = retention.first_seq
        return True

    def _leave_out(self, begins: VersionVector) -> None:
        """Send nothing of origins whose part of the log begins behind what the puller has."""
        unserved = cut_off(self.origins, self.sent_vv, begins)
        if needs_bootstrap(self._own.identity.region, self.origins, unserved):
            self._cut_off = (
                f"region {self._own.identity.region}'s log begins behind what region "
                f"{self.region} lacks: another region has it, or it needs a bootstrap, which it "
                "begins by itself"
            )
        self.origins -= unserved

    def _rest(self, at: float) -> ServeAction:
        """Send what is due after the batches: publications, numbers of listeners; then rest a
        little."""
        region = self._own.identity.region
        publications = self.outbox.take(self.sent_vv.get(region, 0))
        listeners = self._listeners.take()
        if publications or listeners or self._has_sent:
            has_sent, self._has_sent = self._has_sent, False
            self._send_at = at + self._pause_seconds()
            if has_sent and not publications and not listeners:
                return self._sleep_out()
        if publications or listeners:
            self.stats.publications += len(publications)
            return Send(Publications(region, publications, listeners))
        return self._sleep_out() if at < self._send_at else Sleep(self._heartbeat_at)

    def _sleep_out(self) -> Sleep:
        """Rest, unless a heartbeat is due before."""
        self.is_resting = True
        return Sleep(min(self._send_at, self._heartbeat_at))

    def _pause_seconds(self) -> float:
        """Time for which the link rests after a message."""
        if 2 * self._message_bytes >= self._own.limits.link_message_bytes_target:
            # It catches up: a message takes what fits, and more is to be sent.
            return 0.0
        if self._message_effects >= LOADED_EFFECTS.value and not self.told_awaited:
            return SEND_SECONDS_LOADED.value
        return SEND_SECONDS_MIN.value

    @property
    def _last_seq(self) -> int:
        """The last record that may be sent."""
        outstanding = self._own.outstanding
        if self.origins - {self._own.identity.region}:
            # Relayed: only what this region cannot lose, as others rely on its answer (rule 18).
            return outstanding.durable_seq
        return outstanding.logged_seq

    def begin_at(self, seq: int) -> None:
        """Begin at the first record with effects that the puller lacks."""
        assert seq > 0
        assert self._seq is None, "a link goes on where it stands"
        self._seq = seq

    def take(self, records: Sequence[Record]) -> None:
        """Take the records that were to be read; effects that the puller wants and lacks are sent
        next."""
        assert self._seq is not None
        # More may have been read than was asked for, and less may be sent by now than was logged.
        records = records[: max(0, self._last_seq - self._seq + 1)]
        if not records:
            return
        self._seq += len(records)
        # I3: what leaves is in the log.
        assert self._seq - 1 <= self._own.outstanding.logged_seq
        self._has_sent = True
        self._message_effects = self._message_bytes = 0
        for record in records:
            if record.batch is None or record.origin not in self.origins:
                continue
            if record.last_n > self.sent_vv.get(record.origin, 0):
                assert record.last_n <= self._own.outstanding.logged_vv.get(record.origin, 0)
                self.sent_vv[record.origin] = record.last_n
                if record.origin == self._own.identity.region:
                    self._own_n = max(self._own_n, record.last_n)
                    self._own.claims.note_sent(record.last_n)
                effects = record.last_n - record.first_n + 1
                self._message_effects += effects
                self._message_bytes += len(record.batch)
                self._batches.append(record.batch)
                self.stats.batches += 1
                self.stats.effects += effects
        self.stats.bytes_uncompressed += self._message_bytes
        self._sent_bytes += self._message_bytes

    def receive(self, ack: Progress, at: float) -> None:
        """Take in an acknowledgement.  After the link's end it counts for nothing.

        Raises:
            PeerError: it belongs to another database, or claims effects of this region that the
                puller cannot have (``claims.py``).  Nothing was learned from the message, and the
                link has ended.
        """
        if self.is_over:
            return
        own = self._own
        own.tick.open()
        try:
            self._check_database(ack.standing)
            is_believed = own.claims.check_ack(self.region, ack.durable_vv, sent_n=self._own_n)
        except PeerError:
            self.end()
            raise
        self._heard_at = at
        self._next_ms = ack.next_ms
        if ack.taken_bytes > self._taken_bytes:
            self._taken_bytes = ack.taken_bytes
            self.wake()
        if self.outbox.note_taken(ack.taken_publication_bytes):
            self.wake()
        self._stamps.note(ack, at)
        if is_believed:
            self._durable_vv = ack.durable_vv
        vv = self._words.counting(self.region, ack.durable_vv) if is_believed else None
        if vv is not None:
            own.lags.note(self.region, vv, to_ms(at), ack.echo_ms)
            own.stability.learn(self.region, vv, by=self.region, regains=ack.standing.regains)
            own.membership.cuts.hear(self.region, self.run_id, ack.epoch, vv)
            own.membership.look_at_cuts()
            own.replication_lag.note_durable(self.region, own.claims.own_n(vv))
        own.retention.note_staging(self.region, ack.staging_vv)
        own.learn_others(ack.others, self._words, by=self.region)
        own.opening.look()
        own.opening.peer_runs.note(self.region, self.run_id, recovering=ack.standing.recovering)

    def _check_database(self, standing: Standing) -> None:
        readiness = self._own.opening.readiness
        wrong_database = readiness.note_database(self.region, standing.database)
        if wrong_database is not None:
            raise PeerError(self.region, wrong_database)

    # --- Messages -----------------------------------------------------------------------------

    def _welcome(self) -> Welcome:
        own = self._own
        begins = own.retention.begins
        recovers = own.opening.peer_runs.is_held(self.region)
        self._leave_out(begins)
        return Welcome(
            region=own.identity.region,
            run_id=own.identity.run_id,
            vv=dict(own.outstanding.logged_vv),
            standing=own.standing(),
            # Effects that are applied and not in the log yet will be there: they count.
            own_n=own.replica.vv.get(self.region, 0),
            begins=begins,
            membership=own.membership.said(
                to_recovering=PeerRun(self.region, self.run_id) if recovers else None
            ),
            incarnations=own.numbering.said(),
            histories=own.compared.said(),
        )

    def _heartbeat(self, now: Millis, at: float) -> Progress:
        own = self._own
        durable_vv, is_awaited = own.outstanding.durable_vv, own.database.awaits_news
        # Clients that wait, and bounds on what lags, need to know soon that a peer is gone.
        self.is_quiet = (
            not is_awaited
            and not self._has_something_to_tell
            and covers(self._durable_vv, durable_vv)
        )
        seconds = own.limits.heartbeat_interval_ms / 1000
        if self.is_quiet:
            seconds = quiet_heartbeat_seconds(own.limits)
            own.tick.has_quiet_links = True
        self._told_at, self._heartbeat_at = at, beat_within(at, seconds)
        self._told_vv, self._told_standing = durable_vv, own.standing()
        self._told_staging = own.bootstrap.announced_vv
        self.told_awaited = is_awaited
        return Progress(
            durable_vv=durable_vv,
            now=now,
            standing=self._told_standing,
            others=self._gossip.take(at),
            stamp_ms=to_ms(at),
            echo_ms=self._stamps.echo_ms(at),
            acks_awaited=is_awaited,
            next_ms=round(seconds * 1000),
            staging_vv=self._told_staging,
            epoch=own.membership.cuts.epoch_of_words,
            histories=own.compared.news(self._told_points),
        )
