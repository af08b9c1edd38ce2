"""MAXCOUNT and MAXSIZE: bounds of one reply over all the streams that it names."""

from typing import Any

import pytest

from crdtstream.commands.streams.budget import STREAM_FRAMING_BYTES
from crdtstream.database.database import WAITING
from tests.harness.regions import Node
from tests.harness.waiting_clients import Clients

# An entry of these streams: *2 $3 1-0 *2 $1 f $3 vvv, each with its line ends.
ENTRY_BYTES = len(b"*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$3\r\nvvv\r\n")
STREAM_BYTES = STREAM_FRAMING_BYTES + 1


def filled(entries: int = 3) -> Clients:
    """Streams a, b and c, each with entries 1, 2 … and a group g."""
    clients = Clients(Node(1).replica)
    for key in "abc":
        for ms in range(1, entries + 1):
            clients(f"XADD {key} {ms} f vvv")
        clients(f"XGROUP CREATE {key} g 0 MKSTREAM")
    clients.settle()
    return clients


def shape(reply: Any) -> dict[str, list[str]]:
    """IDs by key."""
    return {key: [entry[0] for entry in entries] for key, entries in reply}


def pending(clients: Clients) -> list[int]:
    return [clients(f"XPENDING {key} g")[0] for key in "abc"]


READS = ["XREAD {} STREAMS a b c 0 0 0", "XREADGROUP GROUP g x {} STREAMS a b c > > >"]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        ("MAXCOUNT 9", [3, 3, 3]),
        ("MAXCOUNT 7", [3, 3, 1]),
        ("MAXCOUNT 6", [3, 3]),
        ("MAXCOUNT 1", [1]),
        ("COUNT 2 MAXCOUNT 3", [2, 1]),
        ("COUNT 2 MAXCOUNT 2", [2]),
        ("COUNT 0 MAXCOUNT 4", [3, 1]),
        ("MAXSIZE 1", [1]),
        (f"MAXSIZE {STREAM_BYTES + 2 * ENTRY_BYTES - 1}", [1]),
        (f"MAXSIZE {STREAM_BYTES + 2 * ENTRY_BYTES}", [2]),
        (f"MAXSIZE {2 * STREAM_BYTES + 4 * ENTRY_BYTES - 1}", [3]),
        (f"MAXSIZE {2 * STREAM_BYTES + 4 * ENTRY_BYTES}", [3, 1]),
        (f"COUNT 1 MAXSIZE {2 * STREAM_BYTES + 2 * ENTRY_BYTES}", [1, 1]),
        ("MAXSIZE 9223372036854775807", [3, 3, 3]),
        ("MAXCOUNT 5 MAXSIZE 1", [1]),
    ],
)
def test_a_reply_ends_where_a_bound_says(read: str, options: str, lengths: list[int]) -> None:
    clients = filled()
    reply = shape(clients(read.format(options)))
    assert [len(ids) for ids in reply.values()] == lengths
    assert list(reply) == list("abc")[: len(lengths)]
    assert all(ids == ["1-0", "2-0", "3-0"][: len(ids)] for ids in reply.values())


def test_entries_beyond_a_limit_are_not_delivered() -> None:
    clients = filled()
    clients("XREADGROUP GROUP g x MAXCOUNT 4 STREAMS a b c > > >")
    assert pending(clients) == [3, 1, 0]
    rest = clients("XREADGROUP GROUP g x MAXSIZE 9999 STREAMS a b c > > >")
    assert shape(rest) == {"b": ["2-0", "3-0"], "c": ["1-0", "2-0", "3-0"]}


def test_streams_that_give_nothing_take_no_room() -> None:
    clients = filled(3)
    keys = [f"quiet{n}" for n in range(9)]
    for key in keys:
        clients(f"XADD {key} 1 f v")
    size = STREAM_BYTES + 3 * ENTRY_BYTES
    reply = shape(clients(f"XREAD MAXSIZE {size} STREAMS {' '.join(keys)} a {'9 ' * 9}0"))
    assert reply == {"a": ["1-0", "2-0", "3-0"]}


def test_an_entry_too_large_comes_alone() -> None:
    clients = filled(0)
    clients(f"XADD a 1 f {'x' * 1000}")
    clients("XADD b 1 f v")
    assert shape(clients("XREAD MAXSIZE 10 STREAMS a b 0 0")) == {"a": ["1-0"]}
    # Behind another it waits for its turn, and nothing overtakes it.
    assert shape(clients("XREAD MAXSIZE 100 STREAMS b a b 0 0 0")) == {"b": ["1-0"]}


def test_claimed_entries_count_too() -> None:
    clients = filled()
    clients("XREADGROUP GROUP g y COUNT 2 STREAMS a b > >")
    reply = shape(clients("XREADGROUP GROUP g x CLAIM 0 MAXCOUNT 4 STREAMS a b > >"))
    assert reply == {"a": ["1-0", "2-0", "3-0"], "b": ["1-0"]}
    assert clients("XPENDING b g - + 9 y")[0][0] == "2-0"
    reply = shape(clients("XREADGROUP GROUP g x CLAIM 0 MAXSIZE 1 STREAMS b >"))
    assert reply == {"b": ["2-0"]}


def test_history_is_bounded_and_never_looks_empty() -> None:
    clients = filled()
    clients("XREADGROUP GROUP g x STREAMS a b c > > >")
    clients("XDEL b 1")
    line = "XREADGROUP GROUP g x {} STREAMS a b c 0 0 0"
    assert shape(clients(line.format("MAXCOUNT 3"))) == {"a": ["1-0", "2-0", "3-0"]}
    size = STREAM_BYTES + 3 * ENTRY_BYTES
    assert shape(clients(line.format(f"MAXSIZE {size}"))) == {"a": ["1-0", "2-0", "3-0"]}
    reply = clients(line.format("MAXCOUNT 4"))
    assert reply[1] == ["b", [["1-0", None]]]
    # What was not shown again was not counted again: a three times, b's 2-0 never.
    assert [row[3] for row in clients("XPENDING a g - + 9")] == [4, 4, 4]
    assert [row[3] for row in clients("XPENDING b g - + 9")] == [1, 1, 1]


def test_history_with_nothing_pending_is_shown_as_empty() -> None:
    clients = filled()
    line = "XREADGROUP GROUP g x MAXCOUNT 2 STREAMS a b 0 0"
    assert clients(line) == [["a", []], ["b", []]]


@pytest.mark.parametrize("command", ["XREAD", "XREADGROUP GROUP g x"])
def test_a_reader_that_waited_is_bounded_too(command: str) -> None:
    clients = filled(0)
    ids = "$ $" if command == "XREAD" else "> >"
    assert clients(f"{command} BLOCK 0 MAXCOUNT 3 STREAMS a b {ids}") is WAITING
    clients("MULTI", "B")
    for key in "ab":
        for ms in (1, 2):
            clients(f"XADD {key} {ms} f v", "B")
    clients("EXEC", "B")
    assert shape(clients.settle()["A"]) == {"a": ["1-0", "2-0"], "b": ["1-0"]}


def test_the_last_entry_is_one_of_them() -> None:
    clients = filled()
    assert shape(clients("XREAD MAXCOUNT 2 STREAMS a b c + + +")) == {"a": ["3-0"], "b": ["3-0"]}
