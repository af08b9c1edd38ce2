"""XREAD with crdt_xread_mode never-skip: whatever comes late is given, whoever asks from where."""

import hiredis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from crdtstream.commands.reply import Encoded, Null, PerKey
from crdtstream.commands.streams.never_skip import KEYS_MAX, REPLIES_MAX
from crdtstream.core.ids import IdMode
from crdtstream.core.tuning import XREAD_MODE
from crdtstream.database.database import WAITING
from tests.conftest import examples
from tests.harness.clients import Clients
from tests.harness.regions import Node, sync
from tests.harness.replies import dict_of, list_of


def never_skipping(region: int, mode: IdMode = IdMode.LIBERAL) -> Node:
    node = Node(region, mode)
    XREAD_MODE.put(node.replica, "never-skip")
    return node


def add(node: Node, *ids: str, key: str = "x") -> None:
    """Add entries, each in a tick and a millisecond of its own."""
    for entry_id in ids:
        given = entry_id.partition("-")[0] if node.mode is IdMode.STRICT else entry_id
        assert node.run(f"XADD {key} {given} f v") == entry_id
        node.now += 1


def read(node: Node, entry_id: str, options: str = "", key: str = "x") -> list[str]:
    reply = node.run(f"XREAD {options} STREAMS {key} {entry_id}")
    return [] if reply is Null.ARRAY else list_of(str, dict_of(object, reply)[key])


def two_with_a_late_entry() -> tuple[Node, Node]:
    """Region 1 has 110, 120 and 130; 115 of region 2 is on its way."""
    r1, r2 = never_skipping(1), never_skipping(2)
    add(r1, "110-1", "120-1", "130-1")
    add(r2, "115-2")
    return r1, r2


# --- From an ID that the connection was given -----------------------------------------------------


def test_a_late_entry_comes_with_the_next_read_and_once() -> None:
    r1, r2 = two_with_a_late_entry()
    r3 = never_skipping(3)
    add(r3, "116-3")
    assert read(r1, "0", "COUNT 2") == ["110-1", "120-1"]
    r1.pull(r2)
    assert read(r1, "120-1", "COUNT 2") == ["115-2", "130-1"]
    assert read(r1, "130-1") == []
    r1.pull(r3)
    assert read(r1, "130-1") == ["116-3"]
    assert read(r1, "116-3") == []


def test_a_partial_reply_gives_only_what_it_holds() -> None:
    r1, r2 = two_with_a_late_entry()
    add(r2, "116-2", "140-2")
    assert read(r1, "0") == ["110-1", "120-1", "130-1"]
    sync(r1, r2)
    given = ["130-1"]
    while more := read(r1, given[-1], "COUNT 1"):
        given += more
    assert given == ["130-1", "115-2", "116-2", "140-2"]


@pytest.mark.parametrize("options", ["MAXCOUNT 1", "MAXSIZE 1"])
def test_entries_beyond_a_cap_are_returned_later(options: str) -> None:
    r1, r2 = two_with_a_late_entry()
    assert read(r1, "0") == ["110-1", "120-1", "130-1"]
    add(r2, "140-2")
    sync(r1, r2)
    assert read(r1, "130-1", options) == ["115-2"]
    assert read(r1, "115-2", options) == ["140-2"]
    assert read(r1, "140-2", options) == []


def test_an_id_asked_for_again_gives_the_same_again() -> None:
    """Its reader may have failed before it was through."""
    r1, r2 = two_with_a_late_entry()
    read(r1, "0", "COUNT 2")
    sync(r1, r2)
    for _ in range(REPLIES_MAX.value + 2):
        assert read(r1, "120-1") == ["115-2", "130-1"]
    assert read(r1, "115-2") == ["130-1"]


def test_an_id_stands_for_the_reply_that_had_it() -> None:
    """Not for all that the connection was given since."""
    r1, r2 = two_with_a_late_entry()
    assert read(r1, "0", "COUNT 1") == ["110-1"]
    assert read(r1, "110-1") == ["120-1", "130-1"]
    sync(r1, r2)
    assert read(r1, "130-1") == ["115-2"]
    assert read(r1, "110-1") == ["115-2", "120-1", "130-1"]


def test_entries_of_two_lanes_with_one_id_are_both_given_and_then_passed() -> None:
    r1, r2 = never_skipping(1), never_skipping(2)
    add(r1, "5-5")
    add(r2, "5-5", "6-6")
    sync(r1, r2)
    assert read(r1, "0", "COUNT 1") == ["5-5"]
    assert read(r1, "5-5", "COUNT 1") == ["5-5"]
    assert read(r1, "5-5", "COUNT 1") == ["6-6"]


