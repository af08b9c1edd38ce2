"""CRDT.TOKEN and CRDT.WAITFOR: what was written or seen in one region, read in another."""

import pytest

from crdtstream.commands.reply import Null
from crdtstream.core.uid import DatabaseUid
from crdtstream.database.database import WAITING
from tests.harness.clients import Clients
from tests.harness.regions import Node, sync
from tests.harness.replies import of_type


def token_of(node: Node) -> str:
    token = node.run("CRDT.TOKEN")
    assert isinstance(token, str)
    return token


def test_a_token_stands_for_all_that_the_region_has() -> None:
    r1, r2 = Node(1), Node(2)
    assert token_of(r1) == "0"
    r1.run("XADD x 1-1 f v", "XADD y 1-1 f v")
    r2.run("XADD x 2-2 f v")
    assert token_of(r1) == "1:2"
    sync(r1, r2)
    assert token_of(r1) == token_of(r2) == "1:2,2:1"


def test_a_token_covers_what_was_acknowledged_in_the_same_tick() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g c STREAMS x >")
    r1("XACK x g 1-1")
    token = r1("CRDT.TOKEN")
    assert token == "1:4"
    clients = Clients(r2)
    assert clients.call(f"CRDT.WAITFOR {token} 0") is WAITING
    r2.pull(r1)
    assert clients.served() == [1]
    assert clients.call("XREADGROUP GROUP g c STREAMS x >") == {"x": ["2-1"]}


def test_a_token_of_nothing_new_issues_nothing() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v")
    assert token_of(r1) == token_of(r1) == "1:1"
    assert not r1.replica.has_open_record


def test_waitfor_does_not_wait_for_applied_effects() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v")
    clients = Clients(r1)
    for token in ("0", "1:0", "1:1"):
        assert clients.call(f"CRDT.WAITFOR {token} 0") == 1


def test_waitfor_answers_once_all_of_the_token_is_there() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 1-1 f v")
    r2.run("XADD x 1-2 f v")
    clients = Clients(r3)
    assert clients.call("CRDT.WAITFOR 1:1,2:1 0") is WAITING
    r3.pull(r1)
    assert clients.served() == []
    r3.pull(r2)
    assert clients.served() == [1]


def test_waitfor_gives_up_when_time_is_over() -> None:
    clients = Clients(Node(1))
    assert clients.call("CRDT.WAITFOR 2:1 10") is WAITING
    assert clients.wait(9) == []
    assert clients.wait(1) == [0]


def test_waitfor_waits_for_effects_that_the_region_itself_has_lost() -> None:
    """Rule 18: its own component counts like any other."""
    clients = Clients(Node(1))
    assert clients.call("CRDT.WAITFOR 1:2 0") is WAITING
    assert clients.write("XADD x 1-1 f v") == []
    assert clients.write("XADD x 2-1 f v") == [1]


def test_in_a_transaction_waitfor_does_not_wait() -> None:
    clients = Clients(Node(1))
    for line in ("MULTI", "CRDT.WAITFOR 1:1 0", "XADD x 1-1 f v", "CRDT.WAITFOR 1:1 0"):
        clients.call(line)
    assert clients.call("CRDT.TOKEN") == "QUEUED"
    assert clients.call("EXEC") == [0, "1-1", 1, "1:1"]


def test_a_cursor_can_be_waited_for() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v")
    cursor, _ = of_type(list, r1.run("CRDT.XREAD x 0"))
    clients = Clients(r2)
    assert clients.call(f"CRDT.WAITFOR {cursor} 0") is WAITING
    r2.pull(r1)
    assert clients.served() == [1]


def test_acknowledged_entries_are_not_handed_out_again_in_the_other_region() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g c STREAMS x >")
    r1("XACK x g 1-1 2-1")
    token = r1("CRDT.TOKEN")
    r2.pull(r1)
    assert r2(f"CRDT.WAITFOR {token} 0") == 1
    assert r2.run("XREADGROUP GROUP g c STREAMS x >") is Null.ARRAY


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("x 0", "ERR Invalid token: 'x' is no region:number with a number below 2^63"),
        ("$ 0", "ERR Invalid token: '$' is no region:number with a number below 2^63"),
        ("- 0", "ERR Invalid token: '-' is no region:number with a number below 2^63"),
        ("1:1,1:2 0", "ERR Invalid token: region 1 stands in it twice"),
        ("1024:1 0", "ERR Invalid token: regions are numbered from 1 to 1023"),
        ("1:1 x", "ERR timeout is not an integer or out of range"),
        ("1:1 -1", "ERR timeout is negative"),
        ("1:1 9223372036854775807", "ERR timeout is out of range"),
        ("1:1", "ERR wrong number of arguments for 'crdt.waitfor' command"),
    ],
)
def test_wrong_arguments_are_refused(arguments: str, error: str) -> None:
    assert Node(1)(f"CRDT.WAITFOR {arguments}") == error


# --- Of which database ----------------------------------------------------------------------------

ONE, OTHER = (DatabaseUid(bytes([n]) * 16) for n in (1, 2))


def test_a_token_says_of_which_database_it_is() -> None:
    r1 = Node(1)
    r1.replica.database_uid = ONE
    assert r1("CRDT.TOKEN") == f"{ONE.hex()}/0"
    r1.run("XADD x 1-1 f v")
    assert r1("CRDT.TOKEN") == f"{ONE.hex()}/1:1"
    assert r1(f"CRDT.WAITFOR {ONE.hex()}/1:1 0") == 1
    # As a person writes it.
    assert r1("CRDT.WAITFOR 1:1 0") == 1


@pytest.mark.parametrize("line", ["CRDT.WAITFOR {} 0", "CRDT.XREAD x {}"])
def test_tokens_and_cursors_of_another_database_are_refused(line: str) -> None:
    r1 = Node(1)
    r1.replica.database_uid = ONE
    r1.run("XADD x 1-1 f v")
    reply = str(r1(line.format(f"{OTHER.hex()}/1:1")))
    assert reply.endswith(
        f"it is of database {OTHER.hex()}, this is database {ONE.hex()}: "
        "begin from the start here, or ask a region of that database"
    )
    assert reply.startswith("ERR Invalid ")


@pytest.mark.parametrize("text", ["/1:1", "x/1:1", f"{ONE.hex()[:-1]}/1:1", f"{'A' * 32}/1:1"])
def test_tokens_with_a_malformed_database_are_refused(text: str) -> None:
    r1 = Node(1)
    r1.replica.database_uid = ONE
    assert "is no identity of a database" in str(r1(f"CRDT.WAITFOR {text} 0"))


def test_a_cursor_says_of_which_database_it_is() -> None:
    r1 = Node(1)
    r1.replica.database_uid = ONE
    r1.run("XADD x 1-1 f v")
    cursor, entries = of_type(list, r1("CRDT.XREAD x 0"))
    assert (cursor, entries) == (f"{ONE.hex()}/1:1", ["1-1"])
    assert r1(f"CRDT.XREAD x {cursor}") == [cursor, []]
