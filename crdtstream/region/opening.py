"""Opening the region for writes: ``readiness.py`` decides, the folder has to follow.

Then ``catching_up.py``: a region that may issue effects takes no writes while it is behind.

After news of a peer, the readiness is told, then ``look`` is called.  Three things must be in the
folder before they are reported to anything outside, one after the other:

    Revoke          the folder lost something, so the next start must not take it for proven
    StoreIdentity   which database this is
    Confirm         the node goes on with this folder: from here on it issues effects.  Before that
                    ``numbering.py`` begins a new incarnation
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Incarnations
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.replica import Replica
from crdtstream.core.uid import shown_uid
from crdtstream.region.beginning import GOES_ON
from crdtstream.region.catching_up import CatchingUp
from crdtstream.region.events import Signal
from crdtstream.region.histories import Compared
from crdtstream.region.members.membership import Membership
from crdtstream.region.numbering import Numbering
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.peer_runs import PeerRuns
from crdtstream.region.readiness import Answer, DatabaseIdentity, Readiness
from crdtstream.region.ready import Confirm, Revoke, StoreIdentity
from crdtstream.region.tick import Tick
from crdtstream.region.write_gate import Cause, WriteGate


@dataclass(frozen=True, slots=True)
class FolderState:
    """State of a region's folder, as it says itself when its node starts.

    Attributes:
        is_proven: nothing of its log was lost, and it is the one that was last open here.
        is_same: it is that one, though the end of its log may be lost: what was synced is in it.
        database: the database that it belongs to, if it knows.
        membership: what it keeps of the members.
        incarnations: the folders that numbered the effects of the regions.
    """

    is_proven: bool = False
    is_same: bool = False
    database: DatabaseIdentity = field(default_factory=DatabaseIdentity)
    membership: Kept = field(default_factory=Kept)
    incarnations: Incarnations = field(default_factory=Incarnations)


OpeningChange: TypeAlias = Revoke | StoreIdentity | Confirm


class Opening:
    """Keeps replica and folder in step with what the readiness says.

    Attributes:
        readiness: report to it what peers say, then call ``look``.
        numbering: which incarnation begins here, and whether another folder goes on.
        peer_runs: the regions whose effects are held.
        catching_up: whether it is behind since it started.
        database: the identity as the folder has it; this one is sent to peers and programs.
        obstacle: reason why this region takes no writes; None if it does.
        issued_before: number of effects that this region had issued when it was last ready to issue
            more: earlier runs may have sent any of them.
    """

    def __init__(
        self,
        replica: Replica,
        outstanding: Outstanding,
        tick: Tick,
        gate: WriteGate,
        readiness: Readiness,
        *,
        stored: DatabaseIdentity,
        numbering: Numbering,
        membership: Membership,
        compared: Compared,
        peer_runs: PeerRuns,
        catching_up: CatchingUp,
    ) -> None:
        self.readiness = readiness
        self.numbering = numbering
        self.peer_runs = peer_runs
        self.catching_up = catching_up
        self.database = DatabaseIdentity()
        self.obstacle: str | None = None
        self.issued_before = replica.issued
        self._membership = membership
        self._compared = compared
        self._gate = gate
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
        """Note why ``peer`` cannot send what lacks here, as it cut that; empty: it can."""
        self._cut_off[peer] = reason
        self._tell_cut_off()

    def forget(self, peer: RegionId) -> None:
        """Forget a region that is no peer any more."""
        self.peer_runs.forget(peer)
        self._cut_off.pop(peer, None)
        self._tell_cut_off()

    def _tell_cut_off(self) -> None:
        reasons = [why for _, why in sorted(self._cut_off.items()) if why]
        told = f"{'; '.join(dict.fromkeys(reasons))}. {GOES_ON}" if reasons else ""
        self.readiness.cut_off = self.catching_up.cut_off = told

    def note_answer(self, peer: RegionId, answer: Answer) -> None:
        """Note a peer's answer; see ``Readiness.note_answer``."""
        if self.readiness.note_answer(peer, answer):
            self._ask_again_after_loss(peer)

    def note_earlier_folder(self, peer: RegionId) -> None:
        """Note a peer that answered from a folder in which its region does not go on."""
        self.readiness.forget_answer(peer)

    def note_standing(self, peer: RegionId, answer: Answer) -> None:
        """Note what a peer that was not asked has, as it says when it takes this region in."""
        if self.readiness.note_loss(peer, answer):
            self._ask_again_after_loss(peer)

    def _ask_again_after_loss(self, peer: RegionId) -> None:
        self._tick.notice(
            "warning", "a peer has lost effects of this region: all are asked again", peer=peer
        )
        self._tick.post(Signal.ASKING)

    def look(self) -> None:
        """Accept or refuse writes, after something was heard from a peer, or logged."""
        if self.readiness.recover_if_behind(self._replica.issued):
            self._tick.notice(
                "error", "peers have effects of this region that it lost: it recovers"
            )
            self._must_revoke = True
            self._tick.post(Signal.LOSS)
            self._tick.post(Signal.ASKING)
        has_recovered = self.readiness.has_recovered(self._outstanding.logged_vv)
        if self.readiness.is_recovering and has_recovered:
            self.numbering.bid()
        recovers = self.readiness.obstacle(self._replica.vv) or self.numbering.obstacle
        self._set_obstacle(
            recovers
            or self.catching_up.obstacle
            or self._membership.obstacle
            or self._compared.obstacle,
            # Every node does so at its start: it needs no notice.
            is_usual=recovers is None and self.catching_up.is_asking,
        )
        if self.readiness.is_asking != self._told_asking:
            self._told_asking = self.readiness.is_asking
            self._tick.post(Signal.STANDING)
        if self.folder_change is not None:
            self._tick.want_folder()

    @property
    def missing_effects(self) -> int:
        """Number of effects that lack and for which writes are refused."""
        return 0 if self.catching_up.is_level else self.catching_up.missing

    def note_time(self, now: Millis) -> None:
        """Look if it is level with its peers: effects were applied, or time has passed."""
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
        """Look if something that was lost is in the log again."""
        if self.readiness.is_recovering:
            self.look()

    @property
    def folder_change(self) -> OpeningChange | None:
        """The next thing that the folder is to say; None: it says what it should."""
        readiness = self.readiness
        if self._must_revoke:
            return Revoke()
        if readiness.database is not self.database and readiness.database != self.database:
            return StoreIdentity(readiness.database)
        if not readiness.is_recovering or not self.numbering.has_begun:
            return None
        return Confirm() if readiness.has_recovered(self._outstanding.logged_vv) else None

    def note_folder(self, change: OpeningChange) -> None:
        """Note that the folder says it, durably."""
        match change:
            case Revoke():
                self._must_revoke = False
            case StoreIdentity(database):
                self._use(database)
                self._notice("database", uid=shown_uid(database.uid), declared=database.declared)
            case Confirm():
                # The condition still holds: logged effects are never removed, and a peer that lost
                # some makes the readiness begin again.
                if self.readiness.has_recovered(self._outstanding.logged_vv):
                    self.readiness.finish()
                    self.numbering.finish()
                    self.issued_before = self._replica.issued
                    self._notice("ready", issued=self._replica.issued)
        self.look()
        self._tick.post(Signal.STANDING)

    def _use(self, database: DatabaseIdentity) -> None:
        """Use an identity that the folder has: from here on it is sent to peers and programs."""
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
        self._gate.refuse(Cause.OPENING, reason)

    def _notice(self, text: str, **details: object) -> None:
        self._tick.notice("info", text, **details)
