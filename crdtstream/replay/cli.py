"""``crdtstream replay``: serves the reports of a folder to a browser of this machine."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from crdtstream.command_line.exit import fail
from crdtstream.http.server import http_server, listening_socket
from crdtstream.replay.app import make_replay
from crdtstream.replay.folder import ReportFolder

HOST: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8390


def replay(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of what `drill run --out` and `scenario run --report` wrote.",
            exists=True,
            file_okay=False,
        ),
    ],
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port of this machine; 0: any.")
    ] = PORT_DEFAULT,
) -> None:
    """Replay reports of drills and scenarios in a browser: map, links and events at each moment.

    It listens on 127.0.0.1 only, reads this folder only, and needs no node. Ctrl-C ends it.

    Example: crdtstream replay reports

    Exit status: 0 ended by Ctrl-C, 1 the port is in use, 2 there is no such folder.
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(folder, port))


async def _serve(folder: Path, port: int) -> None:
    try:
        listener = listening_socket(HOST, port)
    except OSError as error:
        fail(f"port {port} cannot be had: {error.strerror or error}; name another one by --port")
    server = http_server(make_replay(ReportFolder(folder)))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, server.end)
    typer.echo(f"http://{HOST}:{listener.getsockname()[1]}/  (Ctrl-C ends it)")
    await server.serve(sockets=[listener])
