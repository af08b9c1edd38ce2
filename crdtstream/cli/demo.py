"""``crdtstream demo``: a year of weather in three regions."""

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crdtstream.command_line.exit import fail
from crdtstream.local.regions import LocalRegions, LocalRegionsError
from crdtstream.settings.addresses import RESP_PORT_BASE


def demo(
    rows: Annotated[
        int | None, typer.Option(help="How many observations; all 26,115 if absent.", min=3)
    ] = None,
    base_port: Annotated[
        int, typer.Option(help="As for `crdtstream up`: where the three regions listen.")
    ] = RESP_PORT_BASE,
) -> None:
    """Write hourly weather of three airports in three regions at once, and count what arrives.

    Starts three regions for this, in a folder that is deleted at the end. Halfway region 2 is cut
    off, and later reconnected.

    Example: crdtstream demo --rows 3000

    Exit status: 0 every entry is everywhere and was delivered once, 1 something went wrong.
    """
    from crdtstream.demo import closing_tables, weather

    # SIGTERM as Ctrl-C: the regions stop and their folder is deleted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        observations = weather.load(rows)
        with tempfile.TemporaryDirectory(prefix="crdtstream-demo-") as folder:
            local = LocalRegions(len(weather.AIRPORTS), Path(folder), base_port=base_port)
            try:
                local.start_all()
                local.wait_until_healthy()
                regions = [
                    weather.Region(own.region, own.resp_port, own.grpc_port)
                    for own in local.regions
                ]
                outcome = asyncio.run(weather.run(regions, observations))
            finally:
                local.stop_all()
                local.close()
    except (weather.DemoError, LocalRegionsError) as error:
        fail(error)
    closing_tables.show(outcome, Console())
    failures = outcome.failures()
    if failures:
        fail("\n  ".join(["these promises do not hold:", *failures]))
