"""Removal of a region whose node runs: a remaining region has it seal itself, and removes it.

    asks it to seal itself, again and again, until all others durably have all of it
    ──> it is final for the next epoch ──> the removal is decided, for that epoch or not at all

This end keeps no state: a repeated request, here or in another region, goes on where it was.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.members import change, shown
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError, Removal, Remove
from crdtstream.core.membership.members import Members, Status, apply
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.region.members.sealing import LEASE_MS
from crdtstream.region.members.wishes import UndecidedError
from crdtstream.replication.membership_client import sealed
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import membership_pb2 as wire

ASKS_EVERY_SECONDS: Final = Seconds(0.2, least=0.01)
Step: Final = wire.SealRequest.Step


@dataclass(slots=True)
class SealedRemoval:
    """The removal of one region, as one remaining region does it.

    Attributes:
        region: the one that it removes.
        heir: takes over what only that one did; 0: the lowest active region that remains.
        seconds: how long the others may take to get all of it.
    """

    engine: Engine
    settings: NodeSettings
    calls: PeerCalls
    region: RegionId
    heir: RegionId
    seconds: float

    async def run(self, *, dry_run: bool) -> AsyncGenerator[pb.SealedRemoval, None]:
        """Remove the region; yields its progress in words, and at last the members without it.

        Raises:
            UndecidedError: the region is sealed for its removal, and that was not decided.
            MembersError: it was not removed, and takes writes, or will in a moment.
        """
        membership = self.engine.region.membership
        if self.region in membership.known.removed:
            yield self._end(membership.known)
            return
        # Before the region is asked to take no more writes.
        membership.members.check_is_kept()
        if dry_run:
            async for step in self._rehearsed(membership.part.members):
                yield step
            return
        apply(membership.part.members, self._removal(membership.part.members))
        epoch, told = 0, ""
        until = asyncio.get_running_loop().time() + self.seconds
        while not epoch:
            if self.region in membership.known.removed:
                # Somebody else was at it as well, with --force perhaps.
                yield self._end(membership.known)
                return
            epoch, progress = await self._asked()
            if not epoch and asyncio.get_running_loop().time() >= until:
                epoch = await self._give_up(progress)
            if progress != told:
                told = progress
                yield pb.SealedRemoval(progress=progress)
            if not epoch:
                await asyncio.sleep(ASKS_EVERY_SECONDS.value)
        yield self._end(await self._removed(epoch))

    def _removal(self, members: Members) -> Remove:
        """
        Raises:
            MembersError: it cannot be removed.
        """
        here = self.engine.region.replica.region
        if self.region == here:
            raise MembersError(
                f"this is region {here} itself: have a region that remains remove it, with"
                " --address"
            )
        member = members.find(self.region)
        if member is None:
            raise MembersError(f"there is no region {self.region}; {members.listed()}")
        if member.status is Status.JOINING:
            raise MembersError(f"region {self.region} joins: it is removed without a seal")
        left = [one for one in members.active if one != self.region]
        if not left:
            raise MembersError(f"region {self.region} is the last active one")
        return Remove(self.region, self.heir or min(left), Removal.SEALED)

    async def _rehearsed(self, members: Members) -> AsyncGenerator[pb.SealedRemoval, None]:
        """Yield what would be done; nothing changes."""
        removal = self._removal(members)
        after = apply(members, removal)
        reply = await sealed(self.engine, self.region, wire.SealRequest(step=Step.LOOK), self.calls)
        yield pb.SealedRemoval(
            progress=f"region {self.region} would take no writes, and hand over {reply.groups}"
            f" groups to region {removal.heir}"
        )
        yield pb.SealedRemoval(progress=_progress(self.region, reply))
        yield self._end(after)

    async def _asked(self) -> tuple[int, str]:
        """Ask the region to be sealed.

        Returns:
            The epoch for which it is final, 0 if it is not yet; and how far it is, in words.
        """
        part = self.engine.region.membership.part
        request = wire.SealRequest(
            step=Step.SEAL, heir=self._removal(part.members).heir, epoch=part.votes.epoch
        )
        try:
            reply = await sealed(self.engine, self.region, request, self.calls)
        except MembersError as error:
            return 0, str(error)
        if reply.epoch:
            return reply.epoch, f"the others have all {_effects(reply.issued)} of it"
        return 0, _progress(self.region, reply)

    async def _give_up(self, progress: str) -> int:
        """Time is up: have the region take writes again.

        Returns:
            The epoch that it has become final for just now.

        Raises:
            MembersError: it is not; the text says what to do.
        """
        try:
            await sealed(self.engine, self.region, wire.SealRequest(step=Step.END), self.calls)
            what = f"Region {self.region} takes writes again"
        except MembersError:
            epoch, _ = await self._asked()
            if epoch:
                return epoch
            seconds = LEASE_MS.value // 1000
            what = f"Region {self.region} takes writes again {seconds} s after it was last reached"
        raise MembersError(
            f"after {self.seconds:g} s: {progress}. {what}; try again, with a longer --timeout"
            " perhaps, or stop its node for good and remove it with --force"
        )

    async def _removed(self, epoch: int) -> Members:
        """Have the removal decided, for the epoch that the region is final for."""

        def removal(members: Members) -> Remove:
            if members.epoch + 1 != epoch:
                raise MembersError(
                    f"another change was decided before: {members.listed()}; run this again"
                )
            return self._removal(members)

        try:
            return await change(self.engine, removal)
        except MembersError as error:
            known = self.engine.region.membership.known
            if self.region in known.removed:
                # Somebody else was at it as well.
                return known
            kind = UndecidedError if isinstance(error, UndecidedError) else MembersError
            raise kind(
                f"{error}. Region {self.region} is sealed, and stays so until its removal, or"
                " another change, is decided: run this again"
            ) from error

    def _end(self, members: Members) -> pb.SealedRemoval:
        return pb.SealedRemoval(members=shown(members, self.engine, self.settings))


def _progress(region: RegionId, reply: wire.SealReply) -> str:
    if reply.trouble:
        return reply.trouble
    if reply.sealed and not reply.handed_over:
        return f"region {region} hands its groups over"
    if reply.lacks:
        lacks = ", ".join(f"region {one.region} lacks {one.effects}" for one in reply.lacks)
        return f"of {_effects(reply.issued)} of region {region}, {lacks}"
    if reply.sealed:
        return f"region {region} takes no writes any more"
    return f"the others have all {_effects(reply.issued)} of region {region}"


def _effects(count: int) -> str:
    return f"{count} effect{'' if count == 1 else 's'}"
