"""Floors: the time for which a region goes on above the last ID of an expired key."""

from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId, make_id
from crdtstream.core.keyspace.floors import Floors

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
KEY = b"x"


def twice_expired(second: Dot) -> Floors:
    floors = Floors(R1)
    floors.raise_to(KEY, R1, make_id(100, 0), Dot(R2, 1))
    floors.raise_to(KEY, R1, make_id(101, 0), second)
    return floors


def test_a_floor_lasts_until_all_its_expiries_are_stable() -> None:
    floors = twice_expired(Dot(R3, 1))
    assert floors.of(KEY) == make_id(101, 0)
    assert floors.stable_keys({R2: 1}) == floors.stable_keys({R3: 1}) == []
    assert floors.stable_keys({R2: 1, R3: 1}) == [KEY]


def test_a_floor_lasts_until_the_last_expiry_of_a_region_is_stable() -> None:
    floors = twice_expired(Dot(R2, 5))
    assert floors.stable_keys({R2: 4}) == []
    assert floors.stable_keys({R2: 5}) == [KEY]


def test_a_delete_ends_a_floor_if_it_had_observed_all_its_expiries() -> None:
    floors = twice_expired(Dot(R3, 1))
    floors.forget_covered_by(KEY, {R2: 1})
    assert floors.of(KEY) == make_id(101, 0)
    floors.forget_covered_by(KEY, {R2: 1, R3: 1})
    assert KEY not in floors


def test_another_origins_floor_is_kept_and_binds_nobody_here() -> None:
    floors = twice_expired(Dot(R3, 1))
    floors.raise_to(KEY, R2, make_id(200, 0), Dot(R3, 4))
    assert floors.of(KEY) == make_id(101, 0)
    assert floors.facts_of(KEY)[R2].last_id == make_id(200, 0)
    assert floors.stable_keys({R2: 1, R3: 3}) == []
    floors.forget_covered_by(KEY, {R2: 1, R3: 1})
    assert floors.of(KEY) == 0
    assert list(floors.keys()) == []
    assert KEY in floors
    floors.forget(KEY)
    assert KEY not in floors
