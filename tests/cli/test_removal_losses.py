"""Effects that a removal is known to take with it, and the regions that may decide it."""

import pytest
import typer

from crdtstream.admin.client import Survey
from crdtstream.cli.crdb_removal import losses, own_losses, voters_of
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import encode_vv
from crdtstream.v1 import admin_pb2 as pb

R1, R2, R3 = map(RegionId, (1, 2, 3))

ACTIVE = pb.MemberStatus.Status.ACTIVE


def survey(replies: dict[RegionId, VersionVector], said: VersionVector) -> Survey:
    """Regions that answer, by what they have; the first one has heard what region 3 had."""
    found = Survey(
        {
            region: pb.StatusReply(region=region, vv=encode_vv(vv), member_status=ACTIVE)
            for region, vv in replies.items()
        }
    )
    first = next(iter(found.replies.values()))
    first.links.append(pb.LinkStatus(peer=3, peer_vv=encode_vv(said)))
    return found


def told(found: Survey) -> str:
    return "\n".join(losses(R3, found))


def test_effects_of_others_that_only_the_removed_region_had_are_counted() -> None:
    """Region 1 lost its disk, and region 2 had got one of 21 effects."""
    found = survey({R1: {R2: 5}, R2: {R1: 1, R2: 5, R3: 2}}, {R1: 21, R2: 5, R3: 2})
    text = told(found)
    assert "It said to have 21 effects of region 1; the regions that answer have 1:" in text
    assert "at least 20 are lost with it." in text
    assert "keep it: `crdtstream crdb salvage`" in text
    assert "effects of region 2;" not in text


def test_a_region_that_does_not_answer_may_still_have_its_own() -> None:
    text = told(survey({R2: {R1: 1}}, {R1: 21}))
    assert "at least 20 are lost with it, unless region 1 still has them." in text


def test_nothing_is_told_of_others_if_somebody_has_all() -> None:
    text = told(survey({R1: {R1: 21}, R2: {}}, {R1: 21}))
    assert "of region 1;" not in text
    assert "salvage" not in text


def test_a_region_that_goes_on_alone_and_takes_no_writes_may_lack_own_effects() -> None:
    found = survey({R1: {R1: 7}}, {})
    assert list(own_losses([R1], found)) == []
    found.replies[R1].fault = "it waits for region 3"
    (line,) = own_losses([R1], found)
    assert "has 7 effects of its own: if it had issued more" in line


@pytest.mark.parametrize(
    ("lacks_votes", "voters"),
    [({1: False, 2: True}, [1]), ({1: True}, [1]), ({1: False, 2: False}, [1, 2])],
)
def test_a_restored_region_decides_only_if_it_is_alone(
    lacks_votes: dict[int, bool], voters: list[int]
) -> None:
    found = survey({RegionId(region): {} for region in lacks_votes}, {})
    for region, lacks in lacks_votes.items():
        found.replies[RegionId(region)].lacks_votes = lacks
    assert voters_of(found) == voters


def test_restored_regions_that_wait_for_a_dead_one_cannot_decide() -> None:
    found = survey({R1: {}, R2: {}}, {})
    for reply in found.replies.values():
        reply.lacks_votes = True
    with pytest.raises(typer.Exit):
        voters_of(found)
