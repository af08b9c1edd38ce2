"""Random histories in which a region's folder is copied, and used in turns by several machines."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.sim.folder_making import FOLDERS_FROM, FolderMaker
from crdtstream.sim.folders import FolderPlan
from crdtstream.sim.replaying import run
from tests.conftest import seeds
from tests.planted.planting import planted
from tests.sim.drawn import SOAK_SEEDS, check_drawn

SEEDS = 12
STEPS = 120


@pytest.mark.parametrize("seed", seeds(SEEDS, few=3))
def test_a_number_stands_for_one_effect_whichever_folder_is_used(seed: int) -> None:
    """I23"""
    _, failure = FolderMaker(FOLDERS_FROM + seed).run(STEPS)
    again = f"crdtstream simulate --seed {FOLDERS_FROM + seed} --steps {STEPS}"
    assert failure is None, f"again: {again}"


@pytest.mark.soak
def test_folders_are_used_in_turns_in_many_histories() -> None:
    check_drawn("folders", seeds=SOAK_SEEDS, steps=STEPS)


@pytest.mark.long
def test_a_history_of_folders_runs_again_as_it_was_made() -> None:
    maker = FolderMaker(FOLDERS_FROM)
    steps, failure = maker.run(STEPS)
    assert run(maker.plan, steps) == failure


@pytest.mark.long
@pytest.mark.pure
def test_the_command_shortens_saves_and_replays_a_history_of_folders(tmp_path: Path) -> None:
    saved = tmp_path / "short.json"
    arguments = ["simulate", "--seed", str(FOLDERS_FROM), "--seeds", "20", "--steps", str(STEPS)]
    arguments += ["--jobs", "1", "--save", str(saved)]
    with planted("an-earlier-folder-takes-writes"):
        result = CliRunner().invoke(program(), arguments)
        again = CliRunner().invoke(program(), ["simulate", "--replay", str(saved)])
    assert result.exit_code == 1, result.output
    assert "I23: " in result.output
    history = json.loads(saved.read_text())
    assert history["plan"]["world"] == "folders"
    assert again.exit_code == 1
    assert "I23: " in again.output
    mended = CliRunner().invoke(program(), ["simulate", "--replay", str(saved)])
    assert mended.exit_code == 0, mended.output


@pytest.mark.parametrize("text", ['{"world": "flat"}', '{"world": "folders", "regions": 1}'])
def test_a_plan_that_there_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(f'{{"plan": {text}, "steps": []}}')
    result = CliRunner().invoke(program(), ["simulate", "--replay", str(path)])
    assert result.exit_code == 2
    assert "no history" in result.output


def test_a_step_that_does_not_apply_does_nothing() -> None:
    steps = [("use", 3), ("copy",), ("start", 2), ("crash", 1, True), ("crash", 1, True)]
    assert run(FolderPlan(), [*steps, ("write", 1), ("token", 1), ("start", 1)]) is None
