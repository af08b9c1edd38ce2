"""The members of a database: a value that each decided change takes to the next epoch.

    epoch   1 ──Add 4──> 2 ──Activate 4──> 3 ──Remove 2──> 4 …
    hash    h1           h2                h3              h4

    h(1) = SHA-256(the numbers of the regions)
    h(e+1) = SHA-256(h(e), bytes of the change)

Epoch 1 is the file: the regions that a node's file names, by their numbers alone (``genesis``).  It
is not decided.  Regions whose files name others have another h1: they are of two histories from the
beginning, and neither links nor counts a vote for the other's.

Later epochs are a line, as any two changes have a voter in common (``deciding.py``).  The hash says
of which line: of two members one has the other's history as its beginning, or one went on without a
majority, and the two never meet again (:func:`compare`).

Always so:
  * A number is given once, for the life of the database: dots and IDs of entries name it.
  * At least one region is active from epoch 1 on.
  * ``cut`` is local knowledge (``region_cut.py``), and so is which effects reported a change.
    Neither is hashed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256
from typing import Final, assert_never

from crdtstream.core.clock import Dot
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.member_changes import (
    HASH_BYTES,
    Activate,
    Add,
    Change,
    Contact,
    JoinToken,
    MembersError,
    Removal,
    Remove,
    Revoke,
    Update,
    encode_change,
)
from crdtstream.core.membership.revoked import Revoked, goes_on, with_revoked

NO_HASH: Final = bytes(HASH_BYTES)
# Beyond it the history, which each member has whole, would take too long to send: 2 MiB.
EPOCHS_MAX: Final = 1 << 16


class ForkError(MembersError):
    """Two histories that differ; the text has both lists of members."""


class Status(Enum):
    """Stages of a region's life as a member."""

    JOINING = "joining"
    ACTIVE = "active"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Member:
    """One region, also one that was removed.

    Attributes:
        instance: the uid of its folder; empty while it joins, and of a region of epoch 1.
        added, changed: the epochs of its first and its last change.
        token: of a joining region.
        heir: of a removed one, as it was named; see ``Members.heir_of``.
        cut: of a removed one, how many of its effects count; None until that is known here.
    """

    region: RegionId
    status: Status
    instance: bytes
    contact: Contact
    added: int
    changed: int
    token: JoinToken | None = None
    heir: RegionId | None = None
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One epoch of the history.

    Attributes:
        hash: of the history up to this change.
        dot: the smallest dot of the effects that reported it here; None: none has yet.
    """

    hash: bytes
    dot: Dot | None = None


@dataclass(frozen=True, slots=True)
class Members:
    """See the module's text.

    Attributes:
        regions: every region there ever was, ascending.
        history: one step for each epoch.
        drawn_above: once a change was made without a majority, the highest number of that time:
            another part may have gone on as well, so new numbers are drawn above it, and are not
            the next ones.  0: no such change was made.
        revoked: certificates that all regions refuse, by ascending serial numbers.
    """

    regions: tuple[Member, ...] = ()
    history: tuple[Step, ...] = ()
    drawn_above: int = 0
    revoked: tuple[Revoked, ...] = ()

    # --- History ------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """0: a replica that has no region yet, and knows no members."""
        return len(self.history)

    @property
    def hash(self) -> bytes:
        return self.hash_at(self.epoch)

    def hash_at(self, epoch: int) -> bytes:
        return self.history[epoch - 1].hash if epoch else NO_HASH

    def dot_of(self, region: RegionId) -> Dot | None:
        """The effect that reported a region's last change; None if none was applied here."""
        member = self.find(region)
        return None if member is None else self.history[member.changed - 1].dot

    def added_by(self, region: RegionId) -> Dot | None:
        """The effect that added a region; from its context on the region counts (``rules`` 4)."""
        member = self.find(region)
        return None if member is None else self.history[member.added - 1].dot

    # --- Views --------------------------------------------------------------------------------

    def find(self, region: RegionId) -> Member | None:
        return next((one for one in self.regions if one.region == region), None)

    def of_status(self, *statuses: Status) -> tuple[RegionId, ...]:
        return tuple(one.region for one in self.regions if one.status in statuses)

    @property
    def active(self) -> tuple[RegionId, ...]:
        return self.of_status(Status.ACTIVE)

    @property
    def voters(self) -> tuple[RegionId, ...]:
        """More than half of them decide a change."""
        return self.active

    @property
    def remaining(self) -> tuple[RegionId, ...]:
        """All that are not removed."""
        return self.of_status(Status.JOINING, Status.ACTIVE)

    @property
    def removed(self) -> tuple[RegionId, ...]:
        return self.of_status(Status.REMOVED)

    def heir_of(self, region: RegionId) -> RegionId | None:
        """The active region that has inherited from a removed one; None of one that is none.

        An heir may be removed as well, and has one then: each was active when it was named, so the
        way ends.
        """
        member = self.find(region)
        if member is None or member.heir is None:
            return None
        while member is not None and member.heir is not None:
            member = self.find(member.heir)
        return None if member is None else member.region

    # --- Numbers ------------------------------------------------------------------------------

    @property
    def numbers_left(self) -> int:
        """Number of regions that can still be added, ever."""
        return len(self._free_numbers())

    def next_number(self, draw: int = 0) -> RegionId:
        """The number of the next region to be added.

        Args:
            draw: a random number.  It matters only after a change without a majority.

        Raises:
            MembersError: all numbers were given.
        """
        free = self._free_numbers()
        if not free:
            raise MembersError(
                f"all numbers up to {REGION_MAX} were given, and none is given again; set up a new"
                " database and copy the streams there"
            )
        return RegionId(free[draw % len(free)] if self.drawn_above else free[0])

    def _free_numbers(self) -> list[int]:
        used = {one.region for one in self.regions}
        if self.drawn_above:
            above = range(self.drawn_above + 1, REGION_MAX + 1)
            return [number for number in above if number not in used]
        return list(range(max(used, default=0) + 1, REGION_MAX + 1))

    # --- For people ---------------------------------------------------------------------------

    def listed(self) -> str:
        """One line: ``epoch 3 (5f1c…): 1 eu active, 2 us removed with heir 1``."""
        shown = ", ".join(map(_listed, self.regions)) or "nobody"
        return f"epoch {self.epoch} ({self.hash[:4].hex()}): {shown}"

    # --- Local knowledge ----------------------------------------------------------------------

    def with_cut(self, region: RegionId, n: int | None) -> "Members":
        """A removed region's cut became known, or final; None: it is not known."""
        member = self.find(region)
        assert member is not None
        assert member.status is Status.REMOVED
        assert n is None or n >= 0
        return self._with(replace(member, cut=n))

    def with_dot(self, epoch: int, dot: Dot) -> "Members":
        """One more effect reported an epoch.  Several regions may issue it: the smallest dot
        stands, whatever the order in which they come (I1)."""
        step = self.history[epoch - 1]
        if step.dot is not None and step.dot <= dot:
            return self
        history = (*self.history[: epoch - 1], Step(step.hash, dot), *self.history[epoch:])
        return replace(self, history=history)

    def _with(self, member: Member) -> "Members":
        others = [one for one in self.regions if one.region != member.region]
        regions = sorted([*others, member], key=lambda one: one.region)
        assert (member.status is Status.REMOVED) is (member.heir is not None)
        return replace(self, regions=tuple(regions))


