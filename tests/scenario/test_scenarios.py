"""Promises to users: every file in scenarios/, in the simulator and on real nodes."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.core.ids import Millis, RegionId
from crdtstream.scenario.cli import app
from crdtstream.scenario.live import LiveTarget
from crdtstream.scenario.nodes import own_nodes
from crdtstream.scenario.parse import parse
from crdtstream.scenario.rows import Calls, Settings, Sync
from crdtstream.scenario.runner import run
from crdtstream.scenario.scenario import Scenario, scenario_files
from crdtstream.scenario.simulated import Simulator
from tests.conftest import ROOT, free_base_port, seeds

SCENARIOS = ROOT / "scenarios"
PATHS = scenario_files(SCENARIOS)
LIVE_PATHS = [path for path in PATHS if not Scenario.load(path).script.simulator_only]
# Scenarios that run on real nodes in each run; the others do in long runs.
FEW = [path for path in LIVE_PATHS if path.parent.name in {"aa", "intro"}]
AA_TABLES = (
    "both-regions-write",
    "del-is-observed-remove",
    "own-ids-may-repeat",
    "xread-may-skip",
    "groups-created-in-two-regions",
    "del-wins-over-groups",
    "destroy-beats-unobserved-create",
    "group-replication",
    "acks-replicate-without-gaps",
)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", PATHS, ids=name_of)
@pytest.mark.parametrize("seed", seeds(8, few=2))
def test_scenario(path: Path, seed: int) -> None:
    """Replies do not depend on the order in which one sync delivers what it delivers."""
    scenario = Scenario.load(path)
    outcome = scenario.run(Simulator(scenario.regions, seed=seed))

    assert outcome.mismatches == [], f"again: crdtstream scenario run {path} --seed {seed}"
    assert len(set(outcome.digests.values())) == 1


@pytest.mark.soak
@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_scenario_with_many_seeds(path: Path) -> None:
    scenario = Scenario.load(path)
    for seed in range(int(os.environ.get("CRDTSTREAM_SEEDS", "1000"))):
        outcome = scenario.run(Simulator(scenario.regions, seed=seed))
        assert outcome.passed, f"again: crdtstream scenario run {path} --seed {seed}"


@pytest.fixture(scope="module")
def nodes() -> Iterator[LiveTarget]:
    """Three real nodes for all scenarios of this module, on ports that no other test is given
    while one of them is dead."""
    with own_nodes(base_ports=[free_base_port()]) as target:
        yield target


@pytest.mark.live
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path in FEW else pytest.mark.long) for path in LIVE_PATHS],
    ids=name_of,
)
def test_scenario_on_real_nodes(path: Path, nodes: LiveTarget) -> None:
    outcome = Scenario.load(path).run(nodes)

    assert outcome.skipped == ""
    assert outcome.mismatches == []
    assert len(set(outcome.digests.values())) == 1


def test_few_scenarios_are_for_the_simulator_only() -> None:
    assert {path.stem for path in set(PATHS) - set(LIVE_PATHS)} == {
        "a-clock-a-day-ahead",
        "a-clock-set-back-brings-a-key-back",
        "a-delete-spares-a-floor-it-had-not-observed",
        "claiming-after-hours",
        "clock-jumps-back",
        "clocks-apart",
        "relay-around-a-cut",
        "replication-lag-is-bounded",
    }


@pytest.mark.parametrize("name", AA_TABLES)
def test_every_table_of_the_reference_is_a_file(name: str) -> None:
    script = Scenario.load(SCENARIOS / "aa" / f"{name}.yaml").script
    assert script.source.startswith("AA")
    assert any(isinstance(row.step, Calls) for row in script.rows)
    assert any(isinstance(row.step, Sync) for row in script.rows)


# --- The checker can fail ---------------------------------------------------------------------

WRITES = """
about: Two regions write.
source: this test
regions: {{r1: 1, r2: 2}}
rows:
  - at: 1600000000000
    r1: XADD x * f v                -> {added}
  - sync
  - r2: XRANGE x - +                -> {found}
  - r2: XINFO GROUPS x              -> {groups}
  - r2: XLEN x                      -> {length}
  - r2: XADD x 0-0 f v              -> {refused}
