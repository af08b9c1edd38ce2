"""Known members: what this region's folder has, and what it has been told since.

    newest   a region reported it, or it was decided or applied here; the folder is to have it
    known    the folder has it: only this counts, and only this is told to others

It is often ahead of ``replica.members``, whose effect comes by the log.

Epoch 1 is the file, until the folder keeps it:

    empty folder     the file names the members.  It may be edited before the region is ready
    ──> ready        all of them have answered, so all files name the same: the folder keeps epoch 1
    ──> from then on the file names only addresses

A region that lost its folder begins in the same way.  Its file may name others than the database
began with: then it takes over what a member reports, if that one knows a later epoch with this
region.  It has issued, applied and voted nothing by then.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import SERIAL_BYTES_MAX, MembersError
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import Member, Members, Status, beginning_of, joined
from crdtstream.core.membership.revoked import serial_bytes
from crdtstream.core.replica import Replica
from crdtstream.region.events import Signal
from crdtstream.region.folder_share import FolderShare
from crdtstream.region.members.cuts import Cuts
from crdtstream.region.outstanding import Durable
from crdtstream.region.peers import Peer
from crdtstream.region.readiness import Recovery
from crdtstream.region.tick import Tick


def without_cuts(members: Members) -> Members:
    """Members as they are sent to others: each region finds the cuts itself, so none is sent."""
    for one in members.regions:
        if one.cut is not None:
            members = members.with_cut(one.region, None)
    return members


def _with_cuts_of(members: Members, kept: Members) -> Members:
    """The members with the cuts that the folder has."""
    for one in kept.regions:
        if one.cut is not None:
            members = members.with_cut(one.region, one.cut)
    return members


def peers_of(
    here: RegionId, members: Members, configured: Mapping[RegionId, str]
) -> dict[RegionId, Peer]:
    """The other regions of a database.

    Args:
        configured: the regions that the node's file names, and where they are.
    """
    others = [one for one in members.regions if one.region != here]
    return {
        one.region: Peer(
            _address_of(one, configured),
            is_joining=one.status is Status.JOINING,
            # A changed address may be wrong, and after a restart only the file has another one.
            former=configured.get(one.region, ""),
        )
        for one in others
        if one.status is not Status.REMOVED
    }


def _address_of(member: Member, configured: Mapping[RegionId, str]) -> str:
    """Empty: no change has named one, and this node's file lacks it."""
    return member.contact.grpc or configured.get(member.region, "")


