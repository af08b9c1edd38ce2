"""What a region node is told at its start: one typed model, from a TOML file and the environment.

A variable ``CRDTSTREAM_<FIELD>`` (``CRDTSTREAM_LIMITS__<FIELD>`` for the table ``[limits]``) beats
the file.  All problems are found and reported at once, each naming its key; a key that does not
exist is refused with the nearest one that does, so that a misspelt limit never goes unnoticed.

Always so: a node that other machines can reach asks its clients for a password.
"""

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from crdtstream.core.ids import REGION_MAX
from crdtstream.core.redis_version import DEFAULT, WANTED, parse_redis_version

FAILPOINT_PATTERN: Final = r"^([a-z.-]+(:[0-9]{1,9}(-[0-9]{1,9})?)?( refused)?)?$"
ENV_PREFIX: Final = "CRDTSTREAM_"
HOST_DEFAULT: Final = "127.0.0.1"
DATABASE_ID_DEFAULT: Final = "crdb"
DATABASE_ID_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,64}$"

# Region r listens on base + r; `crdtstream up --base-port P` moves all three with P.
RESP_PORT_BASE: Final = 6380
GRPC_PORT_BASE: Final = 7380
HTTP_PORT_BASE: Final = 8380

I32_MAX: Final = (1 << 31) - 1
# Ten years.
SECONDS_MAX: Final = 3_650 * 86_400
# Ten years; an ID keeps what a wrong clock gave it for good.
CLOCK_OFFSET_MS_MAX: Final = 3_650 * 86_400_000
# As what is tuned later (``region/checkpointing.py``).
CHECKPOINT_LOG_BYTES_LEAST: Final = 64 << 10
# Must be 1 in the environment of a node that is to have a bug.
DRILL_PLANTS_VARIABLE: Final = "CRDTSTREAM_DRILL_PLANTS"

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\s\[\]]+):(?P<port>[0-9]{1,5})")


class SettingsError(Exception):
    """The settings cannot be used.

    Attributes:
        source: the file they came from.
        problems: one sentence each, naming the key; never empty.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        assert problems
        lines = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"{source}: correct this and start again:{lines}")
        self.source = source
        self.problems = tuple(problems)


class Peer(BaseModel):
    """Another region, as a ``[[peers]]`` table.

    Attributes:
        region: its number.
        address: ``host:port`` of its gRPC service.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    region: int = Field(ge=1, le=REGION_MAX)
    address: str

    @field_validator("address")
    @classmethod
    def _is_host_and_port(cls, address: str) -> str:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 1 <= int(match["port"]) <= 65535:
            raise ValueError(f"{address!r} is not host:port, as in 127.0.0.1:7382")
        return address