def test_a_stream_that_is_made_again_is_read_from_its_new_beginning() -> None:
    r1 = never_skipping(1)
    add(r1, "500-1")
    assert read(r1, "0") == ["500-1"]
    r1.run("DEL x")
    add(r1, "100-1")
    assert read(r1, "500-1") == ["100-1"]


def test_several_streams_are_read_each_from_its_own_id() -> None:
    r1, r2 = two_with_a_late_entry()
    add(r1, "7-1", key="y")
    assert r1.run("XREAD STREAMS x y 0 0") == {"x": ["110-1", "120-1", "130-1"], "y": ["7-1"]}
    add(r2, "5-2", key="y")
    sync(r1, r2)
    assert r1.run("XREAD STREAMS x y 130-1 7-1") == {"x": ["115-2"], "y": ["5-2"]}
    assert r1.run("XREAD STREAMS x y 115-2 5-2") is Null.ARRAY


def test_a_transaction_reads_as_its_connection_does() -> None:
    r1, r2 = two_with_a_late_entry()
    r1.run("MULTI", "XREAD COUNT 2 STREAMS x 0")
    assert r1("EXEC") == [{"x": ["110-1", "120-1"]}]
    sync(r1, r2)
    r1.run("MULTI", "XREAD STREAMS x 120-1", "XREAD STREAMS x 130-1")
    assert r1("EXEC") == [{"x": ["115-2", "130-1"]}, Null.ARRAY]


# --- $, + and waiting -----------------------------------------------------------------------------


def test_a_blocked_xread_is_woken_by_a_late_entry() -> None:
    r1, r2 = two_with_a_late_entry()
    clients = Clients(r1)
    assert clients.call("XREAD STREAMS x 0") == {"x": ["110-1", "120-1", "130-1"]}
    assert clients.call("XREAD BLOCK 0 STREAMS x 130-1") is WAITING
    r1.pull(r2)
    assert clients.served() == [{"x": ["115-2"]}]
    assert clients.call("XREAD BLOCK 0 STREAMS x 115-2") is WAITING
    assert clients.write("XADD x 140-1 f v") == [{"x": ["140-1"]}]


def test_dollar_is_all_that_has_arrived_here() -> None:
    r1, r2 = two_with_a_late_entry()
    clients = Clients(r1)
    assert clients.call("XREAD BLOCK 0 STREAMS x $") is WAITING
    r1.pull(r2)
    assert clients.served() == [{"x": ["115-2"]}]
    assert clients.call("XREAD STREAMS x 115-2") is Null.ARRAY


def test_dollar_of_a_stream_that_is_not_there_is_all_that_will_come() -> None:
    r1, r2 = two_with_a_late_entry()
    clients = Clients(r1)
    assert clients.call("XREAD BLOCK 0 STREAMS y $") is WAITING
    add(r2, "1-2", key="y")
    r1.pull(r2)
    assert clients.served() == [{"y": ["1-2"]}]


def test_plus_is_the_last_entry_and_then_what_comes() -> None:
    r1, r2 = two_with_a_late_entry()
    assert read(r1, "+") == ["130-1"]
    sync(r1, r2)
    assert read(r1, "130-1") == ["115-2"]
    assert read(r1, "+", key="none") == []


def test_plus_waits_for_whatever_comes_first() -> None:
    clients = Clients(never_skipping(1))
    assert clients.call("XREAD BLOCK 0 STREAMS x +") is WAITING
    assert clients.write("XADD x 5-1 f v") == [{"x": ["5-1"]}]
    assert clients.call("XREAD STREAMS x 5-1") is Null.ARRAY


def test_plus_of_an_empty_stream_skips_nothing_of_what_comes_at_once() -> None:
    r1, r2 = never_skipping(1), never_skipping(2)
    clients = Clients(r1)
    assert clients.call("XREAD BLOCK 0 STREAMS x +") is WAITING
    add(r2, "5-2", "6-2")
    r1.pull(r2)
    assert clients.served() == [{"x": ["5-2", "6-2"]}]


def test_a_string_is_no_stream() -> None:
    r1 = never_skipping(1)
    r1.run("SET x text")
    for entry_id in ("0", "5-1", "$", "+"):
        assert str(r1(f"XREAD BLOCK 0 STREAMS x {entry_id}")).startswith("WRONGTYPE")


def test_new_entries_are_asked_of_groups_only() -> None:
    assert str(never_skipping(1)("XREAD STREAMS x >")).startswith("ERR The > ID can be specified")


