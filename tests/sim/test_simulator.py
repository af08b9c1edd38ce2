"""Regions in one process: disks that fail, lines that break, and scenarios on them."""

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.scenario.rows import Settings
from crdtstream.scenario.simulated import Simulator
from crdtstream.sim.disk import Disk, now
from crdtstream.sim.simulated_node import SimSettings
from crdtstream.sim.world import World
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


def record(n: int) -> Record:
    return Record(R1, n, n, b"%d" % n, None)


# --- Disks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fsync", "kept", "left"),
    [(Fsync.ALWAYS, 0, 3), (Fsync.EVERYSEC, 0, 2), (Fsync.EVERYSEC, 1, 3), (Fsync.NO, 9, 3)],
)
def test_a_power_cut_takes_what_was_not_synced(fsync: Fsync, kept: int, left: int) -> None:
    disk = Disk(fsync)
    now(disk.append([record(1), record(2)]))
    now(disk.sync())
    now(disk.append([record(3)]))
    disk.cut_power(kept)
    assert disk.records == [record(1), record(2), record(3)][:left]


def test_a_disk_that_refuses_takes_nothing() -> None:
    disk = Disk(Fsync.ALWAYS)
    disk.refuses = "no space left"
    for attempt in (disk.append([record(1)]), disk.sync(), disk.set_meta("a", "b"), disk.confirm()):
        with pytest.raises(StoreError, match="no space left"):
            now(attempt)
    assert disk.records == []


@pytest.mark.parametrize(
    ("fsync", "was_clean", "is_proven"),
    [(Fsync.ALWAYS, False, True), (Fsync.EVERYSEC, False, False), (Fsync.EVERYSEC, True, True)],
)
def test_a_folder_proves_itself_as_a_real_one(
    fsync: Fsync, was_clean: bool, is_proven: bool
) -> None:
    disk = Disk(fsync)
    assert not disk.is_proven
    now(disk.confirm())
    disk.was_clean = was_clean
    assert disk.is_proven is is_proven
    disk.put_back(0)
    assert not disk.is_proven


# --- Lines ----------------------------------------------------------------------------------------


def linked(fsync: Fsync = Fsync.ALWAYS) -> World:
    """Two regions whose links are live."""
    world = World((R1, R2), SimSettings(fsync=fsync), clock=Millis(1000))
    for _ in range(5):
        exchange(world)
    return world


def exchange(world: World) -> None:
    """Everything gets everywhere, as far as the network lets it."""
    world.pass_time(300)
    for line in world.lines.values():
        while world.step(line) or world.deliver(line):
            pass
    for node in world.up():
        node.settle()


def add(world: World, region: RegionId) -> None:
    world.nodes[region].call("a", (b"XADD", b"s", b"*", b"f", b"v"))
    world.nodes[region].settle()


def vv(world: World, region: RegionId) -> dict[RegionId, int]:
    return dict(world.nodes[region].region.replica.vv)


def test_writes_of_one_region_arrive_in_the_other() -> None:
    world = linked()
    add(world, R1)
    exchange(world)
    exchange(world)
    assert vv(world, R2) == {R1: 1}


def test_a_line_that_breaks_loses_what_is_on_it_and_brings_it_again() -> None:
    world = linked()
    add(world, R1)
    line = world.lines[R2, R1]
    while world.step(line):
        pass
    assert line.responses
    line.lose("reset")
    assert not line.responses
    for _ in range(3):
        exchange(world)
    assert vv(world, R2) == {R1: 1}


def test_a_way_that_is_cut_carries_nothing_and_the_other_way_does() -> None:
    world = linked()
    world.cut([(R1, R2)])
    add(world, R1)
    add(world, R2)
    exchange(world)
    # R1's acks of what R2 serves do not come either, but what is on its way to R1 does.
    assert vv(world, R2) == {R2: 1}
    assert vv(world, R1) == {R1: 1, R2: 1}
    world.cuts.clear()
    for _ in range(3):
        exchange(world)
    assert vv(world, R2) == {R1: 1, R2: 1}


def test_a_process_that_dies_leaves_lines_that_begin_again() -> None:
    world = linked()
    add(world, R1)
    world.crash(R1)
    exchange(world)
    world.nodes[R1].start()
    for _ in range(5):
        exchange(world)
    assert vv(world, R2) == {R1: 1}


# --- Scenarios ------------------------------------------------------------------------------------


def run_with(seed: int) -> tuple[str, ...]:
    """A small history whose digests say all about it."""
    simulator = Simulator((R1, R2, R3), seed=seed)
    simulator.begin(Settings(), (R1, R2, R3))
    for ms in range(1, 20):
        region = RegionId(ms % 3 + 1)
        simulator.wait(Millis(ms))
        argv = (b"XADD", b"x", b"*", b"f", b"%d" % ms)
        simulator.call(region, "", argv, may_wait=False)
        if ms % 5 == 0:
            simulator.sync((region, R1, R2))
    simulator.sync((R1, R2, R3))
    return tuple(simulator.digest(region) for region in (R1, R2, R3))


def test_one_seed_gives_one_history() -> None:
    assert run_with(7) == run_with(7)
    assert len(set(run_with(7))) == 1


def test_a_restarted_region_has_the_digest_it_had() -> None:
    simulator = Simulator((R1,), seed=1)
    simulator.begin(Settings(), (R1,))
    for argv in ((b"XADD", b"x", b"1", b"f", b"v"), (b"XGROUP", b"CREATE", b"x", b"g", b"0")):
        simulator.call(R1, "", argv, may_wait=False)
    before = simulator.digest(R1)
    simulator.crash(R1)
    simulator.restart(R1)
    assert simulator.digest(R1) == before
