"""``crdtstream node``: one region, in the foreground."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import structlog
import typer

from crdtstream.cli.exit import MISUSED, fail
from crdtstream.cli.log_lines import LineLogger
from crdtstream.settings import NodeSettings, SettingsError, load_settings

if TYPE_CHECKING:
    from crdtstream.joining import Joined

# A node that nobody watches any more and that does not stop either is ended; it has lost nothing.
ORPHAN_SECONDS_MAX: Final = 30.0


def node(
    config: Annotated[Path, typer.Option(help="TOML file of the settings; deploy/ has examples.")],
    new_database: Annotated[
        bool,
        typer.Option(
            "--new-database",
            help="Begin a new database in an empty folder without waiting for the other regions.",
        ),
    ] = False,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Without peers: start although the end of the log is lost, as a new database "
            "with what can be read.",
        ),
    ] = False,
    join: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Join the database of the node there: its gRPC service; wants --token-file. "
            "--config names the settings file, which is written.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="What `crdtstream crdb add-instance` wrote."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="PATH",
            help="With --join: the folder of the log, empty. Default: as --config without .toml.",
            file_okay=False,
        ),
    ] = None,
    stop_at_end_of_input: Annotated[
        bool,
        typer.Option(
            "--stop-at-end-of-input",
            help="Stop when standard input closes: the program that started this is gone.",
        ),
    ] = False,
) -> None:
    """Run one region node until SIGTERM, Ctrl-C or SHUTDOWN.

    A node whose folder is fresh, copied or restored takes no writes before every other region has
    told it which of its effects are known there. Regions of a new database that are all started
    tell each other at once; to begin with one alone, start that one with --new-database.

    With --join a new region begins: it gets the state of another one, takes writes when it has
    everything, and goes on from then on with its --config alone. Given again after a crash, the
    same command goes on where it was.

    Variables CRDTSTREAM_<KEY> beat the file, e.g. CRDTSTREAM_APPENDFSYNC=everysec.

    Example: crdtstream node --config deploy/region-1.toml

    Exit status: 0 stopped as it was told to, 1 it cannot start or go on, 2 the settings are wrong.
    """
    joined = _joined(config, join, token_file, folder, new_database=new_database)
    try:
        settings = load_settings(config)
    except SettingsError as error:
        fail(error, status=MISUSED)
    _configure_log(settings.log_level)
    if stop_at_end_of_input:
        threading.Thread(target=_stop_at_end_of_input, name="input", daemon=True).start()
    _run(settings, config, begins_database=new_database, accepts_loss=accept_loss, joined=joined)


def _joined(
    config: Path,
    address: str | None,
    token_file: Path | None,
    folder: Path | None,
    *,
    new_database: bool,
) -> "Joined | None":
    """What a member told this node, which joins; None: it is to join nothing, or joined before."""
    if address is None:
        if token_file is not None or folder is not None:
            fail("--token-file and --dir belong to --join", status=MISUSED)
        return None
    if token_file is None:
        fail("--join wants --token-file, which `crdb add-instance` wrote", status=MISUSED)
    if new_database:
        fail("--join and --new-database: give one of them", status=MISUSED)
    # Here, not above: the other commands start faster without it.
    from crdtstream.joining import JoinError, is_joining, join, read_token

    folder = folder or config.with_suffix("")
    if config.exists() and not is_joining(folder):
        typer.echo(f"{folder} has joined before; --join is not needed any more", err=True)
        return None
    try:
        return asyncio.run(join(address, read_token(token_file), config, folder))
    except JoinError as error:
        fail(error)


def _run(
    settings: NodeSettings,
    config: Path,
    *,
    begins_database: bool,
    accepts_loss: bool,
    joined: "Joined | None",
) -> None:
    # Here, not above: the other commands start faster without it.
    from crdtstream.node import run

    run(
        settings,
        config_file=config,
        begins_database=begins_database,
        accepts_loss=accepts_loss,
        joined=joined,
    )


def _configure_log(level: str) -> None:
    """Lines of this level and above, on stderr, in UTC."""
    output = LineLogger(sys.stderr.fileno())
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        # Modules name themselves when they ask for one.
        logger_factory=lambda *names: output,
    )


def _stop_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS_MAX)
    os.kill(os.getpid(), signal.SIGKILL)
