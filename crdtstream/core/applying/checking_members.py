"""Check that a batch is of the same history of members, before anything of it is applied."""

from crdtstream.core.clock import Dot
from crdtstream.core.effects import ChangeMembers, EffectBatch
from crdtstream.core.member_changes import MembersError
from crdtstream.core.membership.members import Members, follow
from crdtstream.core.wire.codec import BatchError


def check_members(batch: EffectBatch, members: Members) -> None:
    """Raise if the batch cannot be applied.

    Args:
        members: as they are before the batch.

    Raises:
        BatchError: a change of it does not follow, or another one was decided here.
    """
    for offset, effect in batch.others:
        if isinstance(effect, ChangeMembers):
            dot = Dot(batch.origin, batch.first_n + offset)
            try:
                members = follow(members, effect.epoch, effect.previous, effect.change, dot)
            except MembersError as error:
                raise BatchError(f"change_members {dot.region}:{dot.n}: {error}") from error
