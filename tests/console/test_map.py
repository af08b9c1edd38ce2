"""The map: places of regions and of labels."""

from itertools import combinations

import pytest

from crdtstream.console.map import LABEL_HALF, RADIUS, REGIONS_MAX, Space, drawn


@pytest.mark.parametrize("count", range(2, REGIONS_MAX + 1))
def test_each_label_has_a_place_of_its_own(count: int) -> None:
    found = drawn(count)
    assert len(found.labels) == count * (count - 1)
    spaces = [Space(one, RADIUS, RADIUS) for one in found.regions]
    spaces += [Space(one, *LABEL_HALF) for one in found.labels.values()]
    assert [one.shared(other) for one, other in combinations(spaces, 2) if one.shared(other)] == []
