"""Regions join, are rebuilt, removed, replaced, away and apart while clients write and consume.

Each round has a stream of its own.  In every region a client appends to it, and in the home of its
group a consumer takes what comes.  In the end each entry that was acknowledged is in every region
once, and was handed out once.
"""

import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from operator import gt
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import redis

from crdtstream.admin.client import AdminClient, UnreachableError
from crdtstream.engine.log_cutting import CUT_RECORDS_MIN
from crdtstream.v1 import admin_pb2 as pb
from tests.live.bootstraps import (
    SMALL_BACKLOG,
    bootstrap,
    cut_log,
    level,
    lose_folder,
    staging_is_gone,
    write,
    write_much,
)
from tests.live.cluster import Cluster, Node, running_regions, vv_of
from tests.live.test_joining import Joiner
from tests.live.test_members import crdb
from tests.patience import wait_until

# Some ten seconds on a quiet machine; the bound is for a busy one.
pytestmark = pytest.mark.timeout(600)

HOME, COORDINATOR, LOST = 1, 2, 3
GROUP: Final = "g"
OWN_ENTRIES: Final = 10
PAGE: Final = 5_000
# Entries of 4 kB: several times the backlog.
OVER_BACKLOG: Final = 100
# No kill comes later than this after what it is to disturb has begun.
KILL_SECONDS: Final = 4.0


@dataclass(frozen=True)
class Scale:
    """The scale of a run.

    Attributes:
        rounds: of each kind.
        entries: that are there before.
        batch: entries that a producer appends at once.
        pause: seconds between two batches.
    """

    rounds: int
    entries: int
    batch: int
    pause: float


SHORT: Final = Scale(rounds=1, entries=2_000, batch=5, pause=0.02)
# 5,000 entries a second, of three producers.
KILLS: Final = Scale(rounds=100, entries=20_000, batch=50, pause=0.03)
LARGE: Final = Scale(rounds=1, entries=2_000_000, batch=50, pause=0.03)


