"""``crdtstream up``: all regions on this machine, in the foreground."""

import shlex
import threading
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from crdtstream.cli.tables import new_table, print_table
from crdtstream.command_line.exit import fail
from crdtstream.command_line.stopping import stop_signals
from crdtstream.local.regions import LocalRegions, LocalRegionsError
from crdtstream.settings.addresses import RESP_PORT_BASE

DIR_DEFAULT: Final = Path("crdtstream-data")
WATCH_SECONDS: Final = 0.2


def up(
    regions: Annotated[int, typer.Option(help="How many regions.", min=1, max=999)] = 3,
    folder: Annotated[
        Path,
        typer.Option(
            "--dir", metavar="PATH", help="Folder of data, settings and logs.", file_okay=False
        ),
    ] = DIR_DEFAULT,
    base_port: Annotated[
        int,
        typer.Option(
            help="P: region r listens on P+r (RESP), P+1000+r (gRPC) and P+2000+r (HTTP)."
        ),
    ] = RESP_PORT_BASE,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls",
            help="All ports speak TLS, those of Redis clients and gRPC mutual TLS. Certificates are"
            " made in the folder; its later starts speak TLS without this option.",
        ),
    ] = False,
    new_database: Annotated[
        bool,
        typer.Option(
            "--new-database",
            help="Begin a new database in an empty folder of region 1; the others join it.",
        ),
    ] = False,
) -> None:
    """Start regions on this machine, print their addresses, and run until Ctrl-C.

    Data stays in the folder: the next start goes on where this one ended. If it asks for more
    regions than the folder has, the new ones join. Variables CRDTSTREAM_…
    change settings of all regions, e.g. CRDTSTREAM_APPENDFSYNC=everysec.

    Example: crdtstream up --regions 3 --dir crdtstream-data

    Exit status: 0 stopped by Ctrl-C or SIGTERM, 1 a region did not start or all of them ended.
    """
    with stop_signals() as stop:
        try:
            local = LocalRegions(regions, folder, base_port=base_port, tls=tls)
        except LocalRegionsError as error:
            fail(error)
        try:
            local.start_all(begins_database=new_database)
            if local.wait_until_healthy(stop=stop.is_set) and local.join(stop=stop.is_set):
                print_table(_table(local))
                for own in local.removed:
                    typer.echo(
                        f"region {own.region} was removed from the database: it answers reads, and"
                        f" takes no writes. What only it has is in {own.data}: see `crdtstream crdb"
                        " salvage` and `crdtstream crdb purge-instance`",
                        err=True,
                    )
                if local.client_options:
                    # Too long for the table, and to be copied as one line.
                    typer.echo(f"Try: {_first_command(local)}", err=True)
                typer.echo(f"Console: {local.console_url}", err=True)
                typer.echo("Ctrl-C stops them.", err=True)
                _watch(local, stop)
        except LocalRegionsError as error:
            fail(error)
        finally:
            _stop(local)


def _watch(local: LocalRegions, stop: threading.Event) -> None:
    """Tell of regions that end by themselves, until ``stop`` is set or none is left."""
    left = len(local.regions)
    while not stop.wait(WATCH_SECONDS):
        for region, how in local.ended().items():
            own = local.regions[region - 1]
            typer.echo(
                f"region {region} ended: {how}. Its last lines, of {own.log}:\n{own.log_tail()}\n"
                f"Start it again with: crdtstream node --config {own.config}",
                err=True,
            )
            local.forget(region)
            left -= 1
        if left == 0:
            fail("no region is left")


def _stop(local: LocalRegions) -> None:
    for region in local.stop_all():
        typer.echo(f"region {region} did not stop in time and was killed", err=True)
    local.close()


def _first_command(local: LocalRegions) -> str:
    port = str(local.regions[0].resp_port)
    return shlex.join(["redis-cli", "-p", port, *local.client_options])


def _table(local: LocalRegions) -> Table:
    regions = "1 region" if len(local.regions) == 1 else f"{len(local.regions)} regions"
    table = new_table(
        regions if local.client_options else f"{regions}; try: {_first_command(local)}",
        ">region", "RESP", "gRPC", "HTTP", ">process",
    )  # fmt: skip
    for own in local.regions:
        addresses = (own.resp_address, own.grpc_address, own.http_address)
        table.add_row(str(own.region), *addresses, str(local.pid(own.region)))
    return table
