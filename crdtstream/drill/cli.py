"""``crdtstream drill``: rehearse failovers, and see what clients saw.

Only ``run`` needs the extra ``drill``, clients and a proxy: the other commands read files.
"""

import json
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from crdtstream.command_line.exit import MISUSED, refuse
from crdtstream.command_line.options import JsonOption
from crdtstream.drill.drill import Drill
from crdtstream.drill.parse import BUNDLED, DrillError, load
from crdtstream.drill.report.cli import report
from crdtstream.drill.report.terminal import console_on
from crdtstream.drill.selecting import FolderOption, load_named

# Packages that the extra ``drill`` installs.
LIBRARIES: Final = ("redis", "requests", "toxiproxy")

app = typer.Typer(
    help="Failover drills: faults on real nodes, real clients, and a verdict.",
    no_args_is_help=True,
)


@app.command("list")
def list_command(
    folder: FolderOption = BUNDLED,
    as_json: JsonOption = False,
) -> None:
    """List the drills of a folder, with what each shows.

    Example: crdtstream drill list

    Exit status: 0 listed, 2 the folder has none, or a file in it is no drill.
    """
    drills = load_named(["all"], folder)
    if as_json:
        found = [
            {"name": name, "seconds": drill.seconds, "about": drill.about, "alerts": drill.alerts}
            for name, drill in drills
        ]
        typer.echo(json.dumps(found, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("drill", "load", "shows"):
        table.add_column(title, overflow="fold", no_wrap=title == "drill")
    for name, drill in drills:
        table.add_row(name, f"{drill.seconds:g} s", drill.about)
    console_on().print(table)


@app.command()
def lint(
    paths: Annotated[list[Path], typer.Argument(help="Drill files, or folders.", exists=True)],
) -> None:
    """Check drill files without running them; every problem names file and line.

    Example: crdtstream drill lint scenarios/drills

    Exit status: 0 all are drills, 2 at least one is not.
    """
    files = [
        file
        for path in paths
        for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])
    ]
    problems = 0
    for file in files:
        try:
            load(file)
        except DrillError as error:
            typer.echo(str(error), err=True)
            problems += 1
    if not files:
        refuse(f"no drill file (*.yaml) in {', '.join(map(str, paths))}")
    if problems:
        raise typer.Exit(code=MISUSED)
    typer.echo(f"{len(files)} drills", err=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of drill files, for editors.

    Example: crdtstream drill schema > drill.schema.json

    Exit status: 0.
    """
    typer.echo(json.dumps(Drill.model_json_schema(), indent=1))


def _add_run() -> None:
    try:
        from crdtstream.drill.run_cli import run_command
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        app.command("run", context_settings=_ANY_WORDS)(_cannot_run)
        return
    app.command("run")(run_command)


_ANY_WORDS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}


def _cannot_run(_context: typer.Context) -> None:
    """Run drills, one after the other, and report what clients saw.

    Example: pip install 'crdtstream[drill]'

    Exit status: 2, as what it wants is not installed.
    """
    refuse("to run drills wants clients and a proxy: pip install 'crdtstream[drill]'")


_add_run()
app.command()(report)