def _listed(member: Member) -> str:
    heir = "" if member.heir is None else f" with heir {member.heir}"
    return f"{member.region} {member.contact.name} {member.status.value}{heir}"


# --- Applying changes ---------------------------------------------------------------------------


def genesis(regions: Iterable[RegionId]) -> Members:
    """Epoch 1 of the regions that a node's file names, its own among them."""
    numbers = sorted(set(regions))
    assert numbers, "a file names at least its own region"
    founders = tuple(
        Member(one, Status.ACTIVE, b"", Contact(f"region-{one}", ""), added=1, changed=1)
        for one in numbers
    )
    named = "regions " + ",".join(map(str, numbers))
    return Members(founders, (Step(sha256(named.encode()).digest()),))


def beginning_of(members: Members) -> Members:
    """Epoch 1 of a history, from which its effects lead on; epoch 0 of one that has none."""
    founders = [one.region for one in members.regions if one.added == 1]
    return genesis(founders) if founders else Members()


def chain(previous: bytes, change: Change) -> bytes:
    """The hash of a history that continues with a change."""
    return sha256(previous + encode_change(change)).digest()


def apply(members: Members, change: Change, dot: Dot | None = None) -> Members:
    """The members of the next epoch.

    Args:
        dot: of the effect that reported it.

    Raises:
        MembersError: the change does not follow; nothing has changed.
    """
    if not members.epoch:
        raise MembersError("no members are known yet, so nothing can change them")
    if members.epoch >= EPOCHS_MAX:
        raise MembersError(f"{EPOCHS_MAX} changes were made, more than a history can hold")
    after = _applied(members, change, members.epoch + 1)
    step = Step(chain(members.hash, change), dot)
    assert after.active, "at least one region is active"
    return replace(after, history=(*members.history, step))


