"""Kill -9 of the driver, of a task's Python process, of a region: each row comes out once.

A program copies a stream of three regions into another one, or archives it.  It is killed, or what
it works with, at random moments, and started again when it has ended in any way but its own; in the
end each entry is in the copy, in every region, or in the archive, exactly once.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow import dataset

from crdtstream.spark.jobs.archive_state import load
from crdtstream.spark.jobs.folder import LocalFolder
from crdtstream.spark.nodes import Nodes
from crdtstream.spark.options import Security
from crdtstream.v1 import query_pb2
from tests.live.cluster import Cluster
from tests.patience import LONG, wait_until
from tests.spark.conftest import nodes_of, require_spark
from tests.spark.killed import Killed, kill

pytestmark = pytest.mark.live

SOURCE, COPY = b"kills:source", b"kills:copy"
ENTRIES_PER_BATCH = 400
# A fault comes as soon as a number of entries is reached, or up to this long after it: while a task
# appends, or anywhere between two micro-batches.
DELAYS_SECONDS_MAX = (0.0, 0.5)
SOAK_SEEDS = range(1, 9)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, once the copy has ``entries`` entries more than at the last one."""

    kind: str
    entries: int


def plan(seed: int, kinds: list[str], entries: int) -> list[Fault]:
    """Faults in any order, at any moments of copying ``entries`` entries."""
    chance = random.Random(f"{seed} plan")
    gaps = [chance.random() for _ in [*kinds, "the end"]]
    return [
        Fault(kind, int(entries * gap / sum(gaps)))
        for kind, gap in zip(chance.sample(kinds, len(kinds)), gaps, strict=False)
    ]


