"""The program ``crdtstream``, which loads the command that is run, and no other.

So commands start fast: three regions start at once on a laptop, clients wait for a region that
restarts, and ``status`` need not load Redis clients, drills and Spark's jobs first.
"""

import importlib.metadata
import keyword
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from crdtstream import compiled
from crdtstream.command_line.completing import line_to_complete, print_candidates
from crdtstream.command_line.importing import importing
from crdtstream.command_line.watching import Watchable

# The module of each command, in the order of the help: it has a function of the command's name, or
# the commands below that name as ``app``.
COMMANDS: Final = {
    "up": "crdtstream.cli.up",
    "node": "crdtstream.cli.node",
    "status": "crdtstream.cli.status",
    "console": "crdtstream.cli.console",
    "crdb": "crdtstream.cli.crdb_verbs",
    "certs": "crdtstream.cli.certs_verbs",
    "doctor": "crdtstream.cli.doctor",
    "fsck": "crdtstream.cli.fsck",
    "dump": "crdtstream.cli.dump",
    "backup": "crdtstream.cli.backup",
    "restore": "crdtstream.cli.restore",
    "import": "crdtstream.cli.moving",
    "export": "crdtstream.cli.moving",
    "simulate": "crdtstream.cli.simulate",
    "demo": "crdtstream.cli.demo",
    "sync": "crdtstream.cli.sync",
    "scenario": "crdtstream.scenario.cli",
    "drill": "crdtstream.drill.cli",
    "replay": "crdtstream.replay.cli",
    "pipeline": "crdtstream.cli.pipeline",
    "completion": "crdtstream.cli.completion",
}
# As shells report a program that SIGINT ended.
INTERRUPTED: Final = 130


def main() -> None:
    if not __debug__:
        raise SystemExit("this program checks itself with assertions: run Python without -O")
    try:
        line = line_to_complete()
        if line is not None:
            _complete(line)
            return
        with importing():
            app = program(_wanted(sys.argv[1:]))
        app()
    except KeyboardInterrupt:
        # Ctrl-C before the command had begun to listen for it.
        raise SystemExit(INTERRUPTED) from None


def _complete(line: str) -> None:
    # Here, not above: commands start faster without it.
    from crdtstream.cli.region_values import crdtstream_values

    print_candidates(
        line,
        lambda words: typer.main.get_command(program(_wanted(words))),
        crdtstream_values,
        COMMANDS,
    )


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
        # ``import_``, as Python has ``import`` already.
        function = f"{name}_" if keyword.iskeyword(name) else name
        app.command(name, cls=Watchable)(getattr(module, function))


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
