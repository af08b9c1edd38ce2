"""Sources of the metrics' values.

Everything is read at the time of the scrape, from what the node keeps anyway.  A source is a
generator, and the page lets the event loop go on between two of its samples.  So a source first
copies what it walks over into a list.
"""

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha1
from itertools import accumulate
from math import nan
from typing import Final, TypeAlias

from crdtstream.access.logins import JUDGED, REFUSED, Door
from crdtstream.core.clock import VersionVector, missing
from crdtstream.database.statistics import CallStatistics
from crdtstream.metrics import definitions as d
from crdtstream.metrics.definitions import Definition
from crdtstream.metrics.figure_sources import ClientFigures, FigureSources
from crdtstream.metrics.stalls import StallWatch
from crdtstream.metrics.walk import Found
from crdtstream.region.bootstrap import CopyProgress, Phase
from crdtstream.region.freshness import Freshness
from crdtstream.region.histogram import Histogram
from crdtstream.region.links.link import LinkState
from crdtstream.region.links.pull import Pull
from crdtstream.region.links.stats import ServeStats
from crdtstream.region.retention import Keeping
from crdtstream.region.staleness import LagAction, LagState
from crdtstream.region.write_gate import REFUSED_AS_STALE, REFUSED_BY_DISK

# Longer names of keys and groups are cut.
NAME_LENGTH_MAX: Final = 128
NS_PER_SECOND: Final = 1_000_000_000
US_PER_SECOND: Final = 1_000_000
MS_PER_SECOND: Final = 1_000
# Why writes are refused, besides the region's own words for it.
REFUSED_AS_LAGGED: Final = "lagged"
REFUSED_BY_MEMORY: Final = "maxmemory"
REFUSED_BY_FOLDER: Final = "maxdisk"
# The error reply for want of a password.
NO_AUTH_KIND: Final = "NOAUTH"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's value.

    Attributes:
        cumulated: how many values were within each bound, and how many there were at all.
        total: all values added up, in the unit of the metric.
    """

    cumulated: list[int]
    total: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric, with the values of its labels."""

    value: float | Distribution
    labels: tuple[str, ...] = ()