def follow(
    members: Members, epoch: int, previous: bytes, change: Change, dot: Dot | None = None
) -> Members:
    """Apply what an effect reports: the change of an epoch, behind a history of that hash.

    A change that is known already changes nothing: any region that knows a decision may issue it,
    and effects of equal epoch and hash are one.

    Raises:
        ForkError: another change was decided for this epoch here.
        MembersError: it is of an epoch that does not follow.
    """
    if not 2 <= epoch <= members.epoch + 1:
        raise MembersError(f"epoch {epoch} does not follow epoch {members.epoch}")
    if members.hash_at(epoch - 1) != previous:
        raise ForkError(f"epoch {epoch} is of another history than {members.listed()}")
    if epoch > members.epoch:
        return apply(members, change, dot)
    if members.hash_at(epoch) != chain(previous, change):
        raise ForkError(
            f"epoch {epoch} was decided twice, also as {change}; here is {members.listed()}"
        )
    return members if dot is None else members.with_dot(epoch, dot)


def change_behind(members: Members, known: Members) -> Change | None:
    """The change that leads from these members to newer ones, as the newer ones show it.

    The hash proves it.  None: they are not newer, or not of this history; or a later change has
    hidden it, as a second address does the first one.
    """
    epoch = members.epoch + 1
    if known.epoch < epoch or known.hash_at(members.epoch) != members.hash:
        return None
    return change_at(known, epoch)


def change_at(known: Members, epoch: int) -> Change | None:
    """The change of an epoch, as the members show it; None: a later one has hidden it."""
    changes = _changes_at(known, epoch)
    return next((one for one in changes if is_change_at(known, epoch, one)), None)


def is_change_at(known: Members, epoch: int, change: Change) -> bool:
    """True if the hash proves that the epoch has this change."""
    return chain(known.hash_at(epoch - 1), change) == known.hash_at(epoch)


def _changes_at(known: Members, epoch: int) -> Iterator[Change]:
    """Changes that may have been made at an epoch, by what the regions are since."""
    for one in known.regions:
        if one.added == epoch and one.token is not None:
            yield Add(one.region, one.contact, one.token)
        if one.changed == epoch:
            yield Update(one.region, one.contact)
            if one.instance:
                yield Activate(one.region, one.instance)
            if one.heir is not None:
                for how in Removal:
                    yield Remove(one.region, one.heir, how)
    for revoked in known.revoked:
        if revoked.epoch == epoch:
            yield revoked.change


def _applied(members: Members, change: Change, epoch: int) -> Members:
    match change:
        case Add(region, contact, token):
            _check_number(members, region)
            _check_free(members, region, contact)
            joining = Member(region, Status.JOINING, b"", contact, epoch, epoch, token)
            return members._with(joining)
        case Activate(region, instance):
            member = _known(members, region, Status.JOINING)
            member = replace(
                member, status=Status.ACTIVE, instance=instance, changed=epoch, token=None
            )
            members = members._with(member)
            _check_instances(members)
            return members
        case Update(region, contact):
            member = _known(members, region, Status.JOINING, Status.ACTIVE)
            if member.contact == contact:
                raise MembersError(f"region {region} has this name and these addresses already")
            _check_free(members, region, contact)
            return members._with(replace(member, contact=contact, changed=epoch))
        case Remove(region, heir, how):
            member = _known(members, region, Status.JOINING, Status.ACTIVE)
            if members.active == (region,):
                raise MembersError(f"region {region} is the last active one; it cannot be removed")
            _known(members, heir, Status.ACTIVE)
            member = replace(member, status=Status.REMOVED, heir=heir, changed=epoch, token=None)
            if how is Removal.WITHOUT_MAJORITY and not members.drawn_above:
                highest = max(one.region for one in members.regions)
                members = replace(members, drawn_above=highest)
            return members._with(member)
        case Revoke():
            return replace(members, revoked=with_revoked(members.revoked, change, epoch))
        case _:
            assert_never(change)


def _known(members: Members, region: RegionId, *statuses: Status) -> Member:
    member = members.find(region)
    if member is None:
        raise MembersError(f"there is no region {region}; {members.listed()}")
    if member.status not in statuses:
        wanted = " or ".join(status.value for status in statuses)
        raise MembersError(
            f"region {region} is {member.status.value}, not {wanted}; {members.listed()}"
        )
    return member


