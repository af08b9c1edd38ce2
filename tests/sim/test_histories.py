"""Random histories: the invariants hold, planted bugs are noticed, what was found stays mended."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner, Result

from crdtstream.cli.start import program
from crdtstream.core.effects import Append, KeyEffect
from crdtstream.core.wire.codec import decode_batch
from crdtstream.sim.folder_making import copies_folders
from crdtstream.sim.history import History, Plan
from crdtstream.sim.making import Maker, changes_members
from crdtstream.sim.replaying import maker_of, run, shorten
from crdtstream.sim.seeds import first_failing
from crdtstream.sim.sizes import drawn
from crdtstream.sim.violation import Failure
from tests.conftest import ROOT, seeds
from tests.planted.planting import BUGS, planted
from tests.sim.drawn import SOAK_SEEDS, check_drawn

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
STEPS = 400
# Of worlds whose members change, which have much more in each step.
MEMBERS_STEPS = 100
# Of worlds in which folders are copied, where a step of the maker is mostly several.
FOLDERS_STEPS = 120
# Within this many seeds, from the one that it names, each planted bug is noticed.
SEEDS_FOR_A_BUG = 20


@pytest.mark.parametrize("seed", seeds(25, few=6))
def test_every_invariant_holds(seed: int) -> None:
    _, failure = Maker(seed).run(STEPS)
    assert failure is None, f"again: crdtstream simulate --seed {seed} --steps {STEPS}"


@pytest.mark.soak
def test_every_invariant_holds_for_many_seeds() -> None:
    check_drawn("usual", seeds=SOAK_SEEDS, steps=STEPS)


@pytest.mark.soak
def test_every_invariant_holds_with_large_sizes() -> None:
    check_drawn("large", seeds=max(10, SOAK_SEEDS // 10), steps=STEPS)


def replayed(path: Path) -> Failure | None:
    history = json.loads(path.read_text())
    return run(Plan(**history["plan"]), [tuple(step) for step in history["steps"]])


@pytest.mark.pure
@pytest.mark.parametrize("name", sorted(name for name, bug in BUGS.items() if bug.history))
def test_a_planted_bug_that_seeds_seldom_meet_is_noticed(name: str) -> None:
    bug = BUGS[name]
    with planted(name):
        failure = replayed(Path(__file__).parent / "histories" / f"{bug.history}.json")
    assert failure is not None, bug.harm
    assert failure.invariant in bug.noticed_as


@pytest.mark.pure
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(name for name, bug in BUGS.items() if not bug.history))
def test_a_planted_bug_is_noticed(name: str) -> None:
    bug = BUGS[name]
    found = []
    steps = MEMBERS_STEPS if changes_members(bug.seed) else STEPS
    if copies_folders(bug.seed):
        steps = FOLDERS_STEPS
    with planted(name):
        for seed in range(bug.seed, bug.seed + SEEDS_FOR_A_BUG):
            _, failure = maker_of(seed).run(steps)
            if failure is not None:
                found.append(failure.invariant)
            if failure is not None and failure.invariant in bug.noticed_as:
                return
    pytest.fail(f"seeds from {bug.seed} on notice {found}, and not that {bug.harm}")


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_mended_histories_do_not_fail_again(path: Path) -> None:
    assert replayed(path) is None, json.loads(path.read_text())["about"]


def kinds_in(seed: int) -> set[type]:
    """Kinds of effects in the logs at the end of a seed's history."""
    maker = Maker(seed)
    steps, _ = maker.run(STEPS)
    history = History(maker.plan)
    with drawn(maker.plan.sizes):
        for step in steps:
            history.do(step)
    records = (record for node in history.world.nodes.values() for record in node.disk.records)
    batches = [decode_batch(record.batch) for record in records if record.batch is not None]
    appends = {Append for batch in batches if batch.appends.ms}
    return appends | {type(effect) for batch in batches for _, effect in batch.others}


def test_commands_of_the_simulator_issue_every_kind_of_effect() -> None:
    # Members change in worlds of their own.
    missing: set[type] = {Append, *get_args(KeyEffect)}
    for seed in range(2, 20):
        missing -= kinds_in(seed)
        if not missing:
            return
    pytest.fail(f"add commands to sim/making.py that issue {missing}")


def test_one_seed_makes_one_history() -> None:
    first, second = Maker(7), Maker(7)
    assert first.plan == second.plan
    assert first.run(100) == second.run(100)
    assert Maker(8).run(100)[0] != first.run(100)[0]


