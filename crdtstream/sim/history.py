"""A history: what happens to a world, step by step, as data that can be run again.

A step is a tuple of plain values.  One that does not apply (a commit of a region that is down)
does nothing, so any part of a history is a history too.  That is what shortening rests on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

from crdtstream.core.clock import covers
from crdtstream.core.ids import ID_MAX, ID_MIN, IdMode, Millis, RegionId
from crdtstream.sim.checks import GROUP, READ_KEY, Checker, ViolationError, facts_of
from crdtstream.sim.network import Line
from crdtstream.sim.node import SimNode, SimSettings
from crdtstream.sim.world import World
from crdtstream.store.log import Fsync

Step: TypeAlias = tuple[Any, ...]

CLOCK_START: Final = Millis(1_600_000_000_000)
HEAL_ROUNDS_MAX: Final = 400
HEAL_ROUND_MS: Final = 100
# The shortest history of a violation is looked for with no more runs than this.
SHORTEN_RUNS_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Plan:
    """How one world is made.

    Attributes:
        regions: how many.
    """

    regions: int = 3
    fsync: str = "always"
    id_mode: str = "strict"
    has_database: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """A history that violates an invariant.

    Attributes:
        at: the step at which it was seen, counted from 1; the healing after the last one is the
            step behind it.
    """

    at: int
    reason: str

    @property
    def invariant(self) -> str:
        return self.reason.split(":", 1)[0]


class History:
    """A world, and what was done to it."""

    def __init__(self, plan: Plan) -> None:
        settings = SimSettings(
            id_mode=IdMode(plan.id_mode),
            implicit_mkstream=True,
            fsync=Fsync(plan.fsync),
            has_database=plan.has_database,
        )
        numbers = [RegionId(number) for number in range(1, plan.regions + 1)]
        self.world = World(numbers, settings, clock=CLOCK_START)
        self.checker = Checker(self.world)
        self.steps: list[Step] = []
        # Of each node that is down: what it was, if nothing of it is lost.
        self._before: dict[RegionId, Any] = {}

    def do(self, step: Step) -> None:
        """Take a step, and look at everything.

        Raises:
            ViolationError: an invariant does not hold.
        """
        self.steps.append(step)
        try:
            self._do(step)
        except AssertionError as error:
            raise ViolationError(f"assertion: {error}") from error
        self.checker.look()

    def _do(self, step: Step) -> None:
        world = self.world
        match step:
            case ("call", region, client, words):
                self._call(world.nodes[region], client, words)
            case ("tick" | "commit" | "sync" | "folder" | "apply" | "time" | "settle", region):
                if world.nodes[region].is_up:
                    _NODE_STEPS[step[0]](world.nodes[region])
            case ("exchange", puller, server, count):
                self._exchange(world.lines[puller, server], count)
            case ("duplicate", puller, server):
                line = world.lines[puller, server]
                if line.may_deliver_response and world.carries(server, puller):
                    line.deliver_response(world.at, stays=True)
            case ("break", puller, server):
                world.lines[puller, server].lose("connection reset")
            case ("cut", source, target):
                world.cut([(source, target)])
            case ("heal",):
                world.cuts.clear()
            case ("pass", ms):
                world.pass_time(ms)
            case ("jump", region, ms):
                node = world.nodes[region]
                node.clock = Millis(max(1, node.clock + ms))
            case ("refuse", region, reason):
                world.nodes[region].disk.refuses = reason or None
            case ("crash", region, commits):
                self._crash(world.nodes[region], commits=commits)
            case ("power cut", region, kept):
                self._cut_power(world.nodes[region], kept)
            case ("restore", region, count):
                self._restore(world.nodes[region], count)
            case ("start", region):
                self._start(world.nodes[region])
            case _:
                raise ValueError(f"no step {step!r}")

    # --- Steps --------------------------------------------------------------------------------

    def _call(self, node: SimNode, client: str, words: str) -> None:
        if not node.is_up or (client in node.clients and node.clients[client].is_waiting):
            return
        argv = tuple(word.encode() for word in words.split())
        if argv[0] == b"XACK" and argv[1] == READ_KEY:
            self.checker.note_acknowledged(argv[3:])
        replica = node.region.replica
        before = replica.issued, replica.expired_count
        called = node.call(client, argv)
        after = replica.issued, replica.expired_count
        failed = not called.is_waiting and node.last_reply[:1] == b"-"
        # A key that is found to be over is deleted also by a command that fails.
        if failed and before != after and before[1] == after[1]:
            raise ViolationError(f"I10: {words} issued effects and failed: {node.last_reply!r}")

    def _exchange(self, line: Line, count: int) -> None:
        """Let both ends work, and deliver what they send, in order."""
        world = self.world
        for _ in range(count):
            did = world.step(line)
            if not (world.deliver(line) or did):
                break
        for node in (line.puller, line.server):
            if node.is_up:
                node.end_tick()

    def _crash(self, node: SimNode, *, commits: bool) -> None:
        if not node.is_up:
            return
        region = node.region
        is_whole = not node.has_queued and not region.tick.is_open and region.fault is None
        if is_whole and not region.replica.has_open_section:
            self._before[node.number] = facts_of(node)
        self.world.crash(node.number, commits=commits)

    def _cut_power(self, node: SimNode, kept: int) -> None:
        if node.is_up:
            self._crash(node, commits=False)
        before = node.disk.last_seq
        node.disk.cut_power(kept)
        if node.disk.last_seq != before:
            self._before.pop(node.number, None)
        self.checker.note_lost()

    def _restore(self, node: SimNode, count: int) -> None:
        if node.is_up:
            return
        node.disk.put_back(count)
        self._before.pop(node.number, None)
        self.checker.note_lost()

    def _start(self, node: SimNode) -> None:
        if node.is_up:
            return
        # A node that cannot write does not start.
        node.disk.refuses = None
        node.start()
        before = self._before.pop(node.number, None)
        if before is not None:
            self.checker.look_at_restart(node, before)

    # --- The end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults; then all regions must become equal, ready and well.

        Raises:
            ViolationError: they do not, or an invariant does not hold.
        """
        world = self.world
        world.cuts.clear()
        for node in world.nodes.values():
            node.disk.refuses = None
            if not node.is_up:
                self._start(node)
        for _ in range(HEAL_ROUNDS_MAX):
            world.pass_time(HEAL_ROUND_MS)
            for node in world.nodes.values():
                node.pass_time()
                node.settle()
            for line in world.lines.values():
                self._exchange(line, 50)
            for node in world.nodes.values():
                node.settle()
            self.checker.look()
            if self._is_healed():
                break
        else:
            waits = {n: node.region.refuses_writes for n, node in world.nodes.items()}
            raise ViolationError(f"liveness: the regions never become equal and ready: {waits}")
        self.checker.look_at_end()

    def _is_healed(self) -> bool:
        nodes = list(self.world.nodes.values())
        first = nodes[0].region.replica.vv
        return all(
            node.region.refuses_writes is None
            and dict(node.region.replica.vv) == dict(first)
            and not node.has_queued
            and covers(node.region.outstanding.durable_vv, first)
            for node in nodes
        )


