"""``crdtstream doctor``: collects facts for a bug report, without data and without secrets."""

import datetime
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from crdtstream.admin.client import AdminError, survey
from crdtstream.cli.progress import progress_bar
from crdtstream.command_line.exit import refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.reach import Reach
from crdtstream.doctor.cleaning import Cleaner
from crdtstream.doctor.configured import (
    environment,
    secrets_of,
    secrets_of_environment,
    settings_of,
)
from crdtstream.doctor.folders import check, files_of
from crdtstream.doctor.logged import read_log
from crdtstream.doctor.machine import machine, program
from crdtstream.doctor.nodes import regions_of
from crdtstream.settings.node_settings import NodeSettings

# Another number: programs that read reports have to change.
FORMAT: Final = 1
TO_STDOUT: Final = "-"


@with_groups
def doctor(
    reach: Reach,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            help="Settings of a node; repeated for several. With --dir those of all its regions.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    log_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--log-file",
            metavar="PATH",
            help="Log of a node; repeated for several. With --dir those of all its regions.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    report_path: Annotated[
        str,
        typer.Option(
            "--output",
            metavar="PATH",
            help="The report; - is stdout. Default: crdtstream-doctor-TIME.json.",
        ),
    ] = "",
    without_fsck: Annotated[
        bool,
        typer.Option("--without-fsck", help="Do not check the folders of stopped nodes."),
    ] = False,
) -> None:
    """Collect what a bug report needs into one JSON file, without data and without secrets.

    It has versions, limits of this machine, settings, the status and INFO of nodes that answer, the
    result of fsck for folders of stopped nodes, and names and times of the last log events. It has
    no passwords, no keys, no entries and no details of log lines. `left_out` says what is missing.
    Read the report before you send it: it has addresses, paths, and names of users and databases.

    Example: crdtstream doctor --dir crdtstream-data

    Exit status: 0 written, also if nodes do not answer; 2 the file exists, or an option is wrong.
    """
    made_at = datetime.datetime.now(datetime.UTC)
    path = Path(report_path or f"crdtstream-doctor-{made_at:%Y%m%dT%H%M%SZ}.json")
    # Opened first: a report that cannot be written is not collected.
    file = sys.stdout if report_path == TO_STDOUT else _new_file(path)
    configs, logs = config or [], log_file or []
    if reach.folder is not None:
        configs = configs or sorted(reach.folder.glob("region-*.toml"))
        logs = logs or sorted(reach.folder.glob("region-*.log"))
    report = _collect(reach, configs, logs, checks_folders=not without_fsck)
    text = json.dumps({"format": FORMAT, "made_at": made_at.isoformat(), **report}, indent=2)
    typer.echo(text, file=file)
    if report_path == TO_STDOUT:
        return
    file.close()
    for reason in report["left_out"]:
        typer.echo(f"left out: {reason}", err=True)
    typer.echo(f"{path}: read it before you send it")


def _new_file(path: Path) -> TextIO:
    """A file that was not there, for its owner alone.  Ends the program if there cannot be one."""
    try:
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except FileExistsError:
        refuse(f"{path} exists; name another --output")
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror}; name another --output")


def _collect(
    reach: Reach, configs: Sequence[Path], logs: Sequence[Path], *, checks_folders: bool
) -> dict[str, Any]:
    """The report, cleaned."""
    left_out: list[str] = []
    read = [settings_of(one) for one in configs]
    settings = [one for _, one in read if one is not None]
    if not configs:
        left_out.append("settings: no --config and no --dir")
    if not logs:
        left_out.append("log events: no --log-file and no --dir")
    # Paths of settings are those that the node has; it may have been started elsewhere.
    folders = [one.dir for one in settings]
    report = {
        "program": program(),
        "machine": machine(folders or [Path()]),
        "environment": environment(),
        "settings": [shown for shown, _ in read],
        "regions": _regions(reach, left_out),
        "folders": _folders(folders, left_out, checks=checks_folders),
        "logs": _logs(logs, left_out),
        "left_out": left_out,
    }
    cleaned: dict[str, Any] = Cleaner(_secrets(reach, settings)).cleaned(report)
    return cleaned


def _secrets(reach: Reach, settings: Sequence[NodeSettings]) -> list[str]:
    password = reach.presented.password()
    return [
        *secrets_of_environment(),
        *(secret for one in settings for secret in secrets_of(one)),
        *([] if password is None else [password]),
    ]


def _regions(reach: Reach, left_out: list[str]) -> dict[str, Any]:
    try:
        found = survey(reach.addresses(), login=reach.login())
    except AdminError as error:
        left_out.append(f"status: {error}")
        return {}
    return regions_of(found, left_out)


def _folders(folders: Sequence[Path], left_out: list[str], *, checks: bool) -> dict[str, Any]:
    if not checks and folders:
        left_out.append("fsck: --without-fsck")
    with progress_bar() as progress:
        return {
            str(folder): {
                "files": files_of(folder),
                "fsck": check(folder, progress, left_out) if checks else None,
            }
            for folder in folders
        }


def _logs(logs: Sequence[Path], left_out: list[str]) -> list[dict[str, Any]]:
    found = []
    for path in logs:
        try:
            found.append(read_log(path))
        except OSError as error:
            left_out.append(f"log events: {path}: {error.strerror}")
    return found
