"""Making histories in which a region's folder is copied, from a seed."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.sim.folders import MOVED, FolderHistory, FolderPlan
from crdtstream.sim.history import Step
from crdtstream.sim.violation import Failure, ViolationError

# Folders are copied in the worlds of seeds from this one on.
FOLDERS_FROM: Final = 5_000_000_000

_Steps = Iterator[Step]


def copies_folders(seed: int) -> bool:
    """True if a folder is copied in the world of a seed."""
    return seed >= FOLDERS_FROM


class FolderMaker:
    """Makes histories from a seed.

    Most kinds of steps are several at once: by themselves a write that only one folder has, and a
    change of the machine, seldom come together.
    """

    def __init__(self, seed: int) -> None:
        self._random = random = Random(f"folders {seed}")
        clones = random.random() < 0.4
        self.plan = FolderPlan(
            regions=random.choice((2, 3, 3)),
            fsync=random.choice(("always", "always", "everysec")),
            begins=random.random() < 0.6 or clones,
            clones=clones,
        )

    def run(self, count: int) -> tuple[list[Step], Failure | None]:
        """Make and take steps, ``count`` times some, and heal; return them, and their failure."""
        history = FolderHistory(self.plan)
        is_healing = False
        try:
            for _ in range(count):
                for step in self._some(history)(history):
                    history.do(step)
            is_healing = True
            history.heal()
        except ViolationError as error:
            return history.steps, Failure(len(history.steps) + is_healing, str(error))
        return history.steps, None

    def _some(self, history: FolderHistory) -> Callable[[FolderHistory], _Steps]:
        kinds: dict[Callable[[FolderHistory], _Steps], int] = {
            self._write: 12,
            self._exchange: 20,
            self._pass_time: 6,
            self._token: 4,
            self._crash: 2,
            self._start: 8,
            self._copy: 3,
            self._use_another: 4,
            self._cut: 2,
            self._heal_lines: 3,
            self._lose_power: 1,
            self._meet_somewhat: 10,
            self._write_apart: 6,
            self._change_machine: 6,
        }
        return self._random.choices(list(kinds), list(kinds.values()))[0]

    def _any(self, history: FolderHistory) -> RegionId:
        return self._random.choice(list(history.world.nodes))

    def _write(self, history: FolderHistory) -> _Steps:
        yield ("write", self._any(history))

    def _exchange(self, history: FolderHistory) -> _Steps:
        random = self._random
        puller, server = random.sample(list(history.world.nodes), 2)
        yield ("exchange", puller, server, random.randint(1, 12))
        for region in (puller, server):
            yield ("settle" if random.random() < 0.7 else "tick", region)

    def _pass_time(self, history: FolderHistory) -> _Steps:
        yield ("pass", self._random.choice((10, 100, 600, 2_000)))

    def _token(self, history: FolderHistory) -> _Steps:
        yield ("token", self._any(history))

    def _crash(self, history: FolderHistory) -> _Steps:
        random = self._random
        region = self._any(history) if random.random() < 0.4 else MOVED
        yield ("crash", region, random.random() < 0.5)

    def _start(self, history: FolderHistory) -> _Steps:
        yield ("start", self._any(history))

    def _copy(self, history: FolderHistory) -> _Steps:
        yield ("copy",)

    def _use_another(self, history: FolderHistory) -> _Steps:
        yield ("use", self._random.randrange(max(1, history.folders)))

    def _cut(self, history: FolderHistory) -> _Steps:
        yield ("cut", *self._random.sample(list(history.world.nodes), 2))

    def _heal_lines(self, history: FolderHistory) -> _Steps:
        yield ("heal",)

    def _lose_power(self, history: FolderHistory) -> _Steps:
        yield ("power cut", self._any(history))

    def _meet_somewhat(self, history: FolderHistory) -> _Steps:
        """Let time pass in which regions that reach each other exchange all they have."""
        for _ in range(self._random.randint(1, 6)):
            yield ("meet",)

    def _write_apart(self, history: FolderHistory) -> _Steps:
        """Cut region 1 off from all others, or from all except one, and let it take writes."""
        random = self._random
        others = [number for number in history.world.nodes if number != MOVED]
        if random.random() < 0.3:
            others.remove(random.choice(others))
        yield ("cut off", *others)
        for _ in range(random.randint(1, 3)):
            yield ("write", MOVED)
        yield ("token", MOVED)

    def _change_machine(self, history: FolderHistory) -> _Steps:
        """Stop the node, and let another machine go on, or this one."""
        random = self._random
        yield ("crash", MOVED, False)
        if random.random() < 0.4:
            yield ("copy",)
        if random.random() < 0.9:
            yield from self._use_another(history)
        if random.random() < 0.5:
            yield ("heal",)
        yield ("start", MOVED)