# --- From an ID of an earlier connection ----------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_another_connection_is_given_what_arrived_later_than_its_id(restarts: bool) -> None:
    r1, r2 = two_with_a_late_entry()
    r3 = never_skipping(3)
    add(r3, "116-3")
    read(r1, "0", "COUNT 2")
    r1.pull(r2)
    r1.now += 1
    add(r1, "140-1")
    r1.pull(r3)
    if restarts:
        r1.restart()
        XREAD_MODE.put(r1.replica, "never-skip")
    for entry_id, beyond in {
        "120-1": ["115-2", "116-3", "130-1", "140-1"],
        "130-1": ["115-2", "116-3", "140-1"],
        # 115 was there before 140 was.
        "140-1": ["116-3"],
        "0": ["110-1", "115-2", "116-3", "120-1", "130-1", "140-1"],
    }.items():
        r1.reconnect()
        assert read(r1, entry_id) == beyond


def test_entries_above_the_id_are_returned_although_they_arrived_before() -> None:
    """A reader with COUNT had not come to it."""
    r1, r2 = never_skipping(1), never_skipping(2)
    add(r1, "140-1")
    add(r2, "130-2")
    r1.pull(r2)
    assert read(r1, "0", "COUNT 1") == ["130-2"]
    r1.reconnect()
    assert read(r1, "130-2") == ["140-1"]


def test_entries_that_arrived_in_the_same_millisecond_are_returned_again() -> None:
    r1, r2 = never_skipping(1), never_skipping(2)
    r1.run("XADD x 120-1 f v")
    r2.run("XADD x 115-2 f v")
    r1.pull(r2)
    r1.reconnect()
    assert read(r1, "120-1") == ["115-2"]


def test_a_clock_that_is_set_back_hides_nothing() -> None:
    r1, r2 = two_with_a_late_entry()
    read(r1, "0")
    r1.now -= 900
    r1.pull(r2)
    for restarts in (False, True):
        if restarts:
            r1.restart()
            XREAD_MODE.put(r1.replica, "never-skip")
        r1.reconnect()
        assert read(r1, "130-1") == ["115-2"]


@pytest.mark.parametrize("mode", [IdMode.STRICT, IdMode.LIBERAL], ids=["strict", "liberal"])
@pytest.mark.parametrize("removal", ["XDEL x 130-1", "XTRIM x MINID 131"])
def test_an_id_whose_entry_is_gone_skips_nothing(removal: str, mode: IdMode) -> None:
    r1, r2 = never_skipping(1, mode), never_skipping(2, mode)
    add(r1, "110-1", "120-1", "130-1", "140-1")
    r1.run(removal)
    add(r2, "115-2")
    sync(r1, r2)
    r1.reconnect()
    assert read(r1, "130-1") == ["115-2", "140-1"]


def test_a_copy_has_ids_of_other_regions_in_its_lane() -> None:
    """So the ID of an entry that is gone does not say whose it was, not even in strict mode."""
    r1, r2 = never_skipping(1, IdMode.STRICT), never_skipping(2, IdMode.STRICT)
    add(r1, "110-1", "120-1")
    add(r2, "115-2")
    r1.pull(r2)
    r1.run("COPY x y")
    assert read(r1, "0", "COUNT 2", key="y") == ["110-1", "115-2"]
    r1.run("XDEL y 115-2")
    r1.now += 1
    add(r2, "112-2", key="y")
    r1.pull(r2)
    r1.reconnect()
    assert read(r1, "115-2", key="y") == ["112-2", "120-1"]


def test_of_an_id_that_two_regions_made_the_one_that_was_given_may_be_gone() -> None:
    r1, r2 = never_skipping(1), never_skipping(2)
    add(r1, "9-1", "10-7")
    assert read(r1, "0") == ["9-1", "10-7"]
    add(r2, "7-2", "10-7")
    r1.run("XDEL x 10-7")
    r1.now += 1
    r1.pull(r2)
    r1.reconnect()
    assert read(r1, "10-7") == ["7-2", "9-1", "10-7"]


def test_an_id_that_never_was_is_read_from_as_in_redis() -> None:
    r1, r2 = two_with_a_late_entry()
    sync(r1, r2)
    for entry_id, beyond in {
        "112-0": ["115-2", "120-1", "130-1"],
        "118-0": ["120-1", "130-1"],
        "999-0": [],
    }.items():
        r1.reconnect()
        assert read(r1, entry_id) == beyond


# --- Bounds ---------------------------------------------------------------------------------------


def test_a_connection_remembers_a_bounded_number_of_keys_and_replies() -> None:
    r1, r2 = two_with_a_late_entry()
    read(r1, "0")
    sync(r1, r2)
    assert read(r1, "130-1") == ["115-2"]
    for number in range(KEYS_MAX.value):
        add(r1, "1-1", key=f"other:{number}")
        read(r1, "0", key=f"other:{number}")
    # Forgotten: by arrival it is given again, with what stands above it.
    assert read(r1, "115-2") == ["120-1", "130-1"]


