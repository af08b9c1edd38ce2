"""Strings: a register whose values have deadlines of their own (``rules`` 23)."""

from itertools import permutations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import decode_batch
from crdtstream.sim.facts import shown
from crdtstream.sim.model import Issued, model, unfold
from tests.conftest import examples
from tests.harness.regions import Node, sync

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


def two() -> tuple[Node, Node]:
    return Node(1), Node(2)


# --- Values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [1, 2])
def test_of_concurrent_values_the_lowest_dot_counts(late: int) -> None:
    """Clocks play no part, nor does the order of arrival."""
    one, two_ = two()
    (one if late == 1 else two_).now += 5000
    one.run("SET k a")
    two_.run("SET k b")
    sync(one, two_)
    assert one("GET k") == two_("GET k") == "a"


def test_a_later_value_overwrites_all_that_it_observed() -> None:
    one, two_ = two()
    one.run("SET k a")
    two_.run("SET k b")
    two_.pull(one)
    two_.run("SET k c")
    sync(one, two_)
    assert one("GET k") == two_("GET k") == "c"
    string = one.replica.keys.string(b"k")
    assert string is not None
    assert len(string) == 1


def test_no_value_is_lost_to_a_winner() -> None:
    """Region 3 has seen a only, and overwrites it: b is left, and counts before c."""
    one, two_, three = Node(1), Node(2), Node(3)
    one.run("SET k a")
    two_.run("SET k b")
    three.pull(one)
    three.run("SET k c")
    one.pull(two_)
    assert one("GET k") == "a"
    sync(one, two_, three)
    assert one("GET k") == two_("GET k") == three("GET k") == "b"


def test_a_set_survives_a_del_that_had_not_observed_it() -> None:
    one, two_ = two()
    one.run("SET k a")
    sync(one, two_)
    one.run("DEL k")
    two_.run("SET k b PX 5000")
    sync(one, two_)
    assert one("GET k") == "b"
    assert one("PTTL k") == two_("PTTL k") == 5000


def test_arrival_order_does_not_matter() -> None:
    """A value, its later deadline, and a delete that saw neither: each order ends alike."""
    issuers = [Node(1), Node(2), Node(3)]
    issuers[0].run("SET k a PX 500")
    issuers[1].run("SET k b PX 700")
    issuers[1].run("PEXPIRE k 900")
    issuers[2].pull(issuers[0])
    issuers[2].run("DEL k")
    ends = set()
    for order in permutations(issuers):
        hearer = Node(4)
        for issuer in order:
            hearer.pull(issuer)
        hearer.pull(*issuers)
        ends.add((hearer("GET k"), hearer("PTTL k"), hearer.digest))
    assert len(ends) == 1
    assert {(value, ttl) for value, ttl, _ in ends} == {("b", 900)}


def test_del_of_a_string_spares_a_group_made_meanwhile() -> None:
    """It leaves no tombstone: a lock is taken and given back without a trace."""
    one, two_ = two()
    one.run("SET k a")
    sync(one, two_)
    one.run("DEL k")
    two_.run("DEL k")
    two_.run("XGROUP CREATE k g 0 MKSTREAM")
    sync(one, two_)
    assert one("TYPE k") == two_("TYPE k") == "stream"
    assert one.replica.tombstone_count == 0


# --- Deadlines ----------------------------------------------------------------------------------


def test_a_lock_keeps_its_deadline_when_it_is_released_elsewhere() -> None:
    """Else it would stay for good: DEL had not observed the value, nor the deadline."""
    one, two_ = two()
    one.run("SET lock a PX 500")
    sync(one, two_)
    one.run("DEL lock")
    two_.run("DEL lock")
    two_.run("SET lock b NX PX 700")
    two_.run("PEXPIRE lock 900")
    sync(one, two_)
    assert one("PTTL lock") == 900
    for node in (one, two_):
        node.now += 901
        node.expire()
    sync(one, two_)
    assert one("GET lock") is None
    assert len(one.replica) == len(two_.replica) == 0


def test_expire_is_of_the_values_that_it_observed() -> None:
    """A value that is set meanwhile keeps the deadline that it was set with, here none."""
    one, two_ = two()
    two_.run("SET k a")
    sync(one, two_)
    two_.run("PEXPIRE k 100")
    one.run("SET k b")
    sync(one, two_)
    assert one("GET k") == two_("GET k") == "b"
    assert one("PTTL k") == two_("PTTL k") == -1


def test_persist_beats_a_deadline_set_at_the_same_time() -> None:
    one, two_ = two()
    one.run("SET k a PX 500")
    sync(one, two_)
    one.run("PERSIST k")
    two_.run("PEXPIRE k 9000")
    sync(one, two_)
    assert one("PTTL k") == two_("PTTL k") == -1


