"""Regions as real processes, for tests that kill them, cut them off and start them again."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crdtstream.access.basic import NO_LOGIN
from crdtstream.admin.client import channel_to
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc
from tests.conftest import free_base_port
from tests.live.forked import Forked
from tests.patience import factor, seconds, wait_until

# For tests that run something first, measure memory, or set limits: a forked process shares the
# server's memory and has the server's limits.
NODE_PROGRAM = "import typer; from crdtstream.cli.node import node; typer.run(node)"

Process: TypeAlias = "subprocess.Popen[bytes] | Forked"

# Quick to notice and to try again; nothing here waits for a clock.
LIMITS = """
[limits]
heartbeat_interval_ms = 50
inbox_wait_ms_max = 300
backoff_ms_max = 200
catch_up_answer_ms_max = 500
"""


class Node:
    """One region as a process; ``host`` is any of this machine's own addresses."""

    def __init__(
        self, region: int, base_port: int, folder: Path, *, host: str = "127.0.0.1"
    ) -> None:
        self.region = region
        self.host = host
        self.resp_port = base_port + region
        self.grpc_port = base_port + 1000 + region
        self.http_port = base_port + 2000 + region
        self.grpc_address = f"{host}:{self.grpc_port}"
        self.config = folder / f"region-{region}.toml"
        self.folder = folder / f"region-{region}"
        self.log = folder / f"region-{region}.log"
        self.process: Process | None = None
        # The login that operators of the node present.
        self.login = NO_LOGIN
        # The same for commands: options that name the files of a certificate.
        self.login_options: tuple[str, ...] = ()
        # On a busy machine a peer that has no turn for a second is not lost.
        self.link_silence_ms_max = round(1_000 * factor())
        # Python code that is run in a new process instead; None: ``crdtstream node`` is forked.
        self.program: str | None = None
        self.client: Any = self.connect()

    def connect(self) -> Any:
        """A redis client that tries once: a request sent twice would be two entries.

        Its replies have the types that our tests ask for, and not all that some option may give.
        """
        return redis.Redis(
            host=self.host,
            port=self.resp_port,
            socket_timeout=seconds(),
            retry=Retry(NoBackoff(), 0),
        )

    def configure(self, peers: Mapping[int, str], **settings: object) -> None:
        """Write the settings; ``peers`` by region, each with its address."""
        given = {
            "region": self.region,
            "dir": str(self.folder),
            "host": self.host,
            "grpc_host": self.host,
            "http_host": self.host,
            "resp_port": self.resp_port,
            "grpc_port": self.grpc_port,
            "http_port": self.http_port,
            **settings,
        }
        lines = [
            f"{name} = {json.dumps(value)}" if isinstance(value, int) else f'{name} = "{value}"'
            for name, value in given.items()
        ]
        for peer, address in peers.items():
            lines += ["[[peers]]", f"region = {peer}", f'address = "{address}"']
        silence = f"link_silence_ms_max = {self.link_silence_ms_max}\n"
        self.config.write_text("\n".join(lines) + LIMITS + silence)

    def launch(self, *options: str) -> Process:
        """Start the process, whatever comes of it."""
        words = ["--config", str(self.config), *options]
        if self.program is None:
            self.process = Forked(["crdtstream", "node", *words], self.log)
        else:
            # The node ends with us, also if we are killed: its input ends then.
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", self.program, *words, "--stop-at-end-of-input"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                )
        return self.process

    def start(self, *options: str) -> None:
        """Start the process and wait until it takes writes."""
        self.launch(*options)
        self.wait()

    def wait(self, *, for_writes: bool = True) -> None:
        """Wait until it serves clients, and takes writes of theirs."""
        process = self.process
        assert process is not None

        def serves() -> bool:
            assert process.poll() is None, self.log.read_text()
            return self.is_serving(for_writes=for_writes)

        wait_until(serves, f"region {self.region} serves")

    def is_serving(self, *, for_writes: bool = True) -> bool:
        """True if it serves clients now, and takes their writes."""
        try:
            self.client.ping()
            return not (for_writes and self.status().fault)
        except (redis.ConnectionError, grpc.RpcError):
            return False
        except redis.ResponseError:
            # It refuses writes, and says so.
            return not for_writes

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(seconds())
        if isinstance(self.process, subprocess.Popen) and self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None
        return status

    def channel(self) -> grpc.Channel:
        """A channel to the node, as its operators have."""
        return channel_to(self.grpc_address, self.login, RegionId(self.region), ())

    def status(self) -> pb.StatusReply:
        with self.channel() as channel:
            stub = rpc.AdminStub(channel)
            reply: pb.StatusReply = stub.Status(
                pb.StatusRequest(with_digest=True),
                timeout=seconds(),
                metadata=self.login.metadata,
            )
            return reply

    def link(self, peer: int) -> pb.LinkStatus:
        return next(link for link in self.status().links if link.peer == peer)

    def set_links(self, *, paused: bool, peers: Iterable[int] = ()) -> None:
        with self.channel() as channel:
            request = pb.SetLinksRequest(peers=list(peers), paused=paused)
            rpc.AdminStub(channel).SetLinks(
                request, timeout=seconds(), metadata=self.login.metadata
            )


def vv_of(status: pb.StatusReply) -> dict[int, int]:
    return dict(zip(status.vv.regions, status.vv.counts, strict=True))


class Cluster:
    """Regions that are each other's peers."""

    def __init__(self, count: int, folder: Path, *, program: str | None = None) -> None:
        base_port = free_base_port(count)
        self.nodes = {region: Node(region, base_port, folder) for region in range(1, count + 1)}
        for node in self.nodes.values():
            node.program = program

    def __getitem__(self, region: int) -> Node:
        return self.nodes[region]

    def configure(
        self, addresses: Mapping[tuple[int, int], str] | None = None, **settings: object
    ) -> None:
        """Settings for all; ``addresses`` by (puller, peer) where it is not the peer's own."""
        for region, node in self.nodes.items():
            peers = {
                peer: (addresses or {}).get((region, peer), other.grpc_address)
                for peer, other in self.nodes.items()
                if peer != region
            }
            node.configure(peers, **settings)

    def start(self) -> None:
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait()

    def converge(self) -> pb.StatusReply:
        """Wait for equal version vectors; digests must be equal then."""
        found: list[pb.StatusReply] = []

        def equal() -> bool:
            found[:] = [node.status() for node in self.nodes.values()]
            return all(vv_of(status) == vv_of(found[0]) for status in found)

        wait_until(equal, "equal version vectors")
        assert len({status.digest for status in found}) == 1
        return found[0]

    def end(self) -> None:
        for node in self.nodes.values():
            node.client.close()
            if node.process is not None:
                node.end(signal.SIGKILL)


@contextmanager
def cluster_of(count: int, folder: Path, *, program: str | None = None) -> Iterator[Cluster]:
    cluster = Cluster(count, folder, program=program)
    try:
        yield cluster
    finally:
        cluster.end()


@contextmanager
def running_regions(
    count: int, folder: Path, *, program: str | None = None, **settings: object
) -> Iterator[Cluster]:
    """The same, configured with these settings and started."""
    with cluster_of(count, folder, program=program) as cluster:
        cluster.configure(None, **settings)
        cluster.start()
        yield cluster
