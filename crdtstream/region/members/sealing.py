"""Sealing: a region that is to be removed while its node runs seals itself, so nothing is lost.

           seal                       finish(e)
    open ────────> sealed ────────────────────────────> final ──> removed at epoch e
      ^              │  ^                                 │
      └─ end, lease ─┘  └── epoch e was another change ───┘

    sealed   writes are refused.  Groups whose home it is are handed over to the heir, and what it
             issued is sent to the others.  The region that removes it asks at intervals; if it does
             not for a while, this region is open again
    final    all others durably have all of it, and it issues nothing more: a removal may be
             proposed, for this one epoch.  The region does not go back by itself: the removal may
             be decided whenever a voter finds it, and what was written then would be lost.  Once
             that epoch is another change, no removal can be decided any more, and it goes back

The folder has each state before it is reported, so a restart changes nothing of it.  A partitioned
group has no home: its heir begins the lane at the replicated frontier, as after any removal.

Source: ``rules`` 4, 13; others could outlive a seal, so it is for one epoch.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from crdtstream.commands.beyond_redis.group_modes import set_mode
from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import Mode
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.member_changes import MembersError
from crdtstream.core.membership.encoding import Seal
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.client_table import ClientTable
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.events import Signal
from crdtstream.region.folder_share import FolderShare
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.outstanding import Durable
from crdtstream.region.tick import Tick
from crdtstream.region.write_gate import Cause, WriteGate

# A sealed region is open again if nothing has asked about its seal for this time.
LEASE_MS: Final = Size(30_000, least=10)
# Pause before something that failed is tried again.
RETRY_MS: Final = Size(500, least=1)
# Keys that are looked at in one tick for groups to hand over.
KEYS_A_TICK: Final = Size(500, least=1)


class Sealing:
    """See the module's text.

    Attributes:
        wanted: the seal that the folder is to have; None: none.
        kept: the one that it has.
        trouble: reason why groups cannot be handed over; empty: they can.
    """

    def __init__(
        self,
        replica: Replica,
        tick: Tick,
        clients: ClientTable,
        knowledge: Knowledge,
        durable: Durable,
        gate: WriteGate,
        deadlines: Deadlines,
        *,
        kept: Seal | None,
        share: FolderShare,
    ) -> None:
        """
        Args:
            kept: the seal that the folder has.
            share: the part of the folder that ``wanted`` belongs to.
        """
        self.wanted = self.kept = kept
        self.trouble = ""
        self._replica = replica
        self._tick = tick
        self._clients = clients
        self._knowledge = knowledge
        self._durable = durable
        self._gate = gate
        self._share = share
        # None: the clock is not known yet.
        self._until: Millis | None = None
        self._look_again: Millis | None = None
        self._is_handed_over = False
        self._cursor = 0
        self._found_in_pass = False
        self._is_removed = False
        self._deadline = deadlines.new()
        self._set_deadline()
        gate.refuse(Cause.SEAL, self.obstacle)

    # --- What the remover asks ------------------------------------------------------------------

    def seal(self, heir: RegionId, now: Millis) -> None:
        """Take no writes from here on; called again: continue so."""
        self._until = Millis(now + LEASE_MS.value)
        if self.wanted is None:
            self._begin_pass()
            self._want(Seal(heir))
        self.look(now)

    def finish(self, epoch: int, now: Millis, *, votes_for: int) -> None:
        """Let a removal be proposed for an epoch, if all others have all of this region.

        Args:
            votes_for: the epoch that this region votes for; another one is not to be proposed.
        """
        if self.wanted is None or self.kept is None or not self._is_handed_over:
            return
        if not self._replica.may_issue:
            return
        # All that was acknowledged here is sent before nothing more can be issued.
        self._try(lambda replica, _: replica.issue_frontiers(), now)
        if not self.trouble and votes_for == epoch and self.are_all_level:
            self._want(Seal(self.wanted.heir, epoch))

    def go_on(self, seal: Seal) -> None:
        """Take over the seal that this region had before it lost its folder."""
        self._want(seal)

    def end(self) -> None:
        """Take writes again.

        Raises:
            MembersError: a removal may have been proposed.
        """
        if self.wanted is None:
            return
        if self.wanted.epoch:
            raise MembersError(self._told_final(self.wanted))
        self._want(None)

    # --- What follows ---------------------------------------------------------------------------

    @property
    def are_all_level(self) -> bool:
        """True if all other active regions durably have all that this one issued."""
        issued = self._replica.issued
        return self._durable_issued == issued and not self.lacking

    @property
    def lacking(self) -> dict[RegionId, int]:
        """Number of own effects that each other active region is not known to durably have."""
        issued = self._replica.issued
        has = self._knowledge.others_have()
        return {one: issued - n for one, n in sorted(has.items()) if n < issued}

    @property
    def is_handed_over(self) -> bool:
        """True if no more group was found whose home this region is."""
        return self._is_handed_over

    @property
    def _durable_issued(self) -> int:
        """Number of this region's effects that a power cut cannot take back."""
        return self._durable.durable_vv.get(self._replica.region, 0)

    @property
    def obstacle(self) -> str | None:
        """Reason why clients' writes are refused; None: not because of a seal."""
        seal = self.wanted or self.kept
        if seal is None:
            return None
        if seal.epoch:
            return self._told_final(seal)
        return (
            f"region {self._replica.region} is sealed: it is being removed (`crdtstream crdb"
            " remove-instance`), and takes writes again if that is not gone on with; write in"
            " another region"
        )

    @property
    def is_final(self) -> bool:
        """True if nothing at all may be issued, as a removal may be decided any time."""
        return self.wanted is not None and self.wanted.epoch > 0

    def _told_final(self, seal: Seal) -> str:
        region = self._replica.region
        return (
            f"region {region} is sealed: its removal as epoch {seal.epoch} may be decided any time."
            f" Run `crdtstream crdb remove-instance --instance-id {region}` again in another"
            " region; any other change that is decided instead, as a new name with `crdtstream"
            " crdb update`, has it take writes again"
        )

    # --- Going on -------------------------------------------------------------------------------

    def note_kept(self, seal: Seal | None, now: Millis) -> None:
        """Note that the folder has it."""
        if seal == self.kept:
            return
        self.kept = seal
        self._refuse_or_accept()
        self.look(now)

    def note_epoch(self, votes_for: int, now: Millis) -> None:
        """Note that epochs before this one are decided: no removal can be for one of them now."""
        if self.wanted is not None and 0 < self.wanted.epoch < votes_for:
            self._until = Millis(now + LEASE_MS.value)
            self._want(Seal(self.wanted.heir))

    def note_removed(self) -> None:
        """Note that this region is removed: its seal needs no end any more."""
        self._is_removed = True
        self._set_deadline()

    def look(self, now: Millis) -> None:
        """Hand over some groups; or take writes again, if nothing asks any more."""
        self._hand_over_or_end(now)
        self._set_deadline()

    def _hand_over_or_end(self, now: Millis) -> None:
        self._look_again = None
        if self.wanted is None:
            return
        latest = Millis(now + LEASE_MS.value)
        # If the clock was set back, it is not sealed for longer by that.
        self._until = latest if self._until is None else min(self._until, latest)
        if self.wanted.epoch:
            return
        if now >= self._until:
            self._want(None)
        elif self.kept is not None and self._replica.may_issue and not self._is_handed_over:
            self._hand_over_some(now)

    def _set_deadline(self) -> None:
        """Have ``look`` called when it is time."""
        if self._is_removed or self.wanted is None or self.wanted.epoch:
            self._deadline.set(None)
        elif self._until is None:
            # The node has just started.
            self._deadline.set(Millis(0))
        elif self._look_again is None:
            self._deadline.set(self._until)
        else:
            self._deadline.set(min(self._until, self._look_again))

    def _want(self, seal: Seal | None) -> None:
        self._tick.notice("info", _told(seal))
        self.wanted = seal
        self._set_deadline()
        self._share.note_changed()
        self._refuse_or_accept()

    def _refuse_or_accept(self) -> None:
        # A final seal is a reason to issue nothing at all.
        self._tick.post(Signal.REASONS)
        self._gate.refuse(Cause.SEAL, self.obstacle)

    def _begin_pass(self) -> None:
        self._is_handed_over = False
        self._cursor, self._found_in_pass = 0, False

    def _hand_over_some(self, now: Millis) -> None:
        """Hand over groups of the next keys; done after a pass that finds none."""
        assert self.wanted is not None
        heir = self.wanted.heir
        cursor, keys = self._replica.keys.scan_held(self._cursor, KEYS_A_TICK.value)
        for key, name in homes(self._replica, keys):
            self._found_in_pass = True
            argv = [b"CRDT.XGROUP", b"SETMODE", key, name, b"HOME", b"%d" % heir]
            self._try(partial(set_mode, argv=argv), now)
            if self.trouble:
                self._look_again = Millis(now + RETRY_MS.value)
                return
        self._cursor = cursor
        if cursor:
            self._look_again = now
        elif self._found_in_pass:
            self._found_in_pass = False
            self._look_again = now
        else:
            self._is_handed_over = True

    def _try(self, change: Callable[[Replica, Millis], object], now: Millis) -> None:
        self.trouble = ""
        try:
            self._clients.change_anyway(change, now)
        except (CommandError, UnreadableError) as error:
            self.trouble = str(error)


def _told(seal: Seal | None) -> str:
    if seal is None:
        return "this region is not sealed any more"
    if seal.epoch:
        return "this region is sealed for its removal, which may be decided any time"
    return "this region is sealed: it is being removed"


def homes(replica: Replica, keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The groups of these keys whose home this region is: key and name."""
    for key in keys:
        stream = replica.stream(key)
        if stream is None:
            continue
        for name, group in sorted(stream.groups.items()):
            if group.mode.mode is Mode.HOME and group.home == replica.region:
                yield key, name