def test_by_id_is_the_default() -> None:
    assert XREAD_MODE.get(Node(1).replica) == "by-id"
    r1, r2 = Node(1), Node(2)
    add(r1, "120-1")
    add(r2, "115-2")
    sync(r1, r2)
    assert read(r1, "120-1") == []


# --- Never skipped --------------------------------------------------------------------------------


class NeverSkipped(RuleBasedStateMachine):
    """A reader who loses his connection, fails, and asks again.

    Each entry has a number of its own, so that equal IDs stay apart.  What is removed need not be
    given.
    """

    may_fail = True
    seqs = st.just("own")

    def __init__(self) -> None:
        super().__init__()
        self.nodes = [never_skipping(1), never_skipping(2), never_skipping(3)]
        self.here = self.nodes[0]
        self.position = "0"
        self.given: set[str] = set()
        self.number = 0

    @rule(at=st.integers(0, 2), ms=st.integers(1, 9), data=st.data())
    def add(self, at: int, ms: int, data: st.DataObject) -> None:
        """IDs hardly ascend over the regions."""
        node = self.nodes[at]
        self.number += 1
        last = 0
        if node("EXISTS x"):
            last_id = dict_of(object, node("XINFO STREAM x"))["last-generated-id"]
            last = int(str(last_id).partition("-")[0])
        seq = data.draw(self.seqs)
        ms = max(last + 1, ms)
        node.run(f"XADD x {ms}-{node.region if seq == 'own' else seq} n {self.number}")

    @rule(to=st.integers(0, 2), of=st.integers(0, 2))
    def pull(self, to: int, of: int) -> None:
        if to != of:
            self.nodes[to].pull(self.nodes[of])

    @rule(at=st.integers(0, 2), which=st.integers(0, 5))
    def remove(self, at: int, which: int) -> None:
        ids = list_of(str, self.nodes[at]("XRANGE x - +"))
        if which < len(ids):
            self.nodes[at].run(f"XDEL x {ids[which]}")

    @rule(at=st.integers(0, 2))
    def trim(self, at: int) -> None:
        self.nodes[at].run("XTRIM x MAXLEN 2")

    @rule(ms=st.sampled_from([1, 1, 1, 5, -3]))
    def time_passes(self, ms: int) -> None:
        self.here.now += ms

    @rule()
    def reconnect(self) -> None:
        self.here.reconnect()

    @rule()
    def restart(self) -> None:
        self.here.end_tick()
        self.here.restart()
        XREAD_MODE.put(self.here.replica, "never-skip")

    @rule(count=st.integers(1, 4), taken=st.sampled_from([0, 1, 2, 9, 9, 9]))
    def read(self, count: int, taken: int) -> None:
        """Some of a reply may be lost on him, and then he asks again from where he was."""
        self.take(f"COUNT {count}", taken if self.may_fail else 9)

    def take(self, options: str, taken: int) -> int:
        entries = self.entries(f"XREAD {options} STREAMS x {self.position}")[:taken]
        for entry_id, number in entries:
            self.position = entry_id
            self.given.add(number)
        return len(entries)

    def entries(self, line: str) -> list[tuple[str, str]]:
        """IDs and numbers."""
        reply = self.here.raw(line)
        if isinstance(reply, PerKey):
            ((_, entries),) = reply.pairs
            assert isinstance(entries, Encoded)
            reply = entries
        if not isinstance(reply, Encoded):
            return []
        reader = hiredis.Reader()
        reader.feed(reply.data)
        return [(entry_id.decode(), fields[1].decode()) for entry_id, fields in reader.gets()]

    def teardown(self) -> None:
        sync(*self.nodes)
        self.here.now += 1
        there = {number for _, number in self.entries("XRANGE x - +")}
        for _ in range(200):
            if not self.take("COUNT 3", 9):
                break
        else:
            raise AssertionError("the reader comes to no end")
        assert there <= self.given, self.position


class NeverSkippedWithEqualIds(NeverSkipped):
    """IDs that two regions may both make; then an ID does not say how far a reply was taken."""

    may_fail = False
    seqs = st.sampled_from(["own", "7"])


TestNeverSkipped = NeverSkipped.TestCase
TestNeverSkipped.settings = settings(max_examples=examples(40), stateful_step_count=25)
TestNeverSkippedWithEqualIds = NeverSkippedWithEqualIds.TestCase
TestNeverSkippedWithEqualIds.settings = settings(max_examples=examples(25), stateful_step_count=25)