"""
RIGHT = {
    "added": "1600000000000-1",
    "found": "[1600000000000-1]",
    "groups": "[]",
    "length": "1",
    "refused": "error ERR",
}


def outcome_of(**changed: str) -> list[int]:
    """The lines that mismatch."""
    script = parse(WRITES.format(**{**RIGHT, **changed}))
    outcome = run(script, Simulator(script.columns.values(), seed=1))
    return [mismatch.call.line for mismatch in outcome.mismatches]


def test_the_right_expectations_pass() -> None:
    assert outcome_of() == []


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"added": "1600000000000-2"}, 7),
        ({"added": "nil"}, 7),
        ({"added": "error ERR"}, 7),
        ({"added": "waits"}, 7),
        ({"found": "[]"}, 9),
        ({"found": "[1600000000000-2]"}, 9),
        ({"found": "[1600000000000-1, 1600000000000-1]"}, 9),
        ({"found": "[[1600000000000-1, [f, w]]]"}, 9),
        ({"found": "nil"}, 9),
        ({"groups": "[g]"}, 10),
        ({"groups": "nil"}, 10),
        ({"length": '"1"'}, 11),
        ({"length": "2"}, 11),
        ({"refused": "error NOGROUP"}, 12),
        ({"refused": "any"}, 12),
    ],
)
def test_a_wrong_expectation_fails(changed: dict[str, str], line: int) -> None:
    assert outcome_of(**changed) == [line]


def test_an_unexpected_error_fails() -> None:
    script = parse(
        "about: a\nsource: b\nregions: {r1: 1}\nrows:\n  - r1: XADD x\n  - r1: XLEN x -> 0\n"
    )
    outcome = run(script, Simulator(script.columns.values(), seed=1))
    assert [mismatch.actual for mismatch in outcome.mismatches] == [
        "error ERR wrong number of arguments for 'xadd' command"
    ]
    assert not outcome.passed
    assert "✗ → error ERR wrong number" in outcome.table()


class ForgetfulSimulator(Simulator):
    """A planted bug: region 2 gives another digest than it should."""

    def digest(self, region: RegionId) -> str:
        return super().digest(region) + ("!" if region == 2 else "")


def test_regions_that_differ_at_the_end_fail() -> None:
    script = parse(WRITES.format(**RIGHT))
    outcome = run(script, ForgetfulSimulator(script.columns.values(), seed=1))
    assert outcome.mismatches == []
    assert not outcome.passed
    assert "the regions differ at the end" in outcome.table()


# --- Generated IDs on a real clock ------------------------------------------------------------


class RealClockSimulator(Simulator):
    """A simulator whose generated IDs are not those in the file, as on live nodes."""

    has_real_clock = True
    shift_ms = 123_456

    def set_clocks(self, clocks: Mapping[RegionId, Millis]) -> None:
        shifted = {region: Millis(ms + self.shift_ms) for region, ms in clocks.items()}
        super().set_clocks(shifted)


@pytest.mark.long
def test_written_ids_stand_in_for_generated_ones() -> None:
    for path in PATHS:
        scenario = Scenario.load(path)
        if not scenario.script.simulator_only:
            outcome = scenario.run(RealClockSimulator(scenario.regions, seed=1))
            assert outcome.mismatches == [], path


def test_a_generated_id_of_another_region_is_no_stand_in() -> None:
    script = parse(WRITES.format(**{**RIGHT, "added": "1600000000000-2"}))
    outcome = run(script, RealClockSimulator(script.columns.values(), seed=1))
    assert [mismatch.call.line for mismatch in outcome.mismatches] == [7, 9]


def test_a_stand_in_is_used_in_commands_too() -> None:
    script = parse(
        "about: a\nsource: b\nregions: {r1: 1}\nrows:\n"
        "  - at: 1600000000000\n    r1: XADD x * f v -> 1600000000000-1\n"
        "  - r1: XRANGE x 1600000000000 1600000000000 -> [1600000000000-1]\n"
        "  - r1: XRANGE x (1600000000000-1 + -> []\n"
        "  - r1: XDEL x 1600000000000-1 -> 1\n"
    )
    target = RealClockSimulator(script.columns.values(), seed=1)
    assert run(script, target).mismatches == []


class OlderSimulator(RealClockSimulator):
    """Regions that have issued effects before the scenario begins, as live nodes have."""

    def begin(self, settings: Settings, regions: Collection[RegionId]) -> None:
        super().begin(settings, regions)
        for region in regions:
            for _ in range(region):
                self.call(region, "", (b"XADD", b"before", b"*", b"f", b"v"), may_wait=False)
            self.call(region, "", (b"DEL", b"before"), may_wait=False)
        self.sync(regions)
        self.vv_before = {region: region + 1 for region in regions}


def test_cursors_tokens_and_dots_count_from_where_the_scenario_begins() -> None:
    paths = [path for path in PATHS if path.parent.name in ("beyond", "producers")]
    assert paths
    for path in paths:
        scenario = Scenario.load(path)
        outcome = scenario.run(OlderSimulator(scenario.regions, seed=1))
        assert outcome.mismatches == [], path


# --- Crashes ----------------------------------------------------------------------------------


def test_a_crash_ends_what_waits() -> None:
    script = parse(
        "about: a\nsource: b\nregions: {r1: 1}\nrows:\n"
        "  - r1: (reader) XREAD BLOCK 0 STREAMS x $ -> waits\n"
        "  - crash: r1\n  - restart: r1\n"
        "  - r1: XADD x 1 f v -> 1-1\n"
        "  - r1: (reader) XLEN x -> 1\n"
    )
    assert run(script, Simulator(script.columns.values(), seed=1)).passed


# --- The command line -------------------------------------------------------------------------

runner = CliRunner()
FIRST = str(SCENARIOS / "aa" / "both-regions-write.yaml")


def test_run_prints_a_marked_table_and_the_seed() -> None:
    result = runner.invoke(app, ["run", FIRST, "--seed", "7"])
    assert result.exit_code == 0
    assert "✓ → [1589929244828-1, 1589929246795-2]" in result.stdout
    assert "seed 7" in result.stderr


def test_run_exits_1_on_a_mismatch(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(WRITES.format(**{**RIGHT, "length": "2"}))
    result = runner.invoke(app, ["run", str(path)])
    assert result.exit_code == 1
    assert "expected 2" in result.stdout
    assert "✗ → 1" in result.stdout


def test_run_and_lint_exit_2_on_what_is_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("about: a\nsauce: b\n")
    for command in ("run", "lint", "render"):
        result = runner.invoke(app, [command, str(path)])
        assert result.exit_code == 2
        assert f"{path}:2: a scenario has no 'sauce'" in result.stderr


def test_render_prints_a_markdown_table() -> None:
    result = runner.invoke(app, ["render", FIRST])
    assert result.exit_code == 0
    assert "| Time | Region 1 | Region 2 |" in result.stdout
    assert "| t3 | — Sync — | — Sync — |" in result.stdout
    assert "`XADD messages * text hello`<br>→ 1589929244828-1" in result.stdout


def test_lint_takes_folders() -> None:
    result = runner.invoke(app, ["lint", str(SCENARIOS)])
    assert result.exit_code == 0
    assert f"{len(PATHS)} scenarios" in result.stderr
