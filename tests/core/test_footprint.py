"""Memory of all keys together is the sum of each key's."""

from crdtstream.commands.keys.memory import usage
from crdtstream.core.footprint import KEYS_AT_ONCE, Footprint
from crdtstream.core.ids import Millis
from tests.harness.driven import Driven


def test_a_walk_adds_up_what_memory_usage_says_of_each_key() -> None:
    driven = Driven()
    for number in range(3 * KEYS_AT_ONCE.value):
        for _ in range(number):
            driven.ask("XADD", f"s{number}", "*", "field", "value" * number)
    driven.ask("XGROUP", "CREATE", "s5", "g", "0")
    driven.ask("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s5", ">")
    driven.ask("SET", "lock", "mine")
    driven.ask("EXPIRE", "s7", "100")
    replica = driven.region.replica
    total = 0
    for key in replica.keys.known():
        found = usage(replica, Millis(1_000), [b"MEMORY", b"USAGE", key])
        assert isinstance(found, int)
        total += found
    footprint = Footprint(replica)
    steps = sum(1 for _ in footprint.steps())
    assert steps > 1
    assert footprint.node_bytes > 0
    assert footprint.node_bytes + footprint.rest_bytes == total


def test_a_walk_that_is_not_over_leaves_what_the_one_before_found() -> None:
    driven = Driven()
    for number in range(2 * KEYS_AT_ONCE.value):
        driven.ask("XADD", f"s{number}", "*", "f", "v")
    footprint = Footprint(driven.region.replica)
    for _ in footprint.steps():
        assert footprint.node_bytes == 0
    before = footprint.node_bytes
    assert before > 0
    driven.ask("FLUSHALL")
    next(footprint.steps())
    assert footprint.node_bytes == before
