"""Words of other regions about what they durably have, and what is stable by them."""

from crdtstream.core.ids import RegionId
from crdtstream.region.knowledge import Knowledge
from tests.harness.peers import peers_of

R1, R2, R3 = (RegionId(number) for number in (1, 2, 3))


def test_words_of_a_region_that_recovers_make_nothing_stable() -> None:
    """Effects of its own may still come back to it, which have not observed these."""
    knowledge = Knowledge(peers_of(R1, R2, R3))
    has_all = {R1: 5, R2: 3, R3: 1}
    knowledge.learn(R2, has_all)
    assert knowledge.learn(R3, has_all, regains=True), "it counts for WAIT"
    assert knowledge.of(R3) == has_all
    assert knowledge.stable(has_all).get(R1, 0) == 0
    assert knowledge.learn(R3, has_all), "it has recovered: that is news"
    assert knowledge.stable(has_all)[R1] == 5
