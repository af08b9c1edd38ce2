"""Many seeds, by as many processes as there are cores.

Each seed has a world of its own, so seeds are dealt out to processes, a few at a time.  A process
returns only which seed failed: the same seed makes the same history again.
"""

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from typing import Final

from crdtstream.sim.making import Maker
from crdtstream.sim.planted import planted

# With fewer seeds for each, starting a process takes longer than it saves.
SEEDS_PER_PROCESS: Final = 20
# Seeds that are dealt out at once: a second of work or two, so that all processes end together.
SEEDS_AT_ONCE: Final = 10


def processes_for(seeds: int) -> int:
    """How many processes to share the seeds among: as many as cores, fewer for few seeds."""
    return max(1, min(os.cpu_count() or 1, seeds // SEEDS_PER_PROCESS))


def first_failing(first: int, count: int, steps: int, *, jobs: int, bug: str | None) -> int | None:
    """The lowest of ``count`` seeds whose history violates an invariant; None: there is none.

    Args:
        steps: of each history.
        jobs: how many processes.
        bug: what is planted first, if anything is.
    """
    if jobs == 1:
        return _failing(range(first, first + count), steps, bug)
    some = [
        range(at, min(at + SEEDS_AT_ONCE, first + count))
        for at in range(first, first + count, SEEDS_AT_ONCE)
    ]
    # Not forked: a library that was imported here may have started threads.
    # gc.freeze: the collector need not go through all that was imported, time and again.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=gc.freeze)
    try:
        found: Iterator[int | None] = pool.map(
            _failing, some, [steps] * len(some), [bug] * len(some)
        )
        return next((seed for seed in found if seed is not None), None)
    finally:
        pool.shutdown(cancel_futures=True)


def _failing(seeds: range, steps: int, bug: str | None) -> int | None:
    with with_bug(bug):
        for seed in seeds:
            _, failure = Maker(seed).run(steps)
            if failure is not None:
                return seed
    return None


def with_bug(name: str | None) -> AbstractContextManager[None]:
    """The bug of this name is planted; None: no bug is."""
    return nullcontext() if name is None else planted(name)
