"""Readiness: if this region may issue effects (``rules`` 18), and of which database; without IO.

A dot must never be used twice with different content.  A folder proves by itself that nothing of
its log was lost only if it is the one that was last open here.  A folder that is fresh, copied or
restored proves nothing, and so its node begins by *recovering*:

    opens a link to every peer ──> the peer forgets what it holds unapplied of this region, and
                                   answers: how many of your effects are here, and what I have of
                                   all others
    all have answered          ──> says so, and its effects are taken again; pulls back what they
                                   have of them, and catches up with what they have
    nothing lacks              ──> ready: says so, and issues effects

It catches up because others may have forgotten tombstones, and appends that have names, because an
earlier run of it had said that it knows of them.  They need not keep them any longer:

    R1  has seen XGROUP DESTROY x g, and says so
    R2  forgets the tombstone; it restarts from a checkpoint, and forgets what R1 had said
    R1  is put back to before; if it issued a create of g now, R2 would take it, and R1 would lose
        it to the destroy

What was forgotten is covered by the version vector of the region that forgot it.

All are asked, those that are joining as well: one that has joined so far may have an effect that
this region lost.  A removed region owes no answer, and what it said does not count.

A fresh database gets its identity on the way: when all members have answered, and none knows of
one, the lowest region makes it, and the others take it over.  A region that was declared to begin a
new database makes one at once, without waiting; a region that has effects of an earlier database
under the same name refuses it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join, meet, missing
from crdtstream.core.ids import RegionId
from crdtstream.core.uid import NO_UID, DatabaseUid, shown_uid
from crdtstream.region.peers import Peers, PeersChange

WAY_OUT: Final = (
    "If one of them is gone for good, remove it, in a region that takes writes: `crdtstream crdb "
    "remove-instance --instance-id N --force`"
)


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """Identity of the database that a region belongs to.

    Attributes:
        uid: empty until it is known.
        declared: made by a region that was declared to begin a new database.
    """

    uid: DatabaseUid = NO_UID
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a peer to a region that recovers.

    Attributes:
        own_n: number of the region's effects that the peer has applied.
        vv: what the peer has in its log.
    """

    own_n: int
    vv: VersionVector = field(default_factory=dict)


class Recovery(Protocol):
    """The state of a region that may recover: it has perhaps lost effects, and issues nothing."""

    @property
    def is_recovering(self) -> bool: ...


