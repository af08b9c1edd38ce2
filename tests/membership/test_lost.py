"""Lost effects of a version vector, and the sentence that names them."""

import pytest

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import (
    End,
    Ends,
    existing,
    lost_of,
    removed_ends,
    sooner,
    told_lost,
)

R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))

ONE_REMOVED: Ends = removed_ends({R3: 1204310})
TWO_REMOVED: Ends = removed_ends({R4: 0, R3: 7})
OTHERWISE: Ends = {R2: End(5, "lost its folder")}


@pytest.mark.parametrize(
    ("vv", "ends", "told"),
    [
        ({}, ONE_REMOVED, ""),
        ({R1: 42}, ONE_REMOVED, ""),
        ({R1: 42, R3: 1204310}, ONE_REMOVED, ""),
        (
            {R1: 42, R3: 1204311},
            ONE_REMOVED,
            "LOST region 3 was removed; of its effects 1204311… nothing exists",
        ),
        # The number is that of the first one that is lost, however many are named.
        (
            {R3: 1204999},
            ONE_REMOVED,
            "LOST region 3 was removed; of its effects 1204311… nothing exists",
        ),
        ({R3: 9}, {}, ""),
        # Of a region that wrote nothing that counts, nothing exists at all.
        (
            {R4: 1, R3: 8, R1: 3},
            TWO_REMOVED,
            (
                "LOST region 3 was removed; of its effects 8… nothing exists;"
                " region 4 was removed; of its effects 1… nothing exists"
            ),
        ),
        ({R4: 0, R3: 7}, TWO_REMOVED, ""),
        (
            {R2: 6},
            OTHERWISE,
            "LOST region 2 lost its folder; of its effects 6… nothing exists",
        ),
    ],
)
def test_effects_beyond_a_known_end_are_lost(vv: VersionVector, ends: Ends, told: str) -> None:
    lost = lost_of(vv, ends)
    assert (told_lost(lost) if lost else "") == told


def test_of_two_ends_of_a_region_the_lower_one_counts() -> None:
    removed, cloned = End(5), End(3, "was cloned")
    assert sooner({R3: removed}, {R3: cloned}) == sooner({R3: cloned}, {R3: removed})
    assert sooner({R3: removed}, {R3: cloned, R4: removed}) == {R3: cloned, R4: removed}


def test_it_is_counted_how_many_a_reader_had() -> None:
    (lost,) = lost_of({R3: 1204400}, ONE_REMOVED)
    assert lost.effects == 90


@pytest.mark.parametrize(
    ("vv", "exists"),
    [
        ({}, {}),
        ({R1: 5, R3: 7}, {R1: 5, R3: 7}),
        ({R1: 5, R3: 9, R4: 2}, {R1: 5, R3: 7}),
    ],
)
def test_existing_effects_are_those_that_are_not_lost(
    vv: VersionVector, exists: VersionVector
) -> None:
    assert existing(vv, TWO_REMOVED) == exists
