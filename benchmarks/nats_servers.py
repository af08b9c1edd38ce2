"""nats-server with JetStream: a stream on one server, and its mirror on another one.

The second server is a leaf node of the first, with a JetStream domain of its own, as NATS's
documentation lays out two sites: a client of the leaf reads the mirror, which follows the stream.
Version 2.9 writes messages to files and has them synced every two minutes; that cannot be set.
Source: docs.nats.io, "JetStream on leaf nodes" and "Source and mirror".
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.load.nats import NatsConnection
from benchmarks.load.wire import LoadError
from benchmarks.processes import HOST, cpu_seconds, free_ports, running, wait_for_rest, wait_until
from benchmarks.systems import is_there

PROGRAM: Final = "nats-server"
MISSING: Final = "nats-server is missing; on Debian: apt-get install nats-server"
STREAM: Final = "ORDERS"
MIRROR: Final = "ORDERSMIRROR"
SUBJECT: Final = "orders"


@dataclass(slots=True)
class NatsPair:
    """The two servers; the leaf can be stopped and started."""

    port: int
    leaf_port: int
    pid: int
    _leaf_command: list[str]
    _leaf: ExitStack
    leaf_pid: int = 0

    def cpu_seconds(self) -> float:
        return cpu_seconds([self.pid, self.leaf_pid])

    def rest(self) -> None:
        wait_for_rest([self.pid, self.leaf_pid])

    def start_leaf(self) -> None:
        self.leaf_pid = self._leaf.enter_context(running(self._leaf_command))

    def stop_leaf(self) -> None:
        self._leaf.close()

    def make_stream(self) -> None:
        """A stream and its mirror, in place of those that were there."""
        hub, leaf = NatsConnection(self.port), NatsConnection(self.leaf_port)
        for connection, name in ((leaf, MIRROR), (hub, STREAM)):
            # It says null where there are none.
            if name in (connection.api("STREAM.NAMES", {}).get("streams") or ()):
                connection.api(f"STREAM.DELETE.{name}", {})
        hub.make_stream(STREAM, subjects=[SUBJECT])
        leaf.make_stream(MIRROR, mirror={"name": STREAM, "external": {"api": "$JS.hub.API"}})

    def mirrored(self) -> int:
        """Number of messages that the mirror has; none if the leaf does not say."""
        try:
            return NatsConnection(self.leaf_port).length(MIRROR)
        except (LoadError, OSError):
            return 0


def is_nats_there() -> bool:
    return is_there(PROGRAM)


@contextmanager
def nats_pair(folder: Path) -> Iterator[NatsPair]:
    port = free_ports(3)
    hub, leaf = folder / "hub.conf", folder / "leaf.conf"
    hub.write_text(
        f'server_name: hub\nlisten: "{HOST}:{port}"\n'
        f'jetstream {{ store_dir: "{folder}/hub", domain: hub }}\n'
        f'leafnodes {{ listen: "{HOST}:{port + 1}" }}\n'
    )
    leaf.write_text(
        f'server_name: leaf\nlisten: "{HOST}:{port + 2}"\n'
        f'jetstream {{ store_dir: "{folder}/leaf", domain: leaf }}\n'
        f'leafnodes {{ remotes: [ {{ url: "nats://{HOST}:{port + 1}" }} ] }}\n'
    )
    with running([PROGRAM, "-c", str(hub)]) as pid, ExitStack() as stack:
        pair = NatsPair(port, port + 2, pid, [PROGRAM, "-c", str(leaf)], stack)
        wait_until(lambda: _answers(port), "an answer of nats-server")
        pair.start_leaf()
        wait_until(lambda: _answers(port + 2), "an answer of the leaf")
        # A mirror whose stream cannot be reached yet tries again only after seconds.
        wait_until(lambda: _hears_hub(port + 2), "the leaf's connection to the hub")
        yield pair


def _answers(port: int) -> bool:
    try:
        NatsConnection(port).api("INFO", {})
    except LoadError:
        return False
    return True


def _hears_hub(leaf_port: int) -> bool:
    connection = NatsConnection(leaf_port)
    connection.socket.settimeout(0.2)
    try:
        connection.api("INFO", {}, domain="hub")
    except (LoadError, TimeoutError):
        return False
    return True
