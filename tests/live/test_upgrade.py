"""Regions are upgraded one by one while clients write, read and move (docs/upgrade.md).

The older version is an earlier commit of this repository, so a clone without its history cannot
run it.  There the drill `rolling-restart` shows the same with one version.
"""

import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import count, cycle, islice
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import pytest
import redis

from tests.conftest import ROOT
from tests.live.cluster import Cluster, Node, cluster_of
from tests.patience import seconds, wait_until

pytestmark = [pytest.mark.live, pytest.mark.long]

# Before the first release: the first commit whose settings, folders and links this version takes.
# Its nodes know no users, certificates or revocations.
OLDER: Final = "869f95f2154faf89610e4e29c15f50c950564503"
GROUP: Final = "workers"
# Of each writer, between two changes.
WRITES_BETWEEN: Final = 40
CLIENT_SECONDS_MAX: Final = 5.0


def program_of(tree: Path) -> str:
    """Python code of a node of that tree."""
    return (
        f"import sys; sys.path.insert(0, {str(tree)!r}); import typer;"
        " from crdtstream.cli.node import node; typer.run(node)"
    )


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program of the older version."""
    packed = subprocess.run(
        ["git", "archive", OLDER, "crdtstream"], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip("this clone has no history: git fetch --unshallow")
    tree = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return program_of(tree)


class Writer:
    """A client of a region that moves to the next one when its own does not answer.

    It writes 1, 2, 3 … to a stream of its own, each with the same idempotent id in all attempts,
    and removes each tenth entry.

    Attributes:
        acknowledged: up to this number everything was acknowledged.
        removed: numbers of entries that it removed.
        unsure: numbers that it moved with; the entry may be removed or not.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.stream = f"stream-{nodes[0].region}"
        self.acknowledged = 0
        self.removed: set[int] = set()
        self.unsure: set[int] = set()
        self.moves = 0
        self._clients = cycle([client_of(node) for node in nodes])
        self._client = next(self._clients)
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in count(1):
            if self._stop.is_set():
                return
            moves = self.moves
            words = ("XADD", self.stream, "IDMP", self.stream, number, "*", "number", number)
            entry = self._until_answered(*words)
            self.acknowledged = number
            if number % 10 == 0:
                # Elsewhere it removes an entry only if that has arrived.
                if self._until_answered("XDEL", self.stream, entry):
                    self.removed.add(number)
                if self.moves > moves:
                    self.unsure.add(number)
                self._until_answered("SET", f"last-of-{self.stream}", number)

    def _until_answered(self, *words: Any) -> Any:
        while True:
            try:
                return self._client.execute_command(*words)
            except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
                # Refused while the region catches up, or gone.
                if isinstance(error, redis.ResponseError) and "MISCONF" not in str(error):
                    raise
                self._client = next(self._clients)
                self.moves += 1
                self._stop.wait(0.02)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(seconds())
        assert not self._thread.is_alive()


def client_of(node: Node) -> Any:
    client = node.connect()
    client.connection_pool.connection_kwargs["socket_timeout"] = CLIENT_SECONDS_MAX
    return client


@contextmanager
def writers_of(cluster: Cluster) -> Iterator[list[Writer]]:
    nodes = list(cluster.nodes.values())
    # Each begins with a region of its own.
    writers = [Writer(list(islice(cycle(nodes), at, at + len(nodes)))) for at in range(len(nodes))]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.stop()


def wait_for_writes(writers: list[Writer]) -> None:
    """Until each has written again."""
    before = [writer.acknowledged for writer in writers]
    wait_until(
        lambda: all(
            writer.acknowledged >= then + WRITES_BETWEEN
            for writer, then in zip(writers, before, strict=True)
        ),
        "all writers go on",
    )


def knows_users(node: Node) -> bool:
    """True of this version, false of the older one."""
    try:
        node.client.execute_command("ACL", "SETUSER", "someone")
    except redis.ResponseError:
        return False
    return True


def delivered(node: Node, stream: str) -> set[int]:
    """Numbers of entries that the group gives to one consumer in a region, all acknowledged."""
    found: set[int] = set()
    while True:
        reply = node.client.xreadgroup(GROUP, "reader", {stream: ">"}, count=500)
        if not reply:
            return found
        for _, entries in reply:
            node.client.xack(stream, GROUP, *[entry_id for entry_id, _ in entries])
            found |= {int(fields[b"number"]) for _, fields in entries}


def test_regions_of_two_versions_run_together_and_lose_nothing(older: str, tmp_path: Path) -> None:
    with cluster_of(3, tmp_path, program=older) as cluster:
        cluster.configure()
        cluster.start()
        assert not any(knows_users(node) for node in cluster.nodes.values())
        for number in cluster.nodes:
            cluster[1].client.xgroup_create(f"stream-{number}", GROUP, id="0", mkstream=True)
        cluster.converge()

        with writers_of(cluster) as writers:
            wait_for_writes(writers)
            last = cluster[3]
            # The last one also goes back, and forth again.
            for node, program in [
                *((one, None) for one in cluster.nodes.values()),
                (last, older),
                (last, None),
            ]:
                node.end()
                wait_for_writes(writers)
                node.program = program
                node.start()
                assert knows_users(node) == (program is None)
                wait_for_writes(writers)

        cluster.converge()
        assert sum(writer.moves for writer in writers) >= len(cluster.nodes)
        for writer in writers:
            must = set(range(1, writer.acknowledged + 1)) - writer.removed - writer.unsure
            assert len(writer.unsure) < len(writer.removed)
            for node in cluster.nodes.values():
                entries = node.client.xrange(writer.stream)
                found = [int(fields[b"number"]) for _, fields in entries]
                assert len(found) == len(set(found))
                assert must <= set(found) <= must | writer.unsure
            assert must <= delivered(cluster[2], writer.stream)
