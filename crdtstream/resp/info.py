"""INFO: the state of the node in Redis's words, with a section of its own for the regions."""

import os
import platform
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from crdtstream.commands.arguments import shown
from crdtstream.commands.reply import Reply, Verbatim
from crdtstream.commands.session import Session, SessionCommand
from crdtstream.core.clock import format_vv, missing
from crdtstream.core.ids import Millis
from crdtstream.resp.connection_commands import REDIS_VERSION

if TYPE_CHECKING:
    from crdtstream.resp.server import RespServer

Fields: TypeAlias = dict[str, int | str]

ALL: Final = frozenset({"all", "everything", "default"})
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Info:
    """INFO [section …]."""

    def __init__(self, server: "RespServer") -> None:
        self._server = server
        self._sections: dict[str, Callable[[Millis], Fields]] = {
            "Server": self._about_server,
            "Clients": self._about_clients,
            "Memory": self._about_memory,
            "Persistence": self._about_persistence,
            "Stats": self._about_stats,
            "Replication": self._about_replication,
            "CPU": self._about_cpu,
            "Modules": lambda _now: {},
            "Errorstats": lambda _now: {},
            "Cluster": lambda _now: {"cluster_enabled": 0},
            "Keyspace": self._about_keyspace,
            "Crdt": self._about_crdt,
        }

    def commands(self) -> list[SessionCommand]:
        summary = "Returns information and statistics about the server."
        flags = frozenset({"loading", "stale"})
        return [
            SessionCommand(
                b"info", self._info, -1, flags, group="server", summary=summary, since="1.0.0"
            )
        ]

    def _info(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """INFO [section …]: all without one; a section that does not exist is left out."""
        wanted = {shown(argument).lower() for argument in argv[1:]}
        parts = []
        for title, section in self._sections.items():
            if not wanted or wanted & ALL or title.lower() in wanted:
                lines = "".join(f"{name}:{value}\r\n" for name, value in section(now).items())
                parts.append(f"# {title}\r\n{lines}")
        return Verbatim("\r\n".join(parts).encode())

    # --- Sections -----------------------------------------------------------------------------

    def _about_server(self, now: Millis) -> Fields:
        server = self._server
        uptime_s = max(0, now - server.started_ms) // 1000
        return {
            "redis_version": REDIS_VERSION,
            "redis_mode": "standalone",
            "server_name": "crdtstream",
            "os": f"{platform.system()} {platform.release()} {platform.machine()}",
            "arch_bits": 64,
            "process_id": os.getpid(),
            "tcp_port": server.port,
            "server_time_usec": now * 1000,
            "uptime_in_seconds": uptime_s,
            "uptime_in_days": uptime_s // 86_400,
        }

    def _about_clients(self, _now: Millis) -> Fields:
        server, database = self._server, self._server.database
        return {
            "connected_clients": len(server.connections),
            "maxclients": server.limits.clients_max,
            "blocked_clients": database.waiting_count,
            "total_watched_keys": database.watched_key_count,
            "total_blocking_keys": database.awaited_key_count,
        }

    def _about_memory(self, _now: Millis) -> Fields:
        rss = resident_bytes()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {
            "used_memory": rss,
            "used_memory_human": human(rss),
            "used_memory_rss": rss,
            "used_memory_rss_human": human(rss),
            "used_memory_peak": peak,
            "used_memory_peak_human": human(peak),
            "maxmemory": 0,
            "maxmemory_human": "0B",
            "maxmemory_policy": "noeviction",
        }

    def _about_persistence(self, _now: Millis) -> Fields:
        engine = self._server.engine
        return {
            "loading": 0,
            "aof_enabled": 1,
            "aof_last_write_status": "ok" if engine.fault is None else "err",
            "appendfsync": engine.fsync.value,
            "log_commits": engine.stats.commits,
            "log_records_committed": engine.stats.records_committed,
            "log_commit_failures": engine.stats.commit_failures,
            "writes_refused": _one_line(engine.fault or engine.stale or "no"),
        }

    def _about_stats(self, _now: Millis) -> Fields:
        return {**self._server.counters()}

    def _about_replication(self, _now: Millis) -> Fields:
        # Every region takes writes; to a client of one region it is a master without replicas.
        return {"role": "master", "connected_slaves": 0, "master_repl_offset": 0}

    def _about_cpu(self, _now: Millis) -> Fields:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "used_cpu_sys": f"{usage.ru_stime:.6f}",
            "used_cpu_user": f"{usage.ru_utime:.6f}",
        }

    def _about_keyspace(self, _now: Millis) -> Fields:
        count = len(self._server.engine.replica)
        return {"db0": f"keys={count},expires=0,avg_ttl=0,subexpiry=0"} if count else {}

    def _about_crdt(self, _now: Millis) -> Fields:
        """The regions: what is applied and durable here, and how far behind us each peer is."""
        engine = self._server.engine
        replica = engine.replica
        fields: Fields = {
            "crdt_region": replica.region,
            "crdt_database_id": self._server.settings.database_id,
            "crdt_vv": format_vv(replica.vv),
            "crdt_durable_vv": format_vv(engine.durable_vv),
            "crdt_tombstones": replica.tombstone_count,
            "crdt_xadd_id_uniqueness_mode": replica.id_mode.value,
        }
        for region, vv in sorted(engine.peer_vvs().items()):
            behind = missing(vv, engine.durable_vv)
            fields[f"crdt_peer_{region}"] = f"effects_behind={behind},durable_vv={format_vv(vv)}"
        return fields


def resident_bytes() -> int:
    """Memory of this process that is in RAM; the peak where /proc does not exist."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def human(size: int) -> str:
    """``1.16M``, as Redis prints sizes."""
    amount = float(size)
    for unit in ("B", "K", "M", "G"):
        if amount < 1024:
            return f"{amount:.2f}{unit}" if unit != "B" else f"{size}B"
        amount /= 1024
    return f"{amount:.2f}T"


def _one_line(text: str) -> str:
    return " ".join(text.split())
