"""Settings of a region node at its start: one typed model, from a TOML file and the environment.

A variable ``CRDTSTREAM_<FIELD>`` (``CRDTSTREAM_LIMITS__<FIELD>`` for the table ``[limits]``) beats
the file.  All problems are found and reported at once, each naming its key.  A key that does not
exist is refused with the nearest one that does, so that a misspelt limit never goes unnoticed.

Always so: a node that other machines can reach asks its clients for a password, and only the ports
that the operator has opened can be reached.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.names import check_database_id
from crdtstream.certificates.options import TlsOptionError, TlsOptions
from crdtstream.core.ids import REGION_MAX
from crdtstream.core.notifications import parse_classes
from crdtstream.core.redis_version import DEFAULT, WANTED, parse_redis_version
from crdtstream.secrets.secret_files import SecretError, read_secret
from crdtstream.settings.addresses import (
    GRPC_PORT_BASE,
    HOST_DEFAULT,
    HTTP_PORT_BASE,
    ONLY_HERE,
    RESP_PORT_BASE,
    endpoint,
    is_loopback,
)
from crdtstream.settings.tables import I32_MAX, Drill, Limits, Peer, QueryPort

MEMORY_BOUND_PATTERN: Final = r"^([0-9]{1,18}[kmgKMG]?[bB]?|100%|[0-9]{1,2}%)$"
ENV_PREFIX: Final = "CRDTSTREAM_"
DATABASE_ID_DEFAULT: Final = "crdb"
DATABASE_ID_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,64}$"
# Ten years.
SECONDS_MAX: Final = 3_650 * 86_400
# The same bound as for later tuning (``region/checkpointing.py``).
CHECKPOINT_LOG_BYTES_LEAST: Final = 64 << 10


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


def _port(base: int, *, least: int = 1) -> Any:
    """A port field: base + region unless given."""
    return Field(
        default_factory=lambda given: base + int(given.get("region", 0)),
        validate_default=True,
        ge=least,
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
        volume_id: names the volume that ``dir`` is on, as its provider does: the UID of a claim in
            Kubernetes, the ID of a disk in a cloud.  A folder that was last open on another volume
            is a clone, and its node asks all peers before it takes writes.  Empty: unknown, and
            clones of volumes are noticed by their effects only.
        requirepass_file: file whose first line is the password of the user ``default``, read when
            the node starts.  None: ``requirepass`` has it.
        requirepass: that password itself; only one of the two may be set.  Empty: none is asked
            for, which only an address of this machine allows.  ``users`` and ``aclfile`` may
            change it.
        users: users and their rights, each as a line of an aclfile without the word ``user``:
            ``alice on >a-long-password ~orders:* +@stream``.  Not together with ``aclfile``.
        aclfile: file with the users and their rights, as of Redis; ACL LOAD and ACL SAVE read and
            write it.  It must exist at the start.  None: there is no such file.
        acl_pubsub_default: ``resetchannels``: a new user may use no channel; ``allchannels``: all.
            ``resetchannels`` as in Redis.
        acllog_max_len: number of refused requests and logins that ACL LOG keeps.  0: none.  128 as
            in Redis.
        host: address to listen on for Redis clients.  127.0.0.1: only this machine.  Any address
            that others can reach is refused without ``requirepass``.
        tls_cert_file: PEM file of this node's certificate; authorities between it and a root may
            follow in it.  None: the node has no certificate, and no port speaks TLS by it.  This
            and the next three are named as in Redis; changed files are used within 10 s.
        tls_key_file: PEM file of its key, for its owner alone.
        tls_key_file_pass_file: file whose first line is the password of that key.  None: the key is
            not encrypted.
        tls_ca_cert_file: PEM file of the authorities whose certificates others must show.
        tls_ca_cert_dir: folder of further ones, at most 64 files named as ``openssl rehash`` names
            them; a file that is added or removed counts within 10 s.  None: there is no such
            folder.
        tls_replication: True: the gRPC port speaks mutual TLS only.  A region is then known by its
            certificate, which must be of this region and database, and an operator by theirs.
            False: it speaks plain TCP.
        peer_certificate_check_s: time in seconds after which a link begins again, so that each side
            checks the other one's certificate; 20 % more or less, by chance.  3600.  A certificate
            that expires, or authorities that change, end their links at once.
        insecure_peers: True: ``grpc_host`` may be an address that others can reach, although peers
            are not authenticated: a program that reaches the port can open a link in the name of a
            region.  For networks that only the regions reach; needless with ``tls_replication``.
        grpc_host: address to listen on for peers and operators.  127.0.0.1: only this machine.  Any
            address that others can reach is refused without ``tls_replication``, unless there are
            both ``insecure_peers`` and ``requirepass``, which all calls but links and health checks
            must then present.
        tls_http: True: the HTTP port speaks TLS only, by ``tls_cert_file``.  Its clients show no
            certificate: pages that are not open ask for user and password.  False: it speaks plain
            HTTP.
        http_host: address to listen on for health checks and metrics.  127.0.0.1: only this
            machine.  Any address that others can reach is refused without ``requirepass``, which
            all pages but those of health must then be asked with.
        resp_port: for Redis clients.  0: none, for clients with TLS only.  6380 + region, so that
            region 1 is next to Redis's 6379.
        tls_port: for Redis clients with TLS, which needs ``tls_cert_file``.  0: none.  This and the
            following ones are named as in Redis, and CONFIG SET changes them.
        tls_auth_clients: ``yes``: clients on ``tls_port`` must show a certificate of an authority
            in ``tls_ca_cert_file``; ``optional``: one that they show must be of such an authority;
            ``no``: none is asked for.  ``yes``, as in Redis.
        tls_auth_clients_user: ``CN``: a client whose certificate was checked is logged in as the
            user of its common name, if there is one, without a password.  ``off``: nobody is, as in
            Redis.
        tls_protocols: ``TLSv1.2``, ``TLSv1.3``, or both with a blank between them.  Empty: both, as
            in Redis.  Older ones are refused.
        tls_ciphers: ciphers of TLS 1.2, in OpenSSL's form.  Empty: Python's choice, which is
            stricter than OpenSSL's.
        tls_ciphersuites: of TLS 1.3.  Empty: OpenSSL's choice; Python's ssl knows no other.
        tls_prefer_server_ciphers: True: the server's order of ciphers counts.  False: the client's,
            as in Redis.
        tls_session_caching: True: a client that connects again may skip most of the handshake, as
            in Redis.  False: it may not, which needs ``tls_protocols = "TLSv1.3"``.
        grpc_port: for peers and ``crdtstream``/``rladmin``.  7380 + region.
        http_port: for health checks and metrics.  8380 + region.
        announce_hosts: further names and addresses by which clients know this node, for those who
            look for their endpoint in ``/v1/bdbs``; the first one is its DNS name there.  None:
            the name by which the client asks, and ``host``.
        announce_port: the port of ``resp_port``, or of ``tls_port`` if that is 0, as clients know
            it, behind a proxy.  0: the same.
        availability_lag_tolerance_ms: lag behind its peers up to which a region counts as available
            when asked with ``extend_check=lag``, in ms.  100 as in Redis Enterprise; more than the
            longest round trip between regions.
        availability_latency_tolerance_ms: time that a request may wait for its answer, in ms, for
            the event loop and for the log together; beyond it ``/readyz`` and
            ``/v1/bdbs/1/availability`` answer 503.  0: no bound.  500: half of the second for which
            clients wait.
        availability_in_minority: the region's answer to that question while it hears so few peers
            that it may be the one that is cut off: ``unavailable``; or ``available``, for a region
            whose peers are lost.
        peers: the other regions.  None: a database of one region.
        crdt_xadd_id_uniqueness_mode: the IDs that XADD accepts: ``strict`` (only such as no other
            region can make), ``semi-strict`` (explicit ones too), ``liberal`` (as in Redis).
            Counts for a new folder; later ``rladmin tune`` changes it, and that is kept.
        crdt_xgroup_create_mkstream: ``explicit``: XGROUP CREATE on a missing key wants MKSTREAM,
            as in Redis; ``implicit``: it makes the stream.
        max_replication_lag_effects: number of effects of this region that may be in no other region
            yet; they could be lost with the region.  0: no bound, as nothing is refused then.
        max_replication_lag_ms: time, in ms, for which an effect may be in no other region.  0: no
            bound.
        replication_lag_action: action at these bounds: ``warn`` (a line in the log), ``throttle``
            (writes wait, at most 1 s each) or ``refuse`` (writes are answered LAGGED).
            ``warn``, as the others cost availability.
        crdt_xread_mode: ``by-id``: XREAD returns entries above the ID, as in Redis, and skips those
            that arrive late below it; ``never-skip``: entries that the reader did not get.
        redis_version: the Redis that clients are told they speak to (HELLO, INFO), 7.4.0 to 8.10.
            Fields of replies that are newer are left out; commands work all the same.  8.2.3: the
            version that replies are compared with.
        appendfsync: ``always``: a reply means that the disk has it; ``everysec``: a power cut may
            cost a second, a killed process nothing; ``no``: the system decides when.
        checkpoint_log_bytes: growth of the log since the last checkpoint at which another one is
            written, in bytes, 64 KiB or more.  0: the log's growth causes none.  16 MiB: read back
            in a moment at start.  One is also written when a restart would take half a second to
            replay the log.
        checkpoint_interval_s: time in seconds after which one is also written, if anything was
            written.  0: time causes none.  300.
        replication_backlog_size: size of the log that is kept for a region that is away, in bytes
            on disk; beyond it the region needs a bootstrap.  0: nothing.  In any case the log keeps
            what no other region is known to durably have.  1 GiB, as Redis Enterprise has for
            Active-Active databases.
        replication_backlog_ttl_s: time in seconds for which it is kept.  0: not at all.  A day: an
            outage that is noticed in the morning costs no bootstrap.
        bootstrap_bytes_per_s: rate at which this region sends its state to one that needs a
            bootstrap, in bytes a second.  0: as fast as it can, which takes a part of a processor.
        bootstrap_backlog_size: size of the log that is kept for a region while it gets the state of
            another one, in bytes on disk; beyond it the bootstrap begins again.  0: nothing.  8
            GiB: what comes in while a large state crosses a slow line.
        maxmemory: bytes that the node may take.  What is on disk too leaves memory first; beyond
            it commands that add data are answered OOM.  0: no bound, as in Redis.
        maxmemory_clients: bytes that all clients together may take, as ``100mb``, or a part of
            ``maxmemory``, as ``5%``; beyond it the largest client is disconnected.  0: no bound, as
            in Redis.
        maxdisk: bytes that the folder may take; beyond it commands that add data are refused.  0:
            no bound.
        stream_node_max_entries: entries per macro node.  0: no limit.  100 as in Redis.
        stream_node_max_bytes: bytes per macro node.  0: no limit.  4096 as in Redis.
        stream_idmp_duration: time in seconds for which XADD recognises an idempotent ID, in streams
            without a value of XCFGSET.  100 as in Redis.
        stream_idmp_maxsize: number of IDs that it recognises of each producer.  100 as in Redis.
        timeout: seconds without a request after which a client is disconnected, unless it waits
            for something.  0: never, as in Redis.
        tcp_keepalive: seconds of silence after which a connection is probed for its client.  0:
            never.  300 as in Redis.
        slowlog_log_slower_than: commands that take at least this long, in microseconds, are in
            SLOWLOG.  0: all; -1: none.  10,000 as in Redis.
        slowlog_max_len: number of them that is kept.  128 as in Redis.
        latency_monitor_threshold: events that take at least this long, in milliseconds, are in
            LATENCY.  0: none, as in Redis.
        notify_keyspace_events: changes of keys that clients may subscribe to, as in Redis: ``KEA``
            all of them.  Empty: none, as in Redis; each costs time.
        log_level: least severe line of the log to print.
        log_format: ``console``: lines for people; ``json``: an object of JSON a line, whose events
            have names that stay.
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
    volume_id: str = Field(default="", pattern=r"^[\x21-\x7e]{0,200}$")
    # Before the hosts, whose checks need them.
    requirepass_file: Path | None = None
    requirepass: str = Field(default="", repr=False, validate_default=True)
    users: tuple[str, ...] = Field(default=(), repr=False)
    aclfile: Path | None = None
    acl_pubsub_default: Literal["resetchannels", "allchannels"] = "resetchannels"
    acllog_max_len: int = Field(default=128, ge=0, le=1_000_000)
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_key_file_pass_file: Path | None = None
    tls_ca_cert_file: Path | None = None
    tls_ca_cert_dir: Path | None = None
    tls_replication: bool = False
    peer_certificate_check_s: int = Field(default=3_600, ge=1, le=SECONDS_MAX)
    insecure_peers: bool = False
    tls_http: bool = False
    host: str = Field(default=HOST_DEFAULT, min_length=1)
    grpc_host: str = Field(default=HOST_DEFAULT, min_length=1)
    http_host: str = Field(default=HOST_DEFAULT, min_length=1)
    resp_port: int = _port(RESP_PORT_BASE, least=0)
    tls_port: int = Field(default=0, ge=0, le=65535)
    tls_auth_clients: Literal["yes", "no", "optional"] = "yes"
    tls_auth_clients_user: Literal["off", "CN"] = "off"
    tls_protocols: str = ""
    tls_ciphers: str = ""
    tls_ciphersuites: str = ""
    tls_prefer_server_ciphers: bool = False
    tls_session_caching: bool = True
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
    maxmemory_clients: str = Field(default="0", pattern=MEMORY_BOUND_PATTERN)
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
    notify_keyspace_events: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
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
        """Settings sources: the environment beats what is given, and what is given is the file."""
        return env_settings, init_settings

    @field_validator("notify_keyspace_events")
    @classmethod
    def _are_classes(cls, text: str) -> str:
        if parse_classes(text) is None:
            raise ValueError(
                f"{text!r} has a character that is no class of notifications: use those of "
                "Ag$lshzxeKEtdocnm, as in KEA"
            )
        return text

    @field_validator("requirepass")
    @classmethod
    def _is_here_or_in_the_file(cls, password: str, info: ValidationInfo) -> str:
        path = info.data.get("requirepass_file")
        if path is None:
            return password
        if password:
            raise ValueError(
                "requirepass_file names the password already; use only one of them (a variable"
                f" {ENV_PREFIX}REQUIREPASS counts as well)"
            )
        try:
            return read_secret(path)
        except SecretError as error:
            raise ValueError(str(error)) from None

    @field_validator("aclfile")
    @classmethod
    def _are_in_one_place(cls, aclfile: Path | None, info: ValidationInfo) -> Path | None:
        if aclfile is not None and info.data.get("users"):
            raise ValueError("users stand in the settings as well; write them into the file only")
        return aclfile

    @field_validator("host", "grpc_host", "http_host")
    @classmethod
    def _is_private_or_guarded(cls, host: str, info: ValidationInfo) -> str:
        knows_peers = info.field_name == "grpc_host" and info.data.get("tls_replication")
        if is_loopback(host) or knows_peers:
            return host
        # Regions present a login that is derived from it, whatever users there are.
        between_regions = info.field_name == "grpc_host"
        is_set = _has_requirepass(info.data) if between_regions else _has_passwords(info.data)
        names = "requirepass" if between_regions else "requirepass (or users, or aclfile)"
        wanted = [] if is_set else [f"set {names}"]
        if info.field_name == "grpc_host" and not info.data.get("insecure_peers"):
            wanted.append(
                "write insecure_peers = true if only your regions reach this network, as peers are"
                " not authenticated without tls_replication"
            )
        if wanted:
            raise ValueError(
                f"{host} can be reached from other machines; {' and '.join(wanted)},"
                " or listen on 127.0.0.1"
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

    @field_validator("tls_port", "grpc_port", "http_port")
    @classmethod
    def _is_not_taken(cls, port: int, info: ValidationInfo) -> int:
        for name in ("resp_port", "tls_port", "grpc_port"):
            if port and info.data.get(name) == port:
                raise ValueError(f"{port} is the {name} already; give each a port of its own")
        return port

    @field_validator("query")
    @classmethod
    def _is_guarded(cls, query: QueryPort, info: ValidationInfo) -> QueryPort:
        for name in ("resp_port", "tls_port", "grpc_port", "http_port"):
            if query.port and info.data.get(name) == query.port:
                raise ValueError(f"{query.port} is the {name} already; give each a port of its own")
        if query.port and not is_loopback(query.host) and not _has_passwords(info.data):
            raise ValueError(
                f"{query.host} can be reached from other machines;"
                " set requirepass (or users, or aclfile), or listen on 127.0.0.1"
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

    @model_validator(mode="after")
    def _says_where_peers_call(self) -> Self:
        # `host` is often taken to be for all ports.  Without this, links would just stay down.
        if self.peers and self.host not in ONLY_HERE and "grpc_host" not in self.model_fields_set:
            shown = self.host.strip("[]")
            raise ValueError(
                f"grpc_host: is missing; host = {shown} is for Redis clients only, and the other"
                f' regions call the gRPC port: write grpc_host = "{shown}", and'
                f' http_host = "{shown}" if health checks and metrics come from other machines'
            )
        return self

    @property
    def _has_authorities(self) -> bool:
        return self.tls_ca_cert_file is not None or self.tls_ca_cert_dir is not None

    @model_validator(mode="after")
    def _has_whole_certificates(self) -> Self:
        problems = []
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            problems.append("tls_cert_file and tls_key_file belong together; set both")
        if self.tls_key_file_pass_file is not None and self.tls_key_file is None:
            problems.append("tls_key_file_pass_file: is the password of tls_key_file; set it too")
        problems += [
            f"{name}: is for TLS; set tls_cert_file and tls_key_file too"
            for name in ("tls_ca_cert_file", "tls_ca_cert_dir")
            if getattr(self, name) is not None and self.tls_cert_file is None
        ]
        if self.tls_http and self.tls_cert_file is None:
            problems.append("tls_http: needs a certificate; set tls_cert_file and tls_key_file")
        if self.tls_replication:
            files = ("tls_cert_file", "tls_key_file")
            missing = [name for name in files if getattr(self, name) is None]
            if not self._has_authorities:
                missing.append("tls_ca_cert_file")
            if missing:
                problems.append(f"tls_replication: regions prove who they are; set {_and(missing)}")
            try:
                check_database_id(self.database_id)
            except CertificateError as error:
                problems.append(f"tls_replication: {error}")
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @model_validator(mode="after")
    def _can_serve_clients(self) -> Self:
        problems = []
        if not self.resp_port and not self.tls_port:
            problems.append("resp_port: 0 leaves clients no port; set tls_port, or another number")
        if self.tls_port and self.tls_cert_file is None:
            problems.append("tls_port: needs a certificate; set tls_cert_file and tls_key_file")
        elif self.tls_port and self.tls_auth_clients != "no" and not self._has_authorities:
            problems.append(
                f"tls_auth_clients: {self.tls_auth_clients} needs authorities to check clients'"
                " certificates with; set tls_ca_cert_file (or tls_ca_cert_dir), or"
                ' tls_auth_clients = "no"'
            )
        try:
            self.tls_options.check()
        except TlsOptionError as error:
            problems.append(f"tls_{error.name}: {error.reason}")
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def tls_options(self) -> TlsOptions:
        return TlsOptions(
            auth_clients=self.tls_auth_clients,
            protocols=self.tls_protocols,
            ciphers=self.tls_ciphers,
            ciphersuites=self.tls_ciphersuites,
            prefer_server_ciphers=self.tls_prefer_server_ciphers,
            session_caching=self.tls_session_caching,
        )

    @property
    def client_port(self) -> int:
        """The port that clients are sent to: the one without TLS, if there is one."""
        return self.resp_port or self.tls_port

    @property
    def is_reachable(self) -> bool:
        """True if other machines reach a port that asks for user and password."""
        hosts = [self.host, self.http_host]
        # With certificates a user's password is not what lets a caller in.
        if not self.tls_replication:
            hosts.append(self.grpc_host)
        if self.query.port:
            hosts.append(self.query.host)
        return not all(map(is_loopback, hosts))

    @property
    def resp_address(self) -> str:
        return endpoint(self.host, self.client_port)

    @property
    def grpc_address(self) -> str:
        return endpoint(self.grpc_host, self.grpc_port)

    @property
    def http_address(self) -> str:
        return endpoint(self.http_host, self.http_port)

    @property
    def http_scheme(self) -> str:
        return "https" if self.tls_http else "http"


def _has_requirepass(given: Mapping[str, Any]) -> bool:
    """True if there is a password of ``default``.

    One that cannot be read is a problem of its own, which is reported there.
    """
    return bool(given.get("requirepass") or given.get("requirepass_file"))


def _has_passwords(given: Mapping[str, Any]) -> bool:
    """True if clients are asked for a password, or the users say which ones are.

    A user who needs none is refused later, when the users are read.
    """
    return _has_requirepass(given) or bool(given.get("users") or given.get("aclfile"))


def _and(names: Sequence[str]) -> str:
    """``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


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
    """Problems that pydantic found, in our words: the key first, then what to do."""
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
            lines = str(detail["ctx"]["error"]).split("\n")
            # A problem of several keys together names its key itself.
            return [f"{key}: {line}" if key else line for line in lines]
        case "default_factory_not_called":
            # A port that follows from the region, and the region is wrong: reported there.
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
    """Keys that exist where the unknown one is."""
    tables: dict[int | str, type[BaseModel]] = {
        "drill": Drill,
        "limits": Limits,
        "peers": Peer,
        "query": QueryPort,
    }
    model = tables.get(where[0], NodeSettings) if len(where) > 1 else NodeSettings
    return list(model.model_fields)
