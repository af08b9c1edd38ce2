"""Changes of a node that an operator asks for, for shells other than the Admin service.

Each says in words what stood in the way, as the calls of the service do.
"""

import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.links import LinksError, set_links
from crdtstream.admin.members import change_members
from crdtstream.admin.sealed_removal import SealedRemoval
from crdtstream.admin.tunables import Tunables, TuneError, TuneNotKnownError
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError
from crdtstream.engine.engine import Engine
from crdtstream.region.members.wishes import UndecidedError
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.errors import StoreError
from crdtstream.v1 import admin_pb2 as pb


class NotDoneError(Exception):
    """It was not done; the text says why, and what to do."""


class NotKnownError(Exception):
    """It may still be done; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Operating:
    """Requests of an operator to one node."""

    engine: Engine
    settings: NodeSettings
    calls: PeerCalls
    tunables: Tunables

    def set_link(self, peer: RegionId, *, paused: bool) -> None:
        """Pause or resume the link over which this region pulls from a peer.

        Raises:
            NotDoneError: there is no such link.
        """
        with _told():
            set_links(self.engine.region, [peer], self.engine.now(), paused=paused)

    def check_tunable(self, parameter: str, value: str) -> str:
        """The present value of a tunable that can be set to ``value``.

        Raises:
            NotDoneError: it cannot.
        """
        with _told():
            return self.tunables.check(parameter, value)

    async def tune(self, parameter: str, value: str) -> tuple[str, str]:
        """Set a tunable, durably; its value before and now.

        Raises:
            NotDoneError: it cannot be set, or kept.
            NotKnownError: it is as before, and may be changed by the next start.
        """
        with _told():
            return await self.tunables.set(parameter, value)

    async def add(self, region: pb.AddRegion, *, dry_run: bool = False) -> int:
        """Let one more region join; its number.

        Args:
            dry_run: change nothing; the number is one that it could get.

        Raises:
            NotDoneError: it was not decided.
            NotKnownError: it may be decided yet.
        """
        request = pb.ChangeMembersRequest(add=region, dry_run=dry_run)
        with _told():
            reply = await change_members(
                self.engine, self.settings, self.calls, request, draw=secrets.randbits(32)
            )
        return reply.region

    async def removal(
        self, region: RegionId, *, seconds: float, dry_run: bool
    ) -> AsyncGenerator[str, None]:
        """Have another region seal itself, and remove it; yields how far it is, in words.

        Args:
            seconds: how long the others may take to get all of it.
            dry_run: change nothing, and say what would be done.

        Raises:
            NotDoneError: it is a member, and takes writes, or will in a moment.
            NotKnownError: it is sealed, and its removal was not decided.
        """
        removal = SealedRemoval(
            self.engine, self.settings, self.calls, region, RegionId(0), seconds
        )
        with _told():
            async with aclosing(removal.run(dry_run=dry_run)) as steps:
                async for step in steps:
                    yield _members(step.members) if step.HasField("members") else step.progress


def _members(reply: pb.MembersReply) -> str:
    removed = pb.MemberStatus.Status.REMOVED
    left = ", ".join(str(one.region) for one in reply.members if one.status != removed)
    return f"members of epoch {reply.epoch}: {left}"


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (UndecidedError, TuneNotKnownError) as error:
        raise NotKnownError(f"{error}") from error
    except (LinksError, TuneError, MembersError, StoreError) as error:
        raise NotDoneError(f"{error}") from error
