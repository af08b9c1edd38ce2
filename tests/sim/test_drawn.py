"""Seeds that each long run draws; the gate runs the same ones each time."""

import re

import pytest

from crdtstream.sim.folder_making import copies_folders
from crdtstream.sim.making import changes_members
from crdtstream.sim.replaying import maker_of
from tests.conftest import SIM_FIRST_MAX, SIM_FIRST_VARIABLE, pytest_report_header
from tests.planted.planting import planted
from tests.sim.drawn import KINDS, SOAK_SEEDS, check_drawn, first_of

# Worlds with members, or of full size, do much more in each step.
LONG_SEEDS = {"usual": 200, "members": 50, "large": 50, "folders": 100}
STEPS = 100


@pytest.mark.long
@pytest.mark.drawn
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_every_invariant_holds_for_seeds_that_are_drawn(kind: str) -> None:
    check_drawn(kind, seeds=LONG_SEEDS[kind], steps=STEPS)


@pytest.mark.pure
def test_a_failure_prints_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SIM_FIRST_VARIABLE, "0")
    with planted("reply-before-commit"):
        with pytest.raises(AssertionError) as failed:
            check_drawn("usual", seeds=20, steps=STEPS, jobs=1)
        found = re.search(r"again: crdtstream simulate --seed (\d+) --steps 100", str(failed.value))
        assert found is not None
        _, failure = maker_of(int(found[1])).run(STEPS)
        assert failure is not None


def test_a_range_is_repeated_by_the_number_that_the_head_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = re.search(rf"{SIM_FIRST_VARIABLE}=(\d+)", "\n".join(pytest_report_header()))
    assert found is not None
    assert first_of("usual") == int(found[1])
    monkeypatch.setenv(SIM_FIRST_VARIABLE, "42")
    assert [first_of(kind) - base for kind, base in KINDS.items()] == [42] * len(KINDS)


def test_seeds_that_are_drawn_are_of_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for first in (0, SIM_FIRST_MAX):
        monkeypatch.setenv(SIM_FIRST_VARIABLE, str(first))
        for kind in KINDS:
            for seed in (first_of(kind), first_of(kind) + max(SOAK_SEEDS, 1_000_000)):
                assert copies_folders(seed) is (kind == "folders")
                assert changes_members(seed) is (kind == "members")
