"""Dots are never used twice (``rules`` 18): what peers have of a region's own effects."""

from crdtstream.core.ids import Region
from crdtstream.replication.own import OwnEffects

R1, R2, R3 = Region(1), Region(2), Region(3)


def test_what_one_peer_has_is_not_forgotten_when_another_has_less() -> None:
    own = OwnEffects(R1, [R2, R3], log_is_whole=True)
    own.note(R2, 105)
    own.note(R3, 99)
    assert own.are_lost(104)
    assert "it has 104 of 105" in str(own.obstacle(104))
    assert own.obstacle(105) is None
