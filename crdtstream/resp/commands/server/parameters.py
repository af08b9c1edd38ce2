"""The parameters of CONFIG: what each is at present, and what may be made of it.

What has no meaning here (maxmemory, save) stands there with the value that tells the truth, as
clients and exporters ask for it; it may be "set" to that.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from crdtstream.commands.arguments import I64_MAX, parse_i64
from crdtstream.core.ids import IdMode
from crdtstream.core.producers.idempotency import DURATION_S_MAX, MAXSIZE_MAX
from crdtstream.resp.clients.pubsub import UNREAD_BYTES_MAX, UNREAD_BYTES_SOFT, UNREAD_SOFT_MS
from crdtstream.settings import I32_MAX

if TYPE_CHECKING:
    from crdtstream.resp.server import RespServer

# A text to the change that it asks for.
Check: TypeAlias = Callable[[str], Callable[[], None]]

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
_UNITS: Final = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1 << 10,
    "m": 1000**2,
    "mb": 1 << 20,
    "g": 1000**3,
    "gb": 1 << 30,
}
_MEMORY: Final = re.compile(r"([0-9]{1,19})([a-z]*)", re.IGNORECASE)
_MIB: Final = 1 << 20


class BadValueError(Exception):
    """A value that a parameter does not take; the text is Redis's reason."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of CONFIG GET.

    Attributes:
        get: the value.
        check: turns a text into what ``set`` takes, or raises BadValueError; None: it cannot be
            changed while the server runs.
        setting: where the configuration file has it, as ``limits.clients_max``; None: nowhere.
        setting_value: what stands there at present.
    """

    get: Callable[[], str]
    check: Check | None = None
    setting: str | None = None
    setting_value: Callable[[], int | str] | None = None


def make_parameters(server: "RespServer") -> dict[str, Parameter]:
    """All parameters of a server, by name."""
    return {
        **_constants(),
        **_given_at_start(server),
        **_of_connections(server),
        **_of_observation(server),
        **_of_streams(server),
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
    return {name: _only(value) for name, value in values.items()} | {
        "databases": Parameter(lambda: "1"),
        "maxmemory": Parameter(lambda: "0", _no_memory_limit),
    }


def _given_at_start(server: "RespServer") -> dict[str, Parameter]:
    settings = server.settings
    return {
        "appendfsync": Parameter(
            lambda: settings.appendfsync,
            _unchanged(settings.appendfsync, ["everysec", "always", "no"]),
        ),
        "bind": Parameter(lambda: settings.host),
        "crdt_region": Parameter(lambda: str(settings.region)),
        "dir": Parameter(lambda: str(settings.dir)),
        "port": Parameter(lambda: str(server.port)),
        "tcp-backlog": Parameter(lambda: "511"),
    }


def _of_connections(server: "RespServer") -> dict[str, Parameter]:
    def limit_clients(value: int) -> None:
        server.limits = replace(server.limits, clients_max=value)

    def limit_output(value: int) -> None:
        server.limits = replace(server.limits, output_buffer_bytes_max=value)

    def limit_requests(**changes: int) -> None:
        server.limits = replace(server.limits, request=replace(server.limits.request, **changes))

    def set_idle_seconds(value: int) -> None:
        server.idle_seconds_max = value
        server.check_idle()

    def set_keepalive(value: int) -> None:
        server.tcp_keepalive_s = value

    return {
        "client-output-buffer-limit": Parameter(
            lambda: (
                f"normal {server.limits.output_buffer_bytes_max} 0 0 "
                f"pubsub {UNREAD_BYTES_MAX} {UNREAD_BYTES_SOFT} {UNREAD_SOFT_MS // 1000}"
            ),
            _output_limit(limit_output),
            "limits.output_buffer_bytes_max",
            lambda: server.limits.output_buffer_bytes_max,
        ),
        "client-query-buffer-limit": _number_parameter(
            lambda: server.limits.request.request_bytes_max,
            lambda value: limit_requests(request_bytes_max=value),
            "limits.query_buffer_bytes_max",
            _memory,
            least=_MIB,
        ),
        "maxclients": _number_parameter(
            lambda: server.limits.clients_max,
            limit_clients,
            "limits.clients_max",
            least=1,
            most=(1 << 32) - 1,
        ),
        "proto-max-bulk-len": _number_parameter(
            lambda: server.limits.request.bulk_bytes_max,
            lambda value: limit_requests(bulk_bytes_max=value),
            "limits.request_bytes_max",
            _memory,
            least=_MIB,
        ),
        "tcp-keepalive": _number_parameter(
            lambda: server.tcp_keepalive_s, set_keepalive, "tcp_keepalive", most=I32_MAX
        ),
        "timeout": _number_parameter(
            lambda: server.idle_seconds_max, set_idle_seconds, "timeout", most=I32_MAX
        ),
    }


def _of_observation(server: "RespServer") -> dict[str, Parameter]:
    slowlog, latency = server.slowlog, server.latency

    def set_slower_than(value: int) -> None:
        slowlog.slower_than_us = value
        server.watch_slowness()

    def set_slowlog_length(value: int) -> None:
        slowlog.length_max = value

    def set_latency_threshold(value: int) -> None:
        latency.threshold_ms = value
        server.watch_slowness()

    def set_log_level(value: str) -> None:
        server.log_level = LOG_LEVELS[value]
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(server.log_level))

    return {
        "latency-monitor-threshold": _number_parameter(
            lambda: latency.threshold_ms, set_latency_threshold, "latency_monitor_threshold"
        ),
        "loglevel": Parameter(
            lambda: _LOG_LEVELS_SHOWN[server.log_level],
            _one_of(list(LOG_LEVELS), set_log_level),
            "log_level",
            lambda: server.log_level,
        ),
        "slowlog-log-slower-than": _number_parameter(
            lambda: slowlog.slower_than_us, set_slower_than, "slowlog_log_slower_than", least=-1
        ),
        "slowlog-max-len": _number_parameter(
            lambda: slowlog.length_max, set_slowlog_length, "slowlog_max_len"
        ),
    }


def _of_streams(server: "RespServer") -> dict[str, Parameter]:
    replica = server.engine.replica
    nodes = replica.node_limits

    def set_entries_max(value: int) -> None:
        nodes.entries_max = value

    def set_bytes_max(value: int) -> None:
        nodes.bytes_max = value

    def set_idmp_duration(value: int) -> None:
        replica.idmp_duration_s = value

    def set_idmp_maxsize(value: int) -> None:
        replica.idmp_maxsize = value

    def set_id_mode(value: str) -> None:
        replica.id_mode = IdMode(value)

    def set_mkstream(value: str) -> None:
        replica.implicit_mkstream = value == "implicit"

    def mkstream() -> str:
        return "implicit" if replica.implicit_mkstream else "explicit"

    return {
        "crdt_xadd_id_uniqueness_mode": Parameter(
            lambda: replica.id_mode.value,
            _one_of([mode.value for mode in IdMode], set_id_mode),
            "crdt_xadd_id_uniqueness_mode",
            lambda: replica.id_mode.value,
        ),
        "crdt_xgroup_create_mkstream": Parameter(
            mkstream,
            _one_of(["explicit", "implicit"], set_mkstream),
            "crdt_xgroup_create_mkstream",
            mkstream,
        ),
        "stream-idmp-duration": _number_parameter(
            lambda: replica.idmp_duration_s,
            set_idmp_duration,
            "stream_idmp_duration",
            least=1,
            most=DURATION_S_MAX,
        ),
        "stream-idmp-maxsize": _number_parameter(
            lambda: replica.idmp_maxsize,
            set_idmp_maxsize,
            "stream_idmp_maxsize",
            least=1,
            most=MAXSIZE_MAX,
        ),
        "stream-node-max-bytes": _number_parameter(
            lambda: nodes.bytes_max, set_bytes_max, "stream_node_max_bytes", _memory
        ),
        "stream-node-max-entries": _number_parameter(
            lambda: nodes.entries_max, set_entries_max, "stream_node_max_entries"
        ),
    }


# --- Kinds of values ----------------------------------------------------------------------------


def _only(value: str) -> Parameter:
    """A parameter that may be set to what it is."""
    return Parameter(lambda: value, _one_of([value], lambda _value: None))


def _no_memory_limit(text: str) -> Callable[[], None]:
    value = parse_memory(text)
    if value is None:
        raise BadValueError("argument must be a memory value")
    if value:
        raise BadValueError("this server never evicts: trim streams instead; only 0 can be set")
    return lambda: None


def _unchanged(value: str, values: Sequence[str]) -> Check:
    """Takes the value that counts; another one only the configuration file can bring."""

    def check(text: str) -> Callable[[], None]:
        word = _word(text, values)
        if word != value:
            raise BadValueError(
                "it cannot be changed while the node runs: put it into the configuration file"
            )
        return lambda: None

    return check


def _one_of(values: Sequence[str], change: Callable[[str], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        word = _word(text, values)
        return lambda: change(word)

    return check


def _word(text: str, values: Sequence[str]) -> str:
    if text.lower() not in values:
        words = ", ".join(value or '""' for value in values)
        raise BadValueError(f"argument(s) must be one of the following: {words}")
    return text.lower()


def _number(least: int, most: int, change: Callable[[int], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        value = parse_i64(text.encode())
        if value is None:
            raise BadValueError("argument couldn't be parsed into an integer")
        _check_bounds(value, least, most)
        return lambda: change(value)

    return check


def _memory(least: int, most: int, change: Callable[[int], None]) -> Check:
    def check(text: str) -> Callable[[], None]:
        value = parse_memory(text)
        if value is None:
            raise BadValueError("argument must be a memory value")
        _check_bounds(value, least, most)
        return lambda: change(value)

    return check


def parse_memory(text: str) -> int | None:
    """Bytes with Redis's units: ``4096``, ``4kb`` (1024), ``4k`` (1000), ``1gb``."""
    match = _MEMORY.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(match[1]) * _UNITS[match[2].lower()]


def _check_bounds(value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadValueError(f"argument must be between {least} and {most} inclusive")


def _number_parameter(
    get: Callable[[], int],
    change: Callable[[int], None],
    setting: str,
    check: Callable[[int, int, Callable[[int], None]], Check] = _number,
    *,
    least: int = 0,
    most: int = I64_MAX,
) -> Parameter:
    return Parameter(lambda: str(get()), check(least, most, change), setting, get)


def _output_limit(change: Callable[[int], None]) -> Check:
    """``normal <hard> <soft> <seconds>``; the soft limit is not to be had."""

    def check(text: str) -> Callable[[], None]:
        words = text.split()
        if not words or len(words) % 4:
            raise BadValueError("Wrong number of arguments in buffer limit configuration.")
        if words[0].lower() != "normal" or len(words) > 4:
            raise BadValueError("Only the class normal can be set.")
        hard, soft, seconds = (parse_memory(word) for word in words[1:])
        if hard is None or soft is None or seconds is None or hard > I64_MAX:
            raise BadValueError(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration."
            )
        if soft or seconds:
            raise BadValueError("The class normal has a hard limit only: the others must be 0.")
        return lambda: change(hard)

    return check
