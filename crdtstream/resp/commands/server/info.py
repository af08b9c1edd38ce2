"""INFO: the state of the node in Redis's words, with a section of its own for the regions.

The fields are those of Redis that clients and exporters read and that mean something here.  Values
that are not measured are left out, not shown as 0.
"""

import hashlib
import importlib.metadata
import os
import platform
import resource
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from crdtstream import compiled
from crdtstream.access.logins import Logins
from crdtstream.commands.arguments import shown
from crdtstream.commands.command import documented
from crdtstream.commands.reply import Reply, Verbatim
from crdtstream.core.clock import format_vv, missing
from crdtstream.core.ids import Millis
from crdtstream.core.membership.members import Status
from crdtstream.core.redis_version import RedisVersion
from crdtstream.core.uid import shown_uid
from crdtstream.database.acl.log import AclLog
from crdtstream.database.acl.selectors import Reason
from crdtstream.database.listening import Kind
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.engine.engine import Engine
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.clients.newcomers import Newcomers
from crdtstream.resp.clients.traffic import Traffic
from crdtstream.resp.commands.server.about_node import applied_effects
from crdtstream.resp.commands.server.memory import (
    buffered_bytes,
    peak_bytes,
    resident_bytes,
    total_bytes,
)
from crdtstream.resp.commands.server.saving import SavingCommands
from crdtstream.resp.transport.ports import PLAIN, TLS, ClientPorts
from crdtstream.settings.node_settings import NodeSettings

Fields: TypeAlias = dict[str, int | str]

ALL: Final = frozenset({"all", "everything"})
# Long sections, sent only if they are asked for, as in Redis.
NOT_BY_DEFAULT: Final = frozenset({"commandstats", "latencystats"})
# Redis has logins by certificate since then.
TLS_LOGINS_SINCE: Final = RedisVersion(8, 6, 0)
# Why requests and logins are refused, and how INFO names that.
DENIED: Final = (
    (Reason.AUTH, "auth"),
    (Reason.COMMAND, "cmd"),
    (Reason.KEY, "key"),
    (Reason.CHANNEL, "channel"),
)
PERCENTILES: Final = (50.0, 99.0, 99.9)