def test_set_forgets_the_deadline_and_keepttl_keeps_it() -> None:
    node = Node(1)
    node.run("SET k a PX 500")
    node.run("SET k b KEEPTTL")
    assert node("PTTL k") == 500
    node.run("SET k c")
    assert node("PTTL k") == -1


def test_a_clock_set_back_brings_a_string_back() -> None:
    one, two_ = two()
    two_.run("SET k a PX 500")
    sync(one, two_)
    one.now += 600
    one.expire()
    assert one("GET k") is None
    assert one("EXISTS k") == 0
    one.now -= 300
    assert one("GET k") == "a"


def test_the_region_that_set_the_deadline_deletes() -> None:
    one, two_ = two()
    two_.run("SET k a PX 500")
    sync(one, two_)
    for node, count in ((one, 1), (two_, 0)):
        node.now += 600
        node.expire()
        assert len(node.replica) == count
    sync(one, two_)
    assert len(one.replica) == 0
    assert (one.replica.expired_count, two_.replica.expired_count) == (0, 1)


def test_expiry_spares_a_value_set_meanwhile() -> None:
    one, two_ = two()
    two_.run("SET k a PX 500")
    sync(one, two_)
    two_.now += 600
    two_.expire()
    one.run("SET k b")
    sync(one, two_)
    assert one("GET k") == two_("GET k") == "b"


# --- Streams and strings under one name ---------------------------------------------------------


def clash() -> tuple[Node, Node]:
    """A stream from region 1 and a string from region 2, made at the same time."""
    one, two_ = two()
    one.run("XADD k 1-1 f v")
    two_.run("SET k a PX 5000")
    sync(one, two_)
    return one, two_


def test_a_clash_shows_the_stream_and_keeps_the_string() -> None:
    for node in clash():
        assert node("TYPE k") == "stream"
        assert node("XLEN k") == 1
        assert node("GET k") == WRONG_TYPE
        assert node("KEYS *") == ["k"]
        assert len(node.replica) == 1
        string = node.replica.keys.string(b"k")
        assert string is not None
        assert string.data == b"a"


def test_the_string_shows_when_the_stream_expires() -> None:
    one, two_ = two()
    one.run("XADD k 1-1 f v", "PEXPIRE k 100")
    two_.run("SET k a")
    sync(one, two_)
    for node in (one, two_):
        node.now += 101
        node.expire()
        assert node("TYPE k") == "string"
    sync(one, two_)
    assert one("GET k") == two_("GET k") == "a"
    assert one.replica.keys.expiry.of(b"k") is None


def test_the_string_s_deadline_is_its_own() -> None:
    one, two_ = clash()
    assert one("PTTL k") == -1
    for node in (one, two_):
        node.now += 6000
        node.expire()
    sync(one, two_)
    assert one("TYPE k") == "stream"
    assert one.replica.keys.held_string(b"k") is None


@pytest.mark.parametrize(
    ("line", "shown_type"), [("DEL k", "none"), ("SET k b", "string"), ("FLUSHALL", "none")]
)
def test_a_whole_key_goes_with_both_its_parts(line: str, shown_type: str) -> None:
    one, two_ = clash()
    one.run(line)
    sync(one, two_)
    assert two_("TYPE k") == shown_type
    assert two_.replica.keys.held_stream(b"k") is None


@pytest.mark.parametrize("line", ["RENAME k t", "COPY k t"])
def test_both_parts_go_along(line: str) -> None:
    one, two_ = clash()
    one.run(line)
    sync(one, two_)
    assert two_("XLEN t") == 1
    string = two_.replica.keys.string(b"t")
    assert string is not None
    assert string.data == b"a"
    assert two_.replica.keys.string_expiry.of(b"t") == 6000


def test_set_on_a_stream_deletes_what_it_observed_of_it() -> None:
    one, two_ = two()
    one.run("XADD k 1-1 f v")
    sync(one, two_)
    one.run("SET k a")
    two_.run("XADD k 2-2 f w")
    sync(one, two_)
    assert one("XRANGE k - +") == two_("XRANGE k - +") == ["2-2"]
    one.run("XTRIM k MAXLEN 0")
    one.run("DEL k")
    sync(one, two_)
    assert two_("TYPE k") == "none"