_NODE_STEPS: Final = {
    "tick": SimNode.end_tick,
    "commit": SimNode.commit,
    "sync": SimNode.sync,
    "folder": SimNode.write_folder,
    "apply": SimNode.apply,
    "time": SimNode.pass_time,
    "settle": SimNode.settle,
}


def run(plan: Plan, steps: Sequence[Step]) -> Failure | None:
    """Run a history and heal; returns how it fails, if it does."""
    history = History(plan)
    at = 0
    try:
        for step in steps:
            at += 1
            history.do(step)
        at += 1
        history.heal()
    except ViolationError as error:
        return Failure(at, str(error))
    except AssertionError as error:
        return Failure(at, f"assertion: {error!r}")
    return None


def shorten(plan: Plan, steps: list[Step], failure: Failure) -> tuple[list[Step], Failure]:
    """A shorter history that violates the same invariant (delta debugging)."""
    steps, runs = steps[: failure.at], 0
    size = max(1, len(steps) // 2)
    while runs < SHORTEN_RUNS_MAX:
        at, has_shortened = 0, False
        while at < len(steps) and runs < SHORTEN_RUNS_MAX:
            candidate = steps[:at] + steps[at + size :]
            found = run(plan, candidate)
            runs += 1
            if found is not None and found.invariant == failure.invariant:
                steps, failure, has_shortened = candidate[: found.at], found, True
            else:
                at += size
        if size == 1 and not has_shortened:
            break
        size = max(1, size // 2)
    return steps, failure


# --- Making histories -----------------------------------------------------------------------------

# Two keys with everything on them, a handful of IDs: things must meet to conflict.
WORDS: Final = (
    *[f"XADD x {ms} f v{ms}" for ms in (1, 2, 3, 4)] * 2,
    *[f"XDEL x {ms}" for ms in (1, 2, 3, 4)],
    *["XADD y * f w"] * 3,
    "XADD y IDMP p 1 * f v",
    "XADD y IDMP p 2 * f v",
    "XTRIM x MAXLEN 1",
    "XTRIM y MAXLEN 2",
    "XSETID x 5",
    "XSETID x 9",
    *["DEL x"] * 3,
    *["XGROUP CREATE x g 0"] * 2,
    "XGROUP CREATE x g 2",
    "XGROUP CREATE x g $",
    "XGROUP DESTROY x g",
    "XGROUP SETID x g 0",
    "XGROUP CREATE y g $",
    *["XREADGROUP GROUP g c COUNT 2 STREAMS x >"] * 4,
    *["XREADGROUP GROUP g c COUNT 2 STREAMS y >"] * 2,
    "XAUTOCLAIM x g d 0 0 COUNT 1",
    "RENAME x y",
    "RENAME y x",
    "COPY x y REPLACE",
    "PEXPIRE x 300",
    "PEXPIRE x 90000",
    "PERSIST x",
    "XCFGSET y IDMP-DURATION 1",
    "CRDT.XGROUP SETMODE x g HOME 1",
    "CRDT.XGROUP SETMODE x g HOME 2 FORCE",
    "CRDT.XGROUP SETMODE x g AT-LEAST-ONCE",
    "CRDT.TOKEN",
    "WAIT 1 50",
    "XINFO GROUPS x",
)
READING: Final = (
    "XADD z * f v",
    "XADD z * f v",
    "XREADGROUP GROUP g c COUNT 2 STREAMS z >",
    "XREADGROUP GROUP g c COUNT 2 STREAMS z >",
    "XREAD BLOCK 100 STREAMS z $",
    "XLEN z",
)
FAULTS: Final = (
    "crash",
    "power cut",
    "restore",
    "refuse",
    "cut",
    "break",
    "duplicate",
    "jump",
)


class Maker:
    """Makes histories from a seed; the mix of faults differs from seed to seed."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.plan = Plan(
            regions=random.choice((2, 3, 3)),
            fsync=random.choice(("always", "always", "everysec")),
            id_mode=random.choice(("strict", "liberal", "semi-strict")),
            has_database=random.random() < 0.8,
        )
        # Some faults off, some heavy: uniform noise finds less.
        self._faults = {fault: random.choice((0, 0, 1, 4)) for fault in FAULTS}

    def run(self, count: int) -> tuple[list[Step], Failure | None]:
        """Make and take ``count`` steps, and heal; returns them, and how they failed."""
        history = History(self.plan)
        try:
            for step in self._beginning():
                history.do(step)
            for _ in range(count):
                history.do(self._step(history))
            history.heal()
        except ViolationError as error:
            return history.steps, Failure(len(history.steps), str(error))
        return history.steps, None

    def _beginning(self) -> list[Step]:
        """All regions know the stream that is read, and its group."""
        numbers = range(1, self.plan.regions + 1)
        steps: list[Step] = []
        for _ in range(6):
            steps.append(("pass", 300))
            for puller in numbers:
                steps += [("exchange", puller, peer, 30) for peer in numbers if peer != puller]
                steps.append(("settle", puller))
        made = [("call", 1, "a", f"XGROUP CREATE z {GROUP.decode()} 0 MKSTREAM"), ("settle", 1)]
        return [*steps, *made, *steps]

    def _step(self, history: History) -> Step:
        random, numbers = self._random, list(history.world.nodes)
        region = random.choice(numbers)
        puller, server = random.sample(numbers, 2)
        node = history.world.nodes[region]
        if not node.is_up and random.random() < 0.2:
            return ("start", region)
        kinds: dict[str, int] = {
            "call": 40,
            "settle": 8,
            "tick": 4,
            "commit": 6,
            "apply": 3,
            "sync": 2,
            "folder": 1,
            "time": 1,
            "exchange": 24,
            "pass": 4,
            "heal": 1,
            **self._faults,
        }
        (kind,) = random.choices(list(kinds), list(kinds.values()))
        match kind:
            case "call":
                return ("call", region, random.choice("ab"), self._words(node))
            case "exchange":
                return ("exchange", puller, server, random.choice((1, 2, 5, 20)))
            case "pass":
                return ("pass", random.choice((1, 10, 100, 400, 1500)))
            case "heal":
                return ("heal",)
            case "crash":
                return ("crash", region, random.random() < 0.5)
            case "power cut":
                return ("power cut", region, random.choice((0, 1, 5)))
            case "restore":
                return ("restore", region, random.randrange(node.disk.last_seq + 1))
            case "refuse":
                return ("refuse", region, random.choice(("", "", "no space left")))
            case "cut" | "break" | "duplicate":
                return (kind, puller, server)
            case "jump":
                return ("jump", region, random.choice((-5000, -300, 300, 5000, 100_000)))
            case _:
                return (kind, region)

    def _words(self, node: SimNode) -> str:
        """A command that has something to do more often than not."""
        random = self._random
        kind = random.random()
        if kind < 0.4:
            return random.choice(WORDS)
        if kind < 0.6:
            return random.choice(READING)
        key = random.choice("xyz")
        pending = self._pending(node, key)
        if pending and kind < 0.85:
            chosen = random.sample(pending, random.randint(1, len(pending)))
            return f"XACK {key} {GROUP.decode()} {' '.join(chosen)}"
        entries = self._entries(node, key) if key != "z" else []
        if entries:
            command = random.choice(("XDEL {} {}", "XDEL {} {}", "XTRIM {} MINID {}"))
            return command.format(key, random.choice(entries))
        return "XADD y * f v"

    def _entries(self, node: SimNode, key: str) -> list[str]:
        stream = node.region.replica.held_stream(key.encode()) if node.is_up else None
        return [
            _id_text(entry_id)
            for _, lane in sorted(({} if stream is None else stream.lanes).items())
            for entry_id, _, _ in lane.scan(ID_MIN, ID_MAX)
        ]

    def _pending(self, node: SimNode, key: str) -> list[str]:
        stream = node.region.replica.held_stream(key.encode()) if node.is_up else None
        group = None if stream is None else stream.groups.get(GROUP)
        if stream is None or group is None:
            return []
        return [
            _id_text(entry_id)
            for lane in sorted(stream.lanes)
            for entry_id in group.progress(lane).pel
        ]


def _id_text(entry_id: int) -> str:
    return f"{entry_id >> 64}-{entry_id & (1 << 64) - 1}"
