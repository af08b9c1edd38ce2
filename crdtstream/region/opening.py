"""What opens the region for writes: ``links/readiness.py`` decides, the folder has to follow.

Then ``catching_up.py``: a region that may issue effects takes no writes while it is behind.

Who hears something from a peer tells the readiness and calls ``look``.  Three things must be in
the folder before anybody is told of them, one after the other:

    Revoke          the folder lost something, so the next start must not take it for proven
    StoreIdentity   which database this is
    Confirm         the node goes on with this folder: from here on it issues effects
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.replica import Replica
from crdtstream.core.uid import shown_uid
from crdtstream.region.catching_up import CatchingUp
from crdtstream.region.links.peer_runs import PeerRuns
from crdtstream.region.links.readiness import Answer, DatabaseIdentity, Readiness
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.ready import Confirm, Revoke, StoreIdentity
from crdtstream.region.tick import Tick


@dataclass(frozen=True, slots=True)
class FolderState:
    """What the folder of a region says of itself when its node starts.

    Attributes:
        is_proven: nothing of its log was lost, and it is the one that was last open here.
        is_same: it is that one, though the end of its log may be lost: what was synced is there.
        database: which database it belongs to, if it knows.
        membership: what it keeps of the members.
    """

    is_proven: bool = False
    is_same: bool = False
    database: DatabaseIdentity = field(default_factory=DatabaseIdentity)
    membership: Kept = field(default_factory=Kept)


OpeningChange: TypeAlias = Revoke | StoreIdentity | Confirm


class Opening:
    """Keeps replica and folder in step with what the readiness says.

    Attributes:
        readiness: tell it what peers say, then call ``look``.
        peer_runs: whose effects are held.
        catching_up: whether it is behind since it started.
        database: the identity as the folder has it; what peers and programs are told.
        obstacle: why this region takes no writes; None if it does.
        issued_before: how many effects this region had issued when it was last ready to issue
            more: earlier runs may have sent any of them.
        on_change: called when peers should hear at once of another ``database``, or that all have
            answered this region.
        on_recovering: called when all peers must answer (again), so all links must begin again.
        on_obstacle: called when effects may be issued again, or no longer.
        no_member: why this region may issue nothing as a member; None: it may.
    """

    def __init__(
        self,
        replica: Replica,
        outstanding: Outstanding,
        tick: Tick,
        readiness: Readiness,
        *,
        stored: DatabaseIdentity,
        peer_runs: PeerRuns,
        catching_up: CatchingUp,
    ) -> None:
        self.readiness = readiness
        self.peer_runs = peer_runs
        self.catching_up = catching_up
        self.database = DatabaseIdentity()
        self.obstacle: str | None = None
        self.issued_before = replica.issued
        self.on_change: list[Callable[[], None]] = []
        self.on_recovering: list[Callable[[], None]] = []
        self.on_obstacle: Callable[[], None] = _nobody_asks
        self.no_member: Callable[[], str | None] = lambda: None
        self._replica = replica
        self._outstanding = outstanding
        self._tick = tick
        self._must_revoke = False
        self._told_asking = readiness.is_asking
        self._told_refusal = False
        self._cut_off: dict[RegionId, str] = {}
        if stored.uid:
            self._use(stored)

    @property
    def is_asking(self) -> bool:
        return self.readiness.is_asking

    @property
    def is_recovering(self) -> bool:
        return self.readiness.is_recovering

    def note_cut_off(self, peer: RegionId, reason: str) -> None:
        """``peer`` cannot send what lacks here, as it has cut that from its log; empty: it can."""
        self._cut_off[peer] = reason
        self._tell_cut_off()

    def forget(self, peer: RegionId) -> None:
        """It is no peer any more."""
        self.peer_runs.forget(peer)
        self._cut_off.pop(peer, None)
        self._tell_cut_off()

    def _tell_cut_off(self) -> None:
        told = "; ".join(dict.fromkeys(why for _, why in sorted(self._cut_off.items()) if why))
        self.readiness.cut_off = self.catching_up.cut_off = told

    def note_answer(self, peer: RegionId, answer: Answer) -> None:
        """A peer's answer; see ``Readiness.note_answer``."""
        if self.readiness.note_answer(peer, answer):
            self._ask_again_after_loss(peer)

    def note_standing(self, peer: RegionId, answer: Answer) -> None:
        """What a peer that was not asked has, as it says when it takes this region in."""
        if self.readiness.note_loss(peer, answer):
            self._ask_again_after_loss(peer)

    def _ask_again_after_loss(self, peer: RegionId) -> None:
        self._tick.notice(
            "warning", "a peer has lost effects of this region: all are asked again", peer=peer
        )
        self._ask_again()

    def _ask_again(self) -> None:
        for restart in self.on_recovering:
            restart()

    def look(self) -> None:
        """Something was heard from a peer, or logged: accept or refuse writes by it."""
        if self.readiness.recover_if_behind(self._replica.issued):
            self._tick.notice(
                "error", "peers have effects of this region that it lost: it recovers"
            )
            self._must_revoke = True
            self._ask_again()
        recovers = self.readiness.obstacle(self._replica.vv)
        self._set_obstacle(
            recovers or self.catching_up.obstacle or self.no_member(),
            # Every node does so at its start: nobody has to hear of it.
            is_usual=recovers is None and self.catching_up.is_asking,
        )
        if self.readiness.is_asking != self._told_asking:
            self._told_asking = self.readiness.is_asking
            self._tell()
        if self.folder_change is not None:
            self._tick.open()

    @property
    def missing_effects(self) -> int:
        """How many effects lack for which writes are refused."""
        return 0 if self.catching_up.is_level else self.catching_up.missing

    def note_time(self, now: Millis) -> None:
        """Effects were applied, or time has passed: it may be level with its peers."""
        catching_up = self.catching_up
        if catching_up.is_level:
            return
        if self.readiness.is_recovering:
            catching_up.wait_again(now)
        elif catching_up.look(now):
            if catching_up.gave_up:
                self._tick.notice(
                    "warning",
                    "writes are taken though effects lack that peers had: none has come for long",
                    missing=catching_up.missing,
                )
            self.look()
            self._tick.open()

    def note_logged(self) -> None:
        """Something that was lost may be in the log again."""
        if self.readiness.is_recovering:
            self.look()

    @property
    def folder_change(self) -> OpeningChange | None:
        """What the folder is to say next; None: it says what it should."""
        readiness = self.readiness
        if self._must_revoke:
            return Revoke()
        if readiness.database != self.database:
            return StoreIdentity(readiness.database)
        if readiness.is_recovering and readiness.has_recovered(self._outstanding.logged_vv):
            return Confirm()
        return None

    def note_folder(self, change: OpeningChange) -> None:
        """The folder says it, durably."""
        match change:
            case Revoke():
                self._must_revoke = False
            case StoreIdentity(database):
                self._use(database)
                self._notice("database", uid=shown_uid(database.uid), declared=database.declared)
            case Confirm():
                # What it waited for is still so: logged effects do not go, and a peer that lost
                # some makes the readiness begin again.
                if self.readiness.has_recovered(self._outstanding.logged_vv):
                    self.readiness.finish()
                    self.issued_before = self._replica.issued
                    self._notice("ready", issued=self._replica.issued)
        self.look()
        self._tell()

    def _use(self, database: DatabaseIdentity) -> None:
        """The folder has this identity: peers and programs are told of it from here on."""
        self.database = database
        self._replica.database_uid = database.uid

    def _set_obstacle(self, reason: str | None, *, is_usual: bool) -> None:
        is_refusal = reason is not None and not is_usual
        if is_refusal and not self._told_refusal:
            self._tick.notice("warning", "writes are refused", reason=reason)
        elif reason is None and self.obstacle is not None:
            self._notice("writes are accepted")
        self._told_refusal = is_refusal
        self.obstacle = reason
        self._replica.may_issue = reason is None
        self.on_obstacle()

    def _tell(self) -> None:
        for tell in self.on_change:
            tell()

    def _notice(self, text: str, **details: object) -> None:
        self._tick.notice("info", text, **details)


def _nobody_asks() -> None:
    pass