class Info:
    """INFO [section …].

    Args:
        config_file: where the settings came from; None: from no file.
        connections: all clients, by session id; they come and go.
        clients_max: how many there may be, at present.
        ports: where clients are listened for, once they are.
        saving: knows when the last checkpoint was written.
        logins: of gRPC calls and HTTP requests; None: there are no such ports.
        figures: further fields of the section Crdt, of this node's certificates.
        newcomers: clients that have not logged in.
    """

    def __init__(
        self,
        engine: Engine,
        settings: NodeSettings,
        connections: Mapping[int, Connection],
        traffic: Traffic,
        *,
        config_file: Path | None,
        clients_max: Callable[[], int],
        ports: ClientPorts,
        saving: SavingCommands,
        newcomers: Newcomers,
        logins: Logins | None = None,
        acl_log: AclLog,
        figures: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._engine = engine
        self._region = engine.region
        self._database = engine.region.database
        self._settings = settings
        self._connections = connections
        self._traffic = traffic
        self._config_file = "" if config_file is None else str(config_file.resolve())
        self._clients_max = clients_max
        self._ports = ports
        self._saving = saving
        self._logins = logins
        self._acl_log = acl_log
        self._figures = figures
        self._newcomers = newcomers
        self._started_ms = engine.now()
        self._run_id = secrets.token_hex(20)
        self._sections: dict[str, Callable[[Millis], Fields]] = {
            "Server": self._about_server,
            "Clients": self._about_clients,
            "Memory": self._about_memory,
            "Persistence": self._about_persistence,
            "Stats": self._about_stats,
            "Replication": self._about_replication,
            "CPU": self._about_cpu,
            "Modules": lambda _now: {},
            "Commandstats": self._about_commands,
            "Errorstats": self._about_errors,
            "Latencystats": self._about_latencies,
            "Cluster": lambda _now: {"cluster_enabled": 0},
            "Keyspace": self._about_keyspace,
            "Crdt": self._about_crdt,
        }

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {b"info": self._info}
        return documented(SessionCommand, functions)

    def _info(self, _session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """INFO [section …]: in an order of its own, each once; without one as with DEFAULT, which
        leaves out the long ones.  A section that does not exist is left out."""
        wanted = [shown(argument).lower() for argument in argv[1:]] or ["default"]
        parts = [
            f"# {title}\r\n" + "".join(f"{name}:{value}\r\n" for name, value in fields(now).items())
            for title, fields in self._chosen(wanted)
        ]
        return Verbatim("\r\n".join(parts).encode())

    def _chosen(self, wanted: Iterable[str]) -> Iterator[tuple[str, Callable[[Millis], Fields]]]:
        names = set(wanted)
        for title, fields in self._sections.items():
            name = title.lower()
            by_default = "default" in names and name not in NOT_BY_DEFAULT
            if name in names or by_default or names & ALL:
                yield title, fields

    # --- Sections -----------------------------------------------------------------------------

    def _about_server(self, now: Millis) -> Fields:
        plain, tls = self._ports.number(PLAIN), self._ports.number(TLS)
        uptime_s = max(0, now - self._started_ms) // 1000
        return {
            "redis_version": str(self._region.replica.redis_version),
            "redis_git_sha1": "00000000",
            "redis_git_dirty": 0,
            "redis_build_id": 0,
            "redis_mode": "standalone",
            "server_name": "crdtstream",
            "crdtstream_version": importlib.metadata.version("crdtstream"),
            "crdtstream_build": compiled.how(),
            "database_uid": shown_uid(self._region.replica.database_uid),
            "os": f"{platform.system()} {platform.release()} {platform.machine()}",
            "arch_bits": 64,
            "process_id": os.getpid(),
            "process_supervised": "no",
            "run_id": self._run_id,
            "tcp_port": plain or tls,
            "server_time_usec": now * 1000,
            "uptime_in_seconds": uptime_s,
            "uptime_in_days": uptime_s // 86_400,
            "hz": 10,
            "configured_hz": 10,
            "executable": sys.executable,
            "config_file": self._config_file,
            "io_threads_active": 0,
            **self._listeners({"tcp": plain, "tls": tls}),
        }

    def _listeners(self, ports: dict[str, int]) -> Fields:
        """By the numbers that Redis gives them: 1 is that of a socket file."""
        numbers = {"tcp": 0, "tls": 2}
        return {
            f"listener{numbers[name]}": f"name={name},bind={self._settings.host},port={port}"
            for name, port in ports.items()
            if port
        }

    def _about_clients(self, _now: Millis) -> Fields:
        database, connections = self._database, self._connections.values()
        postponed = sum(connection.is_postponed for connection in connections)
        return {
            "connected_clients": len(connections),
            "cluster_connections": 0,
            "maxclients": self._clients_max(),
            "blocked_clients": database.waiting_count + postponed,
            "tracking_clients": 0,
            "pubsub_clients": database.channels.session_count,
            "watching_clients": sum(bool(c.session.watched) for c in connections),
            "total_watched_keys": database.watched_key_count,
            "total_blocking_keys": database.awaited_key_count,
            "total_blocking_keys_on_nokey": 0,
        }

    def _about_memory(self, _now: Millis) -> Fields:
        rss, memory = resident_bytes(), self._region.memory
        parts = memory.account.parts
        # Before the first account there is none but the system's.
        used = memory.used or rss
        peak, total = max(used, peak_bytes(rss)), total_bytes()
        overhead = used - parts.get("nodes", 0) - parts.get("keys", 0)
        return {
            "used_memory": used,
            "used_memory_human": human(used),
            "used_memory_rss": rss,
            "used_memory_rss_human": human(rss),
            "used_memory_peak": peak,
            "used_memory_peak_human": human(peak),
            "used_memory_peak_perc": f"{100 * used / peak:.2f}%",
            "used_memory_overhead": overhead,
            "used_memory_startup": parts.get("base", 0),
            "used_memory_dataset": used - overhead,
            "total_system_memory": total,
            "total_system_memory_human": human(total),
            "maxmemory": memory.maxmemory,
            "maxmemory_human": human(memory.maxmemory),
            "maxmemory_policy": "noeviction",
            "mem_fragmentation_ratio": f"{rss / used:.2f}",
            "mem_replication_backlog": parts.get("log", 0),
            "mem_clients_normal": buffered_bytes(self._connections),
            "mem_allocator": "libc",
        }

    def _about_persistence(self, now: Millis) -> Fields:
        engine, region = self._engine, self._region
        outstanding, retention = region.outstanding, region.retention
        checkpointing, fetching = region.checkpointing, region.fetching
        residency = region.replica.residency
        began_ms = checkpointing.began_ms
        took_s = checkpointing.took_ms // 1000 if checkpointing.count else -1
        return {
            "loading": 0,
            "async_loading": 0,
            "rdb_changes_since_last_save": max(0, outstanding.left_seq - checkpointing.seq),
            "rdb_bgsave_in_progress": int(checkpointing.is_under_way),
            "rdb_last_save_time": self._saving.last_save_s,
            "rdb_last_bgsave_status": "err" if checkpointing.failure else "ok",
            "rdb_last_bgsave_time_sec": took_s,
            "rdb_current_bgsave_time_sec": -1
            if began_ms is None
            else max(0, now - began_ms) // 1000,
            "rdb_saves": checkpointing.count,
            "aof_enabled": 1,
            "aof_rewrite_in_progress": 0,
            "aof_rewrite_scheduled": 0,
            "aof_last_bgrewrite_status": "ok",
            "aof_last_write_status": "ok" if region.fault is None else "err",
            "aof_current_size": retention.log_bytes,
            "aof_base_size": 0,
            "aof_buffer_length": outstanding.queued_bytes,
            "aof_pending_bio_fsync": int(outstanding.durable_seq < outstanding.logged_seq),
            "appendfsync": engine.fsync.value,
            "log_commits": engine.stats.commits,
            "log_records_committed": engine.stats.records_committed,
            "log_commit_failures": engine.stats.commit_failures,
            "log_first_record": retention.first_seq,
            "log_last_record": outstanding.logged_seq,
            "log_begins": format_vv(retention.begins),
            "checkpoint_record": checkpointing.seq,
            "checkpoint_bytes": checkpointing.size_bytes,
            "checkpoint_failures": checkpointing.failures,
            "checkpoint_longest_turn_us": checkpointing.longest_turn_us,
            "checkpoint_failure": _one_line(checkpointing.failure or "no"),
            "macro_nodes_cold": residency.cold_count,
            "macro_nodes_on_disk_only": residency.absent_count,
            "images_read": fetching.stats.images,
            "images_read_in_place": residency.loaded_inline,
            "image_reads_failed": fetching.stats.failures,
            "image_read_failure": _one_line(fetching.fault or "no"),
            "disk_bytes": region.disk.used,
            "wal_bytes": region.disk.wal_bytes,
            "maxdisk": region.disk.maxdisk,
            "maxdisk_refused_writes": region.disk.refused,
            "maxmemory_refused_writes": region.memory.refused,
            "maxmemory_evicted_bytes": region.memory.evicted_bytes,
            "writes_refused": _one_line(self._region.refuses_writes or "no"),
        }

    def _about_stats(self, now: Millis) -> Fields:
        rates = self._traffic.rates(now)
        channels = self._database.channels
        counters = self._traffic.counters()
        fields: Fields = {
            "total_connections_received": counters["total_connections_received"],
            "total_commands_processed": counters["total_commands_processed"],
            "instantaneous_ops_per_sec": round(rates.commands),
            "total_net_input_bytes": counters["total_net_input_bytes"],
            "total_net_output_bytes": counters["total_net_output_bytes"],
            "instantaneous_input_kbps": f"{rates.bytes_in / 1024:.2f}",
            "instantaneous_output_kbps": f"{rates.bytes_out / 1024:.2f}",
            "rejected_connections": counters["rejected_connections"],
            "expired_keys": counters["expired_keys"],
            "evicted_keys": 0,
            "evicted_clients": counters["evicted_clients"],
            "pubsub_channels": len(channels.active(Kind.CHANNEL)),
            "pubsub_patterns": len(channels.active(Kind.PATTERN)),
            "pubsubshard_channels": len(channels.active(Kind.SHARD)),
            "latest_fork_usec": 0,
            "total_forks": 0,
            "tracking_total_keys": 0,
            "tracking_total_items": 0,
            "tracking_total_prefixes": 0,
            "unexpected_error_replies": 0,
            "total_error_replies": counters["total_error_replies"],
            "client_query_buffer_limit_disconnections": counters[
                "client_query_buffer_limit_disconnections"
            ],
            "client_output_buffer_limit_disconnections": counters[
                "client_output_buffer_limit_disconnections"
            ],
            **{
                f"acl_access_denied_{word}": self._acl_log.denied[reason] for reason, word in DENIED
            },
        }
        if self._region.replica.redis_version >= TLS_LOGINS_SINCE:
            fields["acl_access_denied_tls_cert"] = self._acl_log.denied[Reason.TLS_CERT]
        return fields

    def _about_replication(self, _now: Millis) -> Fields:
        # Every region takes writes; to a client of one region it is a master without replicas.
        settings, retention = self._settings, self._region.retention
        whose = f"{settings.database_id} {settings.region}".encode()
        return {
            "role": "master",
            "connected_slaves": 0,
            "master_failover_state": "no-failover",
            "master_replid": hashlib.sha256(whose).hexdigest()[:40],
            "master_replid2": "0" * 40,
            "master_repl_offset": applied_effects(self._region.replica),
            "second_repl_offset": -1,
            "repl_backlog_active": int(any(one.holds for one in retention.held.values())),
            "repl_backlog_size": retention.backlog_bytes_max,
            "repl_backlog_first_byte_offset": 0,
            "repl_backlog_histlen": retention.backlog_bytes,
        }

    def _about_cpu(self, _now: Millis) -> Fields:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "used_cpu_sys": f"{usage.ru_stime:.6f}",
            "used_cpu_user": f"{usage.ru_utime:.6f}",
            "used_cpu_sys_children": f"{children.ru_stime:.6f}",
            "used_cpu_user_children": f"{children.ru_utime:.6f}",
        }

    def _about_commands(self, _now: Millis) -> Fields:
        fields: Fields = {}
        for name, calls in self._database.statistics.used():
            usec, count = calls.usec, calls.calls
            fields[f"cmdstat_{name.decode()}"] = (
                f"calls={count},usec={usec},"
                f"usec_per_call={usec / count if count else 0:.2f},"
                f"rejected_calls={calls.rejected},failed_calls={calls.failed}"
            )
        return fields

    def _about_errors(self, _now: Millis) -> Fields:
        kinds = self._database.statistics.errors_by_kind()
        return {f"errorstat_{kind}": f"count={count}" for kind, count in kinds.items()}

    def _about_latencies(self, _now: Millis) -> Fields:
        fields: Fields = {}
        for name, calls in self._database.statistics.used():
            if calls.calls:
                levels = zip(PERCENTILES, calls.percentiles(PERCENTILES), strict=True)
                fields[f"latency_percentiles_usec_{name.decode()}"] = ",".join(
                    f"p{percent:g}={ns / 1000:.3f}" for percent, ns in levels
                )
        return fields

    def _about_keyspace(self, now: Millis) -> Fields:
        replica = self._region.replica
        count = len(replica)
        mean = replica.keys.mean_deadline()
        mean_ms = 0 if mean is None else max(0, mean - now)
        told = f"keys={count},expires={replica.keys.expiring_count},avg_ttl={mean_ms},subexpiry=0"
        return {"db0": told} if count else {}

    def _about_lag(self, now: Millis) -> Fields:
        """Effects that would be lost with this region, and the bounds on them."""
        staleness = self._region.staleness
        return {
            "crdt_replication_lag_state": staleness.state,
            "crdt_replication_lag_effects": staleness.lag.effects,
            "crdt_replication_lag_ms": staleness.lag.ms(now),
            "crdt_replication_acknowledged_per_sec": staleness.lag.acknowledged_per_second(now),
            "crdt_max_replication_lag_effects": staleness.lag_effects_max,
            "crdt_max_replication_lag_ms": staleness.lag_ms_max,
            "crdt_replication_lag_action": staleness.action.value,
            "crdt_replication_lag_exceeded": staleness.exceeded_count,
            "crdt_replication_lag_refused_writes": staleness.refused,
            "crdt_replication_lag_throttled_writes": staleness.throttled,
            "crdt_replication_lag_waiting_clients": staleness.waiting_count,
        }

    def _about_crdt(self, now: Millis) -> Fields:
        """The regions: what is applied and durable here, and how far behind us each peer is."""
        region = self._region
        replica, durable_vv = region.replica, region.outstanding.durable_vv
        fields: Fields = {
            "crdt_region": replica.region,
            "crdt_database_id": self._settings.database_id,
            "crdt_vv": format_vv(replica.vv),
            "crdt_durable_vv": format_vv(durable_vv),
            "crdt_tombstones": replica.tombstone_count,
            "crdt_xadd_id_uniqueness_mode": replica.id_mode.value,
        }
        own = region.numbering.own
        if own is not None:
            fields["crdt_incarnation"] = f"number={own.number},after={own.after_n}"
        fields |= self._about_lag(now)
        if self._logins is not None:
            for verdict, count in self._logins.refused_by_verdict().items():
                fields[f"crdt_logins_{verdict.value}"] = count
        if self._ports.contexts.certificates is not None:
            counts = self._ports.handshakes.counts
            fields["crdt_tls_handshakes"] = counts.done
            fields["crdt_tls_handshakes_failed"] = counts.failed
            fields["crdt_tls_handshakes_late"] = counts.late
        fields |= self._figures()
        fields["crdt_clients_without_login"] = self._newcomers.count
        fields["crdt_clients_cut_off_without_login"] = self._newcomers.cut_off
        drill = self._settings.drill
        if drill.clock_offset_ms:
            fields["crdt_drill_clock_offset_ms"] = drill.clock_offset_ms
        if drill.failpoint:
            fields["crdt_drill_failpoint"] = drill.failpoint
        for peer, vv in sorted(region.knowledge.vvs.items()):
            if peer not in region.peers.addresses:
                # It was removed, and its last effects may still come from others.
                continue
            behind = missing(vv, durable_vv)
            fields[f"crdt_peer_{peer}"] = f"effects_behind={behind},durable_vv={format_vv(vv)}"
        for peer, held in sorted(region.retention.held.items()):
            away_s = max(0, now - held.since_ms) // 1000
            fields[f"crdt_log_kept_for_{peer}"] = (
                f"keeping={held.keeping},seconds={away_s},bytes={held.bytes}"
            )
        for peer, pull in sorted(region.links.pulls.items()):
            # The log and `crdtstream status` say what to do.
            fields[f"crdt_link_{peer}"] = f"state={pull.link.state.value.replace(' ', '-')}"
        for one in region.membership.known.regions:
            if one.status is Status.REMOVED:
                cut = "unknown" if one.cut is None else one.cut
                fields[f"crdt_removed_{one.region}"] = f"epoch={one.changed},effects={cut}"
        return fields | self._about_bootstrap()

    def _about_bootstrap(self) -> Fields:
        """The state of another region that this one takes over."""
        bootstrap = self._region.bootstrap
        progress = bootstrap.progress
        return {
            "crdt_bootstrap_phase": bootstrap.phase.value,
            "crdt_bootstrap_source": bootstrap.source or 0,
            "crdt_bootstrap_images_done": progress.images_done,
            "crdt_bootstrap_images": progress.images,
            "crdt_bootstrap_bytes_done": progress.bytes_done,
            "crdt_bootstrap_bytes": progress.bytes,
            "crdt_bootstrap_bytes_per_sec": round(progress.rate),
            "crdt_bootstrap_seconds_left": progress.seconds_left or 0,
            "crdt_bootstrap_taken_over": bootstrap.count,
            "crdt_bootstrap_failures": bootstrap.failures,
            "crdt_bootstrap_failure": _one_line(bootstrap.failure),
        }


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
