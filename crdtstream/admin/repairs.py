"""``RepairKey``: a repair of one key, with its progress."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from crdtstream.admin.digests import part_item
from crdtstream.core.comparing import PartSum
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.core.wire.codec import encode_vv
from crdtstream.engine.repairer import Repaired, Repairer
from crdtstream.region.region import Region
from crdtstream.region.repair import RepairPhase
from crdtstream.v1 import admin_pb2 as pb

TOLD_EVERY_SECONDS: Final = Seconds(0.2, least=0.01)
SECONDS: Final = 60.0
SECONDS_MAX: Final = 24 * 3600.0

PHASES: Final = {
    RepairPhase.COPYING: pb.RepairProgress.Phase.COPYING,
    RepairPhase.CATCHING_UP: pb.RepairProgress.Phase.CATCHING_UP,
    RepairPhase.COMPARING: pb.RepairProgress.Phase.COMPARING,
    RepairPhase.REPLACING: pb.RepairProgress.Phase.REPLACING,
}


async def repair(
    region: Region, repairer: Repairer, request: pb.RepairKeyRequest
) -> AsyncGenerator[pb.RepairKeyReply, None]:
    """Yield the progress, and at last the outcome.  A caller that stops reading ends the repair.

    Raises:
        RepairError: nothing has changed; the text says why.
    """
    repairing = asyncio.create_task(
        repairer.repair(
            request.key,
            RegionId(request.source),
            seconds=min(request.seconds or SECONDS, SECONDS_MAX),
            is_rehearsal=request.dry_run,
        )
    )
    try:
        told: pb.RepairProgress | None = None
        while not repairing.done():
            progress = _progress(region)
            if progress is not None and progress != told:
                told = progress
                yield pb.RepairKeyReply(progress=progress)
            await asyncio.wait([repairing], timeout=TOLD_EVERY_SECONDS.value)
        yield pb.RepairKeyReply(outcome=_outcome(repairing.result()))
    finally:
        if not repairing.done():
            repairing.cancel()
            await asyncio.wait([repairing])


def _progress(region: Region) -> pb.RepairProgress | None:
    phase = PHASES.get(region.repair.phase)
    if phase is None:
        return None
    copied = region.bootstrap.progress
    is_catching_up = region.repair.phase is RepairPhase.CATCHING_UP
    return pb.RepairProgress(
        phase=phase,
        bytes_done=copied.bytes_done,
        bytes=copied.bytes,
        lacks=region.repair.lacks if is_catching_up else 0,
    )


def _outcome(repaired: Repaired) -> pb.RepairOutcome:
    return pb.RepairOutcome(
        vv=encode_vv(repaired.vv),
        parts=[part_item(PartSum(name, b"")) for name in repaired.damage.parts],
        unreadable=repaired.damage.unreadable,
        record=repaired.record,
        bytes=repaired.bytes,
    )
