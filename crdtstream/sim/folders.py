"""A region whose folder is copied: machines that do not know of each other use the copies in turn.

    region 1   folder 0 ──┬─ used ─┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄─ used again ─┄┄
                          └─ copy: folder 1 ─ used ─┄┄┄┄┄┄┄┄┄┄┄┄─ used

Each folder proves itself on its own machine once a node has gone on with it there.  One node of the
region runs at a time, as others would refuse a second one.  Links are cut and nodes die at any
moment, so a folder may have effects that no other region ever got.

After each step (I23):

    of any two regions that are linked, and of any region, all that both have is the same
  * a region that answers a token with yes has all that its client had seen; but of clones, which
      come below, an answer knows only while the region keeps the points that the token names

Two regions that took effects of two clones while they were linked to each other learn it by the
next heartbeats only; from then on the first rule holds for them, too.

At the end all faults end, and region 1 goes on in the folder that began last.  All regions must
become equal and take writes.  An earlier folder that is started then must take none.

A copy may be a *clone*, as a snapshot of a whole machine is: it cannot be told from the folder, and
proves itself at once.  Then both number effects in one incarnation.  Histories that have parted are
never merged.  So in the end some regions have effects of a clone that does not go on, and an
operator lets them begin with empty folders.

These worlds have their own steps: the checks of other histories rest on a region having one folder.
As in those, a step that does not apply does nothing, so any part of a history is a history.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from crdtstream.commands.beyond_redis.tokens import crdt_token, crdt_waitfor
from crdtstream.commands.beyond_redis.version_vectors import parse_version_vector
from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import Dot
from crdtstream.core.ids import Millis, RegionId
from crdtstream.engine.folder import read_folder
from crdtstream.region.links.link import LinkState
from crdtstream.sim.bootstraps import SimStaging
from crdtstream.sim.checkpoints import SimCheckpoints
from crdtstream.sim.disk import Disk, now
from crdtstream.sim.simulated_node import SimNode, SimSettings
from crdtstream.sim.violation import NoStepError, ViolationError, as_violations
from crdtstream.sim.world import World
from crdtstream.store.log import Fsync

CLOCK_START: Final = Millis(1_000_000)
MOVED: Final = RegionId(1)
REGIONS_MAX: Final = 9
FOLDERS_MAX: Final = 4
TOKENS_MAX: Final = 30
HEAL_ROUNDS_MAX: Final = 200
HEAL_ROUND_MS: Final = 500
BEGIN_ROUNDS_MAX: Final = 100
MEETINGS_MAX: Final = 4
KEY: Final = b"s"
# Words of a refusal that leaves only this way out.
EMPTY_FOLDER: Final = "begin with an empty folder"

_Machine = tuple[Disk, SimCheckpoints, SimStaging]


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """Plan of one world.

    Attributes:
        regions: number of regions.
        begins: all regions begin their first incarnations, as with empty folders.  Otherwise their
            folders have begun none, and their tokens do not tell clones apart.
        clones: copies cannot be told from the folder.
    """

    regions: int = 3
    fsync: str = "always"
    begins: bool = True
    clones: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.regions <= REGIONS_MAX:
            raise ValueError(f"{self.regions} regions are not within 2 to {REGIONS_MAX}")


class FolderHistory:
    """A world, and what was done to it."""

    def __init__(self, plan: FolderPlan) -> None:
        self._clones = plan.clones
        # Number of times that regions which reach each other had time to meet; and for two regions
        # the number when they were first seen linked although they have different effects.
        self._meetings = 0
        self._apart_since: dict[tuple[RegionId, RegionId], int] = {}
        numbers = [RegionId(n) for n in range(1, plan.regions + 1)]
        settings = SimSettings(fsync=Fsync(plan.fsync), has_members=False)
        self.world = World(numbers, settings, clock=CLOCK_START)
        self.steps: list[tuple[Any, ...]] = []
        self._written = 0
        # All folders of region 1 except the one that its node uses.
        self._folders: list[_Machine] = []
        self._tokens: list[tuple[bytes, frozenset[bytes]]] = []
        if plan.begins:
            self._begin_all()

    def _begin_all(self) -> None:
        for node in self.world.nodes.values():
            self.world.crash(node.number)
            node.disk.is_confirmed = False
            node.start()
        for _ in range(BEGIN_ROUNDS_MAX):
            if not any(node.region.refuses_writes for node in self.world.up()):
                break
            self._meet()

    @property
    def moved(self) -> SimNode:
        """The node of the region whose folder is copied."""
        return self.world.nodes[MOVED]

    @property
    def folders(self) -> int:
        """Number of folders that region 1 has besides the one that its node uses."""
        return len(self._folders)

    def do(self, step: tuple[Any, ...]) -> None:
        """Take a step, and look at everything.

        Raises:
            ViolationError: an invariant does not hold.
        """
        self.steps.append(step)
        with as_violations():
            self._do(step)
            self.look()

    def _do(self, step: tuple[Any, ...]) -> None:
        world = self.world
        match step:
            case ("write", int(region)):
                self._write(world.nodes[RegionId(region)])
            case ("token", int(region)):
                self._token(world.nodes[RegionId(region)])
            case ("exchange", puller, server, int(count)):
                self._exchange(puller, server, count)
            case ("settle" | "tick", int(region)):
                node = world.nodes[RegionId(region)]
                if node.is_up:
                    node.settle() if step[0] == "settle" else node.end_tick()
            case ("pass", int(ms)):
                self._pass_time(ms)
            case ("meet",):
                self._meet()
            case ("crash", int(region), commits):
                if world.nodes[RegionId(region)].is_up:
                    world.crash(RegionId(region), commits=commits)
            case ("power cut", int(region)):
                self._cut_power(world.nodes[RegionId(region)])
            case ("start", int(region)):
                node = world.nodes[RegionId(region)]
                if not node.is_up:
                    node.start()
                    node.settle()
            case ("copy",):
                self._copy()
            case ("use", int(at)):
                if not self.moved.is_up and self._folders:
                    self._use(self._folders.pop(at % len(self._folders)))
            case ("cut", int(one), int(other)):
                self._cut(RegionId(one), [RegionId(other)])
            case ("cut off", *others):
                self._cut(MOVED, others)
            case ("heal",):
                world.cuts.clear()
            case _:
                raise NoStepError(f"no step {step!r}")

    # --- Steps ----------------------------------------------------------------------------------

    def _write(self, node: SimNode) -> None:
        if node.is_up:
            self._written += 1
            node.call("c", (b"XADD", KEY, b"*", b"f", b"%d" % self._written))
            node.settle()

    def _token(self, node: SimNode) -> None:
        if not node.is_up:
            return
        node.settle()
        text = crdt_token(node.region.replica, node.clock, [])
        node.settle()
        assert isinstance(text, bytes)
        self._tokens.append((text, frozenset(values_of(node).values())))
        del self._tokens[:-TOKENS_MAX]

    def _exchange(self, puller: RegionId, server: RegionId, count: int) -> None:
        line = self.world.lines[puller, server]
        for _ in range(count):
            did = self.world.step(line)
            did = self.world.deliver_letters(line) or did
            if not (self.world.deliver(line) or did):
                break

    def _pass_time(self, ms: int) -> None:
        self.world.pass_time(ms)
        for node in self.world.up():
            node.pass_time()
            node.settle()

    def _cut_power(self, node: SimNode) -> None:
        if node.is_up:
            self.world.crash(node.number)
        # Another region loses nothing: its peers may have counted on it.
        kept = 0 if node is self.moved else node.disk.last_seq
        node.disk.cut_power(kept)

    def _copy(self) -> None:
        """Copy the machine's folder to another one."""
        node = self.moved
        # A folder without an incarnation and own effects cannot be told from a new one.
        has_own = any(record.origin == MOVED for record in node.disk.records if record.batch)
        is_nobody_s = not _number_of(node.disk) and not has_own
        if node.is_up or is_nobody_s or len(self._folders) >= FOLDERS_MAX:
            return
        # Records do not change, and copy cannot make those of compiled code.
        shared = {id(record): record for record in node.disk.records}
        copied = copy.deepcopy((node.disk, node.checkpoints, node.staging), shared)
        if not self._clones:
            # A copy proves nothing on its machine, until a node has gone on with it there.
            copied[0].is_confirmed = copied[0].was_clean = False
        self._folders.append(copied)

    def _use(self, folder: _Machine) -> None:
        """Let another machine take the region over, with the folder that it has."""
        node = self.moved
        self._folders.append((node.disk, node.checkpoints, node.staging))
        node.disk, node.checkpoints, node.staging = folder
        self.world.post.lose(source=MOVED)

    def _cut(self, region: RegionId, others: Iterable[RegionId]) -> None:
        """Cut the ways between a region and others: no message gets from one to the other."""
        for other in others:
            self.world.cut([(region, other), (other, region)])
            for line in self.world.lines.values():
                if {region, other} == set(line.pair):
                    line.lose("cut off")

    # --- I23 ------------------------------------------------------------------------------------

    def look(self) -> None:
        """
        Raises:
            ViolationError: a number stands for two things, or a token says yes too early.
        """
        found = {node.number: values_of(node) for node in self.world.up()}
        for line in self.world.lines.values():
            puller, server = line.pair
            if puller not in found or server not in found or not line.is_connected:
                continue
            pull = line.puller.region.links.pulls.get(server)
            if pull is None or not pull.link.is_up:
                continue
            one, other = found[puller], found[server]
            differing = [dot for dot in one.keys() & other.keys() if one[dot] != other[dot]]
            if not differing:
                self._apart_since.pop(line.pair, None)
            elif not self._hear_soon(line.pair):
                raise ViolationError(
                    f"I23: {min(differing)} is {one[min(differing)]!r} in region {puller}, and"
                    f" {other[min(differing)]!r} in region {server}, and they are linked"
                )
        for node in self.world.up():
            values = frozenset(found[node.number].values())
            for text, seen in self._tokens:
                if self._clones and not can_tell(node, text):
                    continue
                if answers_yes(node, text) and not seen <= values:
                    raise ViolationError(
                        f"I23: region {node.number} says yes to {text!r}, and lacks"
                        f" {sorted(seen - values)}"
                    )

    def _hear_soon(self, pair: tuple[RegionId, RegionId]) -> bool:
        """True if two linked regions with effects of two clones may not have heard of that yet, as
        it comes with a heartbeat."""
        since = self._apart_since.setdefault(pair, self._meetings)
        return self._clones and self._meetings - since < MEETINGS_MAX

    # --- The end --------------------------------------------------------------------------------

    def heal(self) -> None:
        """
        Raises:
            ViolationError: the regions do not become equal, or an earlier folder takes writes.
        """
        with as_violations():
            self._heal()

    def _heal(self) -> None:
        self.world.cuts.clear()
        if self.moved.is_up:
            self.world.crash(MOVED)
        newest = max(self._folders, key=lambda one: _number_of(one[0]), default=None)
        if newest is not None and _number_of(newest[0]) > _number_of(self.moved.disk):
            self._folders.remove(newest)
            self._use(newest)
        self._become_equal()
        earlier = [one for one in self._folders if one[0].is_proven]
        if earlier and _number_of(self.moved.disk):
            self._see_refused(earlier[len(self.steps) % len(earlier)])

    def _become_equal(self) -> None:
        for node in self.world.nodes.values():
            if not node.is_up:
                node.start()
        for count in range(HEAL_ROUNDS_MAX):
            self._meet()
            self.look()
            if count == HEAL_ROUNDS_MAX // 4 and self.moved.region.numbering.obstacle:
                self._ask_all()
            if self._clones and count % (HEAL_ROUNDS_MAX // 8) == 10:
                self._empty_others()
            nodes = list(self.world.up())
            is_whole = all(one.region.refuses_writes is None for one in nodes)
            first = values_of(nodes[0])
            if is_whole and all(values_of(one) == first for one in nodes):
                return
        told = {one.number: one.region.refuses_writes for one in self.world.up()}
        vvs = {one.number: dict(one.region.replica.vv) for one in self.world.up()}
        raise ViolationError(f"I23: the regions never become equal and ready: {told}, {vvs}")

    def _ask_all(self) -> None:
        """Act as an operator for a copy that asked to go on and never began: do what the refusal
        says."""
        self.world.crash(MOVED)
        self.moved.disk.is_confirmed = False
        self.moved.start()

    def _empty_others(self) -> None:
        """Act as an operator for regions that have effects of a clone which does not go on: do what
        the refusal of their link says."""
        for number, pull in self.moved.region.links.pulls.items():
            if pull.link.state is LinkState.REFUSED and EMPTY_FOLDER in pull.link.error:
                self.world.crash(number)
                node = self.world.nodes[number]
                node.wipe()
                node.start()

    def _meet(self) -> None:
        self._meetings += 1
        self.world.pass_time(HEAL_ROUND_MS)
        for node in self.world.up():
            node.pass_time()
            node.settle()
        for line in self.world.lines.values():
            for _ in range(50):
                did = self.world.step(line)
                did = self.world.deliver_letters(line) or did
                if not (self.world.deliver(line) or did):
                    break
            for node in (line.puller, line.server):
                if node.is_up:
                    node.settle()

    def _see_refused(self, folder: _Machine) -> None:
        """Start an earlier folder of the region where all others are well."""
        self.world.crash(MOVED)
        is_earlier = _number_of(folder[0]) < _number_of(self.moved.disk)
        self._folders.remove(folder)
        self._use(folder)
        self.moved.start()
        for _ in range(HEAL_ROUNDS_MAX // 10):
            self._meet()
            self.look()
        if is_earlier and self.moved.region.refuses_writes is None:
            raise ViolationError("I23: an earlier folder takes writes")


def values_of(node: SimNode) -> dict[Dot, bytes]:
    """Fields of each entry of the region, by dot."""
    found: dict[Dot, bytes] = {}
    with node.looking():
        stream = node.region.replica.stream(KEY)
        for region, lane in () if stream is None else stream.lanes.items():
            for _, macro_node, index in lane.scan_dots(0):
                found[Dot(region, macro_node.n[index])] = bytes(macro_node.fields_at(index))
    return found


def answers_yes(node: SimNode, token: bytes) -> bool:
    """True if CRDT.WAITFOR answers at once that all of it is here."""
    try:
        return crdt_waitfor(node.region.replica, node.clock, [b"", token, b"0"]) == 1
    except CommandError:
        return False


def can_tell(node: SimNode, token: bytes) -> bool:
    """True if a region has kept all points that a token names.

    Effects without a point here count as the same, also if they are of a clone.
    """
    replica = node.region.replica
    named = parse_version_vector(token, replica.database_uid, what="token")
    for region, n in named.vv.items():
        point = named.points.get(region)
        # Behind a point in the middle of a batch a clone may have others.
        if point is None or point.n != n:
            return False
        kept = replica.histories.point_before(region, n)
        if n <= replica.vv.get(region, 0) and (kept is None or kept.n != n):
            return False
    return True


def _number_of(disk: Disk) -> int:
    """Number of the incarnation that a folder began; 0: none."""
    own = now(read_folder(disk, is_proven=False, is_same=False)).incarnations.own
    return 0 if own is None else own.number
