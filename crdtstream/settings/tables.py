"""Tables of a node's settings: its peers, its limits, the port of programs, rehearsals."""

import os
import re
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from crdtstream.core.ids import REGION_MAX
from crdtstream.settings.addresses import HOST_DEFAULT, is_loopback

FAILPOINT_PATTERN: Final = r"^([a-z.-]+(:[0-9]{1,9}(-[0-9]{1,9})?)?( refused)?)?$"
I32_MAX: Final = (1 << 31) - 1
# Ten years; an ID keeps a wrong clock's time for good.
CLOCK_OFFSET_MS_MAX: Final = 3_650 * 86_400_000
# Must be 1 in the environment of a node that is to have a failpoint.
DRILL_FAILPOINTS_VARIABLE: Final = "CRDTSTREAM_DRILL_FAILPOINTS"

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\s\[\]]+):(?P<port>[0-9]{1,5})")


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
        clients_per_address_max: connections at once of one IP address (IPv6: of its first 64 bits);
            one more is refused.  0: no bound, as many programs may share the address of a proxy.
        newcomers_max: connections at once that have not logged in, at most half of clients_max; if
            one more comes, the one that has waited longest is ended.  1,000: all clients may
            connect again at once, and strangers take no places of clients with a password.
        login_ms_max: time in which a client must log in, if the node asks for a password, in ms.
            0: no bound.  10 s: long enough for the slowest line, and for a login that has to wait.
        request_bytes_max: one bulk string of a request, in bytes; at least 1024.  512 MiB as in
            Redis; users expect it.
        request_arguments_max: arguments of one command.  2,147,483,647 as in Redis; their
            bytes are bounded by query_buffer_bytes_max.
        query_buffer_bytes_max: bytes that one connection may have sent that are not yet a whole
            command, that its transaction holds, or that wait behind a blocked command; beyond it
            the connection ends.  1 GiB as in Redis.
        inline_bytes_max: a command typed without RESP, in bytes.  64 KiB as in Redis.
        output_buffer_bytes_max: replies that one client has not fetched, in bytes; beyond it the
            connection ends.  0: no limit, as in Redis: many clients write a whole pipeline before
            they read; maxmemory_clients bounds all of them together.
        output_buffer_bytes_soft, output_buffer_soft_s: the connection also ends when this many
            bytes stay unfetched for this many seconds.  0: no such limit.
        pubsub_buffer_bytes_max, pubsub_buffer_bytes_soft, pubsub_buffer_soft_s: the same of a
            client that listens to channels.  32 MiB, 8 MiB and 60 s as in Redis.
        output_pause_bytes: replies of one connection that wait for the disk, in bytes; beyond it
            its requests wait.  1 MiB: a pipeline's worth.
        pending_replies_max: commands of one connection whose replies wait for the disk; beyond it
            no more of its requests are read.  100,000.
        commit_queue_records_max: records that wait for the disk; beyond it no requests are read.
            10,000: well over what one group commit takes.
        batch_bytes_max: one replicated batch after decompression, in bytes; a peer that sends more
            is cut off.  1 GiB, over the largest transaction that a region accepts.
        link_message_bytes_target: batches are gathered into link messages of about this size, in
            bytes.  256 KiB: compresses well and adds no delay that a user would see.
        inbox_batches_max: remote batches that are held until what they depend on is applied; a
            link that finds the inbox full stops reading.  At least 1.  10,000.
        inbox_bytes_max: the same in bytes.  64 MiB.
        inbox_wait_ms_max: when a link's batches have been held this long for another origin, in
            ms, it is reopened asking for that origin too.  2 s: longer than the usual detour,
            shorter than patience.
        backoff_ms_min: first wait before a lost link is tried again, in ms; it doubles with each
            failure, with jitter.  At least 1.  50 ms: a restart is not noticed.
        backoff_ms_max: longest such wait, in ms.  5 s: a healed network is used soon.
        heartbeat_interval_ms: interval at which a server sends its pullers its versions and clock,
            in ms, while something happens.  Otherwise it is a third of link_silence_ms_max, but a
            second at most.  At least 10.  250 ms: lag is then fresh enough for failover decisions.
        link_silence_ms_max: a link that has been silent this long counts as broken, in ms; more
            than the heartbeat interval.  3 s: twelve heartbeats, or three while nothing happens.
        shutdown_ms_max: time that clients and links get to finish when the node stops, in ms.  0:
            none.  5 s.
        skew_warning_ms: clocks further apart than this are reported, in ms.  0: never.  1 s.
        catch_up_answer_ms_max: time that a node that starts waits for its peers to say what they
            have, in ms, before it takes writes without them.  0: it takes writes at once, however
            far behind it is.  2 s: longer than three round trips around the world, and a lone
            survivor serves soon.
        catch_up_stall_ms_max: a node that starts behind its peers takes writes nevertheless when
            nothing that lacks has come for this long, in ms; more than inbox_wait_ms_max, after
            which peers relay.  10 s.
        metrics_names_max: number of streams, and of groups, that ``/metrics`` names one by one,
            those with the most in them; sums cover all.  0: none, so that no name of a key can be
            read there.  100: what a dashboard can show.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clients_max: int = Field(default=10_000, ge=0)
    clients_per_address_max: int = Field(default=0, ge=0)
    newcomers_max: int = Field(default=1_000, ge=1)
    login_ms_max: int = Field(default=10_000, ge=0, le=I32_MAX)
    request_bytes_max: int = Field(default=512 << 20, ge=1024)
    request_arguments_max: int = Field(default=I32_MAX, ge=16, le=I32_MAX)
    query_buffer_bytes_max: int = Field(default=1 << 30, ge=1024)
    inline_bytes_max: int = Field(default=64 << 10, ge=64)
    output_buffer_bytes_max: int = Field(default=0, ge=0)
    output_buffer_bytes_soft: int = Field(default=0, ge=0)
    output_buffer_soft_s: int = Field(default=0, ge=0, le=I32_MAX)
    pubsub_buffer_bytes_max: int = Field(default=32 << 20, ge=0)
    pubsub_buffer_bytes_soft: int = Field(default=8 << 20, ge=0)
    pubsub_buffer_soft_s: int = Field(default=60, ge=0, le=I32_MAX)
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
    """The table ``[drill]``: for rehearsals on disposable data, and for nothing else.

    Attributes:
        clock_offset_ms: offset of this node's wall clock, in ms; IDs, expiry, TIME and the clock
            that peers hear of follow it.  IDs made with it stay wrong.  0: the clock is right.
        failpoint: a step of a checkpoint, of the log or of a backup at which the process dies
            (``checkpoint.put:3``: the third time), or the disk refuses (``log.append:5-9
            refused``).  Refused unless CRDTSTREAM_DRILL_FAILPOINTS=1 stands in the environment.
            Empty: none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_offset_ms: int = Field(default=0, ge=-CLOCK_OFFSET_MS_MAX, le=CLOCK_OFFSET_MS_MAX)

    # The store knows the steps that exist (``store/failpoints.py``).
    failpoint: str = Field(default="", pattern=FAILPOINT_PATTERN)

    @field_validator("failpoint")
    @classmethod
    def _is_wanted(cls, failpoint: str) -> str:
        if failpoint and os.environ.get(DRILL_FAILPOINTS_VARIABLE) != "1":
            raise ValueError(
                f"{failpoint} ends this node or refuses its writes, for rehearsals only; to have it"
                f" on a node with disposable data, set {DRILL_FAILPOINTS_VARIABLE}=1 in its"
                " environment"
            )
        return failpoint
