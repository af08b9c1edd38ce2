"""MEMORY, as far as it is about the server; MEMORY USAGE is about keys and stands with them."""

import gc
import resource
from typing import TYPE_CHECKING, Final

from crdtstream.commands.reply import OK, Reply, RespMap, Verbatim
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.resp.commands.server.info import buffered_bytes, resident_bytes
from crdtstream.resp.containers import container

if TYPE_CHECKING:
    from crdtstream.resp.server import RespServer

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


class MemoryCommands:
    """MEMORY and its subcommands."""

    def __init__(self, server: "RespServer") -> None:
        self._server = server

    def commands(self) -> list[SessionCommand]:
        rows: tuple[tuple[bytes, RunSessionCommand, int], ...] = (
            (b"doctor", self._doctor, 2),
            (b"malloc-stats", self._malloc_stats, 2),
            (b"purge", self._purge, 2),
            (b"stats", self._stats, 2),
            (b"help", self._help, 2),
        )
        return container(b"memory", rows)

    def _doctor(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY DOCTOR: what is unread or unrun, as that is all that can be done about."""
        buffered = buffered_bytes(self._server)
        return Verbatim(
            f"The process takes {resident_bytes()} bytes, of which {buffered} are requests and "
            "replies of clients. Streams grow until they are trimmed (XTRIM, XADD MAXLEN): ask "
            "MEMORY USAGE of the keys that you suspect.\n".encode()
        )

    def _malloc_stats(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY MALLOC-STATS: Redis's own words where the allocator tells nothing."""
        return b"Stats not supported for the current allocator"

    def _purge(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY PURGE: collect what nobody refers to, of what the node did not freeze."""
        gc.collect()
        return OK

    def _stats(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY STATS: the numbers of Redis's list that mean something here."""
        now = resident_bytes()
        numbers = (
            # The system notes the peak now and then only.
            (
                b"peak.allocated",
                max(now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
            ),
            (b"total.allocated", now),
            (b"replication.backlog", 0),
            (b"clients.slaves", 0),
            (b"clients.normal", buffered_bytes(self._server)),
            (b"cluster.links", 0),
            (b"aof.buffer", 0),
            (b"keys.count", len(self._server.engine.replica)),
        )
        return RespMap([*numbers])

    def _help(self, _session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MEMORY HELP."""
        return help_reply(HELP)