class Limits(BaseModel):
    """The table ``[limits]``: the bound of every queue, batch, wait and retry.

    Attributes:
        clients_max: connections at once.  0: none but the operator's tools.  10,000 as in Redis.
        request_bytes_max: one bulk string of a request, in bytes; at least 1024.  512 MiB as in
            Redis; users expect it.
        request_arguments_max: arguments of one command.  1,048,576 as in Redis.
        query_buffer_bytes_max: what one connection may have sent that is not yet a whole command,
            in bytes.  1 GiB as in Redis.
        inline_bytes_max: a command typed without RESP, in bytes.  64 KiB as in Redis.
        output_buffer_bytes_max: replies that one client has not fetched, in bytes; beyond it the
            connection ends.  0: no limit.  256 MiB, so that a large XRANGE passes.
        output_pause_bytes: replies that one client has not fetched, in bytes, beyond which no more
            of its requests are read until it fetches.  1 MiB: a pipeline's worth.
        pending_replies_max: commands of one connection whose replies wait for the disk; beyond it
            no more of its requests are read.  100,000.
        commit_queue_records_max: records that wait for the disk; beyond it no requests are read.
            10,000: well over what one group commit takes.
        batch_bytes_max: one replicated batch after decompression, in bytes; a peer that sends more
            is cut off.  1 GiB, over the largest transaction that a region accepts.
        link_message_bytes_target: batches are gathered into link messages of about this size, in
            bytes.  256 KiB: compresses well and adds no delay that one would see.
        inbox_batches_max: remote batches that are held until what they depend on is applied; a
            link that finds the inbox full stops reading.  At least 1.  10,000.
        inbox_bytes_max: the same in bytes.  64 MiB.
        inbox_wait_ms_max: when a link's batches have been held this long for another origin, in
            ms, it is reopened asking for that origin too.  2 s: longer than the usual detour,
            shorter than patience.
        backoff_ms_min: first wait before a lost link is tried again, in ms; it doubles with each
            failure, with jitter.  At least 1.  50 ms: a restart is not noticed.
        backoff_ms_max: longest such wait, in ms.  5 s: a healed network is used soon.
        heartbeat_interval_ms: how often a server tells its pullers its versions and clock, in ms,
            while something happens; else a third of link_silence_ms_max passes, but a second at
            most.  At least 10.  250 ms: lag is then fresh enough for failover decisions.
        link_silence_ms_max: a link that has been silent this long counts as broken, in ms; more
            than the heartbeat interval.  3 s: twelve heartbeats, or three while nothing happens.
        shutdown_ms_max: what clients and links get to finish when the node stops, in ms.  0: none.
            5 s.
        skew_warning_ms: clocks further apart than this are reported, in ms.  0: never.  1 s.
        catch_up_answer_ms_max: how long a node that starts waits for its peers to say what they
            have, in ms, before it takes writes without them.  0: it takes writes at once, however
            far behind it is.  2 s: longer than three round trips around the world, and a lone
            survivor serves soon.
        catch_up_stall_ms_max: a node that came back behind its peers takes writes nevertheless
            when nothing that lacks has come for this long, in ms; more than inbox_wait_ms_max,
            after which peers relay.  10 s.
        metrics_names_max: how many streams and how many groups ``/metrics`` names one by one, those
            with the most in them; sums tell of all.  0: none, so that no name of a key can be read
            there.  100: what a dashboard can show.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clients_max: int = Field(default=10_000, ge=0)
    request_bytes_max: int = Field(default=512 << 20, ge=1024)
    request_arguments_max: int = Field(default=1 << 20, ge=16)
    query_buffer_bytes_max: int = Field(default=1 << 30, ge=1024)
    inline_bytes_max: int = Field(default=64 << 10, ge=64)
    output_buffer_bytes_max: int = Field(default=256 << 20, ge=0)
    output_pause_bytes: int = Field(default=1 << 20, ge=1024)
    pending_replies_max: int = Field(default=100_000, ge=1)
    commit_queue_records_max: int = Field(default=10_000, ge=1)
    batch_bytes_max: int = Field(default=1 << 30, ge=1 << 20)
    link_message_bytes_target: int = Field(default=256 << 10, ge=1024)
    inbox_batches_max: int = Field(default=10_000, ge=1)
    inbox_bytes_max: int = Field(default=64 << 20, ge=1024)
    inbox_wait_ms_max: int = Field(default=2_000, ge=1)
    backoff_ms_min: int = Field(default=50, ge=1)
    backoff_ms_max: int = Field(default=5_000, ge=1)
    heartbeat_interval_ms: int = Field(default=250, ge=10)
    link_silence_ms_max: int = Field(default=3_000, ge=20)
    shutdown_ms_max: int = Field(default=5_000, ge=0)
    skew_warning_ms: int = Field(default=1_000, ge=0)
    catch_up_answer_ms_max: int = Field(default=2_000, ge=0)
    catch_up_stall_ms_max: int = Field(default=10_000, ge=1)
    metrics_names_max: int = Field(default=100, ge=0, le=10_000)

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        problems = []
        if self.backoff_ms_min > self.backoff_ms_max:
            problems.append("backoff_ms_min must not exceed backoff_ms_max")
        if self.link_silence_ms_max <= self.heartbeat_interval_ms:
            problems.append("link_silence_ms_max must exceed heartbeat_interval_ms")
        if self.catch_up_stall_ms_max <= self.inbox_wait_ms_max:
            problems.append("catch_up_stall_ms_max must exceed inbox_wait_ms_max")
        if problems:
            raise ValueError("\n".join(problems))
        return self


class QueryPort(BaseModel):
    """The table ``[query]``: a port of its own for programs that read and write in bulk.

    They are always served on ``grpc_port``, beside peers and operators.  This port serves nothing
    else, and may be opened to other machines, with TLS.

    Attributes:
        port: 0: none.
        host: address to listen on.  127.0.0.1: only this machine.  Any address that others can
            reach is refused without ``requirepass`` and a certificate.
        tls_cert_file, tls_key_file: PEM files of this node's certificate (with its chain) and key.
            Empty: no TLS.
        tls_client_ca_file: PEM file; programs must show a certificate that it signed.  Empty: they
            need none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: int = Field(default=0, ge=0, le=65535)
    host: str = Field(default=HOST_DEFAULT, min_length=1)
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_client_ca_file: Path | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        problems = []
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            problems.append("tls_cert_file and tls_key_file belong together")
        elif self.tls_cert_file is None and self.tls_client_ca_file is not None:
            problems.append("tls_client_ca_file wants tls_cert_file and tls_key_file")
        elif self.port and self.tls_cert_file is None and not is_loopback(self.host):
            problems.append(
                f"{self.host} can be reached from other machines;"
                " set tls_cert_file and tls_key_file, or listen on 127.0.0.1"
            )
        if problems:
            raise ValueError("\n".join(problems))
        return self


