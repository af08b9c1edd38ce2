"""Seeds of the simulator that each run of `make long` and `make soak` draws.

The first one is in the head of the run's output.  The variable repeats a range; a failure prints
the command that repeats its seed alone.
"""

import os
from typing import Final

from crdtstream.sim.folder_making import FOLDERS_FROM
from crdtstream.sim.making import MEMBERS_FROM
from crdtstream.sim.seeds import first_failing, processes_for
from crdtstream.sim.sizes import LARGE_FROM
from tests.conftest import SIM_FIRST, SIM_FIRST_VARIABLE

# How many seeds the soak runs of the usual kind.
SOAK_SEEDS: Final = int(os.environ.get("CRDTSTREAM_SIM_SEEDS", "1000"))
# Where the seeds of each kind of world begin.
KINDS: Final = {
    "usual": 0,
    "members": MEMBERS_FROM,
    "large": LARGE_FROM,
    "folders": FOLDERS_FROM,
}


def first_of(kind: str) -> int:
    """The first seed that was drawn for a kind of world."""
    return KINDS[kind] + int(os.environ.get(SIM_FIRST_VARIABLE, SIM_FIRST))


def check_drawn(kind: str, *, seeds: int, steps: int, jobs: int | None = None) -> None:
    """Run the histories of seeds that were drawn; a failure names the command that repeats it."""
    jobs = processes_for(seeds) if jobs is None else jobs
    failing = first_failing(first_of(kind), seeds, steps, jobs=jobs)
    assert failing is None, f"again: crdtstream simulate --seed {failing} --steps {steps}"