def _check_number(members: Members, region: RegionId) -> None:
    """A number is never given again: its dots and IDs name what the first one wrote."""
    free = members._free_numbers()
    if members.find(region) is not None:
        raise MembersError(f"region {region} was a member before; a number is never given again")
    if region not in (free if members.drawn_above else free[:1]):
        raise MembersError(
            f"region {region} is not the next number, which is {members.next_number()}"
        )


def _check_free(members: Members, region: RegionId, contact: Contact) -> None:
    """Check that no other region that remains has its name, or one of its addresses."""
    if len(set(contact.addresses)) != len(contact.addresses):
        raise MembersError(f"region {region}: one address is named twice; each has its own port")
    for one in members.regions:
        if one.region == region or one.status is Status.REMOVED:
            continue
        if one.contact.name == contact.name:
            raise MembersError(f"region {one.region} has the name {contact.name!r}; take another")
        for address in contact.addresses:
            if address in one.contact.addresses:
                raise MembersError(f"region {one.region} has the address {address}; take another")


def _check_instances(members: Members) -> None:
    """A folder is one region: a copy under a second number would have the first one's log."""
    instances = [one.instance for one in members.regions if one.instance]
    if len(set(instances)) != len(instances):
        raise MembersError("one folder is named as two regions; a copied folder cannot join")


# --- Comparing histories ------------------------------------------------------------------------


class Relation(Enum):
    """Relation of the history here to another one."""

    EQUAL = "equal"
    # The other one goes on where this one ends.
    BEHIND = "behind"
    AHEAD = "ahead"
    FORK = "fork"


def compare(mine: Members, other: Members) -> Relation:
    """Relation of two histories.  One hash of each is enough, as hashes form a chain."""
    common = min(mine.epoch, other.epoch)
    if mine.hash_at(common) != other.hash_at(common):
        return Relation.FORK
    if mine.epoch == other.epoch:
        return Relation.EQUAL
    return Relation.BEHIND if mine.epoch < other.epoch else Relation.AHEAD


def joined(mine: Members, other: Members) -> Members:
    """Members that both know: the longer history, and of each epoch the smallest dot.

    Raises:
        ForkError: they are not of one line.
    """
    members = newest(mine, [other])
    for epoch, (step, told) in enumerate(zip(mine.history, other.history, strict=False), 1):
        for dot in (step.dot, told.dot):
            if dot is not None:
                members = members.with_dot(epoch, dot)
    return members


def _check_goes_on(mine: Members, other: Members) -> None:
    """See that the regions of a longer history can have become of those here: hashes do not say.

    Raises:
        ForkError: they cannot.
    """
    there = {one.region: one for one in other.regions}
    wrong = [
        one.region for one in mine.regions if not _goes_on(one, there.pop(one.region, None), mine)
    ]
    wrong += [one.region for one in there.values() if one.added <= mine.epoch]
    if wrong or not goes_on(mine.revoked, other.revoked, mine.epoch):
        what = f"region {wrong[0]}" if wrong else "the list of revoked certificates"
        raise ForkError(
            f"{what} cannot have become what it is told to be. Here is {mine.listed()}."
            f" There is {other.listed()}. See that all nodes run the same version, and that nothing"
            " but the members can reach their gRPC ports"
        )


def _goes_on(before: Member, after: Member | None, mine: Members) -> bool:
    if after is None or after.added != before.added:
        return False
    if after.changed <= mine.epoch:
        return replace(after, cut=before.cut) == before
    is_left = before.status is not Status.REMOVED
    is_same = before.status is Status.JOINING or after.instance == before.instance
    return is_left and is_same and (before.status, after.status) != (Status.ACTIVE, Status.JOINING)


def newest(mine: Members, others: Iterable[Members]) -> Members:
    """The longest of several histories of one line.

    Raises:
        ForkError: they are not of one line, or one cannot be; both lists are in the text.
    """
    for other in others:
        match compare(mine, other):
            case Relation.FORK if mine.hash_at(1) != other.hash_at(1):
                raise ForkError(
                    "the database began with other regions. Here it is"
                    f" {mine.listed()}. There it is {other.listed()}"
                )
            case Relation.FORK:
                raise ForkError(
                    "the database has split: two parts went on without each other. Here is"
                    f" {mine.listed()}. There is {other.listed()}. Keep one; salvage the other"
                    " part's regions and join them again, with empty folders"
                )
            case Relation.BEHIND:
                _check_goes_on(mine, other)
                mine = other
            case Relation.EQUAL | Relation.AHEAD:
                pass
    return mine
