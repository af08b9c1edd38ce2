"""The program ``crdtstream``."""

import importlib.metadata
from typing import Annotated, Final

import typer

from crdtstream import compiled
from crdtstream.cli import pipeline, sync
from crdtstream.cli.backup import backup
from crdtstream.cli.demo import demo
from crdtstream.cli.dump import dump
from crdtstream.cli.exit import MISUSED, fail
from crdtstream.cli.fsck import fsck
from crdtstream.cli.node import node
from crdtstream.cli.restore import restore
from crdtstream.cli.simulate import simulate
from crdtstream.cli.status import status
from crdtstream.cli.up import up
from crdtstream.scenario import cli as scenario

# What the extra ``drill`` installs.
DRILL_LIBRARIES: Final = ("redis", "requests", "toxiproxy")

app = typer.Typer(
    name="crdtstream",
    help="Redis Streams that every region can write: active-active, conflict-free, durable.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crdtstream {importlib.metadata.version('crdtstream')} ({compiled.how()})")
        raise typer.Exit


def _add_drills() -> None:
    """The drills; without their libraries, a command that says how to get them."""
    try:
        from crdtstream.drill.cli import app as drills
    except ModuleNotFoundError as error:
        if error.name not in DRILL_LIBRARIES:
            raise
        app.command("drill", context_settings=_ANY_WORDS)(_no_drills)
    else:
        app.add_typer(drills, name="drill")


_ANY_WORDS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}


def _no_drills(_context: typer.Context) -> None:
    """Failover drills: faults on real nodes, real clients, and a verdict.

    Example: pip install 'crdtstream[drill]'

    Exit status: 2, as what they want is not installed.
    """
    fail("drills want clients and a proxy: pip install 'crdtstream[drill]'", status=MISUSED)


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version, and whether it runs compiled.",
        ),
    ] = False,
) -> None:
    pass


app.command()(up)
app.command()(node)
app.command()(status)
app.command()(fsck)
app.command()(dump)
app.command()(backup)
app.command()(restore)
app.add_typer(sync.app, name="sync")
app.add_typer(scenario.app, name="scenario")
app.command()(simulate)
_add_drills()
app.command()(demo)
app.add_typer(pipeline.app, name="pipeline")
