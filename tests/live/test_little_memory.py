"""A node whose entries are mostly on disk answers as one does that has all of them in memory.

Two regions of the same number, each of a database of its own, are asked the same.  One of them may
take little more memory than what cannot leave it.
"""

import random
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import grpc
import pyarrow as pa
import pytest
import redis

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.live.cluster import NODE_PROGRAM, Cluster, Node, cluster_of
from tests.patience import seconds, wait_until

MIB: Final = 1 << 20
ENTRIES, SHORT_ENTRIES = 20_000, 1_500
TEXT_BYTES: Final = 2_000
# What has to leave memory: of the log's last records what is kept for links, and macro nodes.
LEAVING_BYTES: Final = 32 * MIB
NODES_ON_DISK_MIN: Final = 50
PAGE: Final = 1_000
# As redis-py tells it.
NO_ROOM: Final = "command not allowed when used memory > 'maxmemory'"
# What is not the same in two nodes: times, and how entries are cut into macro nodes.
OF_THE_NODE: Final = (b"time", b"idle", b"inactive", b"radix", b"pel")


@cache
def line(index: int) -> bytes:
    """Of an entry; packing makes nothing of it smaller."""
    return random.Random(index).randbytes(TEXT_BYTES)


def nodes_bytes(node: Node) -> int:
    """Memory of its macro nodes."""
    with node.connect() as connection:
        return int(connection.memory_stats()["crdtstream.nodes"])


def fill(node: Node, key: str, count: int) -> None:
    for start in range(1, count + 1, PAGE):
        pipe = node.client.pipeline(transaction=False)
        for index in range(start, min(start + PAGE, count + 1)):
            pipe.xadd(key, {"index": index, "text": line(index)}, id=f"{index}-*")
        pipe.execute()


def same_everywhere(reply: Any) -> Any:
    """A reply of XINFO without what is each node's own."""
    match reply:
        case dict():
            return {
                name: same_everywhere(value)
                for name, value in reply.items()
                if not (any(word in name for word in OF_THE_NODE) or _has_times(name, value))
            }
        case list():
            return [same_everywhere(one) for one in reply]
        case _:
            return reply


def _has_times(name: bytes, value: Any) -> bool:
    """True if pending entries are listed one by one, each with the time of its delivery."""
    return name == b"pending" and isinstance(value, list)


@dataclass(slots=True)
class Pair:
    """A node with little memory, and one without a bound.

    Attributes:
        regions: of the one with little memory; its peers do not run yet.
        watching: another connection to it, which is never in a transaction.
        maxmemory: of the one with little.
        maxmemory_min: the least that it took, when it last refused less.
        nodes_max: the most that macro nodes took of memory when a command had ended, of both.
    """

    little: Node
    roomy: Node
    regions: Cluster
    watching: Any
    maxmemory: int = 0
    maxmemory_min: int = 0
    nodes_max: tuple[int, int] = (0, 0)

    def ask(self, *words: object) -> Any:
        """The reply of both, which is the same; an error is one as well.

        What was just added can leave memory when a checkpoint has it: until then the one with
        little memory may refuse to add more, and has changed nothing.
        """
        replies: list[Any] = []
        wait_until(lambda: not self._is_refused(replies, words), "room")
        mine, other = replies[-1], self._ask_one(self.roomy, words)
        assert mine == other, words
        found = nodes_bytes(self.little), nodes_bytes(self.roomy)
        self.nodes_max = max(self.nodes_max[0], found[0]), max(self.nodes_max[1], found[1])
        return mine

    def _is_refused(self, replies: list[Any], words: tuple[object, ...]) -> bool:
        replies.append(self._ask_one(self.little, words))
        return str(replies[-1]).startswith(NO_ROOM)

    def _ask_one(self, node: Node, words: tuple[object, ...]) -> Any:
        connection = node.client.connection_pool.get_connection()
        try:
            connection.send_command(*words)
            return connection.read_response()
        except redis.ResponseError as error:
            return str(error)
        finally:
            node.client.connection_pool.release(connection)

    def ask_info(self, *words: object) -> None:
        found = [same_everywhere(self._ask_one(node, words)) for node in (self.little, self.roomy)]
        assert found[0] == found[1], words

    def told(self, section: str, name: str) -> int:
        return int(self.watching.info(section)[name])

    def bound(self) -> None:
        """Take memory away from the one, until macro nodes are on disk only.

        What the load and the checkpoint took besides is free by and by, and counts as used until
        it is: once it has gone there may be room again for what had to leave.
        """
        wait_until(self._is_bound, "macro nodes on disk only")

    def _is_bound(self) -> bool:
        bound = max(self.told("memory", "used_memory") - LEAVING_BYTES, self.maxmemory_min)
        with AdminClient(self.little.grpc_address) as client:
            try:
                client.tune("maxmemory", str(bound))
            except AdminError as error:
                self.maxmemory_min = least_of(error) + MIB
                return False
        self.maxmemory = bound
        wait_until(lambda: self.told("memory", "used_memory") <= bound, "room")
        return self.told("persistence", "macro_nodes_on_disk_only") > NODES_ON_DISK_MIN


