"""Commands in one process, without sockets or disk: what a region itself costs.

    python benchmarks/commands.py [--rounds 5] [--against TREE]

Each round is a process of its own.  With ``--against``, rounds of this tree and of another one (a
checkout of the version before) take turns, so that noise of the machine meets both; what is printed
is the best round of each, and their ratio.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parent.parent
ENTRIES = 100_000
TICK = 50


def xadd() -> float:
    """XADD with ``*``, a tick after each 50."""
    region = Region()
    return seconds(lambda: region.write(ENTRIES))


def consume() -> float:
    """XREADGROUP of one entry and its XACK, a tick after each 50 commands."""
    region = Region()
    region.call(b"XGROUP", b"CREATE", b"bench", b"g", b"0", b"MKSTREAM")
    region.write(ENTRIES // 4)
    return seconds(lambda: region.consume(ENTRIES // 4)) * 4


def receive() -> float:
    """Another region's batches of 50 appends and its acknowledgements."""
    region, peer = Region(), Region(2)
    region.call(b"XGROUP", b"CREATE", b"bench", b"g", b"0", b"MKSTREAM")
    region.write(ENTRIES // 2)
    region.consume(ENTRIES // 20)
    return seconds(lambda: peer.receive_all(region)) * 2


def replay() -> float:
    """The log, as it is read at start: appends, deliveries and acknowledgements."""
    region, again = Region(), Region()
    region.call(b"XGROUP", b"CREATE", b"bench", b"g", b"0", b"MKSTREAM")
    region.write(ENTRIES // 4)
    region.consume(ENTRIES // 20)
    return seconds(lambda: again.replay_all(region)) * 4


WORKLOADS: dict[str, Callable[[], float]] = {
    "XADD": xadd,
    "XREADGROUP, XACK": consume,
    "receive": receive,
    "replay": replay,
}


class Region:
    """A replica with its database, a clock that ticks, and records kept in a list."""

    def __init__(self, number: int = 1) -> None:
        # Which tree they come from is for PYTHONPATH to say.
        from crdtstream.core import ids
        from crdtstream.core.replica import Replica
        from crdtstream.core.wire.codec import decode_batch
        from crdtstream.database.database import Database

        self.decode = decode_batch
        self.now = ids.Millis(1_700_000_000_000)
        # Plain numbers: the type's name is another one in earlier trees.
        numbers: Any = (number, 3 - number)
        self.replica = Replica(numbers[0], peers=numbers[1:])
        self.database = Database(self.replica)
        self.session = self.database.open_session()
        self.records: list[object] = []

    def call(self, *argv: bytes) -> object:
        return self.database.call(self.session, self.now, list(argv))

    def end_tick(self) -> None:
        self.records += self.replica.take_records(self.now)
        self.database.note_sealed()
        self.replica.touched.clear()
        self.now += 1  # type: ignore[assignment]

    def write(self, count: int) -> None:
        for at in range(count):
            self.call(b"XADD", b"bench", b"*", b"field", b"value:%d" % at)
            if at % TICK == TICK - 1:
                self.end_tick()

    def consume(self, count: int) -> None:
        group = self.replica.stream(b"bench").groups[b"g"]  # type: ignore[union-attr]
        read = [b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"1", b"STREAMS", b"bench", b">"]
        for at in range(count):
            self.call(*read)
            (nack,) = group.pending()
            self.call(b"XACK", b"bench", b"g", b"%d-%d" % (nack.id >> 64, nack.id % (1 << 64)))
            if at % TICK == TICK - 1:
                self.end_tick()

    def receive_all(self, source: "Region") -> None:
        for record in source.records:
            if record.batch is not None:  # type: ignore[attr-defined]
                encoded = record.batch  # type: ignore[attr-defined]
                self.replica.receive(self.decode(encoded), encoded, self.now)
                self.end_tick()

    def replay_all(self, source: "Region") -> None:
        for record in source.records:
            self.replica.replay(record)  # type: ignore[arg-type]


def seconds(work: Callable[[], None]) -> float:
    """How long the work takes, in processor time."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measured(tree: Path) -> dict[str, float]:
    """One round in a process of its own: per workload microseconds for an entry."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, __file__, "--one-round"]
    output = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, cwd=tree
    ).stdout
    lines = [line.rsplit(" ", 1) for line in output.splitlines()]
    return {name: float(microseconds) for name, microseconds in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes for each tree, in turns")
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--one-round", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_round:
        for name, workload in WORKLOADS.items():
            print(f"{name} {workload() / ENTRIES * 1e6}")
        return
    trees = [TREE] if options.against is None else [options.against.resolve(), TREE]
    rounds: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    for _ in range(options.rounds):
        for tree in trees:
            rounds[tree].append(measured(tree))
    print(f"microseconds an entry, best of {options.rounds} rounds")
    for name in WORKLOADS:
        best = [min(one[name] for one in rounds[tree]) for tree in trees]
        ratio = f"  {best[-1] / best[0]:.3f}" if len(trees) > 1 else ""
        print(f"{name:20}" + "".join(f"{one:8.2f}" for one in best) + ratio)


if __name__ == "__main__":
    main()
