"""Where the region nodes are that a command is about: options that many commands share."""

import os
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from crdtstream.admin.client import AdminError, Survey, survey
from crdtstream.cli.exit import MISUSED, fail
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.local_regions import admin_addresses
from crdtstream.settings import GRPC_PORT_BASE, HOST_DEFAULT

ADMIN_VARIABLE: Final = "CRDTSTREAM_ADMIN"
ADMIN_DEFAULT: Final = f"{HOST_DEFAULT}:{GRPC_PORT_BASE + 1}"

DirOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="PATH",
        help="Folder of `crdtstream up`, to find its regions.",
        file_okay=False,
    ),
]
AddressOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="host:port of a node's gRPC service; may be repeated. One leads to the others."
        f" Without --dir and --address: {ADMIN_VARIABLE}, else {ADMIN_DEFAULT}.",
    ),
]
RegionOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--region", metavar="N", min=1, max=REGION_MAX, help="Only this region."),
]


def addresses_of(folder: Path | None, given: list[str] | None) -> list[str]:
    """Addresses to ask first; there is at least one."""
    if folder is None:
        named = given or os.environ.get(ADMIN_VARIABLE, ADMIN_DEFAULT).split(",")
        return [address.strip() for address in named]
    if given:
        fail("--dir and --address: give one of them", status=MISUSED)
    found = admin_addresses(folder)
    if not found:
        fail(f"{folder}: no regions here; start them with: crdtstream up --dir {folder}")
    return found


def find_regions(
    folder: Path | None, given: list[str] | None, *, with_streams: bool = False
) -> Survey:
    """Ask all regions for their status; ends the program if none answers."""
    try:
        found = survey(addresses_of(folder, given), with_streams=with_streams)
    except AdminError as error:
        fail(error)
    if not found.replies:
        fail("\n       ".join(found.unreachable.values()))
    return found


def answering(found: Survey, number: int) -> RegionId:
    """The region with this number; ends the program if it did not answer."""
    region = RegionId(number)
    if region not in found.replies:
        known = ", ".join(map(str, found.replies))
        fail(f"region {number} does not answer, or there is none; regions that do: {known}")
    return region
