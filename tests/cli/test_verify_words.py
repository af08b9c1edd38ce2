"""The repairs that ``crdb verify`` names."""

import pytest

from crdtstream.admin.comparing import Difference, Pair, Verdict
from crdtstream.cli.crdb_verify import repairs_of
from crdtstream.core.comparing import PartKind
from crdtstream.core.ids import RegionId

R1, R2, R3 = map(RegionId, (1, 2, 3))
Two = tuple[RegionId, RegionId]


def pair(between: Two, key: bytes | None, verdict: Verdict = Verdict.DIFFERENT) -> Pair:
    kind = PartKind.MEMBERS if key == b"" else PartKind.LANE
    found = [] if key is None else [Difference(key, kind, 1, b"", verdict)]
    return Pair(*between, differences=found)


def command(region: int, source: int, key: str = "s") -> str:
    options = f"--instance-id {region} --source {source} --dry-run"
    return f"crdtstream crdb repair {key} {options}"


@pytest.mark.parametrize(
    ("regions", "differing", "expected"),
    [
        ([R1, R2, R3], [], []),
        ([R1, R2, R3], [(R1, R2), (R2, R3)], [command(2, 1)]),
        ([R1, R2, R3], [(R1, R2), (R1, R3)], [command(1, 2)]),
        ([R1, R2], [(R1, R2)], [command(2, 1), command(1, 2)]),
        (
            [R1, R2, R3],
            [(R1, R2), (R1, R3), (R2, R3)],
            [command(*one) for one in ((2, 1), (1, 2), (3, 1), (1, 3), (3, 2), (2, 3))],
        ),
    ],
)
def test_the_odd_one_out_is_repaired_and_else_both_ways_are_named(
    regions: list[RegionId], differing: list[Two], expected: list[str]
) -> None:
    pairs = [
        pair((left, right), b"s" if (left, right) in differing else None)
        for left in regions
        for right in regions
        if left < right
    ]
    assert repairs_of(regions, pairs) == expected


def test_a_key_is_quoted_for_the_shell() -> None:
    found = repairs_of([R1, R2], [pair((R1, R2), b"a b; rm")])
    assert found[0] == command(2, 1, "'a b; rm'")


@pytest.mark.parametrize(("key", "verdict"), [(b"", Verdict.DIFFERENT), (b"s", Verdict.UNDECIDED)])
def test_members_and_undecided_keys_have_no_repair(key: bytes, verdict: Verdict) -> None:
    assert repairs_of([R1, R2], [pair((R1, R2), key, verdict)]) == []
