"""Counters: each region adds to its own share of a string (``rules`` 24)."""

from itertools import permutations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from crdtstream.core.ids import RegionId
from tests.conftest import examples
from tests.harness.regions import Node, sync
from tests.rules.test_convergence import AT
from tests.rules.test_merge import Merges

BOTH = [0, 1]


def two() -> tuple[Node, Node]:
    return Node(1), Node(2)


def counted(*nodes: Node) -> object:
    """The number that all regions show, once they have heard all."""
    sync(*nodes)
    [number] = {str(node("GET k")) for node in nodes}
    assert len({node.digest for node in nodes}) == 1
    return number


# --- Adding -------------------------------------------------------------------------------------


def test_additions_of_regions_at_once_add_up() -> None:
    """Also if both create the counter."""
    one, two_ = two()
    assert one.run("INCR k") == 1
    assert two_.run("INCR k") == 1
    assert counted(one, two_) == "2"
    one.run("INCRBY k 40", "DECR k")
    two_.run("DECRBY k 11")
    assert counted(one, two_) == "30"


def test_a_number_that_was_set_is_added_to() -> None:
    one, two_ = two()
    one.run("SET k 10")
    sync(one, two_)
    assert one.run("INCR k") == 11
    assert two_.run("DECRBY k 3") == 7
    assert counted(one, two_) == "8"


def test_arrival_order_does_not_matter() -> None:
    """A SET, what regions add, and a delete: each order ends alike."""
    issuers = [Node(1), Node(2), Node(3)]
    issuers[0].run("SET k 100")
    sync(*issuers)
    issuers[0].run("INCRBY k 5")
    issuers[1].pull(issuers[0])
    issuers[0].run("INCRBY k 7")
    issuers[1].run("DEL k")
    issuers[1].run("INCRBY k 11")
    issuers[2].run("INCRBY k 13")
    ends = set()
    for order in permutations(issuers):
        hearer = Node(4)
        for issuer in order:
            hearer.pull(issuer)
        hearer.pull(*issuers)
        ends.add((hearer("GET k"), hearer.digest))
    assert [number for number, _ in ends] == ["31"]


def test_a_sum_beyond_64_bits_is_shown_as_the_limit() -> None:
    """And nothing of it is lost."""
    one, two_ = two()
    one.run("INCRBY k 9223372036854775807")
    two_.run("INCRBY k 10")
    assert counted(one, two_) == "9223372036854775807"
    assert one.run("INCR k") == "ERR increment or decrement would overflow"
    assert one.run("DECRBY k 4") == 9223372036854775807
    assert two_.run("DECRBY k 20") == 9223372036854775797
    assert counted(one, two_) == "9223372036854775793"


# --- SET ----------------------------------------------------------------------------------------


def test_a_set_beats_what_is_added_at_once_to_an_earlier_value() -> None:
    one, two_ = two()
    two_.run("INCRBY k 3")
    sync(one, two_)
    one.run("SET k 100")
    two_.run("INCR k")
    assert counted(one, two_) == "100"
    two_.run("INCR k")
    assert counted(one, two_) == "101"


def test_of_concurrent_values_the_one_that_counts_keeps_what_was_added_to_it() -> None:
    one, two_ = two()
    one.run("SET k 10")
    one.run("INCR k")
    two_.run("SET k 20")
    two_.run("INCRBY k 5")
    assert counted(one, two_) == "11"
    two_.run("INCR k")
    assert counted(one, two_) == "12"


def test_a_value_that_is_no_number_hides_what_was_added() -> None:
    one, two_ = two()
    one.run("SET k text")
    two_.run("INCR k")
    assert counted(one, two_) == "text"
    assert two_.run("INCR k") == "ERR value is not an integer or out of range"
    one.run("DEL k")
    assert counted(one, two_) == "None"


# --- DEL ----------------------------------------------------------------------------------------


def test_del_takes_what_it_had_observed_and_nothing_else() -> None:
    """Additions of the same time are left, without those that the region had made before."""
    one, two_ = two()
    one.run("INCRBY k 100")
    two_.run("INCRBY k 1000")
    sync(one, two_)
    one.run("DEL k")
    two_.run("INCRBY k 7")
    two_.run("INCRBY k 2")
    assert counted(one, two_) == "9"
    one.run("INCR k")
    assert counted(one, two_) == "10"


def test_a_region_goes_on_with_what_a_delete_left() -> None:
    one, two_ = two()
    one.run("SET k 10")
    sync(one, two_)
    one.run("DEL k")
    two_.run("INCRBY k 3")
    sync(one, two_)
    assert two_.run("INCRBY k 4") == 7
    assert counted(one, two_) == "7"


def test_concurrent_deletes_take_nothing_twice() -> None:
    nodes = [Node(1), Node(2), Node(3)]
    nodes[2].run("INCRBY k 5")
    sync(*nodes)
    nodes[0].run("DEL k")
    nodes[2].run("INCRBY k 6")
    nodes[1].pull(nodes[2])
    nodes[1].run("DEL k")
    nodes[2].run("INCRBY k 8")
    # The one that had observed more comes first.
    nodes[2].pull(nodes[1])
    assert counted(*nodes) == "8"


