"""A region that is to be removed while its node runs: it seals itself, so that nothing is lost.

           seal                       finish(e)
    open ────────> sealed ────────────────────────────> final ──> removed at epoch e
      ^              │  ^                                 │
      └─ end, lease ─┘  └── epoch e was another change ───┘

    sealed   writes are refused.  Groups whose home it is are handed over to the heir, and what it
             issued comes to the others.  Whoever removes it asks now and then; after a while
             without, the region is open again
    final    all others durably have all of it, and it issues nothing more: a removal may be
             proposed, for this one epoch.  The region does not go back by itself: the removal may
             be decided whenever a voter comes upon it, and what was written then would be lost.
             Once that epoch is another change, no removal can be decided any more, and it goes back

The folder has it before anybody is told, so a restart changes nothing of it.  A partitioned group
has no home: its heir begins the lane at the replicated frontier, as after any removal.

Source: ``rules`` 4, 13; a seal that others could outlive is why it is for one epoch.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from crdtstream.commands.beyond_redis.group_modes import set_mode
from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import Mode
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.membership.changes import MembersError
from crdtstream.core.membership.encoding import Seal
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.tick import Tick

# A region that nobody has asked about its seal for so long is open again.
LEASE_MS: Final = Size(30_000, least=10)
# What failed is tried again after so long.
RETRY_MS: Final = Size(500, least=1)
# Keys that are looked at in one tick for groups to hand over.
KEYS_A_TICK: Final = Size(500, least=1)


class Surroundings(Protocol):
    """What a seal asks of its region, and has it do."""

    def others_have(self) -> Mapping[RegionId, int]:
        """Of each other active region how many effects of this one it durably has."""

    def durable_issued(self) -> int:
        """How many of this region's effects a power cut cannot take back."""

    def hand_over(self, change: Callable[[Replica, Millis], object], now: Millis) -> None:
        """Change the replica although writes are refused, and serve who waited for it.

        Raises:
            CommandError: it cannot be.
            UnreadableError: an entry that it needs cannot be read.
        """

    def keep_seal(self) -> None:
        """``wanted`` is another one: the folder is to have it."""

    def refuse_or_accept(self) -> None:
        """Writes may be refused for another reason than before, or taken again."""


class Sealing:
    """See the module's text.

    Attributes:
        wanted: the seal that the folder is to have; None: none.
        kept: the one that it has.
        trouble: why groups cannot be handed over; empty: they can.
    """

    def __init__(
        self, replica: Replica, tick: Tick, region: Surroundings, *, kept: Seal | None
    ) -> None:
        self.wanted = self.kept = kept
        self.trouble = ""
        self._replica = replica
        self._tick = tick
        self._region = region
        # None: the clock is not known yet.
        self._until: Millis | None = None
        self._look_again: Millis | None = None
        self._is_handed_over = False
        self._cursor = 0
        self._found_in_pass = False

    # --- What whoever removes it asks -----------------------------------------------------------

    def seal(self, heir: RegionId, now: Millis) -> None:
        """Take no writes from here on; again: go on doing so."""
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
        # What was acknowledged here leaves before nothing can any more.
        self._try(lambda replica, _: replica.issue_frontiers(), now)
        if not self.trouble and votes_for == epoch and self.are_all_level:
            self._want(Seal(self.wanted.heir, epoch))

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
        """Whether all other active regions durably have all that this one issued."""
        issued = self._replica.issued
        return self._region.durable_issued() == issued and not self.lacking

    @property
    def lacking(self) -> dict[RegionId, int]:
        """How many effects of this region each other active one is not known to durably have."""
        issued = self._replica.issued
        has = self._region.others_have()
        return {one: issued - n for one, n in sorted(has.items()) if n < issued}

    @property
    def is_handed_over(self) -> bool:
        """Whether no group was found any more whose home this region is."""
        return self._is_handed_over

    @property
    def obstacle(self) -> str | None:
        """Why clients' writes are refused; None: not because of a seal."""
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
        """Whether nothing at all may be issued, as a removal may be decided any time."""
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
        """The folder has it."""
        if seal == self.kept:
            return
        self.kept = seal
        self._region.refuse_or_accept()
        self.look(now)

    def note_epoch(self, votes_for: int, now: Millis) -> None:
        """Epochs before this one are decided: no removal can be any more that was for one."""
        if self.wanted is not None and 0 < self.wanted.epoch < votes_for:
            self._until = Millis(now + LEASE_MS.value)
            self._want(Seal(self.wanted.heir))

    def look(self, now: Millis) -> None:
        """Hand over some groups; or take writes again, as nobody asks any more."""
        self._look_again = None
        if self.wanted is None:
            return
        if self._until is None:
            self._until = Millis(now + LEASE_MS.value)
        if self.wanted.epoch:
            return
        if now >= self._until:
            self._want(None)
        elif self.kept is not None and self._replica.may_issue and not self._is_handed_over:
            self._hand_over_some(now)

    @property
    def deadline(self) -> Millis | None:
        """When ``look`` is to be called next."""
        if self.wanted is None or self.wanted.epoch:
            return None
        if self._until is None:
            # The node has just started.
            return Millis(0)
        times = [time for time in (self._until, self._look_again) if time is not None]
        return min(times, default=None)

    def _want(self, seal: Seal | None) -> None:
        self._tick.notice("info", _told(seal))
        self.wanted = seal
        self._region.keep_seal()
        self._region.refuse_or_accept()

    def _begin_pass(self) -> None:
        self._is_handed_over = False
        self._cursor, self._found_in_pass = 0, False

    def _hand_over_some(self, now: Millis) -> None:
        """Go on through the keys; done after a pass that finds nothing."""
        assert self.wanted is not None
        heir = self.wanted.heir
        cursor, keys = self._replica.scan_held_keys(self._cursor, KEYS_A_TICK.value)
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
            self._region.hand_over(change, now)
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