def least_of(refusal: AdminError) -> int:
    """The smallest ``maxmemory`` that a node would take, as its refusal of a smaller one says."""
    found = re.search(r"set at least (\d+)", str(refusal))
    assert found, refusal
    return int(found[1])


def save(node: Node) -> None:
    before = node.client.info("persistence")["rdb_saves"]
    node.client.bgsave()
    wait_until(lambda: node.client.info("persistence")["rdb_saves"] > before, "a checkpoint")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    folders = tmp_path / "little", tmp_path / "roomy"
    for folder in folders:
        folder.mkdir()
    with (
        cluster_of(3, folders[0], program=NODE_PROGRAM) as regions,
        cluster_of(1, folders[1], program=NODE_PROGRAM) as roomy,
    ):
        regions.configure()
        roomy.configure()
        regions.start()
        roomy[1].start("--new-database")
        for later in (regions[2], regions[3]):
            later.end()
        # The third one, which all have answered, does not reach the first one any more.
        regions.configure({(3, 1): "127.0.0.1:1"})
        for cluster in (regions, roomy):
            fill(cluster[1], "a", ENTRIES)
            fill(cluster[1], "r", SHORT_ENTRIES)
        save(regions[1])
        pair = Pair(regions[1], roomy[1], regions, watching=regions[1].connect())
        pair.bound()
        yield pair
        pair.watching.close()


def pages(pair: Pair, key: str) -> int:
    """Read all of a stream; how many entries it has."""
    count, start = 0, "-"
    while page := pair.ask("XRANGE", key, start, "+", "COUNT", PAGE):
        count += len(page)
        start = f"({page[-1][0].decode()}"
    return count


def ids_of(entries: Any) -> list[bytes]:
    return [entry_id for entry_id, _ in entries]


def deliver(pair: Pair) -> list[bytes]:
    """A backlog is read, claimed, acknowledged; what is pending then."""
    pair.ask("XGROUP", "CREATE", "a", "g", "0")
    given: list[bytes] = []
    for consumer in ("c1", "c2", "c3"):
        reply = pair.ask(*("XREADGROUP", "GROUP", "g", consumer, "COUNT", 700, "STREAMS", "a", ">"))
        given += ids_of(reply[b"a"])
    assert len(given) == 2_100
    # What is pending already, from the beginning.
    pair.ask("XREADGROUP", "GROUP", "g", "c1", "COUNT", 300, "STREAMS", "a", "0")
    pair.ask("XCLAIM", "a", "g", "c2", 0, *given[:900:3])
    pair.ask("XCLAIM", "a", "g", "c3", 0, *given[1:900:3], "JUSTID")
    pair.ask("XDEL", "a", *given[2:1_500:5])
    next_id, entries, gone = pair.ask("XAUTOCLAIM", "a", "g", "c4", 0, "0-0", "COUNT", 1_000)
    assert next_id != b"0-0"
    assert len(entries) + len(gone) == 1_000
    pair.ask("XACK", "a", "g", *given[::2])
    pair.ask("XPENDING", "a", "g")
    return given


def is_restored(node: Node, dumped: bytes) -> bool:
    try:
        node.client.restore("q3", 0, dumped)
    except redis.OutOfMemoryError:
        return False
    return True


