"""All links of a region: those by which it pulls, and those of its peers to it.

Batches of all pulling links are applied in one place, so that batches that free each other meet.
Each link has an inbox of its own (``rules`` 2).  Links begin and end as peers come and go.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.core.wire.codec import BatchError
from crdtstream.database.listening import Kind
from crdtstream.region.freshness import to_ms
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
from crdtstream.region.peers import Peers, PeersChange

# How long clients wait at most for a run of remote batches; a single batch may take longer.
RUN_NS: Final = Size(4_000_000, least=0)


class Links:
    """The links of one region.

    Attributes:
        pulls: by peer, ascending.
        serves: the links of peers that pull now, by peer.
        serve_stats: what each peer was sent, over all its links.
        may_apply: something arrived that may be applied.
    """

    def __init__(
        self,
        own: OwnSide,
        peers: Peers,
        *,
        now: Millis,
        uniform: Callable[[float, float], float],
        clock: Callable[[], int],
    ) -> None:
        self.pulls: dict[RegionId, Pull] = {}
        self.serves: dict[RegionId, Serve] = {}
        self.serve_stats: dict[RegionId, ServeStats] = {}
        self.may_apply = False
        self._own = own
        self._peers = peers
        self._uniform = uniform
        self._clock = clock
        # By removed region how many effects were refused.
        self._beyond_cut: dict[RegionId, int] = {}
        # By region why its last call was refused: whoever tries again is told of once.
        self._refused: dict[RegionId, str] = {}
        # Applied, by the record that will have them: links hear of it when that is in the log.
        self._applied: list[tuple[Pull, Millis]] = []
        self._left: deque[tuple[int, list[tuple[Pull, Millis]]]] = deque()
        opening = own.opening
        opening.on_change.append(self.tell_standing)
        opening.on_recovering.append(self.reopen)
        own.routes.on_change = self._look_at_routes
        opening.peer_runs.watch([self._note_held])
        for peer in peers.addresses:
            self._begin(peer, now)
        peers.on_change.append(self._follow)

    def _follow(self, change: PeersChange) -> None:
        for peer in change.removed:
            self.pulls.pop(peer).end()
            self.serve_stats.pop(peer)
            serve = self.serves.pop(peer, None)
            if serve is not None:
                serve.end()
            for pull in self.pulls.values():
                # What others relayed of it goes, too; it is asked for again if it is still wanted.
                if peer in pull.origins:
                    pull.reopen()
        for peer in change.moved:
            self.pulls[peer].move(self._peers.addresses[peer], change.now)
        for peer in change.added:
            self._begin(peer, change.now)
        self.pulls = {peer: self.pulls[peer] for peer in self._peers.addresses}
        self.serve_stats = {peer: self.serve_stats[peer] for peer in self._peers.addresses}

    def _begin(self, peer: RegionId, now: Millis) -> None:
        """The links with a peer begin: this region pulls from it, and it may pull from here."""
        own = self._own
        address = self._peers.addresses[peer]
        self.pulls[peer] = Pull(peer, address, own, now=now, uniform=self._uniform)
        self.serve_stats[peer] = ServeStats()
        own.channels.forward = self._publish
        own.channels.on_change = self._note_listeners
        own.channels.forward_bytes_max = PUBLICATION_BYTES_MAX.value

    @property
    def identity(self) -> Identity:
        """Who this region is to peers."""
        return self._own.identity

    def note_sent(self, n: int) -> None:
        """A peer is sent a state with own effects up to ``n``: it may say that it has them."""
        self._own.claims.note_sent(n)

    def tell_standing(self) -> None:
        """Peers are to hear soon how this region stands."""
        for pull in self.pulls.values():
            pull.ack_soon()
        for serve in self.serves.values():
            serve.tell_standing()

    def _note_held(self, origin: RegionId) -> None:
        for pull in self.pulls.values():
            pull.note_held(origin)

    def reopen(self) -> None:
        """All links begin again; what came by them and is not applied is forgotten."""
        for pull in self.pulls.values():
            pull.reopen()

    def _look_at_routes(self) -> None:
        """A link went down or came up: others ask for its origin, some time after."""
        for pull in self.pulls.values():
            self._own.tick.wake_link(pull)

    # --- Peers that pull ----------------------------------------------------------------------

    def accept(self, opening: Open, at: float) -> Serve | Refusal:
        """A peer opens a link; its earlier one is over.

        Of an Open that is refused nothing is learned, and the earlier link goes on.
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
            if reason is not None:
                refusal = Refusal(RefusalKind.MISMATCH, reason)
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
        # Before the Welcome, which is the answer: what is held unapplied goes.
        own.opening.peer_runs.note_start(
            region, opening.run_id, recovering=opening.standing.recovering
        )
        before = self.serves.get(region)
        if before is not None:
            before.end()
        stats = self.serve_stats[region]
        serve = Serve(region, opening.run_id, opening.origins, opening.vv, own, stats, at=at)
        self.serves[region] = serve
        self.pulls[region].peer_pulls = True
        own.lags.note(region, opening.vv, to_ms(at))
        own.retention.note_opened(region, opening.vv)
        own.replication_lag.note_lost(region, opening.vv.get(own.identity.region, 0))
        own.tick.open()
        return serve

    def _refusal(self, opening: Open) -> Refusal | None:
        """Why there can be no link with this puller; None if there can."""
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
        if opening.region not in self.serve_stats:
            return Refusal(RefusalKind.UNKNOWN, self._own.membership.told_unknown(opening.region))
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
        """The puller's call is over."""
        serve.end()
        if self.serves.get(serve.region) is serve:
            del self.serves[serve.region]
            self.pulls[serve.region].peer_pulls = False

    def stop(self) -> None:
        """End all links of peers: the node stops."""
        for serve in self.serves.values():
            serve.end()

    def _publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> list[RegionId]:
        """Send a publication to every peer that is linked; for the others it is lost.

        Returns:
            The peers that it is on its way to.
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
        """A tick ends: peers are told what they should hear at once, also over quiet links."""
        for serve in self.serves.values():
            serve.look_for_news()
        if self._own.is_awaited():
            for serve in self.serves.values():
                if not serve.told_awaited:
                    serve.told_awaited = True
                    serve.tell_standing()

    # --- Applying -----------------------------------------------------------------------------

    @property
    def heard(self) -> list[RegionId]:
        """The peers that are heard: by the link that pulls from them, or by theirs."""
        return [peer for peer, pull in self.pulls.items() if pull.link.is_up or peer in self.serves]

    @property
    def waiting(self) -> tuple[int, int]:
        """How many batches wait in all inboxes, and their bytes."""
        inboxes = [pull.inbox for pull in self.pulls.values()]
        return sum(map(len, inboxes)), sum(inbox.bytes_waiting for inbox in inboxes)

    def apply(self, now: Millis) -> bool:
        """Apply what has arrived, until nothing more can be applied or time is up.

        Returns:
            Whether anything was applied.  ``may_apply`` says whether there may be more.
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
        self.may_apply = not is_last
        self._applied += applied
        progressed = {id(pull) for pull, _ in applied}
        for pull in pulls:
            pull.note_room()
            if not len(pull.inbox):
                pull.waits_since = None
            elif pull.waits_since is None or id(pull) in progressed:
                if pull.waits_since is None:
                    # From now on it looks whether what is waited for comes.
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
            if self._own.is_held(batch, now):
                pull.inbox.offer(batch, encoded)
                continue
            if not self._apply(pull, batch, encoded, now):
                return
            applied.append((pull, batch.issued_ms))

    def _refuse_beyond(self, batch: EffectBatch) -> None:
        """Effects of a removed region that no member had when it was removed do not count."""
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
        try:
            self._own.replica.receive(batch, encoded, now)
        except BatchError as error:
            pull.reject(f"batch {batch.origin}:{batch.first_n}: {error}")
            return False
        return True

    def note_merged(self) -> None:
        """Another region's state was merged: what is held here is perhaps known, and what pullers
        were to be sent is perhaps not in the log.  All links begin again."""
        self.reopen()
        for serve in list(self.serves.values()):
            serve.end()

    # --- What the log says --------------------------------------------------------------------

    def note_left(self, seq: int) -> None:
        """A tick ended: what was applied is in records up to ``seq``."""
        if self._applied:
            self._left.append((seq, self._applied))
            self._applied = []

    def note_logged(self, seq: int, now: Millis) -> None:
        """The log has everything up to ``seq``: there may be more to send and to acknowledge."""
        progressed: dict[Pull, None] = {}
        while self._left and self._left[0][0] <= seq:
            for pull, issued_ms in self._left.popleft()[1]:
                pull.stats.lag.note(now - issued_ms)
                progressed[pull] = None
        for pull in progressed:
            pull.note_logged()
        self.wake_serves_with_news()

    def wake_serves_with_news(self) -> None:
        """Wake the links that may have something to send by what the log has now."""
        for serve in self.serves.values():
            if serve.has_news:
                serve.wake()

    def ack_soon(self) -> None:
        """What peers sent is durable: they are told."""
        for pull in self.pulls.values():
            pull.ack_soon()

    def wake_serves(self) -> None:
        for serve in self.serves.values():
            serve.wake()