class Drill:
    """A program that does its work in spite of faults.

    Attributes:
        program: what is killed.
        regions: what it reads and writes.
        folder: what it keeps there from run to run.
        ids: of the entries that it shall copy or archive.
    """

    def __init__(self, regions: Cluster, folder: Path, job: str, seed: int) -> None:
        self.regions = regions
        self.folder = folder / "kept"
        self.program = Killed(
            folder / "program.log",
            job,
            nodes=nodes_of(regions),
            source=SOURCE.decode(),
            sink=COPY.decode(),
            folder=self.folder,
            entries_per_batch=ENTRIES_PER_BATCH,
        )
        self.ids: set[bytes] = set()
        self._done = {"copy": self._copied, "archive": self._archived}[job]
        self._chance = random.Random(f"{seed} choices")
        self._down: list[int] = []

    def fill(self, entries_per_region: int) -> None:
        for region, node in self.regions.nodes.items():
            ids = [b"%d-%d" % (region, number) for number in range(entries_per_region)]
            with node.client.pipeline(transaction=False) as pipeline:
                for name in ids:
                    pipeline.xadd(SOURCE, {"id": name})
                pipeline.execute()
            self.ids.update(ids)
        self.regions.converge()

    def run(self, faults: list[Fault]) -> None:
        """Start the program, let the faults happen, and see that it comes to its end."""
        self.program.start()
        done = 0
        for fault in faults:
            self._reach(done + fault.entries)
            time.sleep(self._chance.uniform(0, self._chance.choice(DELAYS_SECONDS_MAX)))
            done = self._done()
            print(f"{fault.kind} at {done} entries", flush=True)
            match fault.kind:
                case "driver":
                    self.program.kill()
                    self._start_regions()
                    self.program.start()
                case "workers":
                    self._kill_workers()
                case "region":
                    self._start_regions()
                    self._down = [self._chance.choice(list(self.regions.nodes))]
                    self.regions[self._down[0]].end(signal.SIGKILL)
        self._reach(len(self.ids))
        self._start_regions()
        self._wait(lambda: self.program.status() == 0, "the program's own end")

    def _kill_workers(self) -> None:
        """All processes that run tasks: most of the time at least one is idle."""
        found: list[int] = []

        def find() -> bool:
            found[:] = self.program.task_workers()
            # There is none before the first task, and when all is done.
            return bool(found) or self.program.status() == 0

        self._wait(find, "a worker")
        for pid in found:
            kill(pid)

    def _start_regions(self) -> None:
        for region in self._down:
            self.regions[region].start()
        self._down.clear()

    def _copied(self) -> int:
        """Entries of the copy in the region that has most of them."""
        counts: list[int] = [
            node.client.xlen(COPY)
            for region, node in self.regions.nodes.items()
            if region not in self._down
        ]
        return max(counts)

    def _archived(self) -> int:
        state = load(LocalFolder(self.folder))
        return 0 if state is None else state.entries

    def _reach(self, entries: int) -> None:
        """Wait until ``entries`` are done, or all."""
        enough = min(entries, len(self.ids))
        self._wait(lambda: self._done() >= enough, f"{enough} entries")

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait; a program that failed is started again, as its operator would do."""

        def holds_or_has_failed() -> bool:
            return bool(condition()) or self.program.status() not in (None, 0)

        while True:
            try:
                wait_until(holds_or_has_failed, what, base=LONG)
            except AssertionError as error:
                error.add_note(self.program.log())
                raise
            if condition():
                return
            self._start_regions()
            self.program.start()

    def end(self) -> None:
        if self.program.starts:
            self.program.kill()


@pytest.fixture
def drill(regions: Cluster, tmp_path: Path, job: str, seed: int) -> Iterator[Drill]:
    require_spark()
    print(f"{job}, seed {seed}")
    running = Drill(regions, tmp_path, job, seed)
    try:
        yield running
    finally:
        running.end()


def check_copy(drill: Drill) -> None:
    """Each entry of the source stands in the copy once, in all regions alike."""
    drill.regions.converge()
    for node in drill.regions.nodes.values():
        check_ids(drill, [fields[b"id"] for _, fields in node.client.xrange(COPY)])
        names = producers_and_ids(node.grpc_address)
        assert len(names) == len(set(names)) == len(drill.ids)
        assert all(None not in name for name in names)


def check_archive(drill: Drill) -> None:
    """Each entry of the source stands in one file of the archive, once."""
    table = dataset.dataset(drill.folder, partitioning="hive").to_table(columns=["fields"])
    maps = (dict(fields) for fields in table.column("fields").to_pylist())
    check_ids(drill, [fields["id"].encode() for fields in maps])


def check_ids(drill: Drill, ids: list[bytes]) -> None:
    twice = {name: count for name, count in Counter(ids).items() if count > 1}
    assert twice == {}
    assert set(ids) == drill.ids


CHECKS = {"copy": check_copy, "archive": check_archive}


def producers_and_ids(address: str) -> list[tuple[bytes, bytes]]:
    """Of the copy's entries, as one region has them."""
    with Nodes([address], Security(), failover_seconds=30) as nodes:
        found = []
        for part in nodes.plan(query_pb2.PlanRequest(patterns=[COPY])).ranges:
            request = query_pb2.ScanRequest(
                key=part.key, origin=part.origin, above_n=part.above_n, upto_n=part.upto_n
            )
            for batch in nodes.scan(request):
                columns = (batch.column(name).to_pylist() for name in ("producer", "idempotent_id"))
                found += list(zip(*columns, strict=True))
        return found


@pytest.mark.timeout(3 * LONG)
@pytest.mark.parametrize(
    ("job", "seed"), [("copy", 4711), pytest.param("archive", 4712, marks=pytest.mark.soak)]
)
def test_each_entry_comes_out_once_in_spite_of_a_kill_of_each_kind(
    drill: Drill, job: str, seed: int
) -> None:
    drill.fill(400)
    drill.run(plan(seed, ["driver", "workers", "region"], len(drill.ids)))
    CHECKS[job](drill)
    assert drill.program.starts >= 2


@pytest.mark.soak
@pytest.mark.timeout(20 * LONG)
@pytest.mark.parametrize("job", CHECKS)
@pytest.mark.parametrize("seed", SOAK_SEEDS)
def test_each_entry_comes_out_once_in_spite_of_many_kills(
    drill: Drill, job: str, seed: int
) -> None:
    drill.fill(5_000)
    kinds = [*3 * ["driver"], *6 * ["workers"], *5 * ["region"]]
    drill.run(plan(seed, kinds, len(drill.ids)))
    CHECKS[job](drill)
