"""Version vectors of third regions on a link: each growth once, and all of it now and then."""

from crdtstream.core.ids import RegionId
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.links.gossip import RETELL_SECONDS, Gossip
from tests.harness.peers import peers_of

R1, R2, R3, R4 = (RegionId(number) for number in (1, 2, 3, 4))


def knowing() -> Knowledge:
    """Region 1, which has heard all others."""
    knowledge = Knowledge(peers_of(R1, R2, R3, R4))
    for region in (R2, R3, R4):
        knowledge.learn(region, {region: 5})
    return knowledge


def test_a_call_begins_with_all_but_what_the_peer_said_itself() -> None:
    assert Gossip(R2, knowing()).take(0.0) == {R3: {R3: 5}, R4: {R4: 5}}


def test_only_what_has_grown_is_told_again() -> None:
    knowledge = knowing()
    gossip = Gossip(R2, knowledge)
    gossip.take(0.0)
    assert gossip.take(0.25) == {}
    knowledge.learn(R3, {R3: 5, R1: 7})
    knowledge.learn(R4, {R4: 4})
    assert gossip.take(0.5) == {R3: {R3: 5, R1: 7}}
    assert gossip.take(0.75) == {}


def test_each_call_has_told_nothing_yet() -> None:
    knowledge = knowing()
    Gossip(R2, knowledge).take(0.0)
    assert Gossip(R3, knowledge).take(0.0) == {R2: {R2: 5}, R4: {R4: 5}}


def test_a_peer_that_forgot_hears_it_again_after_a_while() -> None:
    gossip = Gossip(R2, knowing())
    gossip.take(0.0)
    assert gossip.take(RETELL_SECONDS.value / 2) == {}
    assert gossip.take(RETELL_SECONDS.value) == {R3: {R3: 5}, R4: {R4: 5}}
    assert gossip.take(RETELL_SECONDS.value + 0.25) == {}


def test_version_vectors_said_while_recovering_are_not_gossiped() -> None:
    knowledge = Knowledge(peers_of(R1, R2, R3))
    knowledge.learn(R3, {R3: 5}, regains=True)
    gossip = Gossip(R2, knowledge)
    assert gossip.take(0.0) == {}
    knowledge.learn(R3, {R3: 5})
    assert gossip.take(0.25) == {R3: {R3: 5}}
