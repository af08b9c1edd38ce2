"""CRDT.XREAD: a cursor that never skips, whatever comes late, is removed, or is read elsewhere."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from crdtstream.commands.reply import CommandError, Null
from crdtstream.core.ids import ID_MAX, ID_MIN, IdMode, Millis, format_id
from crdtstream.database.database import WAITING
from tests.conftest import examples
from tests.harness.clients import Clients
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type


def read(node: Node, cursor: str, options: str = "", key: str = "x") -> tuple[str, list[str]]:
    """The next cursor and the IDs."""
    reply = node.run(f"CRDT.XREAD {key} {cursor} {options}")
    next_cursor, ids = of_type(list, reply)
    return of_type(str, next_cursor), list_of(str, ids)


# --- The answer --------------------------------------------------------------------------------


def test_the_cursor_returns_entries_that_xread_skips() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 110-1 f v", "XADD x 120-1 f v")
    r2.run("XADD x 115-2 f v")
    assert r1("XREAD STREAMS x 0") == {"x": ["110-1", "120-1"]}
    cursor, ids = read(r1, "0")
    assert ids == ["110-1", "120-1"]
    sync(r1, r2)
    assert r1("XREAD STREAMS x 120-1") is Null.ARRAY
    assert read(r1, cursor) == ("1:2,2:1", ["115-2"])


def test_entries_are_as_in_xrange_and_by_id_over_all_lanes() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD x 5-1 f v")
    r2.run("XADD x 3-2 f v", "XADD x 9-2 f v")
    sync(r1, r2)
    assert read(r1, "0")[1] == r1("XRANGE x - +") == ["1-1", "3-2", "5-1", "9-2"]


def test_the_next_cursor_names_what_was_returned_and_what_is_known_of_finished_lanes() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 1-1 f v", "XADD x 5-1 f v")
    r2.run("XADD x 3-2 f v", "XADD y 9-2 f v")
    r3.run("XADD y 1-3 f v")
    sync(r1, r2, r3)
    assert read(r1, "0", "COUNT 1") == ("1:1,3:1", ["1-1"])
    assert read(r1, "1:1,3:1", "COUNT 1") == ("1:1,2:2,3:1", ["3-2"])
    assert read(r1, "1:1,2:2,3:1", "COUNT 1") == ("1:2,2:2,3:1", ["5-1"])
    assert read(r1, "1:2,2:2,3:1", "COUNT 1") == ("1:2,2:2,3:1", [])


@pytest.mark.parametrize("start", ["0", "-"])
def test_nothing_was_had_yet(start: str) -> None:
    r1 = Node(1)
    assert read(r1, start) == ("0", [])
    r1.run("XADD x 1-1 f v")
    assert read(r1, start) == ("1:1", ["1-1"])


def test_dollar_is_now() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v")
    cursor, ids = read(r1, "$")
    assert (cursor, ids) == ("1:1", [])
    r1.run("XADD x 2-1 f v")
    assert read(r1, cursor)[1] == ["2-1"]


@pytest.mark.parametrize("count", ["0", "-1", "3", "99"])
def test_a_count_that_is_no_limit(count: str) -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    assert read(r1, "0", f"COUNT {count}") == ("1:3", ["1-1", "2-1", "3-1"])


def test_a_missing_key_has_nothing_and_a_cursor_for_it_is_good_for_what_comes() -> None:
    r1 = Node(1)
    r1.run("XADD y 1-1 f v")
    cursor, ids = read(r1, "0")
    assert (cursor, ids) == ("1:1", [])
    r1.run("XADD x 1-1 f v")
    assert read(r1, cursor)[1] == ["1-1"]


def test_a_key_that_was_deleted_and_made_again_is_read_from_its_new_beginning() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 50-1 f v")
    cursor, _ = read(r1, "0")
    r1.run("DEL x", "XADD x 1-1 f v")
    sync(r1, r2)
    assert read(r1, cursor)[1] == read(r2, cursor)[1] == ["1-1"]


def test_renamed_entries_are_new_under_their_new_name() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v")
    cursor, _ = read(r1, "0")
    r1.run("RENAME x y")
    assert read(r1, cursor, key="y")[1] == ["1-1", "2-1"]


# --- Other regions -----------------------------------------------------------------------------


def test_a_region_behind_the_cursor_returns_nothing_and_skips_nothing() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v")
    cursor, _ = read(r1, "0")
    r2.run("XADD x 1-2 f v")
    cursor, ids = read(r2, cursor)
    assert (cursor, ids) == ("1:2,2:1", ["1-2"])
    assert read(r2, cursor) == (cursor, [])
    r1.run("XADD x 3-1 f v")
    sync(r1, r2)
    assert read(r2, cursor) == ("1:3,2:1", ["3-1"])


def test_the_cursor_never_goes_back() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v")
    assert read(r1, "1:99,7:5", "COUNT 1") == ("1:99,7:5", [])


def test_an_expired_key_that_persist_brings_back_was_not_read() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "PEXPIREAT x 2000")
    sync(r1, r2)
    r1.run("PERSIST x")
    r2.now = 3000
    cursor, ids = read(r2, "0")
    assert ids == []
    r2.pull(r1)
    assert read(r2, cursor)[1] == ["1-1"]


# --- Waiting -----------------------------------------------------------------------------------


def test_a_reader_is_woken_by_an_entry_of_its_own_region() -> None:
    clients = Clients(Node(1))
    assert clients.call("CRDT.XREAD x $ BLOCK 0") is WAITING
    assert clients.write("XADD y 1-1 f v") == []
    assert clients.write("XGROUP CREATE x g 0 MKSTREAM") == []
    assert clients.write("XADD x 1-1 f v") == [["1:3", ["1-1"]]]


def test_a_reader_is_woken_by_an_entry_of_another_region_below_what_it_had() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 110-1 f v")
    r2.run("XADD x 100-2 f v")
    clients = Clients(r1)
    assert clients.call("CRDT.XREAD x 1:1 COUNT 5 BLOCK 10") is WAITING
    r1.pull(r2)
    assert clients.served() == [["1:1,2:1", ["100-2"]]]


def test_a_reader_ahead_of_its_region_waits_for_what_is_new_to_it() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v")
    clients = Clients(r2)
    assert clients.call("CRDT.XREAD x 1:1 BLOCK 0") is WAITING
    r2.pull(r1)
    assert clients.served() == []
    r1.run("XADD x 2-1 f v")
    r2.pull(r1)
    assert clients.served() == [["1:2", ["2-1"]]]


def test_when_time_is_over_there_are_no_entries() -> None:
    r1 = Node(1)
    r1.run("XADD y 1-1 f v")
    clients = Clients(r1)
    assert clients.call("CRDT.XREAD x 2:5 BLOCK 10") is WAITING
    assert clients.wait(9) == []
    assert clients.wait(1) == [["1:1,2:5", []]]


def test_with_something_to_read_nobody_waits() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v")
    assert Clients(r1).call("CRDT.XREAD x 0 BLOCK 0") == ["1:1", ["1-1"]]


def test_in_a_transaction_nobody_waits() -> None:
    clients = Clients(Node(1))
    for line in ("MULTI", "CRDT.XREAD x $ BLOCK 0", "XADD x 1-1 f v", "CRDT.XREAD x 0"):
        clients.call(line)
    assert clients.call("EXEC") == [["0", []], "1-1", ["1:1", ["1-1"]]]


def test_while_the_disk_refuses_no_dots_are_named() -> None:
    clients = Clients(Node(1))
    clients.call("XADD x 1-1 f v")
    assert clients.call("CRDT.XREAD x $ BLOCK 0") is WAITING
    clients.database.fault = "no space left"
    for line in ("CRDT.XREAD x 0", "CRDT.TOKEN"):
        reply = clients.database.call(clients.writer, Millis(1), line.encode().split())
        assert of_type(CommandError, reply).text == "MISCONF no space left"
    r2 = Node(2)
    r2.run("XADD x 1-2 f v")
    clients.node.pull(r2)
    (woken,) = clients.served()
    assert of_type(CommandError, woken).text == "MISCONF no space left"


# --- Bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "problem"),
    [
        ("''", "'' is no region:number"),
        ("5", "'5' is no region:number"),
        ("1-1", "'1-1' is no region:number"),
        ("1:", "'1:' is no region:number"),
        (":1", "':1' is no region:number"),
        ("1:2,", "'' is no region:number"),
        ("1:2,,2:3", "'' is no region:number"),
        ("1:2;2:3", "'1:2;2:3' is no region:number"),
        ("1:+2", "'1:+2' is no region:number"),
        ("1:-2", "'1:-2' is no region:number"),
        ("1:02", "'1:02' is no region:number"),
        ("' 1:2'", "' 1:2' is no region:number"),
        ("1:2:3", "'1:2:3' is no region:number"),
        ("1:9223372036854775808", "with a number below 2^63"),
        ("0:1", "regions are numbered from 1 to 1023"),
        ("1024:1", "regions are numbered from 1 to 1023"),
        ("99999999999999999999:1", "is no region:number"),
        ("1:2,2:3,1:4", "region 1 stands in it twice"),
        ("1:0,1:4", "region 1 stands in it twice"),
        (",".join(["1:2"] * 20000), "longer than 75702 bytes"),
        ("x" * 100, f"'{'x' * 32}' is no region:number"),
    ],
)
def test_a_cursor_that_is_none(cursor: str, problem: str) -> None:
    reply = Node(1)(f"CRDT.XREAD x {cursor}")
    assert str(reply).startswith("ERR Invalid cursor: ")
    assert problem in str(reply)


def test_the_longest_cursor_is_one() -> None:
    cursor = ",".join(f"{region}:{(1 << 63) - 1}" for region in range(1, 1024))
    assert read(Node(1), cursor) == (cursor, [])


def test_regions_may_stand_in_any_order_and_with_nothing() -> None:
    assert read(Node(1), "7:2,3:0,2:9") == ("2:9,7:2", [])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("COUNT", "ERR syntax error"),
        ("COUNT 1 BLOCK", "ERR syntax error"),
        ("STREAMS x", "ERR syntax error"),
        ("COUNT x", "ERR value is not an integer or out of range"),
        ("BLOCK x", "ERR timeout is not an integer or out of range"),
        ("BLOCK -1", "ERR timeout is negative"),
        ("BLOCK 9223372036854775807", "ERR timeout is out of range"),
    ],
)
def test_an_option_that_is_wrong(options: str, error: str) -> None:
    assert Node(1)(f"CRDT.XREAD x 0 {options}") == error


# --- Never skipped, never twice ----------------------------------------------------------------

AT = st.integers(0, 2)
READERS = 2


class Cursors(RuleBasedStateMachine):
    """Three regions write, remove and hear of each other; readers go from one to the other."""

    @initialize(mode=st.sampled_from(list(IdMode)))
    def start(self, mode: IdMode) -> None:
        self.nodes = [Node(region, mode) for region in (1, 2, 3)]
        self.cursors = ["0"] * READERS
        self.had: list[set[tuple[int, int]]] = [set() for _ in range(READERS)]

    @rule(at=AT, ms=st.integers(1, 30) | st.none())
    def xadd(self, at: int, ms: int | None) -> None:
        self.nodes[at].now += 1
        self.nodes[at].run(f"XADD x {ms or '*'} f v")

    @rule(at=AT, data=st.data())
    def xdel(self, at: int, data: st.DataObject) -> None:
        ids = list_of(str, self.nodes[at]("XRANGE x - +"))
        if ids:
            self.nodes[at].run(f"XDEL x {data.draw(st.sampled_from(ids))}")

    @rule(at=AT, line=st.sampled_from(["DEL x", "XTRIM x MAXLEN 1", "RENAME y x", "RENAME x y"]))
    def change(self, at: int, line: str) -> None:
        self.nodes[at].run(line)

    @rule(to=AT, source=AT)
    def pull(self, to: int, source: int) -> None:
        if to != source:
            self.nodes[to].pull(self.nodes[source])

    @rule(at=AT)
    def restart(self, at: int) -> None:
        self.nodes[at].restart()

    @rule(at=AT, reader=st.integers(0, READERS - 1), count=st.integers(1, 3))
    def read(self, at: int, reader: int, count: int) -> None:
        before = components(self.cursors[reader])
        self.cursors[reader], ids = read(self.nodes[at], self.cursors[reader], f"COUNT {count}")
        after = components(self.cursors[reader])
        assert all(after.get(region, 0) >= n for region, n in before.items())
        assert len(ids) <= count
        # What the cursor stands for now and did not before, and is here, was returned.
        new = {
            dot: entry_id
            for dot, entry_id in live(self.nodes[at]).items()
            if before.get(dot[0], 0) < dot[1] <= after.get(dot[0], 0)
        }
        assert sorted(new.values()) == sorted(ids)
        assert not self.had[reader] & new.keys()
        self.had[reader] |= new.keys()

    def teardown(self) -> None:
        if not getattr(self, "nodes", []):
            return
        sync(*self.nodes)
        for reader in range(READERS):
            at, length = 0, -1
            while length < len(self.had[reader]):
                length = len(self.had[reader])
                at = (at + 1) % 3
                self.read(at, reader, 2)
            assert live(self.nodes[at]).keys() <= self.had[reader], "skipped"


def live(node: Node) -> dict[tuple[int, int], str]:
    """The IDs of the entries that are there, by dot."""
    stream = node.replica.stream(b"x")
    return {
        (lane.region, macro.n[index]): format_id(entry_id).decode()
        for lane in ([] if stream is None else stream.lanes.values())
        for entry_id, macro, index in lane.scan(ID_MIN, ID_MAX)
    }


def components(cursor: str) -> dict[int, int]:
    pairs = [part.split(":") for part in cursor.split(",") if part != "0"]
    return {int(region): int(n) for region, n in pairs}


TestCursors = pytest.mark.timeout(900)(Cursors.TestCase)
TestCursors.settings = settings(max_examples=examples(200), stateful_step_count=40, deadline=None)