class Client(ABC):
    """A client that goes on until it is told to stop; its node may be away for a while."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._run_out = self._pool.submit(self._run)

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            with closing(self._node.connect()) as client:
                try:
                    self.use(client)
                except redis.ConnectionError:
                    pass
                except redis.ResponseError as error:
                    # A region that has begun again refuses writes for a moment.
                    if not str(error).startswith("MISCONF"):
                        raise

    @abstractmethod
    def use(self, client: Any) -> None:
        """Go on until ``_is_over`` is set, or the node is gone."""

    def end(self) -> None:
        self._is_over.set()
        self._run_out.result()
        self._pool.shutdown()


class Producer(Client):
    """Appends texts, each of which is in no other entry.

    Attributes:
        acknowledged: the texts that are in the stream.
        unknown: those whose replies never came.
    """

    def __init__(self, node: Node, key: str, scale: Scale) -> None:
        self._key, self._scale = key, scale
        self._numbers = count()
        self.acknowledged: list[bytes] = []
        self.unknown: list[bytes] = []
        super().__init__(node)

    def use(self, client: Any) -> None:
        while not self._is_over.wait(self._scale.pause):
            numbers = islice(self._numbers, self._scale.batch)
            texts = [b"%d:%d" % (self._node.region, number) for number in numbers]
            pipe = client.pipeline(transaction=False)
            for text in texts:
                pipe.xadd(self._key, {"text": text})
            try:
                replies = pipe.execute(raise_on_error=False)
            except redis.ConnectionError:
                self.unknown += texts
                raise
            for text, reply in zip(texts, replies, strict=True):
                if isinstance(reply, bytes):
                    self.acknowledged.append(text)
                elif not isinstance(reply, redis.ResponseError):
                    self.unknown.append(text)
            errors = [one for one in replies if isinstance(one, Exception)]
            if errors:
                raise errors[0]


class Consumer(Client):
    """Takes what comes, and acknowledges it.  After a lost connection first what it had taken.

    Attributes:
        handed_out: how often each entry came as a new one.
        done: those that came, and are or will be acknowledged.
    """

    def __init__(self, node: Node, key: str) -> None:
        self._key = key
        self.handed_out: Counter[bytes] = Counter()
        self.done: set[bytes] = set()
        super().__init__(node)

    def use(self, client: Any) -> None:
        start = "0"
        while not self._is_over.is_set():
            found = client.xreadgroup(GROUP, "c", {self._key: start}, count=500, block=50)
            ids = [entry_id for entry_id, _ in found[0][1]] if found else []
            if start == ">":
                self.handed_out.update(ids)
            elif not ids:
                start = ">"
            if ids:
                # Before it is said: the reply may be lost.
                self.done.update(ids)
                client.xack(self._key, GROUP, *ids)


class Load:
    """The clients of one stream."""

    def __init__(self, nodes: list[Node], home: Node, key: str, scale: Scale) -> None:
        self.key = key
        self._home = home
        home.client.xgroup_create(key, GROUP, "0", mkstream=True)
        home.client.execute_command("CRDT.XGROUP", "SETMODE", key, GROUP, "HOME", home.region)
        self.producers = {node.region: Producer(node, key, scale) for node in nodes}
        self.consumer = Consumer(home, key)
        # Of clients that are not producers.
        self.others: list[bytes] = []

    def check(self, nodes: list[Node]) -> None:
        """Nothing is lost, and nothing is doubled; call it when all are level."""
        acknowledged = set(self.others)
        unknown: set[bytes] = set()
        for producer in self.producers.values():
            acknowledged.update(producer.acknowledged)
            unknown.update(producer.unknown)
        found = [text for _, text in entries_of(nodes[0], self.key)]
        assert len(found) == len(set(found)), "doubled"
        assert acknowledged <= set(found), "lost"
        assert set(found) <= acknowledged | unknown
        ids = {entry_id for entry_id, _ in entries_of(self._home, self.key)}
        wait_until(lambda: ids <= self.consumer.done, "all were handed out")
        self.consumer.end()
        assert max(self.consumer.handed_out.values(), default=0) <= 1
        assert self._home.client.xpending(self.key, GROUP)["pending"] == 0

    def end_producers(self) -> None:
        for producer in self.producers.values():
            producer.end()


def entries_of(node: Node, key: str) -> Iterator[tuple[bytes, bytes]]:
    start = "-"
    while page := node.client.xrange(key, start, "+", count=PAGE):
        yield from ((entry_id, fields[b"text"]) for entry_id, fields in page)
        start = f"({page[-1][0].decode()}"


@contextmanager
def killed(kill: Callable[[], None] | None, seconds: float) -> Iterator[None]:
    """Somebody is killed, and started again, so long after the beginning of a block."""

    def run() -> None:
        if kill is not None:
            time.sleep(seconds)
            kill()

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(run)
        yield
        killing.result()


def killed_once_begun(joiner: Joiner) -> None:
    wait_until(lambda: joiner.process is not None, "its node is started")
    joiner.kill()


def restarted(node: Node) -> Callable[[], None]:
    def run() -> None:
        node.end(signal.SIGKILL)
        node.start()

    return run


@dataclass
class Regions:
    """The regions of a cluster, and those that join and leave.

    Attributes:
        lost: the region whose folder or machine is lost.
    """

    cluster: Cluster
    folder: Path
    scale: Scale
    randomly: random.Random
    lost: int = LOST
    numbers: Iterator[int] = field(default_factory=lambda: count(4))
    rounds: Iterator[int] = field(default_factory=count)

    @property
    def nodes(self) -> list[Node]:
        return list(self.cluster.nodes.values())

    def fill(self) -> None:
        """Entries of which no log has the first ones any more: who joins takes over a state."""
        client = self.cluster[HOME].client
        for first in range(0, self.scale.entries, 1_000):
            pipe = client.pipeline(transaction=False)
            for number in range(first, min(first + 1_000, self.scale.entries)):
                pipe.xadd("before", {"n": number})
            pipe.execute()
        for node in self.nodes:
            write(node, "small", CUT_RECORDS_MIN)
        level(*self.nodes)
        for node in self.nodes:
            cut_log(node)

    @contextmanager
    def load(self) -> Iterator[Load]:
        """Clients; in the end everything is compared."""
        key = f"round {next(self.rounds)}"
        load = Load(self.nodes, self.cluster[HOME], key, self.scale)
        try:
            yield load
        finally:
            load.end_producers()
        level(*self.nodes)
        load.check(self.nodes)
        self.cluster[HOME].client.delete(key)

    def delay(self) -> float:
        return self.randomly.uniform(0, KILL_SECONDS)

    # --- Who is killed ------------------------------------------------------------------------

    def join_and_leave(self, victim: str) -> None:
        """A region joins, writes, dies and is removed; somewhere on the way the victim dies."""
        number = next(self.numbers)
        joiner = Joiner(self.folder, number)
        coordinator = self.cluster[COORDINATOR]
        dies_late = victim == "coordinator" and self.randomly.random() < 0.5
        kills: dict[str, Callable[[], None]] = {
            "receiver": lambda: killed_once_begun(joiner),
            "sender": lambda: restarted(self.sender_to(joiner.node))(),
        }
        kill_coordinator = restarted(coordinator) if victim == "coordinator" else None
        with self.load() as load:
            with killed(None if dies_late else kill_coordinator, self.delay()):
                self.add(joiner, coordinator)
            with killed(kills.get(victim), self.delay()):
                self.let_in(joiner)
            self.write_in(joiner.node, load)
            joiner.node.end(signal.SIGKILL)
            with killed(kill_coordinator if dies_late else None, self.delay()):
                self.remove(number, coordinator)

    def sender_to(self, node: Node) -> Node:
        """The region whose state it takes over, or any."""
        try:
            source = node.status().bootstrap.source
        except grpc.RpcError:
            source = 0
        return self.cluster[source or self.randomly.choice([HOME, COORDINATOR, self.lost])]

    # --- What an operator does ----------------------------------------------------------------

    def has_status(self, region: int, status: int) -> bool:
        return any(statuses(node).get(region) == status for node in self.nodes)

    def add(self, joiner: Joiner, coordinator: Node) -> None:
        """Until it is there: a command whose end nobody knows is followed by a look."""

        def is_added() -> bool:
            if self.has_status(joiner.node.region, pb.MemberStatus.JOINING):
                return True
            # One whose end nobody knows may have added it: its token stays.
            joiner.token = self.folder / f"{joiner.node.region}-{len(joiner.tokens)}.token"
            joiner.tokens.append(joiner.token)
            return joiner.add(coordinator).returncode == 0

        wait_until(is_added, "it may join")

    def let_in(self, joiner: Joiner) -> None:
        """Its node is started until it stays; who was killed is in time, or is not there yet."""

        def runs() -> bool:
            if joiner.process is None or joiner.process.poll() is not None:
                token = self.randomly.choice([one for one in joiner.tokens if one.exists()])
                joiner.launch(self.randomly.choice(self.nodes), token=token)
            return (
                self.has_status(joiner.node.region, pb.MemberStatus.ACTIVE)
                and joiner.node.is_serving()
            )

        wait_until(runs, "it is active, and takes writes")

    def write_in(self, node: Node, load: Load) -> None:
        """Entries that the others have before it dies."""
        texts = [b"%d:%d" % (node.region, number) for number in range(OWN_ENTRIES)]
        for text in texts:
            node.client.xadd(load.key, {"text": text})
        wanted = len(self.nodes)
        wait_until(
            lambda: node.client.execute_command("WAIT", wanted, 1_000) == wanted, "all have them"
        )
        load.others += texts

    def remove(self, region: int, coordinator: Node) -> None:
        given = ("remove-instance", "--instance-id", str(region), "--force", "--yes")

        def is_removed() -> bool:
            run = crdb(coordinator, *given)
            return run.returncode == 0 and self.has_status(region, pb.MemberStatus.REMOVED)

        wait_until(is_removed, "it is removed")

    def rebuild(self, victim: str) -> None:
        """A folder is lost, and its region begins again with the state of another one."""
        node = self.cluster[self.lost]
        with self.load() as load:
            self.end_with_nothing_unsent(load)
            lose_folder(node)
            node.launch()
            time.sleep(self.delay())
            restarted(self.sender_to(node) if victim == "sender" else node)()
            node.wait()

    def replace(self) -> None:
        """The machine of a region is lost; a new region joins in its place."""
        coordinator = self.cluster[COORDINATOR]
        with self.load() as load:
            self.end_with_nothing_unsent(load)
            lose_folder(self.cluster.nodes.pop(self.lost))
            self.remove(self.lost, coordinator)
            joiner = Joiner(self.folder, next(self.numbers))
            self.add(joiner, coordinator)
            self.let_in(joiner)
            self.lost = joiner.node.region
            self.cluster.nodes[self.lost] = joiner.node

    def stay_away(self) -> None:
        """A region is down until the others have no log for it any more; all clients go on."""
        node = self.cluster[self.lost]
        with self.load():
            node.end(signal.SIGKILL)
            self.outgrow_backlogs([self.cluster[HOME], self.cluster[COORDINATOR]])
            node.start()
            wait_until(lambda: bootstrap(node)["taken_over"], "it took over a state")
            wait_until(lambda: staging_is_gone(node), "what was staged is deleted")

    def stay_apart(self) -> None:
        """Two halves hear nothing from each other until both have cut their logs."""
        first, second, third, fourth = self.nodes
        halves = [first, second], [third, fourth]
        with self.load():
            before = [self.taken_over(half) for half in halves]
            for half, others in (halves, halves[::-1]):
                for node in half:
                    node.set_links(paused=True, peers=[other.region for other in others])
            for half in halves:
                self.outgrow_backlogs(half)
            for node in self.nodes:
                node.set_links(paused=False)
            wait_until(
                lambda: all(map(gt, map(self.taken_over, halves), before)),
                "each half took over a state of the other",
            )
            wait_until(lambda: all(map(staging_is_gone, self.nodes)), "what was staged is deleted")

    @staticmethod
    def taken_over(nodes: list[Node]) -> int:
        return sum(bootstrap(node)["taken_over"] for node in nodes)

    @staticmethod
    def outgrow_backlogs(nodes: list[Node]) -> None:
        """More than any backlog is written, and all logs are cut behind it."""
        for node in nodes:
            write_much(node, "much", count=OVER_BACKLOG)
        for node in nodes:
            cut_log(node)
        nodes[0].client.xtrim("much", maxlen=0, approximate=False)

    def end_with_nothing_unsent(self, load: Load) -> None:
        """End the producer of the region that is lost soon, when others have all of its entries."""
        load.producers[self.lost].end()
        issued = self.cluster[self.lost].status().effects_issued
        others = [self.cluster[HOME], self.cluster[COORDINATOR]]
        wait_until(
            lambda: all(vv_of(o.status()).get(self.lost, 0) >= issued for o in others), "sent"
        )


def statuses(node: Node) -> dict[int, int]:
    """Of each region, as a node knows it that answers; else of none."""
    try:
        with AdminClient(node.grpc_address) as client:
            return {one.region: one.status for one in client.members().members}
    except UnreachableError:
        return {}


@pytest.fixture
def count_of_regions() -> int:
    return 3


@pytest.fixture
def regions(
    request: pytest.FixtureRequest, tmp_path: Path, count_of_regions: int
) -> Iterator[Regions]:
    """Regions with small backlogs, at the scale that the test has as its parameter."""
    scale, seed = request.param, random.randrange(1 << 32)
    print(f"seed {seed}")
    with running_regions(
        count_of_regions, tmp_path, replication_backlog_size=SMALL_BACKLOG
    ) as cluster:
        found = Regions(cluster, tmp_path, scale, random.Random(seed))
        found.fill()
        yield found


LONG = pytest.param(SHORT, marks=pytest.mark.long, id="short")
AT_LENGTH = [pytest.mark.soak, pytest.mark.timeout(0)]
MANY = pytest.param(KILLS, marks=AT_LENGTH, id="kills")
MUCH = pytest.param(LARGE, marks=AT_LENGTH, id="large")
scales = pytest.mark.parametrize("regions", [LONG, MANY, MUCH], indirect=True)


@scales
@pytest.mark.parametrize("victim", ["nobody", "coordinator", "receiver", "sender"])
def test_regions_join_and_leave(regions: Regions, victim: str) -> None:
    for _ in range(regions.scale.rounds):
        regions.join_and_leave(victim)


@scales
@pytest.mark.parametrize("victim", ["receiver", "sender"])
def test_a_lost_folder_is_rebuilt(regions: Regions, victim: str) -> None:
    for _ in range(regions.scale.rounds):
        regions.rebuild(victim)


@scales
def test_a_dead_region_is_replaced(regions: Regions) -> None:
    for _ in range(regions.scale.rounds):
        regions.replace()


@scales
def test_a_region_is_away_for_longer_than_the_backlogs(regions: Regions) -> None:
    for _ in range(regions.scale.rounds):
        regions.stay_away()


@scales
@pytest.mark.parametrize("count_of_regions", [4])
def test_two_halves_are_apart_for_longer_than_the_backlogs(regions: Regions) -> None:
    for _ in range(regions.scale.rounds):
        regions.stay_apart()
