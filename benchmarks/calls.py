"""Single commands in one process, of two trees in turns: for differences of a few percent.

    python -m benchmarks.calls --against TREE [--rounds 24] [--only NAME …]

Each tree has a process of its own, which runs a workload when it is told to, the same one in both.
What is timed is ``Database.call``, without the tick's end, in groups that take a fraction of a
millisecond: 50 calls, or one that takes long.  Of each group the best of all rounds counts.  A busy
machine disturbs some groups in each round, but hardly the same one in all of them: the halves of
the rounds differ by a percent where the sums of ``commands.py`` differ by ten.

Output per workload: microseconds a call, of TREE and of this tree, and their ratio.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from benchmarks.commands import Region

TREE = Path(__file__).resolve().parent.parent
TICK = 50
READ = (b"XREADGROUP", b"GROUP", b"g", b"c")

Argv = tuple[bytes, ...]
# Nanoseconds a call of each group.
Groups = list[float]


def xadd() -> Groups:
    return timed(Region(), [(b"XADD", b"bench", b"*", b"field", b"%d" % at) for at in range(5000)])


def read_each() -> Groups:
    region = Region.with_group()
    region.write(3000)
    return timed(region, [(*READ, b"COUNT", b"1", b"STREAMS", b"bench", b">")] * 3000)


def ack_each() -> Groups:
    region, ids = delivered(3000)
    return timed(region, [(b"XACK", b"bench", b"g", one) for one in ids])


def ack_100() -> Groups:
    region, ids = delivered(10_000)
    return timed(region, [(b"XACK", b"bench", b"g", *some) for some in hundreds(ids)], group=1)


def delete_each() -> Groups:
    region, ids = delivered(3000)
    return timed(region, [(b"XDEL", b"bench", one) for one in ids])


def delete_shuffled() -> Groups:
    region, ids = delivered(3000)
    random.Random(7).shuffle(ids)
    return timed(region, [(b"XDEL", b"bench", one) for one in ids])


def delete_100() -> Groups:
    region, ids = delivered(10_000)
    return timed(region, [(b"XDEL", b"bench", *some) for some in hundreds(ids)], group=1)


def rename_5() -> Groups:
    return renamed(entries=5, times=400)


def rename_10_000() -> Groups:
    return renamed(entries=10_000, times=10)


WORKLOADS: dict[str, Callable[[], Groups]] = {
    "XADD": xadd,
    "XREADGROUP of 1": read_each,
    "XACK of 1": ack_each,
    "XACK of 100": ack_100,
    "XDEL of 1, ascending": delete_each,
    "XDEL of 1, in random order": delete_shuffled,
    "XDEL of 100": delete_100,
    "RENAME of 5 entries": rename_5,
    "RENAME of 10,000 entries": rename_10_000,
}


def delivered(count: int) -> tuple[Region, list[bytes]]:
    """A region with entries that are pending, and their IDs."""
    region = Region.with_group()
    region.write(count)
    return region, region.read_all()


def hundreds(ids: list[bytes]) -> list[list[bytes]]:
    return [ids[at : at + 100] for at in range(0, len(ids), 100)]


def renamed(*, entries: int, times: int) -> Groups:
    region = Region()
    region.write(entries)
    region.end_tick()
    names = (b"bench", b"renamed")
    renames = [(b"RENAME", names[at % 2], names[1 - at % 2]) for at in range(times)]
    return timed(region, renames, group=1)


def timed(region: Region, calls: Sequence[Argv], *, group: int = TICK) -> Groups:
    """Call the commands, and end the tick after each 50."""
    took = []
    for at in range(0, len(calls), group):
        some = calls[at : at + group]
        begun = time.perf_counter_ns()
        for argv in some:
            region.call(*argv)
        took.append((time.perf_counter_ns() - begun) / len(some))
        if (at + group) % TICK == 0:
            region.end_tick()
    return took


# --- Processes ----------------------------------------------------------------------------------


class Worker:
    """A process that runs workloads on one tree."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{tree}:{TREE}"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            env=environment,
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.best: dict[str, Groups] = {}

    def run(self, name: str) -> None:
        """One more round of a workload."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        print(name, file=requests, flush=True)
        took = [float(text) for text in answers.readline().split()]
        self.best[name] = [min(pair) for pair in zip(took, self.best.get(name, took), strict=True)]

    def microseconds(self, name: str) -> float:
        return sum(self.best[name]) / len(self.best[name]) / 1000

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def work(requests: IO[str]) -> None:
    for line in requests:
        print(*WORKLOADS[line.rstrip("\n")](), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=24, help="of each workload in each tree")
    parser.add_argument(
        "--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="some workloads"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(sys.stdin)
        return
    if options.against is None:
        parser.error("--against is needed: figures alone say little about a busy machine")
    before, here = workers = [Worker(options.against.resolve()), Worker(TREE)]
    print(f"microseconds a call, best of {options.rounds} rounds for each group of calls")
    for name in options.only:
        for number in range(options.rounds):
            for worker in workers if number % 2 else reversed(workers):
                worker.run(name)
        took = [worker.microseconds(name) for worker in workers]
        print(f"{name:28}{took[0]:9.2f}{took[1]:9.2f}  {took[1] / took[0]:.3f}", flush=True)
    before.end()
    here.end()


if __name__ == "__main__":
    main()
