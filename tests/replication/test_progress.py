"""Acks and heartbeats come over as they were sent, with what is known of others."""

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.uid import DatabaseUid
from crdtstream.region.links.messages import Progress, Standing
from crdtstream.region.links.readiness import DatabaseIdentity
from crdtstream.replication.wire import decode_progress, encode_progress

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
UID = DatabaseUid(bytes(range(16)))


def test_progress_survives_the_way_with_gossip() -> None:
    """Without gossip nothing would be stable where two regions have no link (``rules`` 3)."""
    progress = Progress(
        durable_vv={R1: 5, R2: 7},
        now=Millis(1000),
        standing=Standing(DatabaseIdentity(UID, declared=True), recovering=True),
        others={R1: {R1: 4}, R3: {R1: 3, R3: 9}},
        taken_bytes=11,
        taken_publication_bytes=12,
    )
    assert decode_progress(R2, encode_progress(progress)) == progress
