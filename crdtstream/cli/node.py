"""``crdtstream node``: one region, in the foreground."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import structlog
import typer
from structlog.typing import Processor

from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.importing import importing
from crdtstream.command_line.reach import CertificateFiles, warn_if_others_may_read
from crdtstream.node.log_lines import LineLogger
from crdtstream.node.log_names import as_json
from crdtstream.settings.node_settings import NodeSettings, SettingsError, load_settings

if TYPE_CHECKING:
    from crdtstream.node.joining import Joined

# A node that is no longer watched and does not stop either is killed; it has lost nothing.
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
            help="Join the database of the node at this gRPC address; needs --token-file. "
            "--config names the settings file, which is written.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="File that `crdtstream crdb add-instance` wrote."),
    ] = None,
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="With --join, if the members speak TLS: certificate of the region. The three files"
            " are written into the settings.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    tls_key_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Its key.", exists=True, dir_okay=False),
    ] = None,
    tls_ca_cert_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="The authorities of all regions.", exists=True, dir_okay=False
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--region-dir",
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

    A node whose folder is new, copied or restored takes no writes before every other region has
    said which of its effects it knows. If all regions of a new database are started, they answer
    each other at once; to start with one alone, start that one with --new-database.

    With --join a new region begins: it gets the state of another one, and takes writes when it has
    everything. From then on start it with --config alone. After a crash run the same command again:
    it goes on where it was.

    Variables CRDTSTREAM_<KEY> override the file, e.g. CRDTSTREAM_APPENDFSYNC=everysec.

    Example: crdtstream node --config deploy/region-1.toml

    Exit status: 0 stopped on request, 1 it cannot start or go on, 2 the settings are wrong.
    """
    files = CertificateFiles(tls_cert_file, tls_key_file, tls_ca_cert_file)
    joined = _joined(config, join, token_file, folder, files, new_database=new_database)
    try:
        settings = load_settings(config)
    except SettingsError as error:
        refuse(error)
    _configure_log(settings.log_level, settings.log_format)
    if stop_at_end_of_input:
        threading.Thread(target=_stop_at_end_of_input, name="input", daemon=True).start()
    _run(settings, config, begins_database=new_database, accepts_loss=accept_loss, joined=joined)


def _joined(
    config: Path,
    address: str | None,
    token_file: Path | None,
    folder: Path | None,
    files: CertificateFiles,
    *,
    new_database: bool,
) -> "Joined | None":
    """Join with ``--join``, and return a member's answer; None: no ``--join``, or joined before."""
    if address is None:
        if any(one is not None for one in (token_file, folder, *files)):
            refuse("--token-file, --region-dir and --tls-… belong to --join")
        return None
    if token_file is None:
        refuse("--join needs --token-file, which `crdb add-instance` wrote")
    if new_database:
        refuse("--join and --new-database: use only one of them")
    # Here, not above: the other commands start faster without it.
    from crdtstream.node.joining import JoinError, is_joining, join, read_token

    tls = files.paths()
    folder = folder or config.with_suffix("")
    if config.exists() and not is_joining(folder):
        _check_has_joined(folder)
        typer.echo(f"{folder} has joined before; --join is not needed any more", err=True)
        return None
    warn_if_others_may_read(token_file)
    try:
        return asyncio.run(join(address, read_token(token_file), config, folder, tls))
    except JoinError as error:
        fail(error)


def _check_has_joined(folder: Path) -> None:
    """Ends the program if a folder that is not empty is of a region that did not join."""
    from crdtstream.upkeep.folder_reading import UpkeepError, locked, log_file
    from crdtstream.upkeep.membership import own_member

    try:
        log_file(folder)
    except UpkeepError:
        refuse(f"{folder} is not empty; a node joins with an empty folder")
    try:
        with locked(folder):
            identity, member = own_member(folder)
    except UpkeepError:
        # Another process has it open, or it is damaged: the start of the node says so.
        return
    # The regions of epoch 1 are those of the nodes' files.
    if member is None or member.added == 1:
        refuse(
            f"{folder} is the folder of region {identity.region} of database"
            f" {identity.database_id!r} ({identity.database_uid or 'no identity yet'}), which did"
            " not join with a token: start it without --join, or let a new region join with"
            " another --config and an empty folder"
        )


def _run(
    settings: NodeSettings,
    config: Path,
    *,
    begins_database: bool,
    accepts_loss: bool,
    joined: "Joined | None",
) -> None:
    # Here, not above: the other commands start faster without it.
    with importing():
        from crdtstream.node.node import run

    run(
        settings,
        config_file=config,
        begins_database=begins_database,
        accepts_loss=accepts_loss,
        joined=joined,
    )


def _configure_log(level: str, form: Literal["console", "json"]) -> None:
    """Lines of this level and above, on stderr, in UTC."""
    output = LineLogger(sys.stderr.fileno())
    renderers: list[Processor] = (
        [structlog.processors.format_exc_info, as_json] if form == "json" else [_console_lines()]
    )
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *renderers,
        ],
        # Modules name themselves when they ask for one.
        logger_factory=lambda *names: output,
    )


def _console_lines() -> Processor:
    """Lines for people.  A traceback is without the values of variables: they are of clients."""
    return structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )


def _stop_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS_MAX)
    os.kill(os.getpid(), signal.SIGKILL)
