"""Making histories from seeds: the requests of clients, and the faults.

A step is chosen by looking at the world, so that it has something to do more often than not.  The
same seed makes the same history.
"""

from dataclasses import replace
from random import Random
from typing import Final

from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId
from crdtstream.region.retention import BACKLOG_BYTES_DEFAULT
from crdtstream.sim.history import History, Plan, Step
from crdtstream.sim.member_making import MemberMaker
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.sizes import LARGE_FROM, drawn
from crdtstream.sim.streams import GROUP, HOME_KEY, READ_KEY
from crdtstream.sim.violation import Failure, ViolationError

# Two keys with everything on them, a handful of IDs: operations must meet to conflict.
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
    *["XGROUP DESTROY x g", "XGROUP CREATE x g 0"] * 2,
    "XGROUP SETID x g 0",
    "XGROUP CREATE y g $",
    *["XGROUP CREATE y g 0", "XGROUP DESTROY y g"] * 2,
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
# Two keys that are strings, streams, or both.
STRINGS: Final = (
    *["SET s a NX PX 400", "SET s b", "SET s c KEEPTTL", "SET s d PX 90000"] * 2,
    "SET t e",
    "MSET s f t g",
    "GETDEL s",
    *["INCR s", "DECRBY s 3", "INCRBY n 2", "DECR n", "INCR n"] * 2,
    *["SET n 5", "SET n 7 PX 400", "DEL n", "PEXPIRE n 400", "RENAME n s", "COPY s n REPLACE"],
    *["DEL s"] * 2,
    "PEXPIRE s 500",
    "PERSIST s",
    "RENAME s t",
    "COPY t s REPLACE",
    "XADD s * f v",
    "XGROUP CREATE s g 0 MKSTREAM",
    "GET s",
)
# This share of the steps is followed by one of these.
STRINGS_SHARE: Final = 0.15
# And this share by an XREAD that may skip nothing; this share of them is on another connection.
READS_SHARE: Final = 0.2
RECONNECTS_SHARE: Final = 0.3
# In every third world, this share is followed by a step of a checkpoint, or by evictions of
# entries; and the parts of it that may be refused.
CHECKPOINTS_SHARE: Final = 0.25
# In half of these worlds this share of the steps is followed by work of a group: pending entries
# must change between two checkpoints.
GROUPS_SHARE: Final = 0.25
REFUSED_STEPS: Final = (
    "checkpoint.begin",
    "checkpoint.put",
    "checkpoint.commit",
    "checkpoint.verify",
    "checkpoint.forget",
    "checkpoint.discard",
    "checkpoint.fetch",
    "log.cut",
    "staging.begin",
    "staging.put",
    "staging.finish",
    "staging.discard",
)
# In every fourth world this share of the steps is followed by a burst: entries, which a consumer
# reads, and acknowledges nearly all of.  Pending entries are in chunks, and these must come, shrink
# and end.
BURSTS_SHARE: Final = 0.04
BURST_ENTRIES_MAX: Final = 9
# In worlds where a region may come to need another one's state, this share of the steps is followed
# by all the steps that lead to it: by themselves they seldom come together.
BEHIND_SHARE: Final = 0.01
AWAY_WRITES_MAX: Final = 8
READING: Final = (
    "XADD z * f v",
    "XADD z * f v",
    "XREADGROUP GROUP g c COUNT 2 STREAMS z >",
    "XREADGROUP GROUP g c COUNT 2 STREAMS z >",
    "XREAD BLOCK 100 STREAMS z $",
    "XADD h * f v",
    "XREADGROUP GROUP g c COUNT 2 STREAMS h >",
    "XLEN z",
)
GROUP_WORK: Final = (
    "XADD z * f v",
    "XREADGROUP GROUP g c COUNT 2 STREAMS z >",
    "XREADGROUP GROUP g c COUNT 2 STREAMS z >",
    "XAUTOCLAIM z g d 0 0 COUNT 1",
)
# In some worlds: one key that begins, is read and ends repeatedly, by few kinds of steps.  Effects
# that a delete had not observed need many of them in one order.
ENDINGS: Final = (
    "XADD e 1 f v",
    "XADD e 5 f v",
    "XADD e 9 f v",
    *["XADD e IDMP p a * f v"] * 3,
    *["DEL e"] * 2,
    "PEXPIRE e 1",
    *["XGROUP CREATE e g 0", "XREADGROUP GROUP g c STREAMS e >"] * 2,
)
ENDINGS_SHARE: Final = 0.7
# Of this many seeds, the seeds that bound what may be lost with a region, and how.
LAG_SEEDS: Final = 16
LAG_BOUNDS: Final = {9: (4, "refuse"), 10: (1, "refuse"), 11: (3, "throttle")}
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


