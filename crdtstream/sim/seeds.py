"""Many seeds, by as many processes as there are cores.

Each seed has a world of its own, so seeds are dealt out to processes, a few at a time.  A process
returns only which seed failed: the same seed makes the same history again.
"""

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from crdtstream.sim.replaying import maker_of

# With fewer seeds for each, starting a process takes longer than it saves.
SEEDS_PER_PROCESS: Final = 20
# Seeds that are dealt out at once: a second of work or two, so that all processes end together.
SEEDS_AT_ONCE: Final = 10


def processes_for(seeds: int) -> int:
    """Number of processes to share the seeds among: as many as cores, fewer for few seeds."""
    return max(1, min(os.cpu_count() or 1, seeds // SEEDS_PER_PROCESS))


def first_failing(first: int, count: int, steps: int, *, jobs: int) -> int | None:
    """The lowest of ``count`` seeds whose history violates an invariant; None: none does.

    Args:
        steps: number of steps of each history.
        jobs: number of processes.
    """
    if jobs == 1:
        return _failing(range(first, first + count), steps)
    some = [
        range(at, min(at + SEEDS_AT_ONCE, first + count))
        for at in range(first, first + count, SEEDS_AT_ONCE)
    ]
    # Not forked: a library that was imported here may have started threads.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=begin_process)
    try:
        found: Iterator[int | None] = pool.map(_failing, some, [steps] * len(some))
        return next((seed for seed in found if seed is not None), None)
    finally:
        pool.shutdown(cancel_futures=True)


def begin_process() -> None:
    """Begin in a process that shares the seeds.

    The collector need not walk over all that was imported, again and again.
    """
    gc.freeze()


def _failing(seeds: range, steps: int) -> int | None:
    for seed in seeds:
        _, failure = maker_of(seed).run(steps)
        if failure is not None:
            return seed
    return None
