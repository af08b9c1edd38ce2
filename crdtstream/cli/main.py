"""The program ``crdtstream``."""

import importlib.metadata
from typing import Annotated

import typer

from crdtstream.cli import pipeline, sync
from crdtstream.cli.demo import demo
from crdtstream.cli.node import node
from crdtstream.cli.simulate import simulate
from crdtstream.cli.status import status
from crdtstream.cli.up import up
from crdtstream.scenario import cli as scenario

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
        typer.echo(f"crdtstream {importlib.metadata.version('crdtstream')}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    pass


app.command()(up)
app.command()(node)
app.command()(status)
app.add_typer(sync.app, name="sync")
app.add_typer(scenario.app, name="scenario")
app.command()(simulate)
app.command()(demo)
app.add_typer(pipeline.app, name="pipeline")


def main() -> None:
    app()


if __name__ == "__main__":
    main()