# Members change in the worlds of seeds from this one on: of all 32-bit ones 23 %.
MEMBERS_FROM: Final = 3_000_000_000


def changes_members(seed: int) -> bool:
    """True if members change in the world of a seed."""
    return MEMBERS_FROM <= seed < LARGE_FROM


class Maker:
    """Makes histories from a seed; the mix of faults differs from seed to seed."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        lag_effects_max, lag_action = LAG_BOUNDS.get(seed % LAG_SEEDS, (0, "warn"))
        # Random streams of their own, so that the rest of a seed's history does not depend on them.
        self._strings = Random(f"strings {seed}")
        self._reads = Random(f"reads {seed}")
        self._checkpoints = Random(f"checkpoints {seed}")
        self._groups = Random(f"groups {seed}")
        self._endings = Random(f"endings {seed}")
        self._ends = seed % 12 == 10
        self._bursts = Random(f"bursts {seed}")
        self._has_bursts = seed % 4 == 1
        self._cools = seed % 3 == 2
        self._works = seed % 6 == 2
        self._cuts_log = seed % 6 == 5
        # In every other world that cuts logs, a region may find no log that has what it lacks.
        self._bootstraps = seed % 12 == 11
        self._behind = Random(f"behind {seed}")
        self._members = (
            MemberMaker(seed, (*WORDS, *READING, *STRINGS)) if changes_members(seed) else None
        )
        self.plan = Plan(
            regions=random.choice((2, 3, 3)),
            fsync=random.choice(("always", "always", "everysec")),
            id_mode=random.choice(("strict", "liberal", "semi-strict")),
            has_database=random.random() < 0.8,
            # In some worlds only: with it, mistakes with dots that others must notice are rare.
            catches_up=seed % 10 == 3,
            lag_effects_max=lag_effects_max,
            lag_action=lag_action,
            backlog_bytes_max=0 if self._bootstraps else BACKLOG_BYTES_DEFAULT,
            has_members=self._members is not None,
            sizes=seed,
        )
        # Some faults off, some heavy: uniform noise finds less.
        self._faults = {fault: random.choice((0, 0, 1, 4)) for fault in FAULTS}
        if self._members is not None:
            self._change_members(self._members)
        elif self._cuts_log:
            # A region that lost effects which every member had finds them in no log any more.
            self._faults["restore"] = 0

    def _change_members(self, members: MemberMaker) -> None:
        """Switch off kinds of worlds that do not go with changes of members."""
        # Effects that may be lost with a region are lost by its removal.
        self.plan = replace(self.plan, lag_effects_max=0, lag_action="warn")
        self._cools = True
        self._cuts_log = self._bootstraps = members.cuts_log
        if members.cuts_log:
            self.plan = replace(self.plan, backlog_bytes_max=0)
        # They come by the stories, in which no region waits for one that is gone for good.
        self._faults["restore"] = 0

    def run(self, count: int) -> tuple[list[Step], Failure | None]:
        """Make and take ``count`` steps, and heal; return them, and their failure."""
        with drawn(self.plan.sizes):
            return self._run(count)

    def _run(self, count: int) -> tuple[list[Step], Failure | None]:
        history = History(self.plan)
        is_healing = False
        try:
            for step in self._beginning():
                history.do(step)
            for _ in range(count):
                if self._members is not None and self._members.goes_on(history):
                    continue
                history.do(self._step(history))
                if self._strings.random() < STRINGS_SHARE:
                    history.do(self._string_step(history))
                if self._reads.random() < READS_SHARE:
                    history.do(self._read_step(history))
                if self._ends and self._endings.random() < ENDINGS_SHARE:
                    history.do(self._ending_step(history))
                if self._works and self._groups.random() < GROUPS_SHARE:
                    history.do(self._group_step(history))
                if self._has_bursts and self._bursts.random() < BURSTS_SHARE:
                    self._burst(history)
                if self._cools and self._checkpoints.random() < CHECKPOINTS_SHARE:
                    history.do(self._checkpoint_step(history))
                if self._bootstraps and self._behind.random() < BEHIND_SHARE:
                    self._fall_behind(history)
            is_healing = True
            history.heal()
        except ViolationError as error:
            return history.steps, Failure(len(history.steps) + is_healing, str(error))
        return history.steps, None

    def _beginning(self) -> list[Step]:
        """First steps: all regions know the stream that is read, and its group."""
        numbers = range(1, self.plan.regions + 1)
        steps: list[Step] = []
        for _ in range(6):
            steps.append(("pass", 300))
            for puller in numbers:
                steps += [("exchange", puller, peer, 30) for peer in numbers if peer != puller]
                steps.append(("settle", puller))
        made: list[Step] = [
            ("call", 1, "a", f"XGROUP CREATE {READ_KEY.decode()} {GROUP.decode()} 0 MKSTREAM"),
            ("call", 1, "a", f"XGROUP CREATE {HOME_KEY.decode()} {GROUP.decode()} 0 MKSTREAM"),
            ("call", 1, "a", f"CRDT.XGROUP SETMODE {HOME_KEY.decode()} {GROUP.decode()} HOME 1"),
            ("settle", 1),
        ]
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
            "rows": 3,
            "plan": 3,
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
            case "rows":
                return ("rows", region, *random.choice(((0, 0, 3), (0, 1, 4), (1, 0, 2))))
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

    def _string_step(self, history: History) -> Step:
        random = self._strings
        region = random.choice(list(history.world.nodes))
        return ("call", region, random.choice("ab"), random.choice(STRINGS))

    def _checkpoint_step(self, history: History) -> Step:
        random = self._checkpoints
        region = random.choice(list(history.world.nodes))
        kinds = {"checkpoint": 8, "evict": 3, "fetch": 3, "failpoint": 1}
        if self._cuts_log:
            kinds["cut log"] = 3
        if self._bootstraps:
            kinds |= {"bootstrap": 6, "wipe": 1}
        (kind,) = random.choices(list(kinds), list(kinds.values()))
        match kind:
            case "checkpoint" | "bootstrap":
                return (kind, region, random.choice((1, 3, 10, 100)))
            case "failpoint":
                return (kind, region, random.choice(REFUSED_STEPS), random.randint(1, 3))
            case "wipe" if not self._may_wipe(history, region):
                return ("settle", region)
            case _:
                return (kind, region)

    def _group_step(self, history: History) -> Step:
        random = self._groups
        region = random.choice(list(history.world.nodes))
        pending = self._pending(history.world.nodes[region], READ_KEY.decode())
        if pending and random.random() < 0.4:
            words = f"XACK {READ_KEY.decode()} {GROUP.decode()} {random.choice(pending)}"
            return ("call", region, "c", words)
        return ("call", region, "c", random.choice(GROUP_WORK))

    def _ending_step(self, history: History) -> Step:
        random = self._endings
        region = random.choice(list(history.world.nodes))
        pending = self._pending(history.world.nodes[region], "e")
        if pending and random.random() < 0.5:
            words = f"XACK e {GROUP.decode()} {' '.join(pending)}"
            return ("call", region, "c", words)
        return ("call", region, "c", random.choice(ENDINGS))

    def _burst(self, history: History) -> None:
        random = self._bursts
        region = random.choice(list(history.world.nodes))
        key, group = READ_KEY.decode(), GROUP.decode()
        for _ in range(random.randint(2, BURST_ENTRIES_MAX)):
            history.do(("call", region, "d", f"XADD {key} * f v"))
        history.do(("settle", region))
        words = f"XREADGROUP GROUP {group} c COUNT {random.randint(2, 20)} STREAMS {key} >"
        history.do(("call", region, "d", words))
        history.do(("settle", region))
        pending = self._pending(history.world.nodes[region], key)
        if len(pending) > 1:
            chosen = random.sample(pending, len(pending) - random.randint(1, 2))
            if chosen:
                words = f"XACK {key} {group} {' '.join(chosen)}"
                history.do(("call", region, "d", words))

    def _fall_behind(self, history: History) -> None:
        """Keep a region away while the others cut what it lacks from their logs; then let it
        return."""
        random = self._behind
        numbers = list(history.world.nodes)
        away = random.choice(numbers)
        others = [number for number in numbers if number != away]
        kind = random.choice(("wipe", "crash", "cut"))
        if kind == "wipe" and not self._may_wipe(history, away):
            return
        match kind:
            case "wipe":
                history.do((kind, away))
            case "crash":
                history.do((kind, away, random.random() < 0.5))
            case _:
                for other in others:
                    history.do((kind, away, other))
                    history.do((kind, other, away))
        for other in others:
            history.do(("start", other))
        for _ in range(random.randint(1, AWAY_WRITES_MAX)):
            self._write(history, random.choice(numbers if kind == "cut" else others))
        for _ in range(3):
            self._meet(history, others)
        for other in others:
            history.do(("checkpoint", other, 100))
            history.do(("checkpoint", other, 100))
            history.do(("cut log", other))
        history.do(("heal",))
        history.do(("start", away))
        for _ in range(random.randint(3, 8)):
            self._meet(history, numbers)
            self._write(history, random.choice(numbers))
            history.do(("bootstrap", away, random.choice((1, 3, 10, 100))))
        if random.random() < 0.5:
            history.do(random.choice((("crash", away, True), ("checkpoint", away, 100))))

    def _write(self, history: History, region: RegionId) -> None:
        random = self._behind
        words = random.choice((*WORDS, *READING, *STRINGS))
        history.do(("call", region, random.choice("ab"), words))
        if random.random() < 0.5:
            history.do(("settle", region))

    def _meet(self, history: History, numbers: list[RegionId]) -> None:
        """Let some time pass in which these regions hear of each other."""
        history.do(("pass", self._behind.choice((300, 600, 1500))))
        for puller in numbers:
            for server in numbers:
                if puller != server:
                    history.do(("exchange", puller, server, 20))
            history.do(("settle", puller))

    def _may_wipe(self, history: History, region: RegionId) -> bool:
        if self._members is not None:
            return self._members.may_put_back(history, region)
        return _another_is_ready(history, region)

    def _read_step(self, history: History) -> Step:
        random = self._reads
        region = random.choice(list(history.world.nodes))
        return ("read", region, random.randint(1, 4), random.random() < RECONNECTS_SHARE)

    def _words(self, node: SimNode) -> str:
        """A command that has an effect more often than not."""
        random = self._random
        # Bursts of one effect each: they reach a bound, and would exceed it if they could.
        if self.plan.lag_effects_max and random.random() < 0.6:
            return f"XADD {READ_KEY.decode()} * f v"
        kind = random.random()
        if kind < 0.4:
            return random.choice(WORDS)
        if kind < 0.6:
            return random.choice(READING)
        key = random.choice("xyzh")
        pending = self._pending(node, key)
        if pending and kind < 0.85:
            chosen = random.sample(pending, random.randint(1, len(pending)))
            return f"XACK {key} {GROUP.decode()} {' '.join(chosen)}"
        entries = self._entries(node, key) if key in "xy" else []
        if entries:
            command = random.choice(("XDEL {} {}", "XDEL {} {}", "XTRIM {} MINID {}"))
            return command.format(key, random.choice(entries))
        return "XADD y * f v"

    def _entries(self, node: SimNode, key: str) -> list[str]:
        stream = node.region.replica.keys.held_stream(key.encode()) if node.is_up else None
        if stream is None:
            return []
        with node.looking():
            return [
                _id_text(entry_id)
                for _, lane in sorted(stream.lanes.items())
                for entry_id, _, _ in lane.scan(ID_MIN, ID_MAX)
            ]

    def _pending(self, node: SimNode, key: str) -> list[str]:
        stream = node.region.replica.keys.held_stream(key.encode()) if node.is_up else None
        group = None if stream is None else stream.groups.get(GROUP)
        if stream is None or group is None:
            return []
        return [
            _id_text(entry_id)
            for lane in sorted(stream.lanes)
            for entry_id in group.progress(lane).pel
        ]


def _another_is_ready(history: History, region: RegionId) -> bool:
    """True if another region is ready: if no folder is left, nothing can be taken over."""
    return any(
        node.is_up and not node.region.opening.is_recovering
        for number, node in history.world.nodes.items()
        if number != region
    )


def _id_text(entry_id: int) -> str:
    return f"{entry_id >> 64}-{entry_id & (1 << 64) - 1}"
