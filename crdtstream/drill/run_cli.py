"""``crdtstream drill run``: the one command of drills that needs clients and a proxy."""

import os
import shutil
import threading
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.console import Console

from crdtstream.access.basic import NO_LOGIN
from crdtstream.command_line.exit import refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.reach import LoginOptions, split_addresses
from crdtstream.command_line.stopping import stop_signals
from crdtstream.drill.access import NO_ACCESS, Access
from crdtstream.drill.drill import Drill
from crdtstream.drill.outcome import Report, Run
from crdtstream.drill.parse import BUNDLED
from crdtstream.drill.prometheus import INSTALL as PROMETHEUS_INSTALL
from crdtstream.drill.prometheus import PROGRAM as PROMETHEUS
from crdtstream.drill.proxies import INSTALL as TOXIPROXY_INSTALL
from crdtstream.drill.proxies import ProxyError, Server, find_server
from crdtstream.drill.rehearsal import Given, Local, unfit
from crdtstream.drill.report.cli import EXIT_STATUS
from crdtstream.drill.report.files import REPORT_FILE, ReportError, write_json, write_text
from crdtstream.drill.report.junit import junit_of
from crdtstream.drill.report.page import page_of
from crdtstream.drill.report.terminal import console_on, print_report
from crdtstream.drill.runner import Watcher
from crdtstream.drill.selecting import FolderOption, load_named
from crdtstream.drill.watching import Screen, planned


class _Rehearsal(Protocol):
    """Place where drills are run."""

    def run(self, name: str, drill: Drill, watcher: Watcher) -> Run: ...


@with_groups
def run_command(
    presented: LoginOptions,
    names: Annotated[list[str], typer.Argument(help="Drills: names, files, or all.")],
    folder: FolderOption = BUNDLED,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write report.json, junit.xml and report.html here; made if missing.",
            file_okay=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    address: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="host:port of the gRPC service of each region of a deployment that runs already;"
            " several with commas, or repeated.",
        ),
    ] = None,
    toxiproxy: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="API of the toxiproxy-server through which that deployment's ways lead.",
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Even if that deployment is not well.")
    ] = False,
    alerts: Annotated[
        bool | None,
        typer.Option(
            "--alerts/--no-alerts",
            help="Watch with a Prometheus whether alerts fire; by default if there is one here.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep clients' records here, and without --address the nodes' logs.",
            file_okay=False,
        ),
    ] = None,
) -> None:
    """Run drills, one after the other, and report what clients saw.

    Without --address each drill starts regions of its own on this machine, with a toxiproxy-server
    on every way, and ends them. Otherwise its clients and calls present what the last options name.
    Ctrl-C takes all faults back, and reports what was found so far.

    Example: crdtstream drill run region-loss --out drills

    Exit status: 0 passed, 1 failed, 3 not judged (interrupted, or it could not begin), 2 wrong
    input.
    """
    nodes = split_addresses(address or [])
    if bool(nodes) != (toxiproxy is not None):
        refuse("--address and --toxiproxy belong together")
    drills = load_named(names, folder)
    if dry_run:
        _tell_plans(drills, is_given=bool(nodes))
        return
    watches = _watches_alerts(alerts)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        refuse(f"--keep {keep}: there is something in it already; name an empty folder")
    if out is not None:
        _make_folder(out)
    with stop_signals("stopping: all faults are taken back first\n") as stop:
        rehearsal: _Rehearsal
        if toxiproxy is None:
            if find_server() is None:
                refuse(f"toxiproxy-server is missing; install it: {TOXIPROXY_INSTALL}")
            rehearsal = Local(stop=stop.is_set, watches_alerts=watches, keep=keep)
        else:
            rehearsal = Given(
                nodes,
                _server(toxiproxy),
                stop=stop.is_set,
                access=_access(presented),
                anyway=anyway,
                watches_alerts=watches,
                keep=keep,
            )
        runs = _run_all(drills, rehearsal, stop)
    found = Report(runs=runs)
    if out is not None:
        _write(found, out)
    print_report(console_on(), found)
    raise typer.Exit(code=EXIT_STATUS[found.verdict])


# --- Parts ------------------------------------------------------------------------------------


def _run_all(
    drills: list[tuple[str, Drill]], rehearsal: _Rehearsal, stop: threading.Event
) -> list[Run]:
    screen = Screen(Console(stderr=True))
    runs = []
    try:
        for name, drill in drills:
            if stop.is_set():
                break
            run = rehearsal.run(name, drill, screen)
            screen.close()
            typer.echo(f"{name}: {run.verdict}{f': {run.problem}' * bool(run.problem)}", err=True)
            runs.append(run)
    finally:
        screen.close()
    return runs


def _access(presented: LoginOptions) -> Access:
    """The way in to a deployment; ends the program if a file cannot be used."""
    if presented.login() is NO_LOGIN:
        return NO_ACCESS
    return Access.of(presented.user, presented.password(), *presented.files())


def _make_folder(out: Path) -> None:
    """Make the folder before any run: a wrong one must not be found after the last drill."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"--out {out}: {error.strerror or error}; name another folder")
    if not os.access(out, os.W_OK | os.X_OK):
        refuse(f"--out {out}: nothing can be written there; name another folder")


def _write(found: Report, out: Path) -> None:
    try:
        write_json(found, out / REPORT_FILE)
        write_text(out / "junit.xml", junit_of(found))
        write_text(out / "report.html", page_of(found))
    except (OSError, ReportError) as error:
        # The drills were run: their outcome is reported all the same.
        typer.echo(f"error: --out {out}: {error}", err=True)


def _tell_plans(drills: list[tuple[str, Drill]], *, is_given: bool) -> None:
    for name, drill in drills:
        typer.echo(f"{name}: {drill.about}")
        if is_given and (why := unfit(drill)):
            typer.echo(f"  not here: {why}")
            continue
        for item in drill.load:
            rate = f", {item.per_second:g} entries/s each" if hasattr(item, "per_second") else ""
            typer.echo(f"  load: {item.clients} {item.kind} in region {item.region}{rate}")
        for at, what in planned(drill):
            typer.echo(f"  {at:6.1f} s  {what}")
        typer.echo(f"  {drill.seconds:6.1f} s  the load ends; all faults are taken back")
        for alert in drill.alerts or ():
            typer.echo(f"  must fire: {alert}")


def _watches_alerts(wanted: bool | None) -> bool:
    is_there = shutil.which(PROMETHEUS) is not None
    if wanted and not is_there:
        refuse(f"prometheus is missing: {PROMETHEUS_INSTALL}")
    if wanted is None and not is_there:
        typer.echo(f"alerts are not judged: no prometheus here ({PROMETHEUS_INSTALL})", err=True)
    return is_there if wanted is None else wanted


def _server(address: str) -> Server:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        refuse(f"--toxiproxy {address}: not host:port, as in 127.0.0.1:8474")
    server = Server(host, int(port))
    try:
        is_there = server.is_there()
    except ProxyError as error:
        refuse(str(error))
    if not is_there:
        refuse(
            f"no toxiproxy-server answers at {address}; start it:"
            f" toxiproxy-server -host {host} -port {port}"
        )
    return server
