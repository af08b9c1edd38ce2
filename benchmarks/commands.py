"""Commands in one process, without sockets or disk: what a region itself costs.

    python benchmarks/commands.py [--rounds 5] [--against TREE] [--only NAME …]

Each round is a process of its own.  With ``--against``, rounds of this tree and of another one (a
checkout of the version before) take turns, so that noise of the machine meets both; what is printed
is the best round of each, and their ratio.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parent.parent
ENTRIES = 100_000
TICK = 50
READ_BENCH = (b"STREAMS", b"bench", b">")
# IDs of this region, as they stand in a reply.
ID_IN_REPLY = re.compile(rb"\n(17\d{11}-\d+)\r")


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


def consume_100() -> float:
    """XREADGROUP COUNT 100 and one XACK of them, a tick after each pair."""
    return consume_many(100)


def consume_10() -> float:
    """XREADGROUP COUNT 10 and one XACK of them, a tick after each pair."""
    return consume_many(10)


def consume_many(count: int) -> float:
    region = Region.with_group()
    region.write(ENTRIES)
    return seconds(lambda: region.consume_many(ENTRIES, count))


def read_all() -> float:
    """XREADGROUP without COUNT."""
    region = Region.with_group()
    region.write(ENTRIES)
    return seconds(region.read_all)


def ack_all() -> float:
    """One XACK of everything."""
    region = Region.with_group()
    region.write(ENTRIES)
    ids = region.read_all()
    return seconds(lambda: region.ack(ids))


def ack_shuffled() -> float:
    """XACK one by one, in random order, a tick after each 50."""
    region = Region.with_group()
    region.write(ENTRIES // 4)
    ids = region.read_all()
    random.Random(7).shuffle(ids)
    return seconds(lambda: region.one_by_one(b"XACK", b"bench", b"g", ids=ids)) * 4


def delete_each() -> float:
    """XDEL one by one, in order, a tick after each 50."""
    region = Region.with_group()
    region.write(ENTRIES)
    ids = region.read_all()
    return seconds(lambda: region.one_by_one(b"XDEL", b"bench", ids=ids))


def trim_with_references() -> float:
    """XTRIM MAXLEN 0 DELREF of entries that are pending."""
    region = Region.with_group()
    region.write(ENTRIES)
    region.read_all()
    return seconds(lambda: region.trim_all(b"DELREF"))


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
    "XREADGROUP 10, XACK": consume_10,
    "XREADGROUP 100, XACK": consume_100,
    "XREADGROUP of all": read_all,
    "XACK of all": ack_all,
    "XACK in random order": ack_shuffled,
    "XDEL one by one": delete_each,
    "XTRIM DELREF of all": trim_with_references,
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
        from crdtstream.resp.wire.encode import encode

        self.decode = decode_batch
        self.encode: Callable[[Any, int, list[bytes]], None] = encode
        self.now = ids.Millis(1_700_000_000_000)
        # Plain numbers: the type's name is another one in earlier trees.
        numbers: Any = (number, 3 - number)
        self.replica = Replica(numbers[0], peers=numbers[1:])
        self.database = Database(self.replica)
        self.session = self.database.open_session()
        self.records: list[object] = []

    @classmethod
    def with_group(cls) -> "Region":
        region = cls()
        region.call(b"XGROUP", b"CREATE", b"bench", b"g", b"0", b"MKSTREAM")
        return region

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

    def read_new(self, count: int) -> list[bytes]:
        """XREADGROUP; its reply made bytes, and the IDs in it."""
        count_option = [b"COUNT", b"%d" % count] if count else []
        reply = self.call(b"XREADGROUP", b"GROUP", b"g", b"c", *count_option, *READ_BENCH)
        chunks: list[bytes] = []
        self.encode(reply, 2, chunks)
        return ID_IN_REPLY.findall(b"".join(chunks))

    def read_all(self) -> list[bytes]:
        ids = self.read_new(0)
        self.end_tick()
        return ids

    def ack(self, ids: list[bytes]) -> None:
        self.call(b"XACK", b"bench", b"g", *ids)
        self.end_tick()

    def consume_many(self, entries: int, count: int) -> None:
        for _ in range(entries // count):
            self.ack(self.read_new(count))

    def one_by_one(self, *command: bytes, ids: list[bytes]) -> None:
        for at, entry_id in enumerate(ids):
            self.call(*command, entry_id)
            if at % TICK == TICK - 1:
                self.end_tick()

    def trim_all(self, policy: bytes) -> None:
        while self.call(b"XTRIM", b"bench", b"MAXLEN", b"0", policy):
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


def seconds(work: Callable[[], object]) -> float:
    """Processor time that the work takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measured(tree: Path, workloads: Sequence[str] = tuple(WORKLOADS)) -> dict[str, float]:
    """One round in a process of its own: per workload microseconds for an entry."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, __file__, "--one-round", "--only", *workloads]
    output = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, cwd=tree
    ).stdout
    lines = [line.rsplit(" ", 1) for line in output.splitlines()]
    return {name: float(microseconds) for name, microseconds in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="processes for each tree, in turns")
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument(
        "--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="some workloads"
    )
    parser.add_argument("--one-round", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_round:
        for name in options.only:
            print(f"{name} {WORKLOADS[name]() / ENTRIES * 1e6}")
        return
    trees = [TREE] if options.against is None else [options.against.resolve(), TREE]
    rounds: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    for _ in range(options.rounds):
        for tree in trees:
            rounds[tree].append(measured(tree, options.only))
    print(f"microseconds an entry, best of {options.rounds} rounds")
    for name in options.only:
        best = [min(one[name] for one in rounds[tree]) for tree in trees]
        ratio = f"  {best[-1] / best[0]:.3f}" if len(trees) > 1 else ""
        print(f"{name:20}" + "".join(f"{one:8.2f}" for one in best) + ratio)


if __name__ == "__main__":
    main()
