"""The limit of files that this process may have open: each client's connection is one."""

import resource
from typing import Final

# For the database, pages, listening sockets, and the connections of two gRPC ports: links,
# operators, programs.  Strangers who fill these take none of a client's.
FILES_SPARE: Final = 640


def allow_files(count: int | None = None) -> int:
    """Let this process, and those that it starts, open ``count`` files, if the system allows.

    Args:
        count: None: as many as the system allows.

    Returns:
        How many these are then, sockets included: less than ``count`` if the hard limit is.
    """
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if count is None else _smaller(count, most)
    if soft == resource.RLIM_INFINITY or (wanted != resource.RLIM_INFINITY and wanted <= soft):
        return _as_count(soft)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return _as_count(wanted)


def allow_clients(clients: int) -> int:
    """Let this process serve ``clients``, if the system allows; returns how many it can."""
    return min(clients, max(0, allow_files(clients + FILES_SPARE) - FILES_SPARE))


def _smaller(count: int, limit: int) -> int:
    return count if limit == resource.RLIM_INFINITY else min(count, limit)


def _as_count(limit: int) -> int:
    return (1 << 63) - 1 if limit == resource.RLIM_INFINITY else limit