def test_a_counter_that_is_deleted_everywhere_leaves_nothing() -> None:
    nodes = [Node(1), Node(2), Node(3)]
    nodes[0].run("INCRBY other 5", "DEL other")
    nodes[2].run("INCRBY k 5")
    sync(*nodes)
    for node in nodes:
        node.run("DEL k")
    sync(*nodes)
    for node in nodes:
        assert node("EXISTS k") == 0
        assert b"k" in node.replica._state.ended_shares
        node.replica.forget_stable(node.replica.vv)
        assert len(node.replica._state.ended_shares) == 0
        assert len(node.replica._state.parts) == 0


def test_a_delete_of_an_earlier_counter_takes_nothing_of_a_new_one() -> None:
    """The delete was issued before the counter began anew, and arrives later."""
    nodes = [Node(1), Node(2), Node(3)]
    nodes[2].run("INCRBY k 5")
    sync(*nodes)
    nodes[0].run("DEL k")
    nodes[1].run("DEL k")
    nodes[2].pull(nodes[0])
    nodes[2].run("INCRBY k 6")
    assert counted(*nodes) == "6"


def test_set_with_a_deadline_in_the_past_and_getdel_take_it() -> None:
    one, two_ = two()
    for line in ("GETDEL k", "SET k 1 PXAT 1", "EXPIRE k -1", "FLUSHALL"):
        one.run("INCRBY k 5")
        sync(one, two_)
        one.run(line)
        two_.run("INCR k")
        assert counted(one, two_) == "1", line
        one.run("DEL k")
        sync(one, two_)


# --- Deadlines ----------------------------------------------------------------------------------


def test_a_counter_ends_by_its_deadline_and_spares_what_was_not_observed() -> None:
    one, two_ = two()
    one.run("INCR k", "PEXPIRE k 500")
    sync(one, two_)
    assert one("PTTL k") == two_("PTTL k") == 500
    two_.run("INCRBY k 5")
    assert two_("PTTL k") == 500
    one.now += 600
    one.expire()
    assert one("EXISTS k") == 0
    sync(one, two_)
    assert two_("GET k") == "5"
    two_.now += 600
    two_.expire()
    assert counted(one, two_) == "None"


def test_a_counter_that_another_region_gave_a_deadline_ends() -> None:
    """The first to count sets it: region 2 had added before it heard of that."""
    one, two_ = two()
    one.run("INCR k")
    two_.run("INCR k")
    one.run("PEXPIRE k 500")
    assert counted(one, two_) == "2"
    assert two_("PTTL k") == 500
    one.now += 600
    one.expire()
    assert counted(one, two_) == "None"


def test_incr_of_an_expired_counter_begins_anew() -> None:
    one, two_ = two()
    one.run("SET k 5 PX 500")
    one.run("INCR k")
    sync(one, two_)
    two_.now += 600
    assert two_.run("INCR k") == 1
    assert two_("PTTL k") == -1
    assert counted(one, two_) == "1"


def test_incr_keeps_the_deadline() -> None:
    one, two_ = two()
    one.run("SET k 5 PX 500", "INCR k")
    assert one("PTTL k") == 500
    sync(one, two_)
    one.run("DEL k")
    two_.run("INCR k")
    assert counted(one, two_) == "1"
    assert one("PTTL k") == two_("PTTL k") == 500


def test_expire_does_not_concern_what_is_added_at_once() -> None:
    """Neither does the order of arrival; the counter ends by the deadline of the other share."""
    one, two_ = two()
    two_.run("INCR k")
    sync(one, two_)
    one.run("INCR k", "PEXPIRE k 500")
    two_.run("INCR k")
    sync(one, two_)
    assert one("PTTL k") == two_("PTTL k") == 500
    string = one.replica.keys.string(b"k")
    assert string is not None
    assert [len(share.expiry.values) for _, share in string.shares()] == [1, 0]


def test_persist_and_expire_are_of_what_they_had_observed() -> None:
    one, two_ = two()
    one.run("INCR k", "PEXPIRE k 500")
    sync(one, two_)
    one.run("PERSIST k")
    sync(one, two_)
    assert one("PTTL k") == two_("PTTL k") == -1
    one.run("PEXPIRE k 700")
    two_.run("PEXPIRE k 900")
    sync(one, two_)
    assert one("PTTL k") == two_("PTTL k") == 900


# --- As any string ------------------------------------------------------------------------------


def test_a_counter_is_renamed_copied_and_dumped_as_its_number() -> None:
    one, two_ = two()
    one.run("INCRBY k 5", "COPY k j", "RENAME k i")
    two_.run("INCR k")
    sync(one, two_)
    for node in (one, two_):
        assert node("MGET k j i") == ["1", "5", "5"]
        assert node("STRLEN j") == 1
        assert node("TYPE i") == "string"
        assert node("OBJECT ENCODING i") == "int"


