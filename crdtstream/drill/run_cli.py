"""``crdtstream drill run``: the one command of drills that wants clients and a proxy."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Final, Protocol

import typer
from rich.console import Console

from crdtstream.drill.drill import Drill
from crdtstream.drill.outcome import Report, Run
from crdtstream.drill.parse import BUNDLED
from crdtstream.drill.planted import PLANTS
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
from crdtstream.drill.selecting import FolderOption, load_named, refuse
from crdtstream.drill.watching import Screen, planned

STANDARD_ERROR: Final = 2


class _Rehearsal(Protocol):
    """Where drills are run."""

    def run(self, name: str, drill: Drill, watcher: Watcher) -> Run: ...


def run_command(
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
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…",
            help="gRPC addresses of a deployment that runs already, one of each region.",
        ),
    ] = None,
    toxiproxy: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="API of the toxiproxy-server through which that deployment's ways lead.",
        ),
    ] = None,
    password: Annotated[
        str,
        typer.Option(
            envvar="CRDTSTREAM_REQUIREPASS", help="Of the user default there.", show_default=False
        ),
    ] = "",
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
            help="Keep clients' records here, and without --nodes the nodes' logs.",
            file_okay=False,
        ),
    ] = None,
    plant: Annotated[
        str, typer.Option(help="A bug for every node, to see that the verdict turns red.")
    ] = "",
) -> None:
    """Run drills, one after the other, and report what clients saw.

    Without --nodes each drill starts regions of its own on this machine, with a toxiproxy-server
    on every way, and ends them. Ctrl-C takes all faults back, and reports what was found so far.

    Example: crdtstream drill run region-loss --out drills

    Exit status: 0 passed, 1 failed, 3 not judged (interrupted, or it could not begin), 2 wrong
    input.
    """
    if (nodes is None) != (toxiproxy is None):
        refuse("--nodes and --toxiproxy belong together")
    if plant and (nodes is not None or plant not in PLANTS):
        refuse(f"--plant: one of {', '.join(sorted(PLANTS))}; and only without --nodes")
    drills = load_named(names, folder)
    if dry_run:
        _tell_plans(drills, is_given=nodes is not None)
        return
    watches = _watches_alerts(alerts)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        refuse(f"--keep {keep}: there is something in it already; name an empty folder")
    if out is not None:
        _make_folder(out)
    with _stop_signals() as stop:
        rehearsal: _Rehearsal
        if nodes is None or toxiproxy is None:
            if find_server() is None:
                refuse(f"toxiproxy-server is missing; install it: {TOXIPROXY_INSTALL}")
            rehearsal = Local(stop=stop.is_set, watches_alerts=watches, plant=plant, keep=keep)
        else:
            rehearsal = Given(
                nodes.split(","),
                _server(toxiproxy),
                stop=stop.is_set,
                password=password,
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


def _make_folder(out: Path) -> None:
    """Before anything is run: nobody wants to hear of a wrong folder after the last drill."""
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
        # The drills were run: what they came to is told all the same.
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


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and the end of a terminal set."""
    stop = threading.Event()

    def set_stop(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            # Not by ``print``, in the middle of which we may be; nor must a terminal that is gone
            # keep us from stopping.
            with suppress(OSError):
                os.write(STANDARD_ERROR, b"stopping: all faults are taken back first\n")

    before = {number: signal.signal(number, set_stop) for number in _STOP_SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
