"""``crdtstream scenario``: run, render and check scenario files."""

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.admin.client import AdminError
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.reach import LoginOptions
from crdtstream.local.regions import LocalRegionsError
from crdtstream.scenario.live import LiveError, LiveTarget
from crdtstream.scenario.markdown import markdown
from crdtstream.scenario.nodes import own_nodes
from crdtstream.scenario.outcome import Outcome
from crdtstream.scenario.parse import ScenarioError
from crdtstream.scenario.report_file import (
    ScenarioFileError,
    check_writable,
    report_of,
    write_reports,
)
from crdtstream.scenario.scenario import Scenario, scenario_files
from crdtstream.scenario.simulated import Simulator
from crdtstream.scenario.target import Target

app = typer.Typer(
    help="Tables of commands and replies over time and regions.", no_args_is_help=True
)

ScenarioPaths: TypeAlias = Annotated[
    list[Path], typer.Argument(help="Scenario files, or folders of them.", exists=True)
]
TargetOf: TypeAlias = Callable[[Scenario], Target]


@app.command("run")
@with_groups
def run_command(
    presented: LoginOptions,
    paths: ScenarioPaths,
    seed: Annotated[int | None, typer.Option(help="Seed of the network; drawn if absent.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Run on nodes, started for this.")] = False,
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="With --live: host:port of a running node's gRPC service, once per node.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what happened here, for `crdtstream replay`."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Tables of failures only.")] = False,
) -> None:
    """Run scenarios and print their tables, with a mark at each cell.

    On running nodes each scenario begins with FLUSHALL in every region; clients and calls present
    what the last options name.

    Example: crdtstream scenario run scenarios/aa/del-is-observed-remove.yaml --seed 4711

    Exit status: 0 all as expected, 1 something differs, 2 a file is no scenario, or the report
    cannot be written.
    """
    if address and not live:
        raise typer.BadParameter("--address is for --live")
    if live and seed is not None:
        raise typer.BadParameter("--seed is for the simulator; live nodes have none")
    if report is not None:
        _check(report)
    scenarios = _load_all(paths)
    if not live and seed is None:
        seed = secrets.randbits(32)
    try:
        with _targets(presented, live=live, addresses=address or [], seed=seed) as target_of:
            outcomes = [
                _run(path, scenario, target_of, quiet=quiet) for path, scenario in scenarios
            ]
    except (LiveError, AdminError, LocalRegionsError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(code=1) from error
    if report is not None:
        _write(report, scenarios, outcomes, seed)
    failed = sum(not outcome.passed for outcome in outcomes)
    skipped = sum(bool(outcome.skipped) for outcome in outcomes)
    passed = len(outcomes) - failed - skipped
    typer.echo(f"{passed} passed, {failed} failed, {skipped} skipped", err=True)
    raise typer.Exit(code=1 if failed else 0)


@app.command()
def render(
    path: Annotated[Path, typer.Argument(help="Scenario file.", exists=True, dir_okay=False)],
) -> None:
    """Print a scenario as a Markdown table.

    Example: crdtstream scenario render scenarios/aa/xread-may-skip.yaml

    Exit status: 0 printed, 2 the file is no scenario.
    """
    [(_, scenario)] = _load_all([path])
    typer.echo(markdown(scenario.script))


@app.command()
def lint(paths: ScenarioPaths) -> None:
    """Check files without running them; every problem names file and line.

    Example: crdtstream scenario lint scenarios

    Exit status: 0 all are scenarios, 2 at least one is not.
    """
    typer.echo(f"{len(_load_all(paths))} scenarios", err=True)


# --- Parts ------------------------------------------------------------------------------------


def _load_all(paths: list[Path]) -> list[tuple[Path, Scenario]]:
    """All files, those in folders included; after telling every problem, exit status 2."""
    scenarios = []
    problems = 0
    for path in _files(paths):
        try:
            scenarios.append((path, Scenario.load(path)))
        except ScenarioError as error:
            typer.echo(f"{path}:{error.line}: {error}", err=True)
            problems += 1
    if problems:
        raise typer.Exit(code=2)
    return scenarios


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from scenario_files(path)
        else:
            yield path


def _run(path: Path, scenario: Scenario, target_of: TargetOf, *, quiet: bool) -> Outcome:
    outcome = scenario.run(target_of(scenario))
    if outcome.skipped:
        typer.echo(f"skipped {path}: {outcome.skipped}", err=True)
    elif not (quiet and outcome.passed):
        typer.echo(f"{'passed' if outcome.passed else 'FAILED'} {path}", err=True)
        typer.echo(outcome.table(color=sys.stdout.isatty()))
        typer.echo()
    return outcome


def _check(file: Path) -> None:
    """Before scenarios run, maybe for minutes: end the program if there can be no report."""
    try:
        check_writable(file)
    except ScenarioFileError as error:
        refuse(f"--report {error}")


def _write(
    file: Path, scenarios: list[tuple[Path, Scenario]], outcomes: list[Outcome], seed: int | None
) -> None:
    reports = [
        report_of(path, outcome, seed)
        for (path, _), outcome in zip(scenarios, outcomes, strict=True)
    ]
    try:
        write_reports(reports, file)
    except ScenarioFileError as error:
        fail(error)


def _targets(
    presented: LoginOptions, *, live: bool, addresses: list[str], seed: int | None
) -> AbstractContextManager[TargetOf]:
    if live:
        return _live(addresses, presented.login() if addresses else NO_LOGIN)
    assert seed is not None, "it was drawn"
    typer.echo(f"seed {seed}", err=True)
    return _simulated(seed)


@contextmanager
def _simulated(seed: int) -> Iterator[TargetOf]:
    yield lambda scenario: Simulator(scenario.regions, seed=seed)


@contextmanager
def _live(addresses: list[str], login: Login) -> Iterator[TargetOf]:
    """The given nodes, or three of our own."""
    if not addresses:
        with own_nodes() as target:
            yield lambda _: target
        return
    target = LiveTarget(addresses, login=login)
    try:
        yield lambda _: target
    finally:
        target.close()