def test_a_restart_keeps_a_counter() -> None:
    one, two_ = two()
    one.run("SET k 10")
    two_.run("INCRBY j 5")
    sync(one, two_)
    two_.run("DEL j")
    one.run("INCR k", "INCRBY j 2", "PEXPIRE j 5000")
    before = one.digest
    one.cut()
    one.checkpoints.finish(one.replica)
    one.restart()
    assert one.digest == before
    assert one("MGET k j") == ["11", "7"]
    assert counted(one, two_) == "11"
    assert one("GET j") == two_("GET j") == "2"


# --- Taking over a state ------------------------------------------------------------------------


def settle(nodes: list[Node], at: int) -> None:
    """The one merges, then the other; both show the same then."""
    nodes[at].merge(nodes[1 - at])
    nodes[1 - at].merge(nodes[at])
    assert nodes[0].digest == nodes[1].digest


@pytest.mark.parametrize("at", BOTH)
def test_a_state_brings_what_was_added(at: int) -> None:
    nodes = list(two())
    nodes[0].run("SET k 10")
    sync(*nodes)
    nodes[0].run("INCR k")
    nodes[1].run("INCRBY k 5", "INCR j")
    settle(nodes, at)
    for node in nodes:
        assert node("MGET k j") == ["16", "1"]


@pytest.mark.parametrize("at", BOTH)
def test_of_a_share_that_was_deleted_elsewhere_what_was_not_observed_is_left(at: int) -> None:
    """The region that deleted keeps nothing of the counter but how far it was taken."""
    nodes = list(two())
    nodes[1].run("INCRBY k 5")
    sync(*nodes)
    nodes[0].run("DEL k")
    nodes[1].run("INCRBY k 7")
    settle(nodes, at)
    for node in nodes:
        assert node("GET k") == "7"


@pytest.mark.parametrize("at", BOTH)
def test_a_counter_that_was_deleted_elsewhere_goes(at: int) -> None:
    nodes = list(two())
    nodes[1].run("INCRBY k 5")
    sync(*nodes)
    nodes[0].run("DEL k")
    settle(nodes, at)
    for node in nodes:
        assert node("EXISTS k") == 0


@pytest.mark.parametrize("at", BOTH)
def test_both_sides_have_taken_of_a_share(at: int) -> None:
    nodes = [Node(1), Node(2), Node(3)]
    nodes[2].run("INCRBY k 5")
    nodes[0].pull(nodes[2])
    nodes[0].run("DEL k")
    nodes[2].run("INCRBY k 6")
    nodes[1].pull(nodes[2])
    nodes[1].run("DEL k")
    nodes[2].run("INCRBY k 8")
    nodes[0].pull(nodes[2])
    nodes[1].pull(nodes[2])
    settle(nodes[:2], at)
    for node in nodes[:2]:
        assert node("GET k") == "8"


@pytest.mark.parametrize("at", BOTH)
def test_a_deadline_of_a_counter_comes_by_a_state(at: int) -> None:
    nodes = list(two())
    nodes[0].run("INCR k")
    sync(*nodes)
    nodes[0].run("PEXPIRE k 5000")
    nodes[1].run("PEXPIRE k 9000")
    settle(nodes, at)
    for node in nodes:
        assert node("PTTL k") == 9000


def test_a_damaged_counter_is_repaired() -> None:
    one, two_ = two()
    one.run("INCRBY k 5")
    two_.run("INCRBY k 7")
    sync(one, two_)
    string = one.replica.keys.held_string(b"k")
    assert string is not None
    dict(string.shares())[RegionId(1)].total = 99
    assert one("GET k") == "106"
    assert one.repair(two_, "k")
    assert one("GET k") == "12"
    assert one.digest == two_.digest


# --- The model ----------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        *["INCR x", "INCRBY x 5", "DECR x", "DECRBY x 40", "INCR y", "INCRBY y -3"] * 3,
        *["SET x 7", "SET x 100 PX 300", "SET x 9 KEEPTTL", "SET y a", "GETSET x 3"],
        *["DEL x", "DEL x", "GETDEL x", "DEL y", "MSET x 1 y 2", "FLUSHALL"],
        *["PEXPIRE x 250", "PEXPIRE x 9000", "PERSIST x", "PEXPIRE y 250", "GETEX x PX 400"],
        *["RENAME x y", "COPY y x REPLACE", "XADD x * f v", "XGROUP CREATE y g 0 MKSTREAM"],
        *["INCRBY x 9223372036854775807", "DECRBY x 9223372036854775807"],
    ]
)


class Counters(Merges):
    """As ``Merges``, of commands that count."""

    @rule(at=AT, lines=st.lists(LINES, min_size=1, max_size=4), data=st.data())
    def transaction(self, at: int, lines: list[str], data: st.DataObject) -> None:
        super().transaction(at, lines, data)


TestCounters = pytest.mark.timeout(600)(Counters.TestCase)
TestCounters.settings = settings(max_examples=examples(80), stateful_step_count=30, deadline=None)
