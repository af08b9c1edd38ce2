"""A region out of its folder: the newest checkpoint, the log behind it, and what else is there.

    folder ──> checkpoint ──> log behind it ──> Region ──> beginning of the log, absences

A node, the simulator and the tests make their regions here, so all begin with the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members, beginning_of, genesis
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.engine.log_cutting import read_absences
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.members.known_members import peers_of
from crdtstream.region.opening import FolderState
from crdtstream.region.peers import Peers
from crdtstream.region.region import Region
from crdtstream.region.runtime import Runtime
from crdtstream.store.checkpoints import Checkpoints
from crdtstream.store.log import Log
from crdtstream.store.replay import Recovered, recover


@dataclass(frozen=True, slots=True)
class Assembled:
    """A region that is as its folder says, and how much of the folder was read for it."""

    region: Region
    recovered: Recovered


async def assemble(
    log: Log,
    checkpoints: Checkpoints,
    folder: FolderState,
    new_replica: Callable[[Iterable[RegionId]], Replica],
    *,
    identity: Identity,
    configured: Mapping[RegionId, str],
    limits: RegionLimits,
    runtime: Runtime,
) -> Assembled:
    """Make the region of a folder.

    Args:
        folder: what it says of the database and the members.
        new_replica: an empty replica whose peers are these.
        configured: the other regions that the node's file names, and where they are.

    Raises:
        StoreError: the folder is damaged; see ``recover``.
    """
    kept = folder.membership.members
    members = kept if kept.epoch else genesis({identity.region, *configured})
    first, known = beginning_of(members), peers_of(identity.region, members, configured)
    recovered = await recover(log, checkpoints, partial(begun, new_replica, known, first))
    replica = recovered.replica
    if not kept.epoch and replica.members.epoch <= 1:
        # The folder keeps none yet, so this file counts; a checkpoint may have those of another.
        replica.begin(first)
    region = Region(
        replica,
        Database(replica),
        runtime,
        seq=log.last_seq,
        folder=folder,
        identity=identity,
        peers=Peers(identity.region, known),
        configured=configured,
        limits=limits,
    )
    region.log.note_beginning(log.first_seq, log.begins)
    # The replayed records count towards the next checkpoint.
    region.checkpointing.grown_bytes = recovered.bytes
    region.checkpointing.grown_us = recovered.replay_us
    if recovered.checkpoint is not None:
        row = recovered.checkpoint.row
        size = recovered.checkpoint.bytes
        region.checkpointing.note_found(row.seq, row.made_ms, size_bytes=size)
        region.retention.note_covered(row.seq)
    await read_absences(region, log)
    return Assembled(region, recovered)


def begun(
    new_replica: Callable[[Iterable[RegionId]], Replica],
    peers: Iterable[RegionId],
    first: Members,
) -> Replica:
    """An empty replica that begins with these members of epoch 1."""
    replica = new_replica(peers)
    replica.begin(first)
    return replica
