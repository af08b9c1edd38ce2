"""The simulator's parts: a network that loses nothing but what is cut, and a disk that forgets."""

from random import Random

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, Region
from crdtstream.scenario.rows import Settings
from crdtstream.sim.disk import Disk
from crdtstream.sim.network import Message, Network
from crdtstream.sim.simulator import Simulator

R1, R2, R3 = Region(1), Region(2), Region(3)


def record(n: int) -> Record:
    return Record(R1, n, n, b"%d" % n, None)


def test_a_crash_loses_what_was_not_committed() -> None:
    disk = Disk()
    disk.write([record(1)])
    disk.commit()
    disk.write([record(2)])
    disk.crash()
    disk.write([record(3)])
    disk.commit()
    assert list(disk.durable()) == [record(1), record(3)]


@pytest.mark.parametrize("seed", range(20))
def test_the_network_delivers_everything_at_least_once(seed: int) -> None:
    network = Network(Random(seed), duplicate_rate=0.5)
    sent = [Message(R1, R2, b"%d" % n) for n in range(20)]
    for message in sent:
        network.send(message)
    arrived = [network.take() for _ in range(len(network))]
    assert set(arrived) == set(sent)
    assert len(arrived) > len(sent)


def test_a_cut_link_loses_what_it_carries() -> None:
    network = Network(Random(1), duplicate_rate=0.0)
    network.send(Message(R1, R2, b"lost"))
    network.send(Message(R1, R3, b"arrives"))
    network.cut([(R2, R1)])
    assert not network.connects(R1, R2)
    assert network.take() == Message(R1, R3, b"arrives")
    assert len(network) == 0
    network.heal()
    assert network.connects(R1, R2)


def run_with(seed: int) -> tuple[str, ...]:
    """A small history whose digests say all about it."""
    simulator = Simulator((R1, R2, R3), seed=seed)
    simulator.begin(Settings(), (R1, R2, R3))
    for ms in range(1, 20):
        region = Region(ms % 3 + 1)
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
