"""Tunables: settings of a region that an operator may change while it runs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from crdtstream.core.sizes import parse_memory
from crdtstream.core.tuning import TUNABLES, Host, Tunable, Tuned
from crdtstream.region.answering import AnswerTime
from crdtstream.region.bootstrap_bounds import BootstrapBounds
from crdtstream.region.checkpointing import Checkpointing, refusal_of_log_bytes
from crdtstream.region.durability import APPENDFSYNC, Durability
from crdtstream.region.region import Region
from crdtstream.region.retention import Retention
from crdtstream.region.room import BOUND_BYTES_MAX, Room
from crdtstream.region.staleness import (
    LAG_EFFECTS_MAX_HIGHEST,
    LAG_MS_MAX_HIGHEST,
    LagAction,
    Staleness,
)

# Ten years.
SECONDS_MAX: Final = 3_650 * 86_400
LATENCY_MS_MAX_HIGHEST: Final = (1 << 31) - 1


def _number(
    name: str,
    most: int,
    get: Callable[[Host], int],
    put: Callable[[Host, int], None],
    zero: str = "no bound",
) -> Tunable[Host]:
    """A number from 0, which means ``zero``, to ``most``."""

    def is_within(text: str) -> bool:
        # No signs, no blanks, no digits of other scripts; and no longer than it can be.
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        return is_number and int(text) <= most

    return Tunable(
        name,
        (),
        lambda host: str(get(host)),
        lambda host, value: put(host, int(value)),
        f"a number from 0 ({zero}) to {most}",
        is_within,
    )


def _size(
    name: str,
    get: Callable[[Host], int],
    put: Callable[[Host, int], None],
    refusal: Callable[[Host, int], str | None] = lambda _host, _size: None,
) -> Tunable[Host]:
    """A number of bytes, with one of Redis's units or without."""

    def size_of(text: str) -> int:
        size = parse_memory(text)
        assert size is not None, "it was checked"
        return size

    def is_within(text: str) -> bool:
        size = parse_memory(text)
        return size is not None and size <= BOUND_BYTES_MAX

    return Tunable(
        name,
        (),
        lambda host: str(get(host)),
        lambda host, value: put(host, size_of(value)),
        "a memory value",
        is_within,
        lambda host, value: refusal(host, size_of(value)),
    )


LAG_EFFECTS: Final[Tunable[Staleness]] = _number(
    "max_replication_lag_effects",
    LAG_EFFECTS_MAX_HIGHEST,
    lambda staleness: staleness.lag_effects_max,
    lambda staleness, value: staleness.tune(lag_effects_max=value),
)
LAG_MS: Final[Tunable[Staleness]] = _number(
    "max_replication_lag_ms",
    LAG_MS_MAX_HIGHEST,
    lambda staleness: staleness.lag_ms_max,
    lambda staleness, value: staleness.tune(lag_ms_max=value),
)
LAG_ACTION: Final[Tunable[Staleness]] = Tunable(
    "replication_lag_action",
    tuple(action.value for action in LagAction),
    lambda staleness: staleness.action.value,
    lambda staleness, value: staleness.tune(action=LagAction(value)),
)


def _tune_latency(answer_time: AnswerTime, value: int) -> None:
    answer_time.ms_max = value


def _tune_checkpoint_bytes(checkpointing: Checkpointing, value: int) -> None:
    checkpointing.log_bytes = value


def _tune_checkpoint_interval(checkpointing: Checkpointing, value: int) -> None:
    checkpointing.interval_s = value


def _tune_backlog_size(retention: Retention, value: int) -> None:
    retention.backlog_bytes_max = value


def _tune_backlog_ttl(retention: Retention, value: int) -> None:
    retention.backlog_ttl_s = value


def _tune_bootstrap_speed(bounds: BootstrapBounds, value: int) -> None:
    bounds.bytes_per_s = value


def _tune_bootstrap_backlog(bounds: BootstrapBounds, value: int) -> None:
    bounds.backlog_bytes_max = value


CHECKPOINTING: Final[tuple[Tunable[Checkpointing], ...]] = (
    _size(
        "checkpoint_log_bytes",
        lambda one: one.log_bytes,
        _tune_checkpoint_bytes,
        lambda _, value: refusal_of_log_bytes(value),
    ),
    _number(
        "checkpoint_interval_s",
        SECONDS_MAX,
        lambda one: one.interval_s,
        _tune_checkpoint_interval,
        "time is no reason",
    ),
)
BACKLOG: Final[tuple[Tunable[Retention], ...]] = (
    _size("replication_backlog_size", lambda one: one.backlog_bytes_max, _tune_backlog_size),
    _number(
        "replication_backlog_ttl_s",
        SECONDS_MAX,
        lambda one: one.backlog_ttl_s,
        _tune_backlog_ttl,
        "nothing is kept",
    ),
)
BOOTSTRAPS: Final[tuple[Tunable[BootstrapBounds], ...]] = (
    _size("bootstrap_bytes_per_s", lambda one: one.bytes_per_s, _tune_bootstrap_speed),
    _size("bootstrap_backlog_size", lambda one: one.backlog_bytes_max, _tune_bootstrap_backlog),
)
ROOM: Final[tuple[Tunable[Room], ...]] = (
    _size(
        "maxmemory",
        lambda room: room.memory.maxmemory,
        lambda room, value: room.tune(maxmemory=value),
        lambda room, value: room.memory.refusal(value),
    ),
    _size(
        "maxdisk",
        lambda room: room.disk.maxdisk,
        lambda room, value: room.tune(maxdisk=value),
        lambda room, value: room.disk.refusal(value),
    ),
)
FSYNC: Final[Tunable[Durability]] = Tunable(
    "appendfsync",
    APPENDFSYNC,
    lambda durability: durability.appendfsync,
    lambda durability, value: durability.tune(value),
)
LATENCY: Final[Tunable[AnswerTime]] = _number(
    "availability_latency_tolerance_ms",
    LATENCY_MS_MAX_HIGHEST,
    lambda answer_time: answer_time.ms_max,
    _tune_latency,
)
STALENESS: Final = (LAG_EFFECTS, LAG_MS, LAG_ACTION)


def tunables_of(region: Region) -> Mapping[str, Tuned[Any]]:
    """All tunables, by name."""
    return {
        **{name: Tuned(tunable, region.replica) for name, tunable in TUNABLES.items()},
        **{tunable.name: Tuned(tunable, region.staleness) for tunable in STALENESS},
        **{tunable.name: Tuned(tunable, region.checkpointing) for tunable in CHECKPOINTING},
        **{tunable.name: Tuned(tunable, region.retention) for tunable in BACKLOG},
        **{tunable.name: Tuned(tunable, region.retention.bootstrap) for tunable in BOOTSTRAPS},
        **{tunable.name: Tuned(tunable, region.room) for tunable in ROOM},
        LATENCY.name: Tuned(LATENCY, region.answer_time),
        FSYNC.name: Tuned(FSYNC, region.durability),
    }