Source: TypeAlias = Callable[[], Iterable[Sample]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Figures that are known before the first source is asked.

    Attributes:
        found: by the last walk.
        log_bytes: size of the log's records.
        now_ns: by the walker's clock.
    """

    clients: ClientFigures
    found: Found | None
    log_bytes: int
    now_ns: int


class Figures:
    """The sources of one node."""

    def __init__(self, sources: FigureSources, stalls: StallWatch) -> None:
        self._sources = sources
        self._engine = sources.engine
        self._region = sources.engine.region
        self._replica = sources.engine.region.replica
        self._stalls = stalls

    def sources(self, snapshot: Snapshot) -> dict[Definition, Source]:
        """Each metric's source, in the order of the page."""
        found = snapshot.found
        return {
            **self._of_node(),
            **self._of_clients(snapshot.clients),
            d.REFUSALS: lambda: self._refusals(snapshot.clients),
            **self._of_commands(),
            **self._of_links(),
            **self._of_bootstrap(),
            **self._of_replication_lag(),
            **self._of_effects(),
            **self._of_log(snapshot.log_bytes),
            **self._of_storage(),
            **self._of_keys(),
            **({} if found is None else _of_walk(found, snapshot.now_ns)),
        }

    # --- The node -------------------------------------------------------------------------------

    def _of_node(self) -> dict[Definition, Source]:
        settings, stalls = self._sources.settings, self._stalls
        answer_time = self._region.answer_time
        about = (self._sources.version, platform.python_version(), settings.database_id)
        return {
            d.BUILD_INFO: lambda: [Sample(1, about)],
            d.WRITES_REFUSED: lambda: [
                Sample(self._region.fault is not None, (REFUSED_BY_DISK,)),
                Sample(self._region.opening.obstacle is not None, (REFUSED_AS_STALE,)),
                Sample(self._region.staleness.obstacle is not None, (REFUSED_AS_LAGGED,)),
                Sample(self._region.memory.is_full, (REFUSED_BY_MEMORY,)),
                Sample(self._region.disk.is_full, (REFUSED_BY_FOLDER,)),
            ],
            d.LOOP_STALL_SECONDS: lambda: [_scaled(stalls.stall_us, US_PER_SECOND)],
            d.LOOP_STALL_MAX_SECONDS: lambda: [Sample(stalls.longest_us / US_PER_SECOND)],
            d.ANSWER_WAIT_SECONDS: lambda: [
                Sample(answer_time.loop_ms / MS_PER_SECOND, ("loop",)),
                Sample(answer_time.log_ms / MS_PER_SECOND, ("log",)),
            ],
            d.ANSWER_WAIT_BOUND_SECONDS: lambda: [Sample(answer_time.ms_max / MS_PER_SECOND)],
        }

    def _refusals(self, clients: ClientFigures) -> Iterator[Sample]:
        statistics = self._region.database.statistics
        for reason in (REFUSED_BY_DISK, REFUSED_AS_STALE):
            yield Sample(statistics.refused.get(reason, 0), (reason,))
        yield Sample(self._region.staleness.refused, (REFUSED_AS_LAGGED,))
        yield Sample(self._region.memory.refused, (REFUSED_BY_MEMORY,))
        yield Sample(self._region.disk.refused, (REFUSED_BY_FOLDER,))
        yield Sample(statistics.errors_by_kind().get(NO_AUTH_KIND, 0), ("no_auth",))
        yield Sample(clients.rejected, ("clients_max",))
        yield Sample(clients.cut_off_unread, ("output_buffer",))
        yield Sample(clients.cut_off_newcomers, ("no_login",))

    # --- Commands and clients -------------------------------------------------------------------

    def _of_clients(self, clients: ClientFigures) -> dict[Definition, Source]:
        channels = self._region.database.channels
        return {
            d.CLIENTS: lambda: [Sample(clients.connected)],
            d.CLIENTS_MAX: lambda: [Sample(clients.clients_max)],
            d.CLIENTS_BLOCKED: lambda: [Sample(clients.blocked)],
            d.CLIENTS_SUBSCRIBED: lambda: [Sample(channels.session_count)],
            d.CONNECTIONS: lambda: [Sample(clients.connections)],
            d.LOGINS_REFUSED: lambda: [
                Sample(self._sources.logins.refused[door, verdict], (door.value, verdict.value))
                for door in Door
                for verdict in (JUDGED if door is Door.RESP else REFUSED)
            ],
            **self._of_certificates(clients),
            d.CLIENT_RECEIVED_BYTES: lambda: [Sample(clients.received_bytes)],
            d.CLIENT_SENT_BYTES: lambda: [Sample(clients.sent_bytes)],
        }

    def _of_certificates(self, clients: ClientFigures) -> dict[Definition, Source]:
        """None without certificates."""
        certificates, callers = self._sources.certificates, self._sources.callers
        if certificates is None:
            return {}
        found: dict[Definition, Source] = {}
        if callers is not None:
            found[d.PEER_AUTH_FAILURES] = lambda: [Sample(callers.failures)]
        return found | {
            d.TLS_HANDSHAKES: lambda: [
                Sample(clients.handshakes_done, ("done",)),
                Sample(clients.handshakes_failed, ("failed",)),
                Sample(clients.handshakes_late, ("late",)),
            ],
            d.TLS_NOT_BEFORE_SECONDS: lambda: [
                Sample(certificates.current.not_before.timestamp()),
            ],
            d.TLS_NOT_AFTER_SECONDS: lambda: [Sample(certificates.current.not_after.timestamp())],
            d.TLS_RELOADS: lambda: [
                Sample(certificates.reloads, ("used",)),
                Sample(certificates.reload_failures, ("refused",)),
            ],
            d.TLS_REFUSED: lambda: [Sample(certificates.fault is not None)],
        }

    def _of_commands(self) -> dict[Definition, Source]:
        statistics, runs = self._region.database.statistics, self._region.database.runs

        def by_command(value: Callable[[CallStatistics], float | Distribution]) -> Source:
            return lambda: (
                Sample(value(calls), (name.decode(),)) for name, calls in statistics.used()
            )

        return {
            d.COMMAND_DURATION_SECONDS: by_command(_durations),
            d.COMMANDS_FAILED: by_command(lambda calls: calls.failed),
            d.COMMANDS_REJECTED: by_command(lambda calls: calls.rejected),
            d.XADD_RUNS: lambda: [Sample(runs.xadds_called)],
            d.XACK_RUNS: lambda: [Sample(runs.xacks_called)],
            d.XDEL_RUNS: lambda: [Sample(runs.xdels_called)],
            d.ERRORS: lambda: [
                Sample(count, (kind,)) for kind, count in statistics.errors_by_kind().items()
            ],
        }

    # --- Links ----------------------------------------------------------------------------------

    def _of_links(self) -> dict[Definition, Source]:
        links = self._region.links
        now = self._engine.now

        def by_pull(value: Callable[[Pull], float | Distribution]) -> Source:
            return lambda: [Sample(value(pull), (str(peer),)) for peer, pull in links.pulls.items()]

        def by_serve(value: Callable[[ServeStats], float]) -> Source:
            return lambda: [
                Sample(value(stats), (str(peer),)) for peer, stats in links.serve_stats.items()
            ]

        return {
            d.LINK_UP: by_pull(lambda pull: pull.link.is_up),
            d.LINK_STATE: lambda: [
                Sample(pull.link.state is state, (str(peer), state.value))
                for peer, pull in links.pulls.items()
                for state in LinkState
            ],
            d.REGION_LAG_SECONDS: lambda: [Sample(self._freshness().lag_ms / MS_PER_SECOND)],
            d.PEERS_HEARD: lambda: [Sample(self._freshness().linked)],
            d.LINK_LAG_SECONDS: by_pull(lambda pull: self._behind_ms(pull) / MS_PER_SECOND),
            d.LINK_LAG_EFFECTS: by_pull(lambda pull: pull.lag_effects),
            d.LINK_SILENCE_SECONDS: by_pull(lambda pull: pull.silent_ms(now()) / MS_PER_SECOND),
            d.LINK_DELAY_SECONDS: by_pull(
                lambda pull: _distribution(pull.stats.lag.all, MS_PER_SECOND)
            ),
            d.LINK_RECONNECTS: by_pull(lambda pull: pull.link.reconnects),
            d.LINK_RECEIVED_EFFECTS: by_pull(lambda pull: pull.stats.effects),
            d.LINK_RECEIVED_BATCHES: by_pull(lambda pull: pull.stats.batches),
            d.LINK_RECEIVED_BYTES: by_pull(lambda pull: pull.stats.bytes_wire),
            d.LINK_RECEIVED_UNPACKED_BYTES: by_pull(lambda pull: pull.stats.bytes_uncompressed),
            d.LINK_SENT_EFFECTS: by_serve(lambda stats: stats.effects),
            d.LINK_SENT_BATCHES: by_serve(lambda stats: stats.batches),
            d.LINK_SENT_BYTES: by_serve(lambda stats: stats.bytes_wire),
            d.LINK_SENT_UNPACKED_BYTES: by_serve(lambda stats: stats.bytes_uncompressed),
            d.LINK_PUBLICATIONS_LOST: by_serve(lambda stats: stats.publications_lost),
            d.INBOX_BATCHES: by_pull(lambda pull: len(pull.inbox)),
            d.INBOX_BYTES: by_pull(lambda pull: pull.inbox.bytes_waiting),
            d.PEER_LAG_EFFECTS: by_pull(self._lacked_by),
            d.PEER_CLOCK_SKEW_SECONDS: by_pull(
                lambda pull: pull.stats.clock_skew_ms / MS_PER_SECOND
            ),
        }

    def _freshness(self) -> Freshness:
        return self._region.freshness(asyncio.get_running_loop().time())

    def _behind_ms(self, pull: Pull) -> int:
        at = asyncio.get_running_loop().time()
        return self._region.behind_ms(pull, at, self._engine.now())

    def _lacked_by(self, pull: Pull) -> int:
        region = self._region
        return missing(region.knowledge.of(pull.peer), region.outstanding.durable_vv)

    def _of_bootstrap(self) -> dict[Definition, Source]:
        bootstrap = self._region.bootstrap

        def copied() -> CopyProgress | None:
            return bootstrap.progress if bootstrap.phase is Phase.COPYING else None

        def rate() -> float:
            progress = copied()
            return 0.0 if progress is None else progress.rate

        def left() -> float:
            progress = copied()
            seconds = None if progress is None else progress.seconds_left
            return nan if seconds is None else seconds

        return {
            d.BOOTSTRAP_PHASE: lambda: [
                Sample(bootstrap.phase is phase, (phase.value,)) for phase in Phase
            ],
            d.BOOTSTRAP_SIZE_BYTES: lambda: [Sample(bootstrap.progress.bytes)],
            d.BOOTSTRAP_DONE_BYTES: lambda: [Sample(bootstrap.progress.bytes_done)],
            d.BOOTSTRAP_RATE: lambda: [Sample(rate())],
            d.BOOTSTRAP_LEFT_SECONDS: lambda: [Sample(left())],
            d.BOOTSTRAPS: lambda: [Sample(bootstrap.count)],
            d.BOOTSTRAP_FAILURES: lambda: [Sample(bootstrap.failures)],
        }

    # --- What would be lost with the region -----------------------------------------------------

    def _of_replication_lag(self) -> dict[Definition, Source]:
        staleness, now = self._region.staleness, self._engine.now
        lag = staleness.lag
        return {
            d.REPLICATION_LAG_EFFECTS: lambda: [Sample(lag.effects)],
            d.REPLICATION_LAG_SECONDS: lambda: [Sample(lag.ms(now()) / MS_PER_SECOND)],
            d.REPLICATION_LAG_BOUND_EFFECTS: lambda: [Sample(staleness.lag_effects_max)],
            d.REPLICATION_LAG_BOUND_SECONDS: lambda: [Sample(staleness.lag_ms_max / MS_PER_SECOND)],
            d.REPLICATION_LAG_ACTION: lambda: [
                Sample(action is staleness.action, (action.value,)) for action in LagAction
            ],
            d.REPLICATION_LAG_STATE: lambda: [
                Sample(state is staleness.state, (state.value,)) for state in LagState
            ],
            d.REPLICATION_LAG_EXCEEDED: lambda: [Sample(staleness.exceeded_count)],
            d.CLIENTS_THROTTLED: lambda: [Sample(staleness.waiting_count)],
            d.WRITES_THROTTLED: lambda: [Sample(staleness.throttled)],
        }

    # --- Effects and the log --------------------------------------------------------------------

    def _of_effects(self) -> dict[Definition, Source]:
        replica, outstanding = self._replica, self._region.outstanding
        return {
            d.EFFECTS_ISSUED: lambda: _by_name(replica.issued_counts.by_kind()),
            d.EFFECTS_APPLIED: lambda: _by_name(replica.applied_counts.by_kind()),
            d.VERSION_VECTOR: lambda: self._by_origin(replica.vv),
            d.DURABLE_VERSION_VECTOR: lambda: self._by_origin(outstanding.durable_vv),
            d.TOMBSTONES: lambda: [Sample(replica.tombstone_count)],
            d.IDEMPOTENCY_RECORDS: lambda: [Sample(replica.idempotency_record_count)],
        }

    def _by_origin(self, vv: VersionVector) -> list[Sample]:
        """Of members that have issued nothing too: where one has nothing of an origin, it shows."""
        origins = {self._replica.region, *self._region.links.pulls, *vv}
        return [Sample(vv.get(origin, 0), (str(origin),)) for origin in sorted(origins)]

    def _of_log(self, log_bytes: int) -> dict[Definition, Source]:
        stats, outstanding = self._engine.stats, self._region.outstanding
        retention, now = self._region.retention, self._engine.now
        return {
            d.COMMIT_DURATION_SECONDS: lambda: [_scaled(stats.commit_us, US_PER_SECOND)],
            d.COMMIT_RECORDS: lambda: [_scaled(stats.commit_records, 1)],
            d.COMMITS_AT_ONCE: lambda: [Sample(stats.commits_at_once)],
            d.COMMITTED_BATCHES: lambda: [Sample(stats.batches_committed)],
            d.COMMITTED_BYTES: lambda: [Sample(stats.bytes_committed)],
            d.COMMIT_FAILURES: lambda: [Sample(stats.commit_failures)],
            d.SYNC_DURATION_SECONDS: lambda: [_scaled(stats.sync_us, US_PER_SECOND)],
            d.COMMIT_QUEUE_RECORDS: lambda: [Sample(outstanding.queued_records)],
            d.COMMIT_QUEUE_BYTES: lambda: [Sample(outstanding.queued_bytes)],
            d.CONGESTED: lambda: [Sample(self._region.log.is_congested)],
            d.LOG_RECORDS: lambda: [Sample(outstanding.logged_seq)],
            d.LOG_BYTES: lambda: [Sample(log_bytes)],
            d.LOG_FIRST_RECORD: lambda: [Sample(retention.first_seq)],
            d.LOG_KEPT: lambda: [
                Sample(held.keeping is keeping, (str(peer), keeping.value))
                for peer, held in sorted(retention.held.items())
                for keeping in Keeping
            ],
            d.LOG_KEPT_BYTES: lambda: [
                Sample(held.bytes, (str(peer),)) for peer, held in sorted(retention.held.items())
            ],
            d.LOG_KEPT_SECONDS: lambda: [
                Sample(max(0, now() - held.since_ms) / MS_PER_SECOND, (str(peer),))
                for peer, held in sorted(retention.held.items())
                if held.keeping is not Keeping.NOTHING
            ],
            d.BACKLOG_MAX_BYTES: lambda: [Sample(retention.backlog_bytes_max)],
        }

    def _of_storage(self) -> dict[Definition, Source]:
        region, now = self._region, self._engine.now
        checkpointing, memory, disk = region.checkpointing, region.memory, region.disk
        return {
            d.CHECKPOINT_RECORD: lambda: [Sample(checkpointing.seq)],
            d.CHECKPOINT_BYTES: lambda: [Sample(checkpointing.size_bytes)],
            d.CHECKPOINT_AGE_SECONDS: lambda: [
                Sample(max(0, now() - checkpointing.since_ms) / MS_PER_SECOND)
            ],
            d.CHECKPOINT_RUNNING: lambda: [Sample(checkpointing.began_ms is not None)],
            d.CHECKPOINTS: lambda: [Sample(checkpointing.count)],
            d.CHECKPOINT_FAILURES: lambda: [Sample(checkpointing.failures)],
            d.MEMORY_USED_BYTES: lambda: [
                Sample(size, (part,)) for part, size in list(memory.account.parts.items())
            ],
            d.MEMORY_MAX_BYTES: lambda: [Sample(memory.maxmemory)],
            d.MEMORY_EVICTED_BYTES: lambda: [Sample(memory.evicted_bytes)],
            d.DISK_USED_BYTES: lambda: [Sample(disk.used)],
            d.WAL_BYTES: lambda: [Sample(disk.wal_bytes)],
            d.DISK_MAX_BYTES: lambda: [Sample(disk.maxdisk)],
        }

    def _of_keys(self) -> dict[Definition, Source]:
        replica = self._replica
        return {
            d.KEYS: lambda: [Sample(len(replica))],
            d.KEYS_EXPIRING: lambda: [Sample(replica.keys.expiring_count)],
            d.KEYS_EXPIRED: lambda: [Sample(replica.expired_count)],
        }


# --- Streams and groups -------------------------------------------------------------------------


def _of_walk(found: Found, now_ns: int) -> dict[Definition, Source]:
    groups = [
        (group, (shown_name(group.key), shown_name(group.name))) for group in found.busiest_groups
    ]
    return {
        d.ENTRIES: lambda: [Sample(found.entries)],
        d.GROUPS: lambda: [Sample(found.groups)],
        d.CONSUMERS: lambda: [Sample(found.consumers)],
        d.PENDING_ENTRIES: lambda: [Sample(found.pending)],
        d.GROUPS_LAG_ENTRIES: lambda: [Sample(found.lag)],
        d.GROUPS_LAG_UNKNOWN: lambda: [Sample(found.lag_unknown)],
        d.STREAM_ENTRIES: lambda: [
            Sample(stream.entries, (shown_name(stream.key),)) for stream in found.longest_streams
        ],
        d.GROUP_LAG_ENTRIES: lambda: [
            Sample(group.lag, labels) for group, labels in groups if group.lag is not None
        ],
        d.GROUP_PENDING_ENTRIES: lambda: [
            Sample(group.pending, labels) for group, labels in groups
        ],
        d.GROUP_CONSUMERS: lambda: [Sample(group.consumers, labels) for group, labels in groups],
        d.WALK_AGE_SECONDS: lambda: [Sample((now_ns - found.ended_ns) / NS_PER_SECOND)],
        d.WALK_DURATION_SECONDS: lambda: [
            Sample((found.ended_ns - found.began_ns) / NS_PER_SECOND)
        ],
    }


def shown_name(name: bytes) -> str:
    r"""A key's or group's name as a label: UTF-8, other bytes as ``\xff``.

    Two names never look the same: one that is long is cut, and has its checksum behind it.
    """
    text = name.replace(b"\\", rb"\\").decode(errors="backslashreplace")
    if len(text) <= NAME_LENGTH_MAX:
        return text
    return f"{text[:NAME_LENGTH_MAX]}…{sha1(name, usedforsecurity=False).hexdigest()}"


# --- Histograms ---------------------------------------------------------------------------------


def _by_name(counts: Mapping[str, int]) -> list[Sample]:
    return [Sample(count, (name,)) for name, count in sorted(counts.items())]


def _scaled(histogram: Histogram, divisor: int) -> Sample:
    return Sample(_distribution(histogram, divisor))


def _distribution(histogram: Histogram, divisor: int) -> Distribution:
    return Distribution(histogram.cumulated(), histogram.total / divisor)


def _durations(calls: CallStatistics) -> Distribution:
    """A command's durations: its levels, put between our bounds.

    A level that lies across a bound counts as above it: one per cent too slow at most.
    """
    counts = [0] * (len(d.COMMAND_NS_BOUNDS) + 1)
    at = 0
    for level, count in calls.levels():
        while at < len(d.COMMAND_NS_BOUNDS) and level > d.COMMAND_NS_BOUNDS[at]:
            at += 1
        counts[at] += count
    return Distribution(list(accumulate(counts)), calls.ns / NS_PER_SECOND)
