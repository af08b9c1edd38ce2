"""Every metric of a node: its name, kind, unit, labels and meaning.  They are defined only here.

``docs/metrics.md`` is written from this table (``tools/metrics.py``), ``figures.py`` says where the
values come from, and tests compare all three with what a node serves.

Names are as Prometheus wants them: a prefix, base units (seconds, bytes) at the end, ``_total``
at the end of those that only grow.  Every series also has the label ``region``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from crdtstream.engine.stats import COMMIT_RECORDS_BOUNDS, COMMIT_US_BOUNDS
from crdtstream.region.links.stats import LAG_MS_BOUNDS

PREFIX: Final = "crdtstream_"
REGION: Final = "region"

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric.

    Attributes:
        name: with prefix, unit and, of a counter, ``_total``.
        help: its meaning; one or two sentences.
        labels: besides ``region``, which all have.
        bounds: of a histogram, in the unit of the name; the last one, +Inf, is left out.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        assert (self.kind == "counter") == self.name.endswith("_total")
        assert (self.kind == "histogram") == bool(self.bounds)

    @property
    def unit(self) -> str:
        """``seconds`` or ``bytes``; empty for what is counted."""
        words = self.name.removesuffix("_total").split("_")
        return words[-1] if words[-1] in ("seconds", "bytes") else ""

    @property
    def series_names(self) -> tuple[str, ...]:
        """Names of its samples."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)


