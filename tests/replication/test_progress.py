"""Acks and heartbeats come over as they were sent, with what is known of others."""

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.uid import DatabaseUid
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import Progress, Stamps, Standing
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.replication.wire import decode_progress, encode_progress
from crdtstream.v1 import replication_pb2 as pb

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
UID = DatabaseUid(bytes(range(16)))


def test_progress_survives_the_way_with_gossip() -> None:
    """Without gossip nothing would be stable where two regions have no link (``rules`` 3)."""
    progress = Progress(
        durable_vv={R1: 5, R2: 7},
        now=Millis(1000),
        standing=Standing(DatabaseIdentity(UID, declared=True), recovering=True, regains=True),
        others={R1: {R1: 4}, R3: {R1: 3, R3: 9}},
        taken_bytes=11,
        taken_publication_bytes=12,
        stamp_ms=13,
        echo_ms=14,
        acks_awaited=True,
        next_ms=15,
    )
    assert decode_progress(R2, encode_progress(progress)) == progress


def test_a_peer_of_before_says_no_stamp_and_has_none_sent_back() -> None:
    progress = Progress(
        {}, Millis(1000), Standing(DatabaseIdentity(UID), recovering=False, regains=False)
    )
    assert (progress.stamp_ms, progress.echo_ms) == (0, 0)
    stamps = Stamps()
    assert stamps.echo_ms(5.0) == 0
    stamps.note(progress, 5.0)
    assert stamps.echo_ms(9.0) == 0


def test_a_stamp_is_sent_back_with_the_time_that_passed_since() -> None:
    progress = Progress(
        {},
        Millis(1000),
        Standing(DatabaseIdentity(UID), recovering=False, regains=False),
        stamp_ms=700,
    )
    stamps = Stamps()
    stamps.note(progress, 5.0)
    assert stamps.echo_ms(5.25) == 950


@pytest.mark.parametrize("field", ["stamp_ms", "echo_ms"])
def test_a_stamp_that_could_not_be_sent_back_is_refused(field: str) -> None:
    message = pb.Progress()
    setattr(message, field, (1 << 64) - 1)
    with pytest.raises(PeerError, match=f"region 2: progress.{field}"):
        decode_progress(R2, message)