def move(pair: Pair) -> None:
    """Keys are renamed, copied, dumped and restored."""
    pair.ask("RENAME", "r", "q")
    pair.ask("COPY", "q", "q2")
    # Each has its own dump, as that holds how its entries are cut into macro nodes.
    for node in (pair.little, pair.roomy):
        wait_until(partial(is_restored, node, node.client.dump("q2")), "room")
    pair.ask("DEL", "q2")
    assert pages(pair, "q") == pages(pair, "q3") == SHORT_ENTRIES


def cut_back(pair: Pair) -> None:
    """Entries go one by one, and from the front."""
    some = pair.ask("XRANGE", "a", 9_000, 9_500)
    pair.ask("XDEL", "a", *ids_of(some)[::7], "1-1", "12-12")
    pair.ask("XTRIM", "a", "MINID", some[3][0])
    pair.ask("XTRIM", "a", "MAXLEN", 10_000)
    pair.ask("XADD", "a", "MAXLEN", 9_990, f"{ENTRIES + 1}-*", "f", "v")
    pair.ask("XLEN", "a")
    pair.ask("XREVRANGE", "a", "+", "-", "COUNT", 20)


def run_together(pair: Pair) -> None:
    """A transaction reads, removes and adds."""
    (entry,) = pair.ask("XRANGE", "a", 13_000, 13_000)
    pair.ask("MULTI")
    pair.ask("XADD", "a", f"{ENTRIES + 2}-*", "f", "v")
    pair.ask("XRANGE", "a", 12_990, 13_010)
    pair.ask("XDEL", "a", entry[0])
    pair.ask("XTRIM", "a", "MAXLEN", 9_000)
    pair.ask("XREAD", "COUNT", 5, "STREAMS", "a", 15_000)
    pair.ask("XRANGE", "a", 12_990, 13_010)
    assert len(pair.ask("EXEC")) == 6


def waits(node: Node) -> bool:
    return bool(node.client.info("clients")["blocked_clients"])


def wait_for_more(pair: Pair) -> None:
    """Readers that wait are given what comes, and one that is behind what is there."""
    told: list[Any] = []

    def read(node: Node) -> None:
        client = node.connect()
        told.append(client.xread({"a": "$"}, block=20_000))
        client.close()

    nodes = pair.little, pair.roomy
    readers = [threading.Thread(target=read, args=(node,)) for node in nodes]
    for reader in readers:
        reader.start()
    wait_until(lambda: all(map(waits, nodes)), "both wait")
    pair.ask("XADD", "a", f"{ENTRIES + 3}-*", "f", "new")
    for reader in readers:
        reader.join()
    assert told[0] == told[1]
    assert "new" in str(told[0])
    pair.ask("XREAD", "BLOCK", 20_000, "COUNT", 50, "STREAMS", "a", 14_000)


def scan(node: Node) -> pa.Table:
    """Entries of the stream as a program reads them."""
    with grpc.insecure_channel(node.grpc_address) as channel:
        pieces = rpc.QueryStub(channel).Scan(pb.ScanRequest(key=b"a", origin=1), timeout=seconds())
        data = b"".join(piece.data for piece in pieces)
    table: pa.Table = pa.ipc.open_stream(pa.py_buffer(data)).read_all().combine_chunks()
    return table


@pytest.mark.long
@pytest.mark.timeout(300)
def test_with_little_memory_all_is_as_with_much(pair: Pair) -> None:
    deliver(pair)
    move(pair)
    cut_back(pair)
    run_together(pair)
    wait_for_more(pair)
    assert pages(pair, "a") == 9_001
    assert scan(pair.little).equals(scan(pair.roomy))
    for words in (("STREAM", "a"), ("STREAM", "a", "FULL", "COUNT", 30), ("GROUPS", "a")):
        pair.ask_info("XINFO", *words)
    for key in ("a", "q", "q3"):
        pair.ask("CRDT.DIGEST", key)
    # Of the whole state, in which each database has its own members.
    digest = pair.little.client.execute_command("CRDT.DIGEST")
    assert pair.told("persistence", "images_read") > 100
    assert pair.told("persistence", "images_read_in_place") == 0
    little, roomy = pair.nodes_max
    assert little + LEAVING_BYTES // 2 < roomy

    # Regions that come later catch up, the third one by way of the second.
    third = pair.regions[3]
    pair.regions[2].launch()
    third.launch()
    pair.regions[2].wait()
    third.wait(for_writes=False)
    assert pair.regions.converge().digest.encode() == digest
    assert third.client.xlen("a") == 9_001