def test_a_write_ends_a_stream_whose_time_is_over() -> None:
    """Else a clock that is set back would bring the stream back in front of the string."""
    one, two_ = two()
    two_.run("XADD k 1-1 f v", "PEXPIRE k 100")
    sync(one, two_)
    one.now += 200
    one.run("SET k a")
    one.now -= 200
    assert one("TYPE k") == "string"
    sync(one, two_)
    assert two_("GET k") == "a"


# --- Keys ---------------------------------------------------------------------------------------


def test_keys_are_counted_and_walked_once() -> None:
    one, _ = clash()
    one.run("SET s 1", "XADD t 1-1 f v", "SET u 2 PX 10")
    assert one("DBSIZE") == 4
    one.now += 11
    assert sorted(one("KEYS *")) == ["k", "s", "t"]  # type: ignore[call-overload]
    assert one("SCAN 0 COUNT 10") == ["0", one("SCAN 0 COUNT 10")[1]]  # type: ignore[index]
    for kind, keys in (("string", {"s"}), ("stream", {"k", "t"}), ("none", set())):
        reply = one(f"SCAN 0 COUNT 10 TYPE {kind}")
        assert isinstance(reply, list)
        assert set(reply[1]) == keys
    drawn = {one("RANDOMKEY") for _ in range(50)}
    assert drawn == {"k", "s", "t"}


# --- The model ----------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        *["SET k a", "SET k b PX 300", "SET k c PX 9000", "SET k d KEEPTTL"],
        *["SET k e NX", "SET k f XX GET", "GETSET k g", "GETEX k PX 400", "GETEX k PERSIST"],
        *["INCR k", "INCRBY k 5", "DECR j", "SET k 7", "SET j 9 PX 300"],
        *["GETDEL k", "DEL k", "PEXPIRE k 250", "PEXPIRE k -1", "PERSIST k"],
        *["MSET k h j i", "MSETNX k l j m", "RENAME k j", "RENAME j k", "COPY k j REPLACE"],
        *["XADD k * f v", "XADD j * f v", "XGROUP CREATE k g 0 MKSTREAM", "EXPIRE j 1"],
        "FLUSHALL",
    ]
)
AT = st.integers(0, 2)


class Strings(RuleBasedStateMachine):
    """Three regions; each must hold what the model says of the effects that it has applied."""

    @initialize()
    def start(self) -> None:
        self.nodes = [Node(region) for region in (1, 2, 3)]
        self.issued: dict[tuple[RegionId, int], Issued] = {}

    def check(self, node: Node) -> None:
        for record in node.log:
            if record.batch is not None and record.origin == node.region:
                for one in unfold(decode_batch(record.batch)):
                    self.issued[one.origin, one.n] = one
        vv = node.replica.vv
        applied = [one for (origin, n), one in self.issued.items() if n <= vv.get(origin, 0)]
        for key in (b"k", b"j"):
            assert shown(node.replica, key) == model(applied, key)
        held = {
            key
            for key in (b"k", b"j")
            if node.replica.keys.held_stream(key) is not None
            or node.replica.keys.held_string(key) is not None
        }
        assert set(node.replica.keys.scan_held(0, 10)[1]) == held
        assert len(node.replica) == len(held)
        visible = {key for key in held if node(f"TYPE {key.decode()}") != "none"}
        assert set(node.replica) == set(node.replica.keys.scan(0, 10)[1]) == visible

    @rule(at=AT, lines=st.lists(LINES, min_size=1, max_size=3))
    def transaction(self, at: int, lines: list[str]) -> None:
        node = self.nodes[at]
        node.run(*lines)
        self.check(node)

    @rule(to=AT, source=AT, count=st.integers(1, 5))
    def deliver(self, to: int, source: int, count: int) -> None:
        node = self.nodes[to]
        for record in list(self.nodes[source].log):
            if record.batch is not None and node.replica.ready(decode_batch(record.batch)):
                node.take(record)
                count -= 1
                if count == 0:
                    break
        self.check(node)

    @rule(at=AT, ms=st.sampled_from([10, 400, 10_000, -400]))
    def let_time_pass(self, at: int, ms: int) -> None:
        node = self.nodes[at]
        node.now = max(1, node.now + ms)
        node.expire()
        self.check(node)

    @rule(at=AT)
    def crash(self, at: int) -> None:
        node = self.nodes[at]
        before = node.digest
        node.restart()
        node.expire()
        self.check(node)
        assert before == node.digest or node.replica.expired_count

    def teardown(self) -> None:
        if getattr(self, "nodes", []):
            sync(*self.nodes)
            for node in self.nodes:
                self.check(node)


TestStrings = pytest.mark.timeout(600)(Strings.TestCase)
TestStrings.settings = settings(max_examples=examples(80), stateful_step_count=25, deadline=None)