class Drill(BaseModel):
    """The table ``[drill]``: for rehearsals on data that nobody needs, and for nothing else.

    Attributes:
        clock_offset_ms: this node's wall clock is wrong by so much, in ms; IDs, expiry, TIME and
            what peers hear of its clock follow.  IDs that it gives stay wrong.  0: it is right.
        plant: a bug that the rehearsal must notice: replies leave before their records are in the
            log (``ack-before-commit``), other regions hear of one acknowledged entry too many
            (``frontier-too-far``), a restart does not read some entries back
            (``dot-lost-on-restart``), or health says yes while writes are refused
            (``healthy-while-stale``).  Refused unless CRDTSTREAM_DRILL_PLANTS=1 stands in the
            environment.  ``none``: none.
        failpoint: a step of a checkpoint, of the log or of a backup at which the process dies
            (``checkpoint.put:3``: the third time), or the disk refuses (``log.append:5-9
            refused``).  Refused unless CRDTSTREAM_DRILL_PLANTS=1 stands in the environment.
            Empty: none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_offset_ms: int = Field(default=0, ge=-CLOCK_OFFSET_MS_MAX, le=CLOCK_OFFSET_MS_MAX)
    plant: Literal[
        "none",
        "ack-before-commit",
        "frontier-too-far",
        "dot-lost-on-restart",
        "healthy-while-stale",
    ] = "none"

    # Which steps there are, the store knows (``store/failpoints.py``).
    failpoint: str = Field(default="", pattern=FAILPOINT_PATTERN)

    @field_validator("failpoint")
    @classmethod
    def _is_wanted_too(cls, failpoint: str) -> str:
        if failpoint and os.environ.get(DRILL_PLANTS_VARIABLE) != "1":
            raise ValueError(
                f"{failpoint} ends this node or refuses its writes, for rehearsals only; to have it"
                f" on a node whose data nobody needs, set {DRILL_PLANTS_VARIABLE}=1 in its"
                " environment"
            )
        return failpoint

    @field_validator("plant")
    @classmethod
    def _is_wanted(cls, plant: str) -> str:
        if plant != "none" and os.environ.get(DRILL_PLANTS_VARIABLE) != "1":
            raise ValueError(
                f"{plant} is a bug that loses data, for rehearsals only; to have it on a node whose"
                f" data nobody needs, set {DRILL_PLANTS_VARIABLE}=1 in its environment"
            )
        return plant


def _port(base: int) -> Any:
    """A port field: base + region unless given."""
    return Field(
        default_factory=lambda given: base + int(given.get("region", 0)),
        validate_default=True,
        ge=1,
        le=65535,
    )


class NodeSettings(BaseSettings):
    """One region node.

    Attributes:
        region: this region's number, 1 to 1023, unlike every peer's.  It is part of every ID that
            the region makes; a folder belongs to one region for good.
        database_id: names the one database that all regions share; a peer with another one is
            refused.  ``crdb``, unless several databases run side by side.
        dir: folder of the log; made if missing.  Relative to the working directory.
        requirepass: password of the user ``default``.  Empty: none is asked for, which only an
            address of this machine allows.
        host: address to listen on.  127.0.0.1: only this machine.  Any address that others can
            reach is refused without ``requirepass``.
        resp_port: for Redis clients.  6380 + region, so that region 1 is next to Redis's 6379.
        grpc_port: for peers and ``crdtstream``/``rladmin``.  7380 + region.
        http_port: for health checks and metrics.  8380 + region.
        announce_hosts: further names and addresses by which clients know this node, for those who
            look for their endpoint in ``/v1/bdbs``; the first one is its DNS name there.  None:
            the name by which the client asks, and ``host``.
        announce_port: the port of ``resp_port`` as clients know it, behind a proxy.  0: the same.
        availability_lag_tolerance_ms: how far behind its peers a region may be and still count as
            available when asked with ``extend_check=lag``, in ms.  100 as in Redis Enterprise;
            more than the longest round trip between regions.
        availability_latency_tolerance_ms: how long a request may wait for its answer, in ms, for
            the event loop and for the log together; beyond it ``/readyz`` and
            ``/v1/bdbs/1/availability`` answer 503.  0: no bound.  500: half of the second for which
            clients wait.
        availability_in_minority: what a region answers to that question while it hears so few
            peers that it may be the one that is cut off: ``unavailable``; or ``available``, for a
            region whose peers are lost.
        peers: the other regions.  None: a database of one region.
        crdt_xadd_id_uniqueness_mode: which IDs XADD accepts: ``strict`` (only such as no other
            region can make), ``semi-strict`` (explicit ones too), ``liberal`` (as in Redis).
            Counts for a new folder; later ``rladmin tune`` changes it, and that is kept.
        crdt_xgroup_create_mkstream: ``explicit``: XGROUP CREATE on a missing key wants MKSTREAM,
            as in Redis; ``implicit``: it makes the stream.
        max_replication_lag_effects: how many effects of this region may be in no other region yet;
            what a lost region could take with it.  0: no bound, as nothing is refused then.
        max_replication_lag_ms: for how long, in ms, an effect may be in no other region.  0: no
            bound.
        replication_lag_action: what happens at these bounds: ``warn`` (a line in the log),
            ``throttle`` (writes wait, at most 1 s each) or ``refuse`` (writes are answered LAGGED).
            ``warn``, as the others cost availability.
        crdt_xread_mode: ``by-id``: XREAD returns what is above the ID, as in Redis, and skips what
            arrives late below it; ``never-skip``: what the reader was not given.
        redis_version: the Redis that clients are told they speak to (HELLO, INFO), 7.4.0 to 8.10.
            Fields of replies that are newer are left out; commands work all the same.  8.2.3: the
            version that replies are compared with.
        appendfsync: ``always``: a reply means that the disk has it; ``everysec``: a power cut may
            cost a second, a killed process nothing; ``no``: when the system pleases.
        checkpoint_log_bytes: a checkpoint is written when the log has grown by so much, in bytes,
            since the last one, 64 KiB or more.  0: not because of that.  16 MiB: read back in a
            moment at start.  Also when a restart would take half a second to replay it.
        checkpoint_interval_s: and when so many seconds have passed, if anything was written.  0:
            not because of that.  300.
        replication_backlog_size: how much of the log is kept for a region that is away, in bytes
            as it is on disk; behind that it needs a bootstrap.  0: nothing.  Either way what no
            other region is known to durably have is kept.  1 GiB, as Redis Enterprise has for
            Active-Active databases.
        replication_backlog_ttl_s: and for how long, in seconds.  0: not at all.  A day: an outage
            that is noticed in the morning costs no bootstrap.
        bootstrap_bytes_per_s: how fast this region sends its state to one that needs a bootstrap,
            in bytes a second.  0: as fast as it can, which takes a part of a processor.
        bootstrap_backlog_size: how much of the log is kept for a region while it gets the state of
            another one, in bytes as it is on disk; beyond it the bootstrap begins again.  0:
            nothing.  8 GiB: what comes in while a large state crosses a slow line.
        maxmemory: bytes that the node may take.  What is on disk too leaves memory first; beyond
            it commands that add data are answered OOM.  0: no bound, as in Redis.
        maxdisk: bytes that the folder may take; beyond it commands that add data are refused.  0:
            no bound.
        stream_node_max_entries: entries per macro node.  0: no limit.  100 as in Redis.
        stream_node_max_bytes: bytes per macro node.  0: no limit.  4096 as in Redis.
        stream_idmp_duration: for how many seconds XADD recognises an idempotent ID, in streams
            without a value of XCFGSET.  100 as in Redis.
        stream_idmp_maxsize: how many it recognises of each producer.  100 as in Redis.
        timeout: seconds without a request after which a client is disconnected, unless it waits
            for something.  0: never, as in Redis.
        tcp_keepalive: seconds of silence after which a connection is asked whether its client is
            still there.  0: never.  300 as in Redis.
        slowlog_log_slower_than: commands that take at least this long, in microseconds, stand in
            SLOWLOG.  0: all; -1: none.  10,000 as in Redis.
        slowlog_max_len: how many of them are kept.  128 as in Redis.
        latency_monitor_threshold: what takes at least this long, in milliseconds, stands in
            LATENCY.  0: nothing, as in Redis.
        log_level: least severe line of the log to print.
        limits: see Limits.
        query: see QueryPort.
        drill: see Drill.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    region: int = Field(ge=1, le=REGION_MAX)
    database_id: str = Field(default=DATABASE_ID_DEFAULT, pattern=DATABASE_ID_PATTERN)
    dir: Path
    # Before host, which is judged by it.
    requirepass: str = Field(default="", repr=False)
    host: str = Field(default=HOST_DEFAULT, min_length=1)
    resp_port: int = _port(RESP_PORT_BASE)
    grpc_port: int = _port(GRPC_PORT_BASE)
    http_port: int = _port(HTTP_PORT_BASE)
    announce_hosts: tuple[Annotated[str, Field(pattern=r"^[0-9A-Za-z_.:-]{1,253}$")], ...] = ()
    announce_port: int = Field(default=0, ge=0, le=65535)
    availability_lag_tolerance_ms: int = Field(default=100, ge=0, le=I32_MAX)
    availability_latency_tolerance_ms: int = Field(default=500, ge=0, le=I32_MAX)
    availability_in_minority: Literal["unavailable", "available"] = "unavailable"
    peers: tuple[Peer, ...] = ()
    crdt_xadd_id_uniqueness_mode: Literal["strict", "semi-strict", "liberal"] = "strict"
    crdt_xgroup_create_mkstream: Literal["explicit", "implicit"] = "explicit"
    max_replication_lag_effects: int = Field(default=0, ge=0, le=10**12)
    max_replication_lag_ms: int = Field(default=0, ge=0, le=I32_MAX)
    replication_lag_action: Literal["warn", "throttle", "refuse"] = "warn"
    crdt_xread_mode: Literal["by-id", "never-skip"] = "by-id"
    redis_version: str = str(DEFAULT)
    appendfsync: Literal["always", "everysec", "no"] = "always"
    checkpoint_log_bytes: int = Field(default=16 << 20, ge=0, le=1 << 60)
    checkpoint_interval_s: int = Field(default=300, ge=0, le=SECONDS_MAX)
    replication_backlog_size: int = Field(default=1 << 30, ge=0, le=1 << 60)
    replication_backlog_ttl_s: int = Field(default=86_400, ge=0, le=SECONDS_MAX)
    bootstrap_bytes_per_s: int = Field(default=0, ge=0, le=1 << 60)
    bootstrap_backlog_size: int = Field(default=8 << 30, ge=0, le=1 << 60)
    maxmemory: int = Field(default=0, ge=0, le=1 << 60)
    maxdisk: int = Field(default=0, ge=0, le=1 << 60)
    stream_node_max_entries: int = Field(default=100, ge=0)
    stream_node_max_bytes: int = Field(default=4096, ge=0)
    stream_idmp_duration: int = Field(default=100, ge=1, le=86_400)
    stream_idmp_maxsize: int = Field(default=100, ge=1, le=10_000)
    timeout: int = Field(default=0, ge=0, le=I32_MAX)
    tcp_keepalive: int = Field(default=300, ge=0, le=I32_MAX)
    slowlog_log_slower_than: int = Field(default=10_000, ge=-1)
    slowlog_max_len: int = Field(default=128, ge=0)
    latency_monitor_threshold: int = Field(default=0, ge=0)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    limits: Limits = Limits()
    query: QueryPort = QueryPort()
    drill: Drill = Drill()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment beats what is given, and what is given is the file."""
        return env_settings, init_settings

    @field_validator("host")
    @classmethod
    def _is_private_or_guarded(cls, host: str, info: ValidationInfo) -> str:
        if not is_loopback(host) and not info.data.get("requirepass"):
            raise ValueError(
                f"{host} can be reached from other machines;"
                " set requirepass, or listen on 127.0.0.1"
            )
        return host

    @field_validator("redis_version")
    @classmethod
    def _is_a_version(cls, version: str) -> str:
        if parse_redis_version(version) is None:
            raise ValueError(f"must be {WANTED}")
        return version

    @field_validator("checkpoint_log_bytes")
    @classmethod
    def _leaves_time_between(cls, log_bytes: int) -> int:
        if 0 < log_bytes < CHECKPOINT_LOG_BYTES_LEAST:
            raise ValueError(
                "one checkpoint would follow the other without end: set at least"
                f" {CHECKPOINT_LOG_BYTES_LEAST}, or 0 if the log's growth is to be no reason for"
                " one"
            )
        return log_bytes

    @field_validator("grpc_port", "http_port")
    @classmethod
    def _is_not_taken(cls, port: int, info: ValidationInfo) -> int:
        for name in ("resp_port", "grpc_port"):
            if info.data.get(name) == port:
                raise ValueError(f"{port} is the {name} already; give each a port of its own")
        return port

    @field_validator("query")
    @classmethod
    def _is_guarded(cls, query: QueryPort, info: ValidationInfo) -> QueryPort:
        for name in ("resp_port", "grpc_port", "http_port"):
            if query.port and info.data.get(name) == query.port:
                raise ValueError(f"{query.port} is the {name} already; give each a port of its own")
        if query.port and not is_loopback(query.host) and not info.data.get("requirepass"):
            raise ValueError(
                f"{query.host} can be reached from other machines;"
                " set requirepass, or listen on 127.0.0.1"
            )
        return query

    @field_validator("peers")
    @classmethod
    def _are_other_regions(cls, peers: tuple[Peer, ...], info: ValidationInfo) -> tuple[Peer, ...]:
        own = info.data.get("region")
        regions = [peer.region for peer in peers]
        problems = [
            f"region {region} stands there twice"
            for region in sorted(set(regions))
            if regions.count(region) > 1
        ]
        if own in regions:
            problems.append(f"region {own} is this node's own; list only the others")
        if problems:
            raise ValueError("\n".join(problems))
        return peers


def endpoint(host: str, port: int) -> str:
    """host:port, with brackets around the address of IPv6."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def load_settings(path: Path) -> NodeSettings:
    """The settings in ``path`` and the environment.

    Raises:
        SettingsError: the file cannot be read, is no TOML, or something in it or in the
            environment is wrong; it names all problems.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(str(path), [f"is no TOML: {error}"]) from error
    return make_settings(given, source=str(path))


def make_settings(given: Mapping[str, Any], *, source: str) -> NodeSettings:
    """The settings in ``given`` and the environment; errors as of ``load_settings``."""
    try:
        return NodeSettings(**given)
    except ValidationError as error:
        problems = [line for detail in error.errors() for line in _problem(detail)]
        raise SettingsError(source, problems) from None


def _problem(detail: ErrorDetails) -> list[str]:
    """What pydantic found, in our words: the key first, then what to do."""
    where = detail["loc"]
    key = _dotted(where)
    match detail["type"]:
        case "extra_forbidden":
            allowed = _allowed_beside(where)
            nearest = difflib.get_close_matches(str(where[-1]), allowed, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(allowed)}"
            return [f"{key}: no such key; {hint}"]
        case "missing":
            return [f"{key}: is missing"]
        case "value_error":
            return [f"{key}: {line}" for line in str(detail["ctx"]["error"]).split("\n")]
        case "default_factory_not_called":
            # A port that follows from the region, and the region is wrong: said there.
            return []
        case _:
            message = detail["msg"]
            return [f"{key}: {message[0].lower()}{message[1:]}"]


def _dotted(where: Sequence[int | str]) -> str:
    """``peers[0].address`` for ("peers", 0, "address")."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _allowed_beside(where: Sequence[int | str]) -> list[str]:
    """The keys that exist where the unknown one stands."""
    tables: dict[int | str, type[BaseModel]] = {
        "drill": Drill,
        "limits": Limits,
        "peers": Peer,
        "query": QueryPort,
    }
    model = tables.get(where[0], NodeSettings) if len(where) > 1 else NodeSettings
    return list(model.model_fields)
