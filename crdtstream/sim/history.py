"""A history: the events of a world, step by step, as data that can be run again.

A step is a tuple of plain values.  A step that does not apply (a commit of a region that is down)
does nothing, so any part of a history is a history too.  Shortening rests on that.
"""

from array import array
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import covers
from crdtstream.core.effects import Numbered
from crdtstream.core.ids import IdMode, Millis, RegionId
from crdtstream.core.producers.numbered import StaleBatchError
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import BatchError
from crdtstream.query.append_rows import append_numbered, checked_rows
from crdtstream.region.bootstrap import Phase
from crdtstream.region.retention import BACKLOG_BYTES_DEFAULT
from crdtstream.region.staleness import LagAction
from crdtstream.sim.branches import are_split, is_active, kept_of
from crdtstream.sim.checks import Checker
from crdtstream.sim.facts import facts_of
from crdtstream.sim.member_checks import MemberChecks
from crdtstream.sim.network import Line
from crdtstream.sim.operators import Operators
from crdtstream.sim.salvaging import salvage
from crdtstream.sim.simulated_node import CATCHING_UP, LIMITS, SimNode, SimSettings
from crdtstream.sim.sizes import drawn_region_limits
from crdtstream.sim.state_checks import check_deadlines, check_delivery
from crdtstream.sim.streams import GROUP, HOME_KEY, READ_KEY, ROWS_KEY
from crdtstream.sim.tidying import is_tidy, shown, tidy
from crdtstream.sim.tokens import PATIENT_MS, Tokens
from crdtstream.sim.violation import NoStepError, ViolationError, as_violations
from crdtstream.sim.world import World
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Armed, refuse
from crdtstream.store.log import Fsync

Step: TypeAlias = tuple[Any, ...]