def _counter(name: str, text: str, *labels: str) -> Definition:
    return Definition(f"{PREFIX}{name}_total", "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Definition:
    return Definition(PREFIX + name, "gauge", text, labels)


def _histogram(name: str, text: str, bounds: Sequence[float], *labels: str) -> Definition:
    return Definition(PREFIX + name, "histogram", text, labels, tuple(bounds))


# In nanoseconds, as the node counts them.
COMMAND_NS_BOUNDS: Final = tuple(
    us * 1_000
    for us in (25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 1_000_000)
)
STALL_US_BOUNDS: Final = (
    *(1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000),
    *(1_000_000, 2_500_000, 10_000_000),
)
_NS, _US, _MS = 1_000_000_000, 1_000_000, 1_000

# --- The node -----------------------------------------------------------------------------------

BUILD_INFO: Final = _gauge(
    "build_info",
    "Always 1; its labels name the versions of program and Python, and the database.",
    *("version", "python", "database"),
)
WRITES_REFUSED: Final = _gauge(
    "writes_refused",
    "1 while writes are refused for this reason. `disk`: the log cannot be written. `stale`: the"
    " region must first hear from others what it needs to know before it writes, or catch up."
    " `lagged`: for longer than a moment too many of its effects are in no other region."
    " `maxmemory`, `maxdisk`: only writes that add data are refused.",
    "reason",
)
REFUSALS: Final = _counter(
    "refusals",
    "Refusals. Of commands: because of the `disk`, because the region is `stale`, because too much"
    " would be `lagged`, for lack of room (`maxmemory`, `maxdisk`), for lack of a password"
    " (`no_auth`). Of connections: those beyond `clients_max`, and those that left too much unread"
    " (`output_buffer`). Those that had not logged in (`no_login`) took too long, asked for too"
    " much, or made room for others.",
    "reason",
)
LOOP_STALL_SECONDS: Final = _histogram(
    "loop_stall_seconds",
    "How late the event loop woke a task that sleeps 20 ms at a time, up to 160 ms while the node"
    " is idle. Stalls that are shorter than this sleep may not be noticed.",
    [us / _US for us in STALL_US_BOUNDS],
)
LOOP_STALL_MAX_SECONDS: Final = _gauge(
    "loop_stall_max_seconds", "The longest of these within the last 30 to 60 seconds."
)
ANSWER_WAIT_SECONDS: Final = _gauge(
    "answer_wait_seconds",
    "How long a request waits for its answer, without the time of its command. `loop`: the event"
    " loop was at least this late for half of the last 3 seconds. `log`: how long an answer waits"
    " for the log, by the median of the last 5 commits, or by one that hangs.",
    "part",
)
ANSWER_WAIT_BOUND_SECONDS: Final = _gauge(
    "answer_wait_bound_seconds",
    "The tunable `availability_latency_tolerance_ms`, in seconds: beyond it the region is"
    " unavailable; 0: no bound.",
)

# --- Commands and clients -----------------------------------------------------------------------

COMMAND_DURATION_SECONDS: Final = _histogram(
    "command_duration_seconds",
    "How long commands ran, subcommands as `xgroup|create`; without waiting for other commands and"
    " for the disk. CONFIG RESETSTAT resets it.",
    [ns / _NS for ns in COMMAND_NS_BOUNDS],
    "command",
)
COMMANDS_FAILED: Final = _counter(
    "commands_failed", "Commands that ran and answered an error.", "command"
)
COMMANDS_REJECTED: Final = _counter(
    "commands_rejected",
    "Commands that were refused before they ran: wrong arguments, no password, writes refused.",
    "command",
)
XADD_RUNS: Final = _counter(
    "xadd_runs", "Runs of XADDs, sent one behind the other to one stream, that were called as one."
)
XACK_RUNS: Final = _counter(
    "xack_runs", "Runs of XACKs, sent one behind the other to one group, that were called as one."
)
XDEL_RUNS: Final = _counter(
    "xdel_runs", "Runs of XDELs, sent one behind the other to one stream, that were called as one."
)
ERRORS: Final = _counter(
    "errors", "Error replies by their first word; after 128 kinds no new one is shown.", "kind"
)
CLIENTS: Final = _gauge("clients", "Clients that are connected.")
CLIENTS_MAX: Final = _gauge("clients_max", "How many may be; `maxclients`.")
CLIENTS_BLOCKED: Final = _gauge(
    "clients_blocked", "Clients whose command waits: for entries, for other regions, for a pause."
)
CLIENTS_SUBSCRIBED: Final = _gauge("clients_subscribed", "Clients that listen to a channel.")
CONNECTIONS: Final = _counter("connections", "Clients that ever connected, refused ones too.")
LOGINS_REFUSED: Final = _counter(
    "logins_refused",
    "Refused logins, by port. `wrong`: user or password. `slowed`: not judged, as too many wrong"
    " ones came from that address. Of gRPC calls and HTTP requests also `missing` (none was given)"
    " and `forbidden` (right, and the user has no right to it). `resp`: AUTH and HELLO.",
    *("port", "reason"),
)
PEER_AUTH_FAILURES: Final = _counter(
    "peer_auth_failures",
    "gRPC calls that were refused for their certificate: it names another region than the call, or"
    " may not call this. Only with `tls_replication`.",
)
TLS_HANDSHAKES: Final = _counter(
    "tls_handshakes",
    "Handshakes of Redis clients on `tls_port`: `done`, `failed` (the client or its certificate was"
    " refused, or it hung up), or `late` (it took too long). Only with `tls_cert_file`.",
    "outcome",
)
TLS_NOT_BEFORE_SECONDS: Final = _gauge(
    "tls_certificate_not_before_timestamp_seconds",
    "When this node's certificate became valid, in seconds since 1970. Only with `tls_cert_file`.",
)
TLS_NOT_AFTER_SECONDS: Final = _gauge(
    "tls_certificate_not_after_timestamp_seconds",
    "When the first certificate of its chain expires.",
)
TLS_RELOADS: Final = _counter(
    "tls_certificate_reloads",
    "Changes of this node's certificate files: `used` from then on, or `refused`, as the log says.",
    "result",
)
TLS_REFUSED: Final = _gauge(
    "tls_certificate_refused",
    "1 while the certificate files as they are now are not used; the former certificate goes on.",
)
CLIENT_RECEIVED_BYTES: Final = _counter("client_received_bytes", "Bytes that clients sent.")
CLIENT_SENT_BYTES: Final = _counter("client_sent_bytes", "Bytes that clients were sent.")

# --- Links --------------------------------------------------------------------------------------

LINK_UP: Final = _gauge(
    "link_up", "1 while this region hears from the peer over the link by which it pulls.", "peer"
)
LINK_STATE: Final = _gauge(
    "link_state",
    "1 for the state that the link is in: `connecting`, `catching up`, `live`, `waiting` (for the"
    " next attempt), `refused`, `needs bootstrap` (the peer has cut what lacks here), `paused`.",
    *("peer", "state"),
)
LINK_LAG_SECONDS: Final = _gauge(
    "link_lag_seconds",
    "For how long this region may have lacked something that the peer has. It grows while the peer"
    " is silent, even if nothing is known to be missing, and while an effect of it is missing here."
    " Measured by this region's clock alone; it includes the time that messages take.",
    "peer",
)
REGION_LAG_SECONDS: Final = _gauge(
    "region_lag_seconds",
    "How far the region is behind the others: behind as many of those that it hears as make a"
    " majority with it. Availability with `extend_check=lag` depends on this figure.",
)
PEERS_HEARD: Final = _gauge("peers_heard", "How many peers are heard, over either link.")
LINK_LAG_EFFECTS: Final = _gauge(
    "link_lag_effects",
    "Effects that the peer is known to have, of the origins that the link is asked for, and that"
    " are not applied here. A region that hears no peer does not know of new ones.",
    "peer",
)
LINK_SILENCE_SECONDS: Final = _gauge(
    "link_silence_seconds", "Time since the peer's last heartbeat over this link.", "peer"
)
LINK_DELAY_SECONDS: Final = _histogram(
    "link_delay_seconds",
    "From a batch's end at its origin until it was durable here, by both regions' clocks.",
    [ms / _MS for ms in LAG_MS_BOUNDS],
    "peer",
)
LINK_RECONNECTS: Final = _counter(
    "link_reconnects", "How often the link was lost after it had worked.", "peer"
)
LINK_RECEIVED_EFFECTS: Final = _counter(
    "link_received_effects", "Effects that arrived over the link, repeated ones too.", "peer"
)
LINK_RECEIVED_BATCHES: Final = _counter("link_received_batches", "Batches that arrived.", "peer")
LINK_RECEIVED_BYTES: Final = _counter(
    "link_received_bytes", "Bytes of batches that arrived, as compressed.", "peer"
)
LINK_RECEIVED_UNPACKED_BYTES: Final = _counter(
    "link_received_unpacked_bytes", "The same before compression.", "peer"
)
LINK_SENT_EFFECTS: Final = _counter("link_sent_effects", "Effects that the peer pulled.", "peer")
LINK_SENT_BATCHES: Final = _counter("link_sent_batches", "Batches that the peer pulled.", "peer")
LINK_SENT_BYTES: Final = _counter(
    "link_sent_bytes", "Bytes of batches that the peer pulled, compressed.", "peer"
)
LINK_SENT_UNPACKED_BYTES: Final = _counter(
    "link_sent_unpacked_bytes", "The same before compression.", "peer"
)
LINK_PUBLICATIONS_LOST: Final = _counter(
    "link_publications_lost",
    "Publications that were not sent to the peer: there was no link, or a slow one.",
    "peer",
)
INBOX_BATCHES: Final = _gauge(
    "inbox_batches", "Batches that arrived over the link and wait for their dependencies.", "peer"
)
INBOX_BYTES: Final = _gauge("inbox_bytes", "The same in bytes.", "peer")
PEER_LAG_EFFECTS: Final = _gauge(
    "peer_lag_effects",
    "Effects that are durable here and that the peer is not known to have durably: what would be"
    " lost with this region if the peer were the only other one.",
    "peer",
)
PEER_CLOCK_SKEW_SECONDS: Final = _gauge(
    "peer_clock_skew_seconds",
    "The peer's clock minus this region's at the last heartbeat, as far as the time of its way does"
    " not explain it.",
    "peer",
)

# --- The state of another region ----------------------------------------------------------------

BOOTSTRAP_PHASE: Final = _gauge(
    "bootstrap_phase",
    "1 for the phase in which the region gets effects that no log has any more: `idle` (none),"
    " `copying` (it gets the state of a peer), `merging`, `saving` (it is merged; a checkpoint is"
    " written).",
    "phase",
)
BOOTSTRAP_SIZE_BYTES: Final = _gauge(
    "bootstrap_size_bytes", "Size of the state that is being, or was last, copied; 0: unknown."
)
BOOTSTRAP_DONE_BYTES: Final = _gauge("bootstrap_done_bytes", "Bytes of it that have arrived.")
BOOTSTRAP_RATE: Final = _gauge(
    "bootstrap_bytes_per_second",
    "Bytes of that state that arrive in a second; 0 while nothing is copied.",
)
BOOTSTRAP_LEFT_SECONDS: Final = _gauge(
    "bootstrap_left_seconds",
    "Time until the rest has arrived at that rate; NaN while nothing is copied, or the rate is"
    " unknown.",
)
BOOTSTRAPS: Final = _counter("bootstraps", "States of other regions that were taken over.")
BOOTSTRAP_FAILURES: Final = _counter(
    "bootstrap_failures", "Attempts to take one over that failed; each is repeated by itself."
)

# --- What would be lost with the region ---------------------------------------------------------

REPLICATION_LAG_EFFECTS: Final = _gauge(
    "replication_lag_effects",
    "Effects of this region that no other region is known to have durably: what would be lost with"
    " the region and its disk. After a start all of them, until a peer says what it has. Without"
    " peers always 0.",
)
REPLICATION_LAG_SECONDS: Final = _gauge(
    "replication_lag_seconds",
    "For how long the oldest of them is in no other region, by this region's clock; of an earlier"
    " run: since the start.",
)
REPLICATION_LAG_BOUND_EFFECTS: Final = _gauge(
    "replication_lag_bound_effects",
    "The tunable `max_replication_lag_effects`: how many there may be; 0: no bound.",
)
REPLICATION_LAG_BOUND_SECONDS: Final = _gauge(
    "replication_lag_bound_seconds",
    "The tunable `max_replication_lag_ms`, in seconds: how old they may be; 0: no bound.",
)
REPLICATION_LAG_ACTION: Final = _gauge(
    "replication_lag_action",
    "1 for what happens at a bound, the tunable `replication_lag_action`: `warn`, `throttle`,"
    " `refuse`.",
    "action",
)
REPLICATION_LAG_STATE: Final = _gauge(
    "replication_lag_state",
    "1 for the state of this lag: `alone` (no peers), `off` (no bound), `unknown` (the region has"
    " restarted and no peer has answered yet), `within`, `exceeded` (the next write finds a bound"
    " reached).",
    "state",
)
REPLICATION_LAG_EXCEEDED: Final = _counter(
    "replication_lag_exceeded",
    "How often a bound was reached for longer than a moment; each time is a line in the log.",
)
CLIENTS_THROTTLED: Final = _gauge(
    "clients_throttled", "Clients whose write waits because a bound is reached."
)
WRITES_THROTTLED: Final = _counter(
    "writes_throttled", "Writes that had to wait because a bound was reached."
)

# --- Effects ------------------------------------------------------------------------------------

EFFECTS_ISSUED: Final = _counter(
    "effects_issued", "Effects that this region issued, by kind (`Append`, `Remove` …).", "kind"
)
EFFECTS_APPLIED: Final = _counter(
    "effects_applied", "Effects of other regions that were applied here, by kind.", "kind"
)
VERSION_VECTOR: Final = _gauge(
    "version_vector",
    "How many effects of each origin are applied here. Where it is equal in two regions for all"
    " origins, they hold the same.",
    "origin",
)
DURABLE_VERSION_VECTOR: Final = _gauge(
    "durable_version_vector", "The same for durable effects.", "origin"
)
TOMBSTONES: Final = _gauge(
    "tombstones", "Destroys that are remembered until they are causally stable."
)
IDEMPOTENCY_RECORDS: Final = _gauge(
    "idempotency_records", "Idempotent appends, and runs of rows, remembered in the same way."
)

# --- The log ------------------------------------------------------------------------------------

COMMIT_DURATION_SECONDS: Final = _histogram(
    "commit_duration_seconds",
    "How long group commits took. With `appendfsync always` the disk's sync is in it.",
    [us / _US for us in COMMIT_US_BOUNDS],
)
COMMIT_RECORDS: Final = _histogram(
    "commit_records", "How many records each group commit had.", COMMIT_RECORDS_BOUNDS
)
COMMITS_AT_ONCE: Final = _counter(
    "commits_at_once",
    "Commits that ran at the end of their tick, on the event loop; a thread made the others.",
)
COMMITTED_BATCHES: Final = _counter(
    "committed_batches", "Batches of effects in all commits; the other records are local."
)
COMMITTED_BYTES: Final = _counter("committed_bytes", "Bytes of records in all commits.")
COMMIT_FAILURES: Final = _counter(
    "commit_failures", "Commits and syncs that the disk refused; each is tried again."
)
SYNC_DURATION_SECONDS: Final = _histogram(
    "sync_duration_seconds",
    "How long syncs took beside the commits: with `appendfsync everysec` or `no`.",
    [us / _US for us in COMMIT_US_BOUNDS],
)
COMMIT_QUEUE_RECORDS: Final = _gauge(
    "commit_queue_records", "Records that wait for the disk, those being committed included."
)
COMMIT_QUEUE_BYTES: Final = _gauge("commit_queue_bytes", "The same in bytes.")
CONGESTED: Final = _gauge(
    "congested", "1 while nothing new is read from clients, as too much waits for the disk."
)
LOG_RECORDS: Final = _gauge("log_records", "The number of the log's last record.")
LOG_BYTES: Final = _gauge("log_bytes", "Size of the log's records that were not cut.")
LOG_FIRST_RECORD: Final = _gauge(
    "log_first_record", "The number of the log's first record: those before it were cut."
)
LOG_KEPT: Final = _gauge(
    "log_kept",
    "1 for what the log does for a peer. `nothing`: it has all. `kept`: what it lacks is kept."
    " `away`: kept up to the bounds. `only-copy`: kept beyond the bounds, as no other region has"
    " what it lacks. `given-up`: it was away for too long. `bootstrap`: what it lacks was cut."
    " `staging`: it takes over a state, and what that lacks is kept.",
    *("peer", "keeping"),
)
LOG_KEPT_BYTES: Final = _gauge("log_kept_bytes", "Size of the records that a peer lacks.", "peer")
LOG_KEPT_SECONDS: Final = _gauge(
    "log_kept_seconds", "For how long a peer that lacks some of it made no progress.", "peer"
)
BACKLOG_MAX_BYTES: Final = _gauge(
    "backlog_max_bytes", "The most that is kept for a peer that is away."
)

# --- Checkpoints, memory, disk ------------------------------------------------------------------

CHECKPOINT_RECORD: Final = _gauge(
    "checkpoint_record", "The last record of the log that a checkpoint covers; 0: there is none."
)
CHECKPOINT_BYTES: Final = _gauge("checkpoint_bytes", "Size of the checkpoints.")
CHECKPOINT_AGE_SECONDS: Final = _gauge(
    "checkpoint_age_seconds",
    "How long ago the last checkpoint was written; without one, how long ago the node started.",
)
CHECKPOINT_RUNNING: Final = _gauge("checkpoint_running", "1 while a checkpoint is being written.")
CHECKPOINTS: Final = _counter("checkpoints", "Checkpoints that were written.")
CHECKPOINT_FAILURES: Final = _counter(
    "checkpoint_failures", "Checkpoints that could not be written; each is tried again."
)
MEMORY_USED_BYTES: Final = _gauge(
    "memory_used_bytes",
    "Memory that the node takes by its own account, which `maxmemory` bounds.",
    "part",
)
MEMORY_MAX_BYTES: Final = _gauge("memory_max_bytes", "`maxmemory`; 0: no bound.")
MEMORY_EVICTED_BYTES: Final = _counter(
    "memory_evicted_bytes", "Bytes evicted because of `maxmemory`; they are read again when needed."
)
DISK_USED_BYTES: Final = _gauge("disk_used_bytes", "Size of the data folder.")
WAL_BYTES: Final = _gauge(
    "wal_bytes",
    "Size of SQLite's write-ahead log, a part of the data folder: 16 MiB with `appendfsync always`;"
    " more while commits are faster than moving them into the database.",
)
DISK_MAX_BYTES: Final = _gauge("disk_max_bytes", "`maxdisk`; 0: no bound.")

# --- Keys and groups ----------------------------------------------------------------------------

KEYS: Final = _gauge("keys", "Keys, including expired ones.")
KEYS_EXPIRING: Final = _gauge("keys_expiring", "Keys with a deadline.")
KEYS_EXPIRED: Final = _counter(
    "keys_expired", "Keys that this region deleted because they had expired."
)
ENTRIES: Final = _gauge("entries", "Entries of all streams. From the last walk.")
GROUPS: Final = _gauge("groups", "Groups of all streams. From the last walk.")
CONSUMERS: Final = _gauge("consumers", "Consumers of all groups here. From the last walk.")
PENDING_ENTRIES: Final = _gauge(
    "pending_entries",
    "Entries that were delivered here and not acknowledged, in all groups. From the last walk.",
)
GROUPS_LAG_ENTRIES: Final = _gauge(
    "groups_lag_entries",
    "Entries that groups have yet to deliver here, in all groups, as XINFO GROUPS counts them. From"
    " the last walk.",
)
GROUPS_LAG_UNKNOWN: Final = _gauge(
    "groups_lag_unknown",
    "Groups whose lag is not in that sum because deletions hide it, as in XINFO GROUPS. From the"
    " last walk.",
)
STREAM_ENTRIES: Final = _gauge(
    "stream_entries", "Entries of a stream; only of the longest streams. From the last walk.", "key"
)
GROUP_LAG_ENTRIES: Final = _gauge(
    "group_lag_entries",
    "Entries that a group has yet to deliver here; only of the groups with the most of them. From"
    " the last walk.",
    *("key", "group"),
)
GROUP_PENDING_ENTRIES: Final = _gauge(
    "group_pending_entries",
    "Entries of a group that were delivered here and not acknowledged; of the same groups. From"
    " the last walk.",
    *("key", "group"),
)
GROUP_CONSUMERS: Final = _gauge(
    "group_consumers", "Consumers of a group here; of the same groups. From the last walk.",
    *("key", "group"),
)  # fmt: skip
WALK_AGE_SECONDS: Final = _gauge(
    "walk_age_seconds", "How old the figures of the last walk over all streams are."
)
WALK_DURATION_SECONDS: Final = _gauge(
    "walk_duration_seconds", "How long that walk took, its pauses included."
)

# --- The process --------------------------------------------------------------------------------

# By prometheus-client, and called as in every other program; of each what stands in its docs.
PROCESS_METRICS: Final = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
)