class KnownMembers:
    """See the module's text.

    Attributes:
        known: the newest members that the folder has; those of the file, if it has none.
        newest: those that it is to have.
        is_kept: the folder has some: its file names only addresses from then on.
        cuts: the cuts of removed regions.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        kept: Kept,
        configured: Mapping[RegionId, str],
        durable: Durable,
        recovery: Recovery,
        tick: Tick,
        share: FolderShare,
    ) -> None:
        """Members as of the start of a node.

        Args:
            kept: what the folder has.
            configured: the other regions that the node's file names, and where they are.
            durable: what a power cut cannot take back.
            recovery: whether this region may get back effects that it had lost.
            share: the part of the folder that ``newest`` belongs to.
        """
        known = joined(replica.members, kept.members)
        self.cuts = Cuts(
            replica, _with_cuts_of(known, kept.members), durable=durable, recovery=recovery
        )
        self.known = self.newest = self.cuts.with_final(known)
        self._replica = replica
        self._tick = tick
        self._here = replica.region
        self._addresses = dict(configured)
        self._share = share
        self.is_kept = bool(kept.members.epoch)
        if self.is_kept:
            self._compare_file()
        # Per token that a node showed, the uid of its folder.
        self._bound: dict[bytes, bytes] = {}

    # --- Hearing of them ------------------------------------------------------------------------

    def note_newest(self, members: Members) -> None:
        """Note members that a region knows: the folder must have them before they count here.

        Raises:
            ForkError: they are not of one line.
        """
        # What was applied in the open tick is not in the newest ones yet.
        newest = joined(joined(self.newest, self._replica.members), members)
        newest = self.cuts.with_final(newest)
        if newest != self.newest:
            self.newest = newest
            self._share.note_changed()

    def check_same_line(self, members: Members) -> None:
        """
        Raises:
            ForkError: they do not continue what is known here, nor the other way round.
        """
        if not self.replaced_by(members):
            joined(joined(self.newest, self._replica.members), members)

    def way_to_one_beginning(self, peer: RegionId, members: Members, *, is_kept: bool) -> str:
        """Instructions for an operator, if the database began with other regions for a peer.

        Args:
            is_kept: the peer's folder has these members.
        """
        if self.is_kept and is_kept:
            return (
                f"Both have begun. Keep one. To become a member of its database, region {peer} or"
                f" region {self._here} is added with `crdtstream crdb add-instance`, and its node"
                " starts with --join and an empty folder"
            )
        if not self.is_kept and not is_kept:
            return "Have [[peers]] of all nodes' files name the same regions, and restart the nodes"
        begun, fresh = (self.newest, peer) if self.is_kept else (members, self._here)
        founders = {one.region for one in begun.regions if one.added == 1}
        if fresh in founders:
            others = _listed(founders - {fresh})
            named = f"name region {others} and no other" if others else "name no region"
            return (
                f"It has begun: have [[peers]] in the file of region {fresh} {named}, and restart"
                " that node"
            )
        return (
            f"It has begun without region {fresh}: add that with `crdtstream crdb add-instance`,"
            " and start its node with --join and an empty folder"
        )

    def replaced_by(self, members: Members) -> bool:
        """True if they are of the database that this region was in before it lost its folder, and
        its file names others than that began with."""
        return (
            not self.is_kept
            and self._share.is_whole
            and not self._replica.vv
            and members.epoch > 1
            and members.find(self._here) is not None
            and members.hash_at(1) != self.newest.hash
        )

    def begin_again(self, members: Members) -> None:
        """Begin with the history of these, which replaces what the file names."""
        self._replica.begin(beginning_of(members))
        self.known = self.newest = self._replica.members

    def keep(self) -> None:
        """Have the folder keep the members that the file names: from here on they do not change
        with the file."""
        if not self.is_kept and self._share.is_whole:
            self._share.note_changed()

    def _compare_file(self) -> None:
        """Report a file that does not fit the members, which the folder has."""
        others = self._addresses.keys() - {one.region for one in self.known.regions}
        lacking = [one for one, peer in self.peers.items() if not peer.address]
        if others or lacking:
            ignored = f"; the folder knows no region {_listed(others)}" if others else ""
            lacks = f"; it has no address of region {_listed(lacking)}" if lacking else ""
            self._tick.notice(
                "warning",
                "the file names other members",
                reason=f"members are {self.known.listed()}{ignored}{lacks}. Correct [[peers]]; a"
                " region is added with `crdtstream crdb add-instance`, not by the file",
            )

    def note_kept(self, members: Members) -> None:
        """Note that the folder has them: they count from here on."""
        was_kept, before = self.is_kept, self.known
        self.is_kept, self.known = True, members
        if not was_kept:
            self._compare_file()
        if members == before:
            return
        if self.cuts.adopt(members):
            self._tick.post(Signal.REMOVAL)
        self._tick.post(Signal.MEMBERS)

    def note_own_cut(self, members: Members) -> None:
        """Note the cut of this region, which was removed, from the members that a member names."""
        told, here = members.find(self._here), self.newest.find(self._here)
        if told is None or told.cut is None or here is None or here.status is not Status.REMOVED:
            return
        if self.cuts.learn_own(told.cut):
            self.newest = self.cuts.with_final(self.newest)
            self._share.note_changed()

    @property
    def have_all_applied(self) -> bool:
        """True if the folder has the newest ones that are applied here: the peers are those."""
        return self.known.epoch >= self._replica.members.epoch

    def told_to(self, removed: RegionId) -> Members:
        """Members as a removed region hears of them, with its own cut, which it cannot find."""
        told, cut = without_cuts(self.known), self.cuts.final.get(removed)
        return told if cut is None else told.with_cut(removed, cut)

    def look_at_cuts(self) -> dict[RegionId, int]:
        """Look for cuts that are reached: more is durable here, or a peer has said what it has.

        Returns:
            All cuts that are final, if one of them became so now.
        """
        if not self.cuts.look():
            return {}
        self.newest = self.cuts.with_final(self.newest)
        self._share.note_changed()
        return {region: n for region, n in self.cuts.final.items() if self.known.find(region)}

    # --- What follows for others ----------------------------------------------------------------

    @property
    def here(self) -> Member | None:
        """This region as a member; None: it is none."""
        return self.known.find(self._here)

    def takes_from(self, sender: RegionId) -> bool:
        """True if a region may have a say."""
        return sender in self.known.remaining

    def address_of(self, region: RegionId) -> str | None:
        """Address of a region's links; None for one that is not known, or without an address.

        A change of the members beats the node's file.
        """
        member = self.known.find(region)
        return None if member is None else _address_of(member, self._addresses) or None

    @property
    def peers(self) -> dict[RegionId, Peer]:
        """The other regions, by the newest members that are known."""
        return peers_of(self._here, self.known, self._addresses)

    # --- Removed regions, and others that are none ----------------------------------------------

    def told_unknown(self, region: RegionId) -> str:
        """Reason why there can be no link with a region that has none here."""
        member = self.known.find(region)
        if member is not None and member.status is Status.REMOVED:
            return self.told_removed(member)
        begins = ""
        if not self.is_kept:
            begins = f"; if the database begins now, name it in [[peers]] of region {self._here}"
        return (
            f"region {region} is no member, as far as region {self._here} knows:"
            f" {self.known.listed()}; add it with `crdtstream crdb add-instance`{begins}"
        )

    def told_removed(self, member: Member) -> str:
        cut = self.cuts.final.get(member.region)
        counted = "" if cut is None else f"; of its effects {cut} count, and no others"
        return (
            f"region {member.region} was removed at epoch {member.changed}{counted}. Its node"
            " cannot come back under this number: stop it and keep its folder, of which `crdtstream"
            " crdb salvage` appends again what no other region has; then add a region with"
            " `crdtstream crdb add-instance`, and start a node for it with an empty folder"
        )

    @property
    def is_removed(self) -> bool:
        """True if this region was removed."""
        return self.here is not None and self.here.status is Status.REMOVED

    def check_is_member(self) -> None:
        """
        Raises:
            MembersError: this region was removed, and has no say.
        """
        here = self.here
        if here is not None and here.status is Status.REMOVED:
            raise MembersError(self.told_removed(here))

    def check_is_kept(self) -> None:
        """
        Raises:
            MembersError: the folder has no members, and so nothing of the database that the file
                names: a region that changed them would go on with a database of its own.
        """
        if not self.is_kept:
            raise MembersError(
                f"the folder of region {self._here} has nothing of the database yet: run the"
                " command in a region that has data of it. If no such region is left, begin a new"
                " database with --new-database"
            )

    @property
    def obstacle(self) -> str | None:
        """Reason why this region may issue nothing as a member; None if it may."""
        here = self.here
        if here is None:
            return (
                f"region {self._here} is no member: {self.known.listed()}; add it with"
                " `crdtstream crdb add-instance`, and start its node with --join"
            )
        match here.status:
            case Status.ACTIVE:
                return None
            case Status.JOINING:
                return (
                    f"region {self._here} joins: it takes writes when it has what the others have"
                )
            case Status.REMOVED:
                return self.told_removed(here)

    # --- Certificates ---------------------------------------------------------------------------

    def is_revoked(self, serial: int) -> bool:
        """True if the certificate with this serial number was revoked, as far as the folder knows.

        Cost: O(``REVOKED_MAX``).
        """
        revoked = self.known.revoked
        if not revoked or not 0 < serial < 1 << 8 * SERIAL_BYTES_MAX:
            return False
        wanted = serial_bytes(serial)
        return any(one.serial == wanted for one in revoked)

    # --- Joining regions ------------------------------------------------------------------------

    def joining(self, secret: bytes, instance: bytes, now: Millis) -> RegionId:
        """The region that a node may join as.

        Raises:
            MembersError: its token is unknown or has expired, or another folder showed it.
        """
        member = self._bind(secret, instance)
        if member.token is not None and now > member.token.expires_ms:
            raise MembersError(
                f"the token of region {member.region} is out of date: take the region back with"
                " `crdtstream crdb remove-instance`, and add it again"
            )
        return member.region

    def region_of_token(self, secret: bytes) -> RegionId | None:
        """The joining region that has this token; None: none has."""
        hashed = sha256(secret).digest()
        for member in self.known.regions:
            is_joining = member.status is Status.JOINING and member.token is not None
            if is_joining and member.token is not None and member.token.sha256 == hashed:
                return member.region
        return None

    def wrong_token(self, member: Member, secret: bytes, instance: bytes) -> str | None:
        """Reason why there can be no link with a region that joins; None if it shows its token."""
        try:
            joins = self._bind(secret, instance)
        except MembersError as error:
            return str(error)
        if joins.region != member.region:
            return f"the token is of region {joins.region}, not of region {member.region}"
        return None

    def _bind(self, secret: bytes, instance: bytes) -> Member:
        """The region of a token, which is this folder's from now on.

        Raises:
            MembersError: it is unknown, or another folder showed it.
        """
        hashed = sha256(secret).digest()
        joining = [one for one in self.known.regions if one.status is Status.JOINING]
        for member in joining:
            if member.token is None or member.token.sha256 != hashed:
                continue
            if self._bound.setdefault(hashed, instance) != instance:
                raise MembersError(
                    f"another node joins as region {member.region} with this token; each node"
                    " needs its own, from `crdtstream crdb add-instance`"
                )
            return member
        raise MembersError(
            "this is no token of a region that may join: it was used, or is of another database;"
            " make a new one with `crdtstream crdb add-instance`"
        )


def _listed(regions: Iterable[RegionId]) -> str:
    return ", ".join(map(str, sorted(regions)))
