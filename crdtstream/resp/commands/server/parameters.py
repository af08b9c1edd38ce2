"""The parameters of CONFIG: the present value of each, and the values that it may be set to.

Clients and exporters also ask for parameters without a meaning here (hz, save).  These have
the value that is true here, and may be "set" to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import structlog

from crdtstream.core.notifications import parse_classes, shown_classes, whole_text
from crdtstream.core.producers.idempotency import DURATION_S_MAX, MAXSIZE_MAX
from crdtstream.core.replica import Replica
from crdtstream.core.tuning import Tuned
from crdtstream.database.acl.log import AclLog
from crdtstream.database.notifications import Notifications
from crdtstream.region.region import Region
from crdtstream.region.tuning import tunables_of
from crdtstream.resp.accounts import Accounts, AccountsError
from crdtstream.resp.clients.idle import IdleClients
from crdtstream.resp.clients.limits import ConnectionLimits
from crdtstream.resp.clients.memory_bound import ClientMemory, MemoryBound
from crdtstream.resp.clients.output_limits import OutputLimits
from crdtstream.resp.commands.server.latency import LatencyMonitor
from crdtstream.resp.commands.server.slowlog import Slowlog
from crdtstream.resp.commands.server.slowness import Slowness
from crdtstream.resp.commands.server.tls import CertificateLogins, TlsParameters
from crdtstream.resp.commands.server.values import (
    BadValueError,
    Parameter,
    clients_allowed,
    memory,
    memory_bound,
    number_parameter,
    one_of,
    only,
    output_limits,
)
from crdtstream.resp.transport.ports import ClientPorts
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import I32_MAX

# Redis's names of log levels, and ours.
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
    """Bounds that connections read while they are open.

    Attributes:
        limits: how much a client may send, and leave unread; replaced as a whole.
        tcp_keepalive_s: of connections that are accepted from now on.
    """

    limits: ConnectionLimits
    tcp_keepalive_s: int

    @property
    def memory(self) -> ClientMemory:
        """The bound on the memory of all clients."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of the node that the parameters are about.

    Attributes:
        settings: as the node was started.
        ports: where clients are listened for.
        certificate_logins: see there.
    """

    settings: NodeSettings
    region: Region
    bounds: Bounds
    idle: IdleClients
    slowlog: Slowlog
    latency: LatencyMonitor
    slowness: Slowness
    ports: ClientPorts
    certificate_logins: CertificateLogins
    accounts: Accounts
    acl_log: AclLog


def make_parameters(parts: Parts) -> dict[str, Parameter]:
    """All parameters of a server, by name."""
    return {
        **_constants(),
        **_given_at_start(parts),
        **TlsParameters(parts.ports, parts.certificate_logins).parameters(),
        **_of_connections(parts.bounds, parts.idle),
        **_of_observation(parts),
        "notify-keyspace-events": _of_notifications(parts.region.database.notifications),
        **_of_users(parts.accounts, parts.acl_log, parts.settings),
        **{name: _tuned(tuned) for name, tuned in tunables_of(parts.region).items()},
        **_of_streams(parts.region.replica),
    }


def _constants() -> dict[str, Parameter]:
    """Parameters whose value cannot be changed."""
    values = {
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
        "maxmemory-policy": "noeviction",
        "replicaof": "",
        "save": "",
        "slaveof": "",
        "unixsocket": "",
    }
    return {name: only(value) for name, value in values.items()} | {
        "databases": Parameter(lambda: "1"),
    }


def _given_at_start(parts: Parts) -> dict[str, Parameter]:
    settings = parts.settings
    return {
        "aclfile": Parameter(lambda: str(settings.aclfile or "")),
        "bind": Parameter(lambda: settings.host),
        "crdt_region": Parameter(lambda: str(settings.region)),
        "dir": Parameter(lambda: str(settings.dir)),
        "tcp-backlog": Parameter(lambda: "511"),
    }


def _of_connections(bounds: Bounds, idle: IdleClients) -> dict[str, Parameter]:
    def limit_clients(value: int) -> None:
        bounds.limits = replace(bounds.limits, clients_max=value)

    def limit_output(value: OutputLimits) -> None:
        bounds.limits = replace(bounds.limits, output=value)

    def limit_memory(value: MemoryBound) -> None:
        bounds.memory.bound = value

    def limit_requests(**changes: int) -> None:
        bounds.limits = replace(bounds.limits, request=replace(bounds.limits.request, **changes))

    def set_idle_seconds(value: int) -> None:
        idle.seconds_max = value
        idle.watch()

    def set_keepalive(value: int) -> None:
        bounds.tcp_keepalive_s = value

    return {
        "client-output-buffer-limit": Parameter(
            lambda: str(bounds.limits.output),
            output_limits(lambda: bounds.limits.output, limit_output),
            "limits.output_buffer_bytes_max",
            lambda: bounds.limits.output.normal.hard,
            lambda: _settings_of_output(bounds.limits.output),
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
        "maxmemory-clients": Parameter(
            lambda: str(bounds.memory.bound),
            memory_bound(limit_memory),
            "maxmemory_clients",
            lambda: str(bounds.memory.bound),
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


def _settings_of_output(limits: OutputLimits) -> dict[str, int | str]:
    """All settings of these bounds but one: those that are not the defaults."""
    found: dict[str, int | str] = {
        "output_buffer_bytes_soft": limits.normal.soft,
        "output_buffer_soft_s": limits.normal.soft_s,
        "pubsub_buffer_bytes_max": limits.pubsub.hard,
        "pubsub_buffer_bytes_soft": limits.pubsub.soft,
        "pubsub_buffer_soft_s": limits.pubsub.soft_s,
    }
    return {f"limits.{name}": value for name, value in found.items()}


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


def _of_users(accounts: Accounts, log: AclLog, settings: NodeSettings) -> dict[str, Parameter]:
    password = settings.requirepass
    users = accounts.users

    def set_length(value: int) -> None:
        log.length_max = value

    def set_channels(value: str) -> None:
        users.all_channels_at_first = value == "allchannels"

    def channels() -> str:
        return "allchannels" if users.all_channels_at_first else "resetchannels"

    def check_password(text: str) -> Callable[[], None]:
        given = text.encode()
        try:
            accounts.check_default_password(given)
        except AccountsError as error:
            raise BadValueError(str(error)) from None
        return lambda: set_password(text, given)

    def set_password(text: str, given: bytes) -> None:
        nonlocal password
        password = text
        accounts.set_default_password(given)

    return {
        "acl-pubsub-default": Parameter(
            channels,
            one_of(["allchannels", "resetchannels"], set_channels),
            "acl_pubsub_default",
            channels,
        ),
        "acllog-max-len": number_parameter(lambda: log.length_max, set_length, "acllog_max_len"),
        # Never shown: a user who may read the configuration need not know it.
        "requirepass": Parameter(
            lambda: "",
            check_password,
            # Settings that name a file with the password stay as they are.
            None if settings.requirepass_file else "requirepass",
            lambda: password,
            is_exact=True,
        ),
    }


def _of_notifications(notifications: Notifications) -> Parameter:
    def check(text: str) -> Callable[[], None]:
        classes = parse_classes(text)
        if classes is None:
            raise BadValueError("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
        return lambda: notifications.want(classes)

    return Parameter(
        lambda: shown_classes(notifications.classes),
        check,
        "notify_keyspace_events",
        lambda: whole_text(notifications.classes),
    )


def _of_streams(replica: Replica) -> dict[str, Parameter]:
    nodes = replica.node_limits

    def set_entries_max(value: int) -> None:
        nodes.entries_max = value

    def set_bytes_max(value: int) -> None:
        nodes.bytes_max = value

    def set_idmp_duration(value: int) -> None:
        replica.keys.idmp_duration_s = value

    def set_idmp_maxsize(value: int) -> None:
        replica.keys.idmp_maxsize = value

    return {
        "stream-idmp-duration": number_parameter(
            lambda: replica.keys.idmp_duration_s,
            set_idmp_duration,
            "stream_idmp_duration",
            least=1,
            most=DURATION_S_MAX,
        ),
        "stream-idmp-maxsize": number_parameter(
            lambda: replica.keys.idmp_maxsize,
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
