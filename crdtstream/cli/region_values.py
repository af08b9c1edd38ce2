"""Values for completion that only running regions know: numbers, names, parameters.

They are asked for when they are wanted, of the first node that answers; after a second no other is
tried.  Always so: an error is no values, and prints nothing: a person is in the middle of a line.
"""

import contextlib
import io
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import typer

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.cli.rladmin_tables import DB_ID
from crdtstream.cli.rladmin_words import DATABASES, NODE_IDS, next_words
from crdtstream.command_line.completing import Typed
from crdtstream.command_line.reach import (
    AUTHORITIES_VARIABLE,
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    USER_VARIABLE,
    LoginOptions,
    Reach,
)
from crdtstream.v1 import admin_pb2

SECONDS_MAX: Final = 1.0
SHELLS: Final = ("bash", "fish", "zsh")
# Options whose value is the number of a region.
_REGIONS: Final = frozenset({"--region", "--peer", "--instance-id", "--heir", "--source"})


def crdtstream_values(here: Typed) -> Iterable[str]:
    """Values for a command line of ``crdtstream``."""
    if here.wanted in _REGIONS:
        return _regions(here)
    if here.path == ("completion",) and not (here.wanted or here.arguments):
        return SHELLS
    return ()


def rladmin_values(here: Typed) -> Iterable[str]:
    """Values for a command line of ``rladmin``."""
    if here.wanted is not None:
        return _regions(here) if here.wanted in _REGIONS else ()
    given = here.arguments
    match here.path:
        case ("status",):
            return _replaced(here, next_words(given))
        case ("info", "node"):
            return () if given else _regions(here)
        case ("info", "db"):
            return () if given else _databases(here)
        case ("tune", "db"):
            return _tune(here)
        case ("verify", "balance"):
            return _regions(here) if given == ["node"] else () if given else ["node"]
        case ("help",):
            return [] if given else ["status", "info", "tune", "verify", "help"]
        case _:
            return ()


def _replaced(here: Typed, words: Iterable[str]) -> Iterable[str]:
    for word in words:
        match word:
            case str() if word == NODE_IDS:
                yield from _regions(here)
            case str() if word == DATABASES:
                yield from _databases(here)
            case _:
                yield word


def _tune(here: Typed) -> Iterable[str]:
    if not here.arguments:
        return _databases(here)
    reply = _asked(here)
    if reply is None:
        return ()
    _, *words = here.arguments
    if len(words) % 2 == 0:
        return [one.name for one in reply.tunables if one.allowed and one.name not in words]
    allowed = next((one.allowed for one in reply.tunables if one.name == words[-1]), ())
    # A description of values, as "a memory value", is none.
    return [one for one in allowed if " " not in one]


def _regions(here: Typed) -> list[str]:
    reply = _asked(here)
    if reply is None:
        return []
    return [str(one) for one in sorted({reply.region, *(link.peer for link in reply.links)})]


def _databases(here: Typed) -> list[str]:
    reply = _asked(here)
    return [] if reply is None else [DB_ID, reply.database_id]


def _asked(here: Typed) -> admin_pb2.StatusReply | None:
    """The status of the first node that answers; None: none does, or not with this login."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            reach = _reach(here)
            addresses, login = reach.addresses(), reach.login()
    except typer.Exit:
        return None
    deadline = time.monotonic() + SECONDS_MAX
    for address in addresses:
        if time.monotonic() > deadline:
            break
        with AdminClient(address, login=login, call_seconds_max=SECONDS_MAX) as client:
            try:
                return client.status()
            except AdminError:
                continue
    return None


def _reach(here: Typed) -> Reach:
    """The options of the line, and the environment where it has none."""
    folder, address = here.options.get("--dir"), here.options.get("--address")
    return Reach(
        _path(folder),
        None if address is None else [address],
        LoginOptions(
            here.options.get("--user") or os.environ.get(USER_VARIABLE),
            _path(here.options.get("--password-file")),
            _path(here.options.get("--tls-cert-file") or os.environ.get(CERTIFICATE_VARIABLE)),
            _path(here.options.get("--tls-key-file") or os.environ.get(KEY_VARIABLE)),
            _path(here.options.get("--tls-ca-cert-file") or os.environ.get(AUTHORITIES_VARIABLE)),
        ),
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
