"""Running a history again, of whichever kind of world, and shortening one that fails."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from crdtstream.sim.folder_making import FolderMaker, copies_folders
from crdtstream.sim.folders import FolderHistory, FolderPlan
from crdtstream.sim.history import History, Plan, Step
from crdtstream.sim.making import Maker
from crdtstream.sim.sizes import drawn
from crdtstream.sim.violation import Failure, ViolationError

AnyPlan: TypeAlias = Plan | FolderPlan

# The largest number of runs in which the shortest history of a violation is looked for.
SHORTEN_RUNS_MAX: Final = 400
# The key and the name of a kind of world in a saved plan; the usual kind has none.
WORLD: Final = "world"
FOLDERS: Final = "folders"


def maker_of(seed: int) -> Maker | FolderMaker:
    """The maker of the history of a seed."""
    return FolderMaker(seed) if copies_folders(seed) else Maker(seed)


def saved(plan: AnyPlan) -> dict[str, Any]:
    """A plan in the form of a file."""
    content = asdict(plan)
    return {WORLD: FOLDERS, **content} if isinstance(plan, FolderPlan) else content


def plan_of(content: Mapping[str, Any]) -> AnyPlan:
    """The inverse of ``saved``.

    Raises:
        ValueError, TypeError: no such plan is possible.
    """
    told = dict(content)
    world = told.pop(WORLD, "")
    if world not in ("", FOLDERS):
        raise ValueError(f"there are no worlds {world!r}")
    return FolderPlan(**told) if world else Plan(**told)


def run(plan: AnyPlan, steps: Sequence[Step]) -> Failure | None:
    """Run a history and heal; return its failure, if it fails."""
    with drawn(plan.sizes if isinstance(plan, Plan) else None):
        history = History(plan) if isinstance(plan, Plan) else FolderHistory(plan)
        at = 0
        try:
            for step in steps:
                at += 1
                history.do(step)
            at += 1
            history.heal()
        except ViolationError as error:
            return Failure(at, str(error))
        return None


def shorten(plan: AnyPlan, steps: list[Step], failure: Failure) -> tuple[list[Step], Failure]:
    """A shorter history that violates the same invariant (delta debugging)."""
    steps, runs = steps[: failure.at], 0
    size = max(1, len(steps) // 2)
    while runs < SHORTEN_RUNS_MAX:
        at, has_shortened = 0, False
        while at < len(steps) and runs < SHORTEN_RUNS_MAX:
            candidate = steps[:at] + steps[at + size :]
            found = run(plan, candidate)
            runs += 1
            if found is not None and found.kind == failure.kind:
                steps, failure, has_shortened = candidate[: found.at], found, True
            else:
                at += size
        if size == 1 and not has_shortened:
            break
        size = max(1, size // 2)
    return steps, failure