class Readiness:
    """The way of one node from its start to its first effect.

    Attributes:
        database: the one that this node belongs to, as far as it knows.
        is_recovering: nothing may be issued yet.
        cut_off: the effects that peers cannot send, as they cut them from their logs, and what to
            do; empty: none.

    Args:
        is_proven: its folder is the one that was last open here, and nothing of it was lost.
        has_effects: there are effects in its log.
        make_uid: 16 random bytes.
    """

    def __init__(
        self,
        peers: Peers,
        *,
        database: DatabaseIdentity,
        is_proven: bool,
        has_effects: bool,
        make_uid: Callable[[], DatabaseUid],
    ) -> None:
        self.database = database
        self._region = peers.here
        self._peers = peers
        self.is_recovering = not (is_proven and database.uid)
        self._has_effects = has_effects
        self._make_uid = make_uid
        self._answers: dict[RegionId, Answer] = {}
        self._known: dict[RegionId, int] = {}
        self._duplicate_by_peer: dict[RegionId, str] = {}
        self._refusals: dict[RegionId, str] = {}
        self.cut_off = ""
        self._found_if_all_answered()

    def follow_peers(self, change: PeersChange) -> None:
        for peer in change.removed:
            self._answers.pop(peer, None)
            self._known.pop(peer, None)
            self._duplicate_by_peer.pop(peer, None)
            self._refusals.pop(peer, None)
        self._found_if_all_answered()

    @property
    def is_asking(self) -> bool:
        """True if some peer has not answered yet."""
        return self.is_recovering and bool(self._unanswered)

    # --- What peers say -----------------------------------------------------------------------

    def note_duplicate(self, peer: RegionId, reason: str) -> None:
        """Note that ``peer`` refuses this node: another one is linked to it as the same region."""
        self._duplicate_by_peer[peer] = reason

    def note_welcome(self, peer: RegionId) -> None:
        """Note that ``peer`` takes this node for its region's own."""
        self._duplicate_by_peer.pop(peer, None)
        self._refusals.pop(peer, None)

    def note_answer(self, peer: RegionId, answer: Answer) -> bool:
        """Note the answer of ``peer``, which has dropped what it held unapplied of this region.

        Returns:
            True if all must answer again: this peer has lost something that it had answered for,
            and others may have had it from there since they answered.
        """
        before = self._answers.get(peer)
        is_lower = before is not None and answer.own_n < before.own_n
        if is_lower:
            self._answers.clear()
            self._known.clear()
        self._answers[peer] = answer
        self._known[peer] = answer.own_n
        self._found_if_all_answered()
        return is_lower

    def note_loss(self, peer: RegionId, answer: Answer) -> bool:
        """Note what ``peer`` has, which started again and was not asked.

        It may have answered for effects that were not durable with it, and lost them: a wait for
        those would never end.

        Returns:
            True if all must answer again, as it has fewer of this region's effects.
        """
        before = self._answers.get(peer)
        if not self.is_recovering or before is None:
            return False
        if answer.own_n >= before.own_n:
            self._answers[peer] = Answer(before.own_n, meet([before.vv, answer.vv]))
            return False
        self._answers.clear()
        self._known.clear()
        return True

    def forget_answer(self, peer: RegionId) -> None:
        """Forget what ``peer`` said, as it does not speak for its region: it must answer again."""
        if self.is_recovering:
            self._answers.pop(peer, None)
            self._known.pop(peer, None)

    def note_known(self, peer: RegionId, n: int) -> None:
        """Note that ``peer`` has ``n`` effects of this region."""
        self._known[peer] = max(self._known.get(peer, 0), n)

    def note_database(self, peer: RegionId, theirs: DatabaseIdentity) -> str | None:
        """Note the database that ``peer`` belongs to.

        Returns:
            Reason why there can be no link with it; None if there can.
        """
        reason = self.wrong_database(peer, theirs)
        if reason is None and theirs.uid and not self.database.uid:
            self.database = theirs
        return reason

    def wrong_database(self, peer: RegionId, theirs: DatabaseIdentity) -> str | None:
        """Reason why there can be no link with a node of this database; None if there can.

        Nothing is noted: the node may be one that an address leads to by mistake.
        """
        own = self.database
        if not theirs.uid or theirs.uid == own.uid:
            return None
        if own.uid:
            return (
                f"region {self._region} belongs to database {shown_uid(own.uid)}, region {peer} to "
                f"{shown_uid(theirs.uid)}, which was set up on its own: correct the address, or "
                "start the one that is to join with an empty folder and without --new-database"
            )
        if theirs.declared and self._has_effects:
            return (
                f"region {peer} was declared to begin a new database, {shown_uid(theirs.uid)}; the "
                f"folder of region {self._region} holds effects of an earlier one. Start the two "
                "that belong together, or begin here with an empty folder"
            )
        return None

    def note_refusal(self, peer: RegionId, reason: str) -> None:
        """Note that ``peer`` wants no link with this node."""
        self._refusals[peer] = reason

    def _found_if_all_answered(self) -> None:
        """Make the database's identity, if that falls to this region."""
        is_lowest = all(self._region < peer for peer in self._peers.addresses)
        if not self.database.uid and is_lowest and not self._unanswered:
            self.database = DatabaseIdentity(self._make_uid())

    # --- What follows -------------------------------------------------------------------------

    def recover_if_behind(self, issued: int) -> bool:
        """Begin to recover if a peer has more of this region's effects than it has itself.

        Then its folder is not what it seemed to be: all must answer again.  Returns True if it
        begins now.
        """
        if self.is_recovering or not self.are_lost(issued):
            return False
        self.is_recovering = True
        self._answers.clear()
        return True

    def are_lost(self, issued: int) -> bool:
        """True if a peer has more of this region's effects than it has itself."""
        return self._known_n > issued

    @property
    def _known_n(self) -> int:
        """Number of this region's effects that are known to be in any other region."""
        return max(self._known.values(), default=0)

    def has_recovered(self, vv: VersionVector) -> bool:
        """True if all have answered, and nothing that they reported lacks here."""
        return (
            bool(self.database.uid)
            and not self._unanswered
            and not self.are_lost(vv.get(self._region, 0))
            and covers(vv, self._owed_vv())
        )

    def finish(self) -> None:
        """Finish: it recovered, and the folder says so: from here on effects may be issued."""
        self.is_recovering = False

    @property
    def _unanswered(self) -> frozenset[RegionId]:
        return frozenset(self._peers.addresses.keys() - self._answers.keys())

    def _owed_vv(self) -> VersionVector:
        """Version vector of others' effects that its peers had when they answered."""
        owed: MutableVersionVector = {}
        for answer in self._answers.values():
            join(owed, answer.vv)
        owed.pop(self._region, None)
        return owed

    def obstacle(self, vv: VersionVector) -> str | None:
        """Reason why nothing may be issued now; None if it may."""
        for reason in self._duplicate_by_peer.values():
            return reason
        if not self.is_recovering:
            return None
        region, issued = self._region, vv.get(self._region, 0)
        if self._unanswered:
            waits_for = ", ".join(str(peer) for peer in sorted(self._unanswered))
            begins = not (self._has_effects or self.database.uid or vv)
            begin = (
                "; to begin a new database without them, start one region with --new-database"
                if begins
                else ""
            )
            refused = "".join(
                f" Region {peer} refuses it: {reason}."
                for peer, reason in sorted(self._refusals.items())
                if peer in self._unanswered
            )
            unreachable = [
                one for one in sorted(self._unanswered) if not self._peers.addresses[one]
            ]
            if unreachable:
                refused += (
                    f" Its file has no address of region {', '.join(map(str, unreachable))}: add"
                    " that to [[peers]], and restart the node."
                )
            return (
                f"the folder of region {region} is fresh, copied or restored, or its end may be "
                f"lost: before it issues effects, every member must say which of them it has. It "
                f"waits for region {waits_for}{begin}.{refused} {WAY_OUT}"
            )
        if self.are_lost(issued):
            return (
                f"region {region} has lost effects that its peers have (it has {issued} of "
                f"{self._known_n}) and "
                + (
                    f"cannot pull them back: {self.cut_off}"
                    if self.cut_off
                    else "is pulling them back; try again in a moment"
                )
            )
        if not self.database.uid:
            lowest = min(self._peers.addresses)
            return f"region {region} waits for region {lowest} to name the database"
        if not self.has_recovered(vv):
            count = missing(vv, self._owed_vv())
            lacks = f"region {region} lacks {count} effects that its peers have"
            if self.cut_off:
                return f"{lacks} and cannot pull them: {self.cut_off}"
            return f"{lacks} and is pulling them; try again in a moment. {WAY_OUT}"
        return f"region {region} begins; try again in a moment"
