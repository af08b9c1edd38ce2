"""All links of a region: those by which it pulls, and those of its peers to it.

Batches of all pulling links are applied in one place, so that batches that wait for each other
meet.  Each link has an inbox of its own (``rules`` 2).  Links begin and end as peers are added and
removed.
"""

from collections import deque
from typing import Final

from crdtstream.core.applying.checking_members import check_members
from crdtstream.core.effects import EffectBatch
from crdtstream.core.histories import HistoryError
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.core.wire.codec import BatchError
from crdtstream.database.listening import Kind
from crdtstream.region.freshness import to_ms
from crdtstream.region.ground import Ground
from crdtstream.region.links.messages import (
    PROTOCOL_VERSION,
    Identity,
    Open,
    Refusal,
    RefusalKind,
)
from crdtstream.region.links.own_side import OwnSide
from crdtstream.region.links.publications import PUBLICATION_BYTES_MAX, Publication
from crdtstream.region.links.pull import Pull
from crdtstream.region.links.serve import Serve
from crdtstream.region.links.stats import ServeStats
from crdtstream.region.peers import PeersChange

# The longest that clients wait for a run of remote batches; a single batch may take longer.
RUN_NS: Final = Size(4_000_000, least=0)


class Links:
    """The links of one region.

    Attributes:
        pulls: by peer, ascending.
        serves: the links of peers that pull now, by peer.
        serve_stats: what was sent to each peer, over all its links.
        applied: what the open tick applied: by which link it came, and when it was issued.
    """

    def __init__(self, own: OwnSide, ground: Ground) -> None:
        self.pulls: dict[RegionId, Pull] = {}
        self.serves: dict[RegionId, Serve] = {}
        self.serve_stats: dict[RegionId, ServeStats] = {}
        self.applied: list[tuple[Pull, Millis]] = []
        self._own = own
        self._peers = ground.peers
        self._uniform, self._clock = ground.runtime.uniform, ground.runtime.clock
        # Per removed region the number of effects that were refused.
        self._beyond_cut: dict[RegionId, int] = {}
        # Per region the reason why its last call was refused: a region that tries again is logged
        # once.
        self._refused: dict[RegionId, str] = {}
        # By the record that will have what was applied: links hear of it when that is in the log.
        self._left: deque[tuple[int, list[tuple[Pull, Millis]]]] = deque()
        for peer in ground.peers.addresses:
            self._begin(peer, ground.now)

    def follow_peers(self, change: PeersChange) -> None:
        self._own.claims.follow_peers(change)
        self._own.routes.follow_peers(change)
        for peer in change.removed:
            self.pulls.pop(peer).end()
            self.serve_stats.pop(peer)
            serve = self.serves.pop(peer, None)
            if serve is not None:
                serve.end()
            for pull in self.pulls.values():
                # Effects of it that others relayed are dropped; they are asked for again if they
                # are still wanted.
                if peer in pull.origins:
                    pull.reopen()
        for peer in change.moved:
            self.pulls[peer].move(self._peers.addresses[peer], change.now)
        for peer in change.added:
            self._begin(peer, change.now)
        self.pulls = {peer: self.pulls[peer] for peer in self._peers.addresses}
        self.serve_stats = {peer: self.serve_stats[peer] for peer in self._peers.addresses}

    def _begin(self, peer: RegionId, now: Millis) -> None:
        """Begin the links with a peer: this region pulls from it, and it may pull from here."""
        own = self._own
        address = self._peers.addresses[peer]
        former = self._peers.formers[peer]
        self.pulls[peer] = Pull(peer, address, own, now=now, uniform=self._uniform, former=former)
        self.serve_stats[peer] = ServeStats()
        own.database.channels.forward = self._publish
        own.database.channels.on_change = self._note_listeners
        own.database.channels.forward_bytes_max = PUBLICATION_BYTES_MAX.value

    @property
    def identity(self) -> Identity:
        """Identity of this region for peers."""
        return self._own.identity

    def address_of(self, region: RegionId) -> str | None:
        """The address by which a region is reached, or tried, now; None: it is no peer."""
        pull = self.pulls.get(region)
        return None if pull is None else pull.address

    def note_sent(self, n: int) -> None:
        """Note that a peer is sent a state with own effects up to ``n``: it may say that it has
        them."""
        self._own.claims.note_sent(n)

    def tell_standing(self) -> None:
        """Tell peers soon how this region stands."""
        for pull in self.pulls.values():
            pull.ack_soon()
        for serve in self.serves.values():
            serve.tell_standing()

    def note_held(self, origin: RegionId) -> None:
        for pull in self.pulls.values():
            pull.note_held(origin)

    def reopen(self) -> None:
        """Begin all links again; drop what came by them and is not applied."""
        for pull in self.pulls.values():
            pull.reopen()

    def note_incarnation(self, origin: RegionId, *, has_begun: bool) -> None:
        """Note that a newer incarnation of a region is known from here on, or may begin.

        The link to the region begins again, as an earlier folder may be at its other end.  Once the
        incarnation has begun, all links begin again.  What others relayed is dropped.  Regions that
        pull from here hear of the incarnation before any of its effects.  And later words about it
        come from regions that know of it (``words.py``).
        """
        for peer, pull in self.pulls.items():
            if peer == origin or has_begun:
                pull.reopen()
            serve = self.serves.get(peer)
            # A link that was not answered yet hears of it by its answer.
            if serve is not None and serve.is_welcome and has_begun and peer != origin:
                serve.end()
        self.wake_serves()

    def ask_again(self, peer: RegionId) -> None:
        """Ask a peer again for what it says as a link opens."""
        pull = self.pulls.get(peer)
        if pull is not None:
            pull.reopen()

    def begin_again(self) -> None:
        """Begin all links again, those of peers as well: they are to hear what is new here."""
        self.reopen()
        for serve in self.serves.values():
            serve.end()

    def part_from(self, peer: RegionId) -> None:
        """End the links with a peer that has other effects than this region, both ways: what
        follows on them is of no use to the other side."""
        serve = self.serves.get(peer)
        if serve is not None:
            serve.end()
        pull = self.pulls.get(peer)
        if pull is not None and pull.link.is_up:
            pull.reopen()

    def look_at_routes(self) -> None:
        """Look at the routes: a link went down or came up, so others ask for its origin some time
        after."""
        for pull in self.pulls.values():
            self._own.tick.wake_link(pull)

    # --- Peers that pull ----------------------------------------------------------------------

    def accept(self, opening: Open, at: float) -> Serve | Refusal:
        """Accept a peer's link; its earlier link ends.

        If an Open is refused, nothing is learned from it, and the earlier link goes on.
        """
        refusal = self._refusal(opening)
        if refusal is None:
            reason = self._own.opening.readiness.note_database(
                opening.region, opening.standing.database
            )
            if reason is None:
                reason = self._own.claims.wrong_open(opening.vv)
            if reason is None:
                reason = self._own.membership.hear(
                    opening.region, opening.run_id, opening.membership
                )
            told = b""
            if reason is None:
                # A region of another database reports nothing about this one's folders.
                told = self._own.numbering.told_refused(opening.region)
                reason = self._own.numbering.hear(
                    opening.region,
                    opening.run_id,
                    opening.vv,
                    opening.incarnations,
                    recovers=opening.standing.regains,
                )
            if reason is None:
                reason = self._own.compared.hear(opening.region, opening.histories)
            if reason is not None:
                refusal = Refusal(RefusalKind.MISMATCH, reason, told)
        if refusal is not None:
            is_news = self._refused.get(opening.region) != refusal.reason
            self._refused[opening.region] = refusal.reason
            self._own.tick.notice(
                "warning" if is_news else "debug",
                "link refused",
                peer=opening.region,
                reason=refusal.reason,
            )
            return refusal
        self._refused.pop(opening.region, None)
        own, region = self._own, opening.region
        own.opening.look()
        # Before the Welcome, which is the answer: what is held unapplied is dropped.
        own.opening.peer_runs.note_start(
            region, opening.run_id, recovering=opening.standing.recovering
        )
        before = self.serves.get(region)
        if before is not None:
            before.end()
        stats = self.serve_stats[region]
        serve = Serve(
            region,
            opening.run_id,
            opening.origins,
            opening.vv,
            own,
            stats,
            at=at,
            incarnations=opening.incarnations,
        )
        self.serves[region] = serve
        self.pulls[region].peer_pulls = True
        own.lags.note(region, opening.vv, to_ms(at))
        own.retention.note_opened(region, opening.vv)
        own.replication_lag.note_lost(region, opening.vv.get(own.identity.region, 0))
        own.tick.open()
        return serve

    def _refusal(self, opening: Open) -> Refusal | None:
        """Reason why there can be no link with this puller; None if there can."""
        own = self._own.identity
        if opening.protocol != PROTOCOL_VERSION:
            return Refusal(
                RefusalKind.MISMATCH,
                f"region {own.region} speaks link protocol {PROTOCOL_VERSION}, not "
                f"{opening.protocol}; run the same version everywhere",
            )
        if opening.database_id != own.database_id:
            return Refusal(
                RefusalKind.MISMATCH,
                f"region {own.region} holds database {own.database_id!r}, not "
                f"{opening.database_id!r}; correct database_id, or the peer's address",
            )
        if opening.region == own.region:
            return Refusal(
                RefusalKind.MISMATCH,
                f"both sides are region {own.region}; each region needs a number of its own",
            )
        # Before all that follows: the numbers of another database's regions say nothing here.
        reason = self._own.opening.readiness.wrong_database(
            opening.region, opening.standing.database
        )
        if reason is not None:
            return Refusal(RefusalKind.MISMATCH, reason)
        if opening.region not in self.serve_stats:
            return Refusal(RefusalKind.UNKNOWN, self._own.membership.told_unknown(opening.region))
        reason = self._own.membership.told_fork(opening.region, opening.membership)
        if reason is not None:
            return Refusal(RefusalKind.MISMATCH, reason)
        linked = self.serves.get(opening.region)
        if linked is not None and not linked.is_over and linked.run_id != opening.run_id:
            # Two nodes that number effects as one region would give the same dots to different
            # ones.  A node that was restarted is let in: its old link ended with its process.
            return Refusal(
                RefusalKind.DUPLICATE,
                f"another node is linked to region {own.region} as region {opening.region}; "
                "stop one of the two, or give it a region number of its own",
            )
        return None

    def hang_up(self, serve: Serve) -> None:
        """End a link whose puller has ended its call."""
        serve.end()
        if self.serves.get(serve.region) is serve:
            del self.serves[serve.region]
            self.pulls[serve.region].peer_pulls = False

    def stop(self) -> None:
        """End all links of peers, as the node stops."""
        for serve in self.serves.values():
            serve.end()

    def _publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> list[RegionId]:
        """Send a publication to every peer that is linked; for the others it is lost.

        Returns:
            The peers that it is sent to.
        """
        publication = Publication(channel, payload, sharded, self._own.replica.issued)
        reached = []
        for peer, stats in self.serve_stats.items():
            serve = self.serves.get(peer)
            if serve is not None and serve.publish(publication):
                reached.append(peer)
            else:
                stats.publications_lost += 1
        return reached

    def _note_listeners(self, kind: Kind, name: bytes) -> None:
        for serve in self.serves.values():
            serve.note_listeners(kind, name)

    def look_for_news(self) -> None:
        """A tick ends: peers are told what they should hear at once, also over quiet links.

        Needed only while a link is quiet, or news of peers are awaited.
        """
        serves = self.serves.values()
        is_any_quiet = False
        for serve in serves:
            if serve.is_quiet:
                serve.look_for_news()
                is_any_quiet = is_any_quiet or serve.is_quiet
        self._own.tick.has_quiet_links = is_any_quiet
        if self._own.database.awaits_news:
            for serve in serves:
                if not serve.told_awaited:
                    serve.told_awaited = True
                    serve.tell_standing()

    # --- Applying -----------------------------------------------------------------------------

    @property
    def heard(self) -> list[RegionId]:
        """Peers that are heard: by the link that pulls from them, or by theirs."""
        return [peer for peer, pull in self.pulls.items() if pull.link.is_up or peer in self.serves]

    @property
    def waiting(self) -> tuple[int, int]:
        """Number of batches that wait in all inboxes, and their bytes."""
        inboxes = [pull.inbox for pull in self.pulls.values()]
        return sum(map(len, inboxes)), sum(inbox.bytes_waiting for inbox in inboxes)

    def apply(self, now: Millis) -> bool:
        """Apply what has arrived, until nothing more can be applied or the time is up.

        Returns:
            True if anything was applied.  ``Tick.may_apply`` says whether there may be more.
        """
        ends = self._clock() + RUN_NS.value
        pulls = self.pulls.values()
        applied: list[tuple[Pull, Millis]] = []
        is_last = False
        while not is_last and self._clock() <= ends:
            before = len(applied)
            for pull in pulls:
                self._apply_ready(pull, applied, now)
            is_last = len(applied) == before
        self._own.tick.may_apply = not is_last
        self.applied += applied
        progressed = {id(pull) for pull, _ in applied}
        for pull in pulls:
            pull.note_room()
            if not len(pull.inbox):
                pull.waits_since = None
            elif pull.waits_since is None or id(pull) in progressed:
                if pull.waits_since is None:
                    # From now on it looks if what is waited for comes.
                    self._own.tick.wake_link(pull)
                pull.waits_since = now
        return bool(applied)

    def _apply_ready(self, pull: Pull, applied: list[tuple[Pull, Millis]], now: Millis) -> None:
        for batch, encoded in pull.inbox.pop_ready():
            # Another link may have brought the same batch a moment ago.
            if not self._own.replica.ready(batch):
                continue
            if self._own.membership.cuts.is_beyond(batch.origin, batch.last_n):
                self._refuse_beyond(batch)
                continue
            if self._own.numbering.is_early(batch.origin, batch.last_n):
                # Its region bids for a new incarnation.  Once that has begun, this batch is dropped
                # or counts; if it never does, a later bid counts this effect.
                pull.inbox.offer(batch, encoded)
                continue
            if self._is_held(batch):
                pull.inbox.offer(batch, encoded)
                continue
            if not self._apply(pull, batch, encoded, now):
                return
            applied.append((pull, batch.issued_ms))

    def _is_held(self, batch: EffectBatch) -> bool:
        """True if a batch has to wait for entries that are on disk, or until a repair ends."""
        own = self._own
        if own.repair.is_beyond(batch):
            return True
        images = own.replica.needs_of(batch)
        if images:
            own.cold.ask_in_background(images)
        return bool(images)

    def _refuse_beyond(self, batch: EffectBatch) -> None:
        """Refuse effects of a removed region that no member had when it was removed: they do not
        count."""
        if batch.origin not in self._beyond_cut:
            self._own.tick.notice(
                "error",
                "effects of a removed region that do not count are refused",
                region=batch.origin,
                first=batch.first_n,
                cut=self._own.membership.cuts.final[batch.origin],
            )
        self._beyond_cut[batch.origin] = self._beyond_cut.get(batch.origin, 0) + batch.count

    def _apply(self, pull: Pull, batch: EffectBatch, encoded: bytes, now: Millis) -> bool:
        replica, members = self._own.replica, self._own.membership.members.newest
        try:
            if members.epoch > replica.members.epoch:
                # This link was opened before these members were known; its peer has split from
                # them.
                check_members(batch, members)
            replica.receive(batch, encoded, now)
        except HistoryError as parting:
            pull.note_apart(parting.difference)
            return False
        except BatchError as error:
            pull.reject(f"batch {batch.origin}:{batch.first_n}: {error}")
            return False
        return True

    def note_merged(self) -> None:
        """Begin all links again after another region's state was merged: what is held here may be
        known now, and what pullers were to be sent may be missing in the log."""
        self.reopen()
        for serve in list(self.serves.values()):
            serve.end()

    # --- What the log says --------------------------------------------------------------------

    def note_left(self, seq: int) -> None:
        """A tick ended: what was applied, if anything, is in records up to ``seq``."""
        self._left.append((seq, self.applied))
        self.applied = []

    def note_logged(self, seq: int, now: Millis) -> None:
        """Note that the log has all up to ``seq``: there may be more to send and to acknowledge."""
        progressed: dict[Pull, None] = {}
        while self._left and self._left[0][0] <= seq:
            for pull, issued_ms in self._left.popleft()[1]:
                pull.stats.lag.note(now - issued_ms)
                progressed[pull] = None
        for pull in progressed:
            pull.note_logged()
        if self.serves:
            self.wake_serves_with_news()

    def wake_serves_with_news(self) -> None:
        """Wake the links that may have something to send by what the log has now.

        A link that rests looks by itself when its rest ends: under load that is for many commits.
        """
        tick = self._own.tick
        for serve in self.serves.values():
            if not serve.is_resting and serve.has_news:
                tick.wake_link(serve)

    def ack_soon(self) -> None:
        """Acknowledge soon what peers sent, as it is durable."""
        for pull in self.pulls.values():
            pull.ack_soon()

    def wake_serves(self) -> None:
        for serve in self.serves.values():
            serve.wake()
