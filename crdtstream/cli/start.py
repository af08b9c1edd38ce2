"""The program ``crdtstream``, which loads the command that is run, and no other.

Three regions start at once on a laptop, one that comes back is waited for, and who asks how they
are does not want to load Redis clients, drills and Spark's jobs first.
"""

import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from crdtstream import compiled

# The module of each command, in the order of the help: it has a function of the command's name, or
# the commands below that name as ``app``.
COMMANDS: Final = {
    "up": "crdtstream.cli.up",
    "node": "crdtstream.cli.node",
    "status": "crdtstream.cli.status",
    "crdb": "crdtstream.cli.crdb_verbs",
    "fsck": "crdtstream.cli.fsck",
    "dump": "crdtstream.cli.dump",
    "backup": "crdtstream.cli.backup",
    "restore": "crdtstream.cli.restore",
    "simulate": "crdtstream.cli.simulate",
    "demo": "crdtstream.cli.demo",
    "sync": "crdtstream.cli.sync",
    "scenario": "crdtstream.scenario.cli",
    "drill": "crdtstream.drill.cli",
    "pipeline": "crdtstream.cli.pipeline",
}
# As shells tell it of a program that SIGINT ended.
INTERRUPTED: Final = 130


def main() -> None:
    try:
        program(_wanted(sys.argv[1:]))()
    except KeyboardInterrupt:
        # Ctrl-C before the command had begun to listen for it.
        raise SystemExit(INTERRUPTED) from None


def _wanted(words: Sequence[str]) -> Iterable[str]:
    """The commands that these words may ask for."""
    match words:
        case [name, *_] if name in COMMANDS:
            return [name]
        case ["--version"]:
            return []
        case _:
            return COMMANDS


def program(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The program with the named commands."""
    app = typer.Typer(
        name="crdtstream",
        help="Redis Streams that every region can write: active-active, conflict-free, durable.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    # With a callback a single command keeps its name.
    app.callback()(_program)
    for name in names:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    module = importlib.import_module(COMMANDS[name])
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command()(getattr(module, name))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crdtstream {importlib.metadata.version('crdtstream')} ({compiled.how()})")
        raise typer.Exit


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


if __name__ == "__main__":
    main()
