"""``crdtstream console``: opens the console of a region in a browser."""

import os
import sys
import webbrowser
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from crdtstream.admin.client import Survey
from crdtstream.command_line.exit import fail
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.printable import printable
from crdtstream.command_line.reach import Reach
from crdtstream.settings.addresses import address_at

# Without any of these a browser would be one of the terminal, or none.
DISPLAY_VARIABLES: Final = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


@with_groups
def console(
    reach: Reach,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the addresses, and open none.")
    ] = False,
) -> None:
    """Print the address of each region's console, and open the first in a browser.

    Nothing is opened where there is no display.

    Example: crdtstream console --dir crdtstream-data

    Exit status: 0 the addresses were printed, 1 no region answered or none has an HTTP port.
    """
    urls = list(console_urls(reach.find_regions()))
    if not urls:
        fail("no region has an HTTP port; set http_port, and start it again")
    for url in urls:
        typer.echo(printable(url))
    if not only_print and _has_display():
        webbrowser.open(urls[0])


def console_urls(found: Survey) -> Iterator[str]:
    """Addresses of the consoles of all regions that answered, by region."""
    for region, reply in found.replies.items():
        if reply.http_address:
            reached, _, _ = found.addresses[region].rpartition(":")
            address = address_at(reached, reply.http_address)
            yield f"{'https' if reply.http_tls else 'http'}://{address}/"


def _has_display() -> bool:
    return sys.platform == "darwin" or any(map(os.environ.get, DISPLAY_VARIABLES))
