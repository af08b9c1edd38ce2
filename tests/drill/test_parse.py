"""Drill files: what is wrong with one is said with its line, all of it at once."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.drill.drill import Drill, described
from crdtstream.drill.parse import DrillError, find, load
from tests.conftest import ROOT

DRILLS = ROOT / "scenarios" / "drills"
GOOD = """\
about: A drill of the tests.
regions: 2
groups:
  - {name: g}
load:
  - {kind: plain, region: 1}
  - {kind: consumer, group: g, region: 2}
steps:
  - {do: kill, region: 1, at: 2, lasts: 2}
"""


def problems_of(tmp_path: Path, text: str | bytes) -> list[tuple[int, str]]:
    path = tmp_path / "a.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DrillError) as caught:
        load(path)
    return [(problem.line, problem.text) for problem in caught.value.problems]


def test_a_good_file_is_a_drill(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(GOOD)
    assert load(path).regions == 2


@pytest.mark.parametrize(
    ("change", "line", "text"),
    [
        (("do: kill", "do: kil"), 9, "steps.1: no 'do' 'kil'; there are: 'partition'"),
        (("lasts: 2", "last: 2"), 9, "steps.1.last: no such key here"),
        (("kind: plain", "kind: plane"), 6, "load.1: no 'kind' 'plane'; there are: 'plain'"),
        (("group: g, region: 2", "group: h, region: 2"), 7, "load.2: no group 'h'; groups names g"),
        (("region: 1, at", "region: 3, at"), 9, "steps.1: there is no region 3; regions is 2"),
        (("at: 2", "at: 20"), 9, "steps.1: at 20 s the load has ended (seconds is 12)"),
        (("at: 2", "at: -1"), 9, "steps.1.at: Input should be greater than or equal to 0"),
        (("about: A drill of the tests.", "about: x"), 1, "about: String should have at least"),
        (("  - {kind: plain, region: 1}\n", ""), 6, "load: nobody adds entries"),
        (("regions: 2", "regions: [2"), 3, "not YAML:"),
        (
            ("kill, region: 1", "one-way-partition, link: [2, 2]"),
            9,
            "region 2 has no link to itself",
        ),
        (
            ("kill, region: 1", "partition, sides: [[1], [2, 1]]"),
            9,
            "region 1 has no link to itself",
        ),
        (("kill, region: 1", "partition, sides: [[1], []]"), 9, "steps.1.sides.2: Tuple should"),
        (
            ("lasts: 2}", "lasts: 2}\n  - {do: freeze, region: 1, at: 3, lasts: 2}"),
            10,
            "steps.2: region 1 is still in the hands of another step",
        ),
        (
            ("regions: 2", "settings: {limits: {clientsmax: 5}}\nregions: 2"),
            2,
            "settings: limits.clientsmax: no such key; did you mean clients_max?",
        ),
        (("regions: 2", "settings: {limits: 5}\nregions: 2"), 2, "settings: limits: "),
        (("regions: 2", "settings: {http_port: 5}\nregions: 2"), 2, "settings: http_port: "),
        (
            ("regions: 2", "settings_of: {2: {crdt_xread_mode: no}}\nregions: 2"),
            2,
            "settings_of.2: crdt_xread_mode: ",
        ),
        (("{name: g}", "{name: g, mode: home}"), 4, "groups.1: 'home' names a region exactly if"),
    ],
)
def test_problems_are_reported_with_their_line(
    tmp_path: Path, change: tuple[str, str], line: int, text: str
) -> None:
    changed = GOOD.replace(*change)
    assert changed != GOOD
    found = problems_of(tmp_path, changed)
    assert any(at == line and text in said for at, said in found), found


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    found = problems_of(tmp_path, GOOD.replace("kind: plain", "kind: no").replace("kill", "no"))
    assert [line for line, _ in found] == [6, 9]


@pytest.mark.parametrize("text", ["", "- 1\n", "just words\n", b"\xff\xfe\x00", "a: &a [*a]\n"])
def test_files_that_are_no_mapping_are_refused(tmp_path: Path, text: str | bytes) -> None:
    assert problems_of(tmp_path, text)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    [(_, text)] = problems_of(tmp_path, b"#" * ((1 << 20) + 1))
    assert "more than 1048576 bytes" in text


def test_entries_may_be_lost_only_with_a_disk(tmp_path: Path) -> None:
    [(_, text)] = problems_of(tmp_path, GOOD + "must_hold: {lost: 5}\n")
    assert "only with a step that loses a disk" in text
    path = tmp_path / "b.yaml"
    path.write_text(GOOD.replace("lasts: 2", "lasts: 2, disk: lost") + "must_hold: {lost: 5}\n")
    assert load(path).must_hold.lost == 5


@pytest.mark.parametrize("path", sorted(DRILLS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_drills_of_the_project_are_drills(path: Path) -> None:
    drill = load(path)
    assert drill.alerts is not None, "each says which alert should fire, or that none should"
    assert all(described(step) for step in drill.steps)


def test_names_are_files_or_drills_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert [name for name, _ in find(["mine"], tmp_path)] == ["mine"]
    assert [name for name, _ in find([str(tmp_path / "mine.yaml")], DRILLS)] == ["mine"]
    assert len(find(["all"], DRILLS)) == len(list(DRILLS.glob("*.yaml")))
    with pytest.raises(DrillError, match="there are: mine"):
        find(["other"], tmp_path)


# --- The program ------------------------------------------------------------------------------


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(program(), ["drill", *words])
    return result.exit_code, result.output


def test_lint_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(GOOD.replace("kill", "kil"))
    status, output = run("lint", str(path))
    assert status == 2
    assert f"{path}:9: steps.1: no 'do' 'kil'" in output


def test_lint_of_a_folder_without_drills_is_no_success(tmp_path: Path) -> None:
    status, output = run("lint", str(tmp_path))
    assert status == 2
    assert "no drill file (*.yaml) in" in output


def test_a_folder_for_the_report_is_tried_before_the_drills(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ("region-loss", "--folder", str(DRILLS), "--no-alerts")
    status, output = run("run", *words, "--out", str(tmp_path / "file" / "out"))
    assert status == 2
    assert "name another folder" in output


def test_a_dry_run_tells_the_plan_and_starts_nothing() -> None:
    status, output = run("run", "region-loss", "--folder", str(DRILLS), "--dry-run")
    assert status == 0
    assert "4.0 s  region 1: kill -9" in output
    assert "must fire: CrdtstreamRegionDown" in output


def test_steps_impossible_on_a_given_deployment_are_reported_before(tmp_path: Path) -> None:
    words = ("--address", "127.0.0.1:1", "--toxiproxy", "127.0.0.1:2", "--dry-run")
    status, output = run("run", "region-loss", "--folder", str(DRILLS), *words)
    assert status == 0
    assert "not here: step 1 (kill) ends or changes a region's process" in output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense",), "no such file, and no such drill; there are: clock-skew"),
        (("region-loss", "--address", "127.0.0.1:1"), "--address and --toxiproxy belong together"),
        (
            ("partition-heal", "--address", "127.0.0.1:1", "--toxiproxy", "127.0.0.1:1"),
            "no toxiproxy-server answers at 127.0.0.1:1; start it: toxiproxy-server",
        ),
        (
            ("partition-heal", "--address", "127.0.0.1:1", "--toxiproxy", "here"),
            "--toxiproxy here: not host:port",
        ),
    ],
)
def test_wrong_arguments_are_refused(words: tuple[str, ...], said: str) -> None:
    status, output = run("run", *words, "--folder", str(DRILLS))
    assert status == 2
    assert said in output


def test_without_toxiproxy_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crdtstream.drill.run_cli.find_server", lambda: None)
    status, output = run("run", "partition-heal", "--folder", str(DRILLS), "--no-alerts")
    assert status == 2
    assert "toxiproxy-server is missing; install it: make tools" in output


def test_the_schema_knows_every_step() -> None:
    status, output = run("schema")
    schema = yaml.safe_load(output)
    assert status == 0
    known = schema["properties"]["steps"]["items"]["discriminator"]["mapping"]
    assert {"kill", "freeze", "command", "full-disk"} <= set(known)
    assert Drill.model_json_schema() == schema
