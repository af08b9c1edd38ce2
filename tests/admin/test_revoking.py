"""Revoking a certificate: by whose clock others leave the list."""

import pytest

from crdtstream.admin.members import SKEW_MS_MAX, check_clock
from crdtstream.core.member_changes import MembersError


@pytest.mark.parametrize("skews_ms", [[], [0, 250], [SKEW_MS_MAX, -SKEW_MS_MAX]])
def test_clocks_that_are_near_may_revoke(skews_ms: list[int]) -> None:
    check_clock(skews_ms)


@pytest.mark.parametrize("skews_ms", [[SKEW_MS_MAX + 1], [5, -SKEW_MS_MAX - 1, 7]])
def test_a_clock_that_is_far_from_a_peers_revokes_nothing(skews_ms: list[int]) -> None:
    with pytest.raises(MembersError, match=r"3600 s apart, .* set the clock"):
        check_clock(skews_ms)