SECTIONS: Final[dict[str, tuple[Definition, ...]]] = {
    "The node": (
        BUILD_INFO,
        WRITES_REFUSED,
        REFUSALS,
        LOOP_STALL_SECONDS,
        LOOP_STALL_MAX_SECONDS,
        ANSWER_WAIT_SECONDS,
        ANSWER_WAIT_BOUND_SECONDS,
    ),
    "Commands and clients": (
        COMMAND_DURATION_SECONDS,
        COMMANDS_FAILED,
        COMMANDS_REJECTED,
        XADD_RUNS,
        XACK_RUNS,
        XDEL_RUNS,
        ERRORS,
        CLIENTS,
        CLIENTS_MAX,
        CLIENTS_BLOCKED,
        CLIENTS_SUBSCRIBED,
        CONNECTIONS,
        LOGINS_REFUSED,
        PEER_AUTH_FAILURES,
        TLS_HANDSHAKES,
        TLS_NOT_BEFORE_SECONDS,
        TLS_NOT_AFTER_SECONDS,
        TLS_RELOADS,
        TLS_REFUSED,
        CLIENT_RECEIVED_BYTES,
        CLIENT_SENT_BYTES,
    ),
    "Links and peers": (
        LINK_UP,
        LINK_STATE,
        REGION_LAG_SECONDS,
        PEERS_HEARD,
        LINK_LAG_SECONDS,
        LINK_LAG_EFFECTS,
        LINK_SILENCE_SECONDS,
        LINK_DELAY_SECONDS,
        LINK_RECONNECTS,
        LINK_RECEIVED_EFFECTS,
        LINK_RECEIVED_BATCHES,
        LINK_RECEIVED_BYTES,
        LINK_RECEIVED_UNPACKED_BYTES,
        LINK_SENT_EFFECTS,
        LINK_SENT_BATCHES,
        LINK_SENT_BYTES,
        LINK_SENT_UNPACKED_BYTES,
        LINK_PUBLICATIONS_LOST,
        INBOX_BATCHES,
        INBOX_BYTES,
        PEER_LAG_EFFECTS,
        PEER_CLOCK_SKEW_SECONDS,
    ),
    "The state of another region": (
        BOOTSTRAP_PHASE,
        BOOTSTRAP_SIZE_BYTES,
        BOOTSTRAP_DONE_BYTES,
        BOOTSTRAP_RATE,
        BOOTSTRAP_LEFT_SECONDS,
        BOOTSTRAPS,
        BOOTSTRAP_FAILURES,
    ),
    "What would be lost with the region": (
        REPLICATION_LAG_EFFECTS,
        REPLICATION_LAG_SECONDS,
        REPLICATION_LAG_BOUND_EFFECTS,
        REPLICATION_LAG_BOUND_SECONDS,
        REPLICATION_LAG_ACTION,
        REPLICATION_LAG_STATE,
        REPLICATION_LAG_EXCEEDED,
        CLIENTS_THROTTLED,
        WRITES_THROTTLED,
    ),
    "Effects": (
        EFFECTS_ISSUED,
        EFFECTS_APPLIED,
        VERSION_VECTOR,
        DURABLE_VERSION_VECTOR,
        TOMBSTONES,
        IDEMPOTENCY_RECORDS,
    ),
    "The log": (
        COMMIT_DURATION_SECONDS,
        COMMIT_RECORDS,
        COMMITS_AT_ONCE,
        COMMITTED_BATCHES,
        COMMITTED_BYTES,
        COMMIT_FAILURES,
        SYNC_DURATION_SECONDS,
        COMMIT_QUEUE_RECORDS,
        COMMIT_QUEUE_BYTES,
        CONGESTED,
        LOG_RECORDS,
        LOG_BYTES,
        LOG_FIRST_RECORD,
        LOG_KEPT,
        LOG_KEPT_BYTES,
        LOG_KEPT_SECONDS,
        BACKLOG_MAX_BYTES,
    ),
    "Checkpoints, memory, disk": (
        CHECKPOINT_RECORD,
        CHECKPOINT_BYTES,
        CHECKPOINT_AGE_SECONDS,
        CHECKPOINT_RUNNING,
        CHECKPOINTS,
        CHECKPOINT_FAILURES,
        MEMORY_USED_BYTES,
        MEMORY_MAX_BYTES,
        MEMORY_EVICTED_BYTES,
        DISK_USED_BYTES,
        WAL_BYTES,
        DISK_MAX_BYTES,
    ),
    "Keys, streams and groups": (
        KEYS,
        KEYS_EXPIRING,
        KEYS_EXPIRED,
        ENTRIES,
        GROUPS,
        CONSUMERS,
        PENDING_ENTRIES,
        GROUPS_LAG_ENTRIES,
        GROUPS_LAG_UNKNOWN,
        STREAM_ENTRIES,
        GROUP_LAG_ENTRIES,
        GROUP_PENDING_ENTRIES,
        GROUP_CONSUMERS,
        WALK_AGE_SECONDS,
        WALK_DURATION_SECONDS,
    ),
}
DEFINITIONS: Final = tuple(definition for section in SECTIONS.values() for definition in section)
