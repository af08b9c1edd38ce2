"""MEMORY, as far as it is about the process; MEMORY USAGE is among the commands about keys."""

import gc
import os
import resource
from collections.abc import Mapping
from typing import Final

from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, Reply, RespMap, Verbatim
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.region.region import Region
from crdtstream.resp.clients.connection import Connection

HELP: Final = (
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DOCTOR",
    "    Return memory problems reports.",
    "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.",
    "PURGE",
    "    Collect garbage.",
    "STATS",
    "    Return information about the memory usage of the server.",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value.",
    "HELP",
    "    Print this help.",
)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryCommands:
    """MEMORY and its subcommands.

    Args:
        connections: all clients, by session id; they come and go.
    """

    def __init__(self, region: Region, connections: Mapping[int, Connection]) -> None:
        self._region = region
        self._connections = connections

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"memory|doctor": self._doctor,
            b"memory|malloc-stats": self._malloc_stats,
            b"memory|purge": self._purge,
            b"memory|stats": self._stats,
            b"memory|help": self._help,
        }
        return documented(SessionCommand, functions)

    def _doctor(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY DOCTOR: bytes of unread replies and waiting requests; the rest is streams."""
        buffered = buffered_bytes(self._connections)
        return Verbatim(
            f"The process takes {resident_bytes()} bytes, of which {buffered} are requests and "
            "replies of clients. Streams grow until they are trimmed (XTRIM, XADD MAXLEN): ask "
            "MEMORY USAGE of the keys that you suspect.\n".encode()
        )

    def _malloc_stats(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY MALLOC-STATS: Redis's own words for an allocator without statistics."""
        return b"Stats not supported for the current allocator"

    def _purge(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY PURGE: collect garbage, except what the node froze at its start."""
        gc.collect()
        return OK

    def _stats(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY STATS: the numbers of Redis's list that mean something here, and all parts of the
        account that ``maxmemory`` bounds."""
        rss, memory = resident_bytes(), self._region.memory
        parts, used = memory.account.parts, memory.used or rss
        keys = len(self._region.replica)
        dataset = parts.get("nodes", 0) + parts.get("keys", 0)
        numbers = (
            (b"peak.allocated", max(used, peak_bytes(rss))),
            (b"total.allocated", used),
            (b"startup.allocated", parts.get("base", 0)),
            (b"replication.backlog", parts.get("log", 0)),
            (b"clients.slaves", 0),
            (b"clients.normal", buffered_bytes(self._connections)),
            (b"cluster.links", parts.get("inbox", 0)),
            (b"aof.buffer", self._region.outstanding.queued_bytes),
            (b"overhead.total", used - dataset),
            (b"keys.count", keys),
            (b"keys.bytes-per-key", dataset // keys if keys else 0),
            (b"dataset.bytes", dataset),
            (b"allocator.resident", rss),
        )
        account = [(f"crdtstream.{name}".encode(), size) for name, size in parts.items()]
        return RespMap([*numbers, *account])

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY HELP."""
        return help_reply(HELP)


def resident_bytes() -> int:
    """Memory of this process that is in RAM; the peak where /proc does not exist."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_bytes(now_bytes: int) -> int:
    """The most that has been in RAM; the system notes it now and then only."""
    return max(now_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def total_bytes() -> int:
    """Memory of this machine."""
    return _PAGE_BYTES * os.sysconf("SC_PHYS_PAGES")


def buffered_bytes(connections: Mapping[int, Connection]) -> int:
    """Requests and transactions not run, and replies not fetched, of all clients."""
    return sum(
        client.held_bytes + client.unsent_bytes + client.session.queue_bytes
        for client in connections.values()
    )