CLOCK_START: Final = Millis(1_600_000_000_000)
REGIONS_MAX: Final = 9
HEAL_ROUNDS_MAX: Final = 400
HEAL_ROUND_MS: Final = 100
HEAL_TURNS: Final = 50
# Number of rounds after which operators look at the members, at the end.
OPERATED_EVERY: Final = 5
# Factor by which operators are more patient, as they wait for each other.
PATIENT_FACTOR: Final = 4
# A time longer than any key may live.
DEADLINES_MS: Final = 200_000
# Number of deadlines of blocked commands, and of keys, in one region at the end.
DEADLINES_MAX: Final = 100
# Requests of one client behind a blocked one.
HELD_MAX: Final = 3
ROW_FIELDS: Final = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of one world.

    Attributes:
        regions: how many.
        catches_up: a region that starts takes no writes while it is behind.
        lag_effects_max, lag_action: bound of what may be lost with a region, and what happens at
            it.
        backlog_bytes_max: size of the log that is kept for a region that is away.
        has_members: regions join and are removed.
        sizes: seed from which the sizes of the code are drawn; None: their defaults.
    """

    regions: int = 3
    fsync: str = "always"
    id_mode: str = "strict"
    has_database: bool = True
    catches_up: bool = False
    lag_effects_max: int = 0
    lag_action: str = "warn"
    backlog_bytes_max: int = BACKLOG_BYTES_DEFAULT
    has_members: bool = False
    sizes: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.regions <= REGIONS_MAX:
            raise ValueError(f"{self.regions} regions are not within 1 to {REGIONS_MAX}")


class History:
    """A world, and its past steps; within the sizes of its plan (``sizes.drawn``)."""

    def __init__(self, plan: Plan) -> None:
        settings = SimSettings(
            id_mode=IdMode(plan.id_mode),
            implicit_mkstream=True,
            fsync=Fsync(plan.fsync),
            has_database=plan.has_database,
            limits=drawn_region_limits(plan.sizes, CATCHING_UP if plan.catches_up else LIMITS),
            has_members=plan.has_members,
            sizes=plan.sizes,
            lag_effects_max=plan.lag_effects_max,
            lag_action=LagAction(plan.lag_action),
            backlog_bytes_max=plan.backlog_bytes_max,
        )
        numbers = [RegionId(number) for number in range(1, plan.regions + 1)]
        self.world = World(numbers, settings, clock=CLOCK_START)
        self.operators = Operators(self.world)
        self.tokens = Tokens()
        self._has_members = plan.has_members
        # If logs are kept for regions that are away, no region may come to need another one's
        # state, except one that joins.
        self._bootstraps = not plan.backlog_bytes_max or plan.has_members
        self.checker = Checker(self.world, refused_beyond=_refused_beyond(plan))
        self.member_checks = MemberChecks(self.world, self.operators)
        self.checker.records.on_members = self.member_checks.note_effect
        self.operators.on_joined = self.checker.add
        self.steps: list[Step] = []
        # Per node that is down its former facts, if nothing of it is lost.
        self._before: dict[RegionId, Any] = {}
        self._has_lost = False

    def do(self, step: Step) -> None:
        """Take a step, and look at everything.

        Raises:
            ViolationError: an invariant does not hold.
        """
        self.steps.append(step)
        with as_violations():
            self._do(step)
            self._look()

    def _look(self) -> None:
        self.checker.look()
        if self._has_members:
            self.member_checks.look()

    def _do(self, step: Step) -> None:
        world = self.world
        match step:
            case ("call", int(region), str(client), str(words)):
                self._call(world.nodes[RegionId(region)], client, words)
            case (
                "tick"
                | "commit"
                | "sync"
                | "folder"
                | "apply"
                | "time"
                | "settle"
                | "fetch"
                | "evict"
                | "cut log",
                region,
            ):
                if world.nodes[region].is_up:
                    _NODE_STEPS[step[0]](world.nodes[region])
            case ("checkpoint", region, turns):
                if world.nodes[region].is_up:
                    self._checkpoint(world.nodes[region], turns)
            case ("bootstrap", region, turns):
                if world.nodes[region].is_up:
                    world.nodes[region].go_on_with_bootstrap(turns)
            case ("wipe", region):
                self._wipe(world.nodes[region])
            case ("failpoint", region, str(name), at):
                world.nodes[region].checkpoints.failpoints = Armed(name, refuse, at=at)
            case ("exchange", puller, server, count):
                self._exchange(world.lines[puller, server], count)
            case ("rows", region, batch, row, count):
                self._append_rows(world.nodes[region], Numbered(b"q", batch, row), count)
            case ("plan", region):
                if world.nodes[region].is_up:
                    with world.looking():
                        self.checker.read_plan(world.nodes[region])
            case ("read", region, count, reconnects):
                with world.looking():
                    self.checker.read_by_id(world.nodes[region], count, reconnects=reconnects)
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
            case ("restore", region, count, *votes_back):
                self._restore(world.nodes[region], count, *votes_back)
            case ("start", region):
                self._start(world.nodes[region])
            case _ if self._has_members:
                self._change_members(step)
            case _:
                raise NoStepError(f"no step {step!r}")

    # --- Steps --------------------------------------------------------------------------------

    def _call(self, node: SimNode, client: str, words: str) -> None:
        # A pipeline: commands behind a blocked one wait for it.
        if not node.is_up or (client in node.clients and node.clients[client].held >= HELD_MAX):
            return
        argv = tuple(word.encode() for word in words.split())
        if argv[0] == b"XACK" and argv[1] == READ_KEY:
            self.checker.note_acknowledged(argv[3:])
        replica = node.region.replica
        # Commands that waited behind a blocked one may run first, and write.
        is_next = client not in node.clients or not node.clients[client].held
        # A batch without room is closed first, and earlier acknowledgements go into it.
        before = replica.issued - replica.frontier_count, replica.expired_count
        called = node.call(client, argv)
        after = replica.issued - replica.frontier_count, replica.expired_count
        failed = is_next and not called.is_waiting and node.last_reply[:1] == b"-"
        # A key that is found to have expired is deleted by a command that fails, too.
        if failed and before != after and before[1] == after[1]:
            raise ViolationError(f"I10: {words} issued effects and failed: {node.last_reply!r}")

    def _append_rows(self, node: SimNode, first: Numbered, count: int) -> None:
        """Let a program append rows, some of which it may have appended before, in another
        region."""
        if not node.is_up:
            return
        # More rows in a call, or bytes in a row, than are allowed.
        with suppress(BatchError):
            rows = checked_rows(first, array("I", [len(ROW_FIELDS)] * count), ROW_FIELDS * count)

            def append(replica: Replica, now: Millis) -> int:
                return append_numbered(replica, now, ROWS_KEY, first, rows)

            # Writes are refused, or the batch is too old to know which of it is in the stream, or
            # the disk cannot be read.
            with suppress(CommandError, StaleBatchError, StoreError):
                node.change(append, writes=count)

    def _exchange(self, line: Line, count: int) -> None:
        """Let both ends work, and deliver what they send, in order."""
        world = self.world
        for _ in range(count):
            did = world.step(line)
            did = world.deliver_letters(line) or did
            if not (world.deliver(line) or did):
                break
        for node in (line.puller, line.server):
            if node.is_up:
                node.end_tick()

    def _checkpoint(self, node: SimNode, turns: int) -> None:
        """Run some turns of a checkpoint; what is on disk by then must be the present state."""
        node.go_on_with_checkpoint(turns)
        if node.is_whole:
            with node.looking():
                self.checker.look_at_checkpoint(node)

    def _crash(self, node: SimNode, *, commits: bool) -> None:
        if not node.is_up:
            return
        if node.is_whole:
            with node.looking():
                self._before[node.number] = facts_of(node.region.replica)
        self.world.crash(node.number, commits=commits)
        if self._has_lost:
            # The process may have had in memory what is in no log any more.
            self.checker.note_lost()

    def _cut_power(self, node: SimNode, kept: int) -> None:
        if node.is_up:
            self._crash(node, commits=False)
        before = node.disk.last_seq
        node.disk.cut_power(kept)
        if node.disk.last_seq != before:
            self._before.pop(node.number, None)
            self.checker.begin_reading_again(node.number)
        self._note_lost()

    def _restore(self, node: SimNode, count: int, votes_back: int = 0) -> None:
        if node.is_up:
            return
        node.put_back(count, votes_back=votes_back)
        self.world.lose_folder(node.number)
        self._before.pop(node.number, None)
        self.checker.begin_reading_again(node.number)
        self._note_lost()

    def _wipe(self, node: SimNode) -> None:
        """Lose the folder of a region, with all that only this region had."""
        if node.is_up:
            self._crash(node, commits=False)
        node.wipe()
        self.world.lose_folder(node.number)
        self._before.pop(node.number, None)
        self.checker.begin_reading_again(node.number)
        self._note_lost()

    def _note_lost(self) -> None:
        self._has_lost = True
        self.checker.note_lost()

    def _start(self, node: SimNode) -> None:
        if node.is_up or node.number in self.world.dead:
            return
        # A node that cannot write does not start.
        node.disk.refuses = None
        node.checkpoints.failpoints = NO_FAILPOINTS
        node.start()
        before = self._before.pop(node.number, None)
        if before is not None:
            with node.looking():
                self.checker.look_at_restart(node, before)

    # --- Members ------------------------------------------------------------------------------

    def _change_members(self, step: Step) -> None:
        """Take a step of an operator, or one that only worlds with such steps have."""
        nodes, operators = self.world.nodes, self.operators
        # A region that was to join may never have begun.
        if any(number not in nodes for number in step[1:2]):
            return
        match step:
            case ("add", region, draw):
                operators.add(nodes[region], draw)
            case ("join", region):
                operators.join(nodes[region])
            case ("update", region, other):
                operators.update(nodes[region], other)
            case ("revoke", region, serial, days):
                operators.revoke(nodes[region], serial, days)
            case ("remove", region, other, heir_at):
                operators.remove(nodes[region], other, heir_at=heir_at)
            case ("without majority", region, other, heir_at, *survivors):
                operators.remove(nodes[region], other, heir_at=heir_at, survivors=survivors)
            case ("seal", region, other, heir_at):
                if other in nodes:
                    operators.seal(nodes[region], other, heir_at=heir_at)
            case ("unseal", region):
                operators.unseal(nodes[region])
            case ("token", region):
                if nodes[region].is_up:
                    self.tokens.take(nodes[region])
            case ("wait for", region, at):
                if nodes[region].is_up:
                    self.tokens.wait_for(nodes[region], at)
            case ("salvage", region, into, streams):
                if into in nodes:
                    self._salvage(nodes[region], nodes[into], streams)
            case ("letter", source, target, at):
                if target in nodes and self.world.carries(source, target):
                    self.world.post.deliver(source, nodes[target], at=at)
            case ("lose letters", region):
                self.world.post.lose(source=region)
            case ("die", region):
                self._wipe(nodes[region])
                self.world.dead.add(region)
            case _:
                raise NoStepError(f"no step {step!r}")

    def _salvage(self, node: SimNode, into: SimNode, streams: int) -> None:
        """Append again what only the folder of a removed region has; its node is down."""
        is_salvaged = (
            node.number not in self.world.dead
            and into.is_up
            and is_active(into)
            and not are_split(node, into)
            and node.number in into.region.membership.members.cuts.final
        )
        if not is_salvaged:
            return
        if node.is_up:
            self._crash(node, commits=False)
        # The folder is read with a disk that works.
        node.disk.refuses = None
        node.checkpoints.failpoints = NO_FAILPOINTS
        self.checker.row_keys.update(salvage(node.as_found(), into, streams_max=streams))

    # --- The end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults; then all regions must become equal, ready and well.

        Raises:
            ViolationError: they do not, or an invariant does not hold.
        """
        self.world.cuts.clear()
        with as_violations():
            for node in self.world.nodes.values():
                node.disk.refuses = None
                node.checkpoints.failpoints = NO_FAILPOINTS
                if not node.is_up:
                    self._start(node)
            self._become_equal()
            if self._has_members:
                self.tokens.look_at_end(self._kept())
                self.world.pass_time(PATIENT_MS)
            self._let_blocked_commands_end()
            # Commands behind them in a pipeline may have written.
            self._become_equal()
            if self._has_members:
                self._let_time_pass()
                self._hand_out()
            with self.world.looking():
                self.checker.look_at_end(self._kept())

    def _become_equal(self) -> None:
        world = self.world
        for count in range(HEAL_ROUNDS_MAX):
            world.pass_time(HEAL_ROUND_MS * (PATIENT_FACTOR if self._has_members else 1))
            if self._has_members and count % OPERATED_EVERY == 0:
                tidy(self.world, self.operators)
            for node in world.up():
                node.pass_time()
                node.settle()
            for line in world.lines.values():
                self._exchange(line, 50)
            for node in world.up():
                node.settle()
                if self._bootstraps:
                    node.go_on_with_bootstrap(HEAL_TURNS)
                if self._wants_checkpoint(node):
                    node.go_on_with_checkpoint(HEAL_TURNS)
                node.settle()
            self._look()
            if self._is_healed():
                return
        waits = {node.number: node.region.refuses_writes for node in world.up()}
        if self._has_members:
            waits |= {node.number: f"{waits[node.number]}; {shown(node)}" for node in world.up()}
        raise ViolationError(f"liveness: the regions never become equal and ready: {waits}")

    def _wants_checkpoint(self, node: SimNode) -> bool:
        if node.region.bootstrap.phase is Phase.SAVING:
            return True
        # A region that joins may need a checkpoint of a region that had no reason to make one.
        return self._has_members and node.region.checkpointing.is_under_way

    def _kept(self) -> list[SimNode]:
        """Regions that must become equal: all, except those that are not members any more."""
        nodes = list(self.world.up())
        return kept_of(nodes) if self._has_members else nodes

    def _let_time_pass(self) -> None:
        """Let time pass until each key has expired by every clock; then they become equal again."""
        latest = max(node.clock for node in self.world.up())
        for node in self.world.up():
            node.clock = latest
        self.world.pass_time(DEADLINES_MS)
        self._become_equal()

    def _hand_out(self) -> None:
        """Let consumers read all that is left."""
        kept = self._kept()
        for node in kept:
            for key in (READ_KEY, HOME_KEY):
                words = (
                    f"XREADGROUP GROUP {GROUP.decode()} last COUNT 10000 STREAMS {key.decode()} >"
                )
                node.call("last", tuple(word.encode() for word in words.split()))
                node.settle()
        with self.world.looking():
            check_deadlines(kept)
            check_delivery(kept)
        self._become_equal()

    def _let_blocked_commands_end(self) -> None:
        """Move each clock to the deadlines that its region reports: it may have been set back."""
        for node in self.world.up():
            for _ in range(DEADLINES_MAX):
                if not any(client.is_waiting for client in node.clients.values()):
                    break
                if node.ready.deadline is not None:
                    node.clock = max(node.clock, node.ready.deadline)
                node.pass_time()
                node.settle()

    def _is_healed(self) -> bool:
        nodes = self._kept()
        if not nodes:
            return False
        first = nodes[0].region.replica.vv
        return all(
            node.region.refuses_writes is None
            and node.region.bootstrap.phase is Phase.IDLE
            and dict(node.region.replica.vv) == dict(first)
            and not node.has_queued
            and covers(node.region.outstanding.durable_vv, first)
            for node in nodes
        ) and (not self._has_members or is_tidy(self.world, self.operators))


def _refused_beyond(plan: Plan) -> int | None:
    """Number of entries of one region that may be in no other one; None: no bound."""
    is_refused = LagAction(plan.lag_action) is LagAction.REFUSE
    return plan.lag_effects_max if plan.lag_effects_max and is_refused else None


_NODE_STEPS: Final = {
    "tick": SimNode.end_tick,
    "commit": SimNode.commit,
    "sync": SimNode.sync,
    "folder": SimNode.write_folder,
    "apply": SimNode.apply,
    "time": SimNode.pass_time,
    "settle": SimNode.settle,
    "fetch": SimNode.fetch,
    "evict": SimNode.evict,
    "cut log": SimNode.cut_log,
}
