"""The parameters of CONFIG: what each is at present, and what it may be set to.

Clients and exporters also ask for parameters without a meaning here (hz, save).  These have
the value that tells the truth, and may be "set" to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import structlog

from crdtstream.core.producers.idempotency import DURATION_S_MAX, MAXSIZE_MAX
from crdtstream.core.replica import Replica
from crdtstream.core.tuning import Tuned
from crdtstream.region.region import Region
from crdtstream.region.tuning import tunables_of
from crdtstream.resp.clients.idle import IdleClients
from crdtstream.resp.clients.limits import ConnectionLimits
from crdtstream.resp.clients.pubsub import UNREAD_BYTES_MAX, UNREAD_BYTES_SOFT, UNREAD_SOFT_MS
from crdtstream.resp.commands.server.latency import LatencyMonitor
from crdtstream.resp.commands.server.slowlog import Slowlog
from crdtstream.resp.commands.server.slowness import Slowness
from crdtstream.resp.commands.server.values import (
    BadValueError,
    Parameter,
    clients_allowed,
    memory,
    number_parameter,
    one_of,
    only,
    output_limit,
)
from crdtstream.settings import I32_MAX, NodeSettings

# Redis's words for how much the log tells, and ours.
LOG_LEVELS: Final[Mapping[str, str]] = {
    "debug": "debug",
    "verbose": "info",
    "notice": "info",
    "warning": "warning",
    "nothing": "error",
}
_LOG_LEVELS_SHOWN: Final = {
    "debug": "debug",
    "info": "notice",
    "warning": "warning",
    "error": "nothing",
}
_MIB: Final = 1 << 20


class Bounds(Protocol):
    """What a connection looks at while it lives.

    Attributes:
        limits: how much a client may send, and leave unread; replaced as a whole.
        tcp_keepalive_s: of connections that come from now on.
    """

    limits: ConnectionLimits
    tcp_keepalive_s: int


@dataclass(frozen=True, slots=True)
class Parts:
    """What the parameters are about.

    Attributes:
        settings: as the node was started.
        port: where clients are listened for, once they are.
    """

    settings: NodeSettings
    region: Region
    bounds: Bounds
    idle: IdleClients
    slowlog: Slowlog
    latency: LatencyMonitor
    slowness: Slowness
    port: Callable[[], int]


def make_parameters(parts: Parts) -> dict[str, Parameter]:
    """All parameters of a server, by name."""
    return {
        **_constants(),
        **_given_at_start(parts),
        **_of_connections(parts.bounds, parts.idle),
        **_of_observation(parts),
        **{name: _tuned(tuned) for name, tuned in tunables_of(parts.region).items()},
        **_of_streams(parts.region.replica),
    }


def _constants() -> dict[str, Parameter]:
    """What is so whatever anybody wants."""
    values = {
        "aclfile": "",
        "activedefrag": "no",
        "appendonly": "yes",
        "cluster-enabled": "no",
        "daemonize": "no",
        "enable-module-command": "no",
        "hz": "10",
        "io-threads": "1",
        "latency-tracking": "yes",
        "latency-tracking-info-percentiles": "50 99 99.9",
        "logfile": "",
        "maxmemory-clients": "0",
        "maxmemory-policy": "noeviction",
        "replicaof": "",
        "save": "",
        "slaveof": "",
        "tls-port": "0",
        "unixsocket": "",
    }
    return {name: only(value) for name, value in values.items()} | {
        "databases": Parameter(lambda: "1"),
    }


def _given_at_start(parts: Parts) -> dict[str, Parameter]:
    settings = parts.settings
    return {
        "bind": Parameter(lambda: settings.host),
        "crdt_region": Parameter(lambda: str(settings.region)),
        "dir": Parameter(lambda: str(settings.dir)),
        "port": Parameter(lambda: str(parts.port())),
        "tcp-backlog": Parameter(lambda: "511"),
    }


def _of_connections(bounds: Bounds, idle: IdleClients) -> dict[str, Parameter]:
    def limit_clients(value: int) -> None:
        bounds.limits = replace(bounds.limits, clients_max=value)

    def limit_output(value: int) -> None:
        bounds.limits = replace(bounds.limits, output_buffer_bytes_max=value)

    def limit_requests(**changes: int) -> None:
        bounds.limits = replace(bounds.limits, request=replace(bounds.limits.request, **changes))

    def set_idle_seconds(value: int) -> None:
        idle.seconds_max = value
        idle.watch()

    def set_keepalive(value: int) -> None:
        bounds.tcp_keepalive_s = value

    return {
        "client-output-buffer-limit": Parameter(
            lambda: (
                f"normal {bounds.limits.output_buffer_bytes_max} 0 0 "
                f"pubsub {UNREAD_BYTES_MAX} {UNREAD_BYTES_SOFT} {UNREAD_SOFT_MS // 1000}"
            ),
            output_limit(limit_output),
            "limits.output_buffer_bytes_max",
            lambda: bounds.limits.output_buffer_bytes_max,
        ),
        "client-query-buffer-limit": number_parameter(
            lambda: bounds.limits.request.request_bytes_max,
            lambda value: limit_requests(request_bytes_max=value),
            "limits.query_buffer_bytes_max",
            memory,
            least=_MIB,
        ),
        "maxclients": number_parameter(
            lambda: bounds.limits.clients_max,
            limit_clients,
            "limits.clients_max",
            clients_allowed,
            least=1,
            most=(1 << 32) - 1,
        ),
        "proto-max-bulk-len": number_parameter(
            lambda: bounds.limits.request.bulk_bytes_max,
            lambda value: limit_requests(bulk_bytes_max=value),
            "limits.request_bytes_max",
            memory,
            least=_MIB,
        ),
        "tcp-keepalive": number_parameter(
            lambda: bounds.tcp_keepalive_s, set_keepalive, "tcp_keepalive", most=I32_MAX
        ),
        "timeout": number_parameter(
            lambda: idle.seconds_max, set_idle_seconds, "timeout", most=I32_MAX
        ),
    }


def _of_observation(parts: Parts) -> dict[str, Parameter]:
    slowlog, latency, slowness = parts.slowlog, parts.latency, parts.slowness
    log_level: str = parts.settings.log_level

    def set_slower_than(value: int) -> None:
        slowlog.slower_than_us = value
        slowness.watch()

    def set_slowlog_length(value: int) -> None:
        slowlog.length_max = value

    def set_latency_threshold(value: int) -> None:
        latency.threshold_ms = value
        slowness.watch()

    def set_log_level(value: str) -> None:
        nonlocal log_level
        log_level = LOG_LEVELS[value]
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(log_level))

    return {
        "latency-monitor-threshold": number_parameter(
            lambda: latency.threshold_ms, set_latency_threshold, "latency_monitor_threshold"
        ),
        "loglevel": Parameter(
            lambda: _LOG_LEVELS_SHOWN[log_level],
            one_of(list(LOG_LEVELS), set_log_level),
            "log_level",
            lambda: log_level,
        ),
        "slowlog-log-slower-than": number_parameter(
            lambda: slowlog.slower_than_us, set_slower_than, "slowlog_log_slower_than", least=-1
        ),
        "slowlog-max-len": number_parameter(
            lambda: slowlog.length_max, set_slowlog_length, "slowlog_max_len"
        ),
    }


def _of_streams(replica: Replica) -> dict[str, Parameter]:
    nodes = replica.node_limits

    def set_entries_max(value: int) -> None:
        nodes.entries_max = value

    def set_bytes_max(value: int) -> None:
        nodes.bytes_max = value

    def set_idmp_duration(value: int) -> None:
        replica.idmp_duration_s = value

    def set_idmp_maxsize(value: int) -> None:
        replica.idmp_maxsize = value

    return {
        "stream-idmp-duration": number_parameter(
            lambda: replica.idmp_duration_s,
            set_idmp_duration,
            "stream_idmp_duration",
            least=1,
            most=DURATION_S_MAX,
        ),
        "stream-idmp-maxsize": number_parameter(
            lambda: replica.idmp_maxsize,
            set_idmp_maxsize,
            "stream_idmp_maxsize",
            least=1,
            most=MAXSIZE_MAX,
        ),
        "stream-node-max-bytes": number_parameter(
            lambda: nodes.bytes_max, set_bytes_max, "stream_node_max_bytes", memory
        ),
        "stream-node-max-entries": number_parameter(
            lambda: nodes.entries_max, set_entries_max, "stream_node_max_entries"
        ),
    }


def _tuned(tuned: Tuned[Any]) -> Parameter:
    tunable = tuned.tunable

    def check(text: str) -> Callable[[], None]:
        if not tunable.takes(text):
            raise BadValueError(f"argument must be {tunable.wanted}")
        refusal = tuned.refusal(text)
        if refusal is not None:
            raise BadValueError(refusal)
        return lambda: tuned.put(text)

    takes = one_of(tunable.values, tuned.put) if tunable.values else check
    return Parameter(tuned.get, takes, tunable.setting, lambda: _as_setting(tuned.get()))


def _as_setting(text: str) -> int | str:
    return int(text) if text.isdigit() else text