@pytest.mark.long
def test_a_history_does_not_depend_on_the_order_of_hashes() -> None:
    """Regions are processes, and each has a seed of its own for them."""
    program = """
from crdtstream.core.replica import Replica
from crdtstream.sim.making import Maker
taken = Replica.digest
Replica.digest = lambda *given: print(taken(*given).hex()) or taken(*given)
print(Maker(7).run(100))
"""
    made = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ
            | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "CRDTSTREAM_PURE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1


@pytest.mark.pure
def test_a_history_runs_again_as_it_was_made() -> None:
    with planted("reply-before-commit"):
        maker = Maker(0)
        steps, failure = maker.run(100)
        assert failure is not None
        assert run(maker.plan, steps) == failure


@pytest.mark.pure
def test_a_failing_history_is_shortened_and_fails_in_the_same_way() -> None:
    with planted("heartbeats-from-applied"):
        maker = Maker(0)
        steps, failure = maker.run(STEPS)
        assert failure is not None
        short, found = shorten(maker.plan, steps, failure)
        assert len(short) < len(steps) / 4
        assert found.invariant == failure.invariant
        assert run(maker.plan, short) == found
    assert run(maker.plan, short) is None


@pytest.mark.pure
@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_bug_is_taken_out_again(name: str) -> None:
    patches = BUGS[name].patches()
    assert patches
    before = [owner.__dict__[attribute] for owner, attribute, _ in patches]
    with planted(name):
        pass
    assert [owner.__dict__[attribute] for owner, attribute, _ in patches] == before


# --- The command ----------------------------------------------------------------------------------


def invoked(*words: str) -> Result:
    return CliRunner().invoke(program(), words, prog_name="crdtstream")


@pytest.mark.long
@pytest.mark.pure
def test_the_command_prints_seed_step_and_a_history_that_replays(tmp_path: Path) -> None:
    path = tmp_path / "short.json"
    replay = ["simulate", "--replay", str(path)]
    with planted("heartbeats-from-applied"):
        result = invoked("simulate", "--seed", "0", "--save", str(path))
        again = invoked(*replay)
    assert result.exit_code == 1
    assert result.output.startswith("seed 0, step ")
    assert f"again: crdtstream simulate --replay {path}" in result.output
    assert again.exit_code == 1
    assert "I3: region" in again.output
    mended = invoked(*replay)
    assert mended.exit_code == 0
    assert "every invariant held" in mended.output


def test_the_command_says_what_it_ran() -> None:
    result = CliRunner().invoke(
        program(), ["simulate", "--seed", "5", "--seeds", "2", "--steps", "50"]
    )
    assert result.exit_code == 0
    assert "seeds 5 to 6, 50 steps each: every invariant held" in result.output


@pytest.mark.long
@pytest.mark.pure
def test_several_processes_find_the_lowest_seed_that_fails() -> None:
    with planted("plan-passes-over-a-dot"):
        alone = first_failing(0, 20, STEPS, jobs=1)
        assert alone is not None
        assert first_failing(0, 20, STEPS, jobs=2) == alone


@pytest.mark.long
@pytest.mark.pure
def test_a_seed_that_fails_in_another_process_is_shortened_and_printed() -> None:
    words = ("simulate", "--seed", "0", "--seeds", "4", "--steps", "50")
    with planted("reply-before-commit"):
        results = [invoked(*words, "--jobs", jobs) for jobs in ("1", "2")]
    assert [result.exit_code for result in results] == [1, 1]
    assert results[0].output == results[1].output
    assert results[1].output.startswith("seed ")


@pytest.mark.parametrize(
    "text",
    [
        '{"plan": {}, "steps": [["dance"]]}',
        '{"plan": {"regions": -3}, "steps": [["settle", 1]]}',
        '{"plan": {}, "steps": [["call", 1, "a", 5]]}',
        "[]",
        "no JSON",
    ],
)
def test_a_file_that_is_no_history_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(text)
    result = CliRunner().invoke(program(), ["simulate", "--replay", str(path)])
    assert result.exit_code == 2
    assert "no history" in result.output


def test_a_folder_that_there_is_not_is_refused_before_anything_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        program(), ["simulate", "--save", str(tmp_path / "no" / "short.json")]
    )
    assert result.exit_code == 2
    assert "there is no folder" in result.output


def test_the_page_names_each_planted_bug_and_its_seed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| .* \| ([^|]+), as [^|]* \|$", page, re.M))
    assert rows.keys() == BUGS.keys()
    for name, bug in BUGS.items():
        assert rows[name] == (f"`{bug.history}.json`" if bug.history else str(bug.seed)), name
