"""Waiting clients: the order in which they are served, their deadlines, and the retries."""

import gc

import pytest

from crdtstream.commands.command import Command
from crdtstream.commands.reply import (
    OK,
    Blocked,
    Null,
    Reply,
    Status,
)
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import WAITING, Database
from tests.database.clients import Clients, flat, ids_of, text
from tests.harness.replies import rows_of

# `Clients` have a Database of their own, and compiled classes have no heirs.
pytestmark = pytest.mark.pure


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_a_blocked_reader_is_served_by_an_append(clients: Clients) -> None:
    assert clients.say("a", "XREAD BLOCK 0 STREAMS s $") is WAITING
    assert clients.database.waiting_count == 1
    clients.say("b", "XADD s * f hello")
    ((name, reply),) = clients.take_served()
    assert name == "a"
    assert b"hello" in flat(reply)
    assert clients.database.waiting_count == 0
    assert clients.database.awaited_key_count == 0


def test_a_blocked_reader_is_served_by_a_replicated_append(clients: Clients) -> None:
    peer = Clients(region=2)
    peer.say("p", "XADD s * f hello")
    (record,) = peer.replica.take_records(Millis(1000))
    assert record.batch is not None
    clients.say("a", "XREAD BLOCK 0 STREAMS s $")
    clients.replica.receive(decode_batch(record.batch), record.batch, Millis(1000))
    clients.settle()
    assert [name for name, _ in clients.take_served()] == ["a"]


def test_all_readers_are_served_in_the_order_in_which_they_came(clients: Clients) -> None:
    for name in "cab":
        clients.say(name, f"XREAD BLOCK 0 STREAMS {'t' if name == 'a' else 's'} $")
    clients.say("w", "MULTI")
    clients.say("w", "XADD s * f v")
    clients.say("w", "XADD t * f v")
    clients.say("w", "EXEC")
    assert [name for name, _ in clients.take_served()] == ["c", "a", "b"]


def test_one_entry_serves_the_group_reader_who_came_first(clients: Clients) -> None:
    clients.say("w", "XGROUP CREATE s g $ MKSTREAM")
    for name in ("second", "first"):
        clients.session(name)
    for name in ("first", "second", "third"):
        assert clients.say(name, f"XREADGROUP GROUP g {name} BLOCK 0 STREAMS s >") is WAITING
    clients.say("w", "XADD s * f v")
    assert [name for name, _ in clients.take_served()] == ["first"]
    assert clients.database.waiting_count == 2
    clients.say("w", "XADD s * f v")
    assert [name for name, _ in clients.take_served()] == ["second"]


def test_destroying_the_group_wakes_with_an_error(clients: Clients) -> None:
    clients.say("w", "XGROUP CREATE s g $ MKSTREAM")
    clients.say("a", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    clients.say("w", "XGROUP DESTROY s g")
    ((name, reply),) = clients.take_served()
    assert name == "a"
    assert text(reply).startswith("NOGROUP")


def test_an_entry_gone_before_the_transaction_ends_wakes_nobody(clients: Clients) -> None:
    clients.say("a", "XREAD BLOCK 0 STREAMS s 0")
    clients.say("w", "MULTI")
    clients.say("w", "XADD s * f v")
    clients.say("w", "DEL s")
    clients.say("w", "EXEC")
    assert clients.take_served() == []
    assert clients.database.waiting_count == 1


def test_blocking_in_a_transaction_answers_at_once(clients: Clients) -> None:
    clients.say("a", "MULTI")
    clients.say("a", "XREAD BLOCK 0 STREAMS s $")
    assert clients.say("a", "EXEC") == [Null.ARRAY]
    assert clients.database.waiting_count == 0


def test_readers_who_claim_are_tried_once_and_woken_all_the_same(clients: Clients) -> None:
    clients.say("w", "XADD s * f v")
    clients.say("w", "XGROUP CREATE s g 0")
    clients.say("x", "XREADGROUP GROUP g x STREAMS s >")
    for n in range(50):
        clients.say(f"g{n}", f"XREADGROUP GROUP g c{n} BLOCK 0 CLAIM 1000 STREAMS s >")
    clients.database.tries = 0
    clients.say("w", "XADD s * f v")
    assert [name for name, _ in clients.take_served()] == ["g0"]
    assert clients.database.tries <= 3
    # Old enough: the first takes them, the others go on waiting.
    clients.expire(2000)
    assert [name for name, _ in clients.take_served()] == ["g1"]
    clients.expire(3000)
    assert [name for name, _ in clients.take_served()] == ["g2"]
    clients.say("w", "XGROUP DESTROY s g")
    assert len(clients.take_served()) == 47


def test_the_highest_id_asks_for_new_entries(clients: Clients) -> None:
    for key in "ab":
        clients.say("w", f"XGROUP CREATE {key} g $ MKSTREAM")
    highest = "18446744073709551615-18446744073709551615"
    clients.say("one", f"XREADGROUP GROUP g c1 BLOCK 0 STREAMS a {highest}")
    clients.say("two", "XREADGROUP GROUP g c2 BLOCK 0 STREAMS a >")
    clients.say("three", "XREADGROUP GROUP g c3 BLOCK 0 STREAMS a b > >")
    clients.say("w", "XADD b * f v")
    clients.say("w", "XADD a * f v")
    assert [name for name, _ in clients.take_served()] == ["three", "one"]


def test_time_is_over_once_and_in_order(clients: Clients) -> None:
    clients.say("late", "XREAD BLOCK 50 STREAMS s $")
    clients.say("soon", "XREAD BLOCK 20 STREAMS s $")
    clients.say("never", "XREAD BLOCK 0 STREAMS s $")
    assert clients.database.next_deadline() == 1020
    clients.expire(1019)
    assert clients.take_served() == []
    clients.expire(1100)
    assert clients.take_served() == [("soon", Null.ARRAY), ("late", Null.ARRAY)]
    assert clients.database.next_deadline() is None
    assert clients.database.waiting_count == 1


def test_a_refused_command_keeps_nothing_alive(clients: Clients) -> None:
    gone = []

    class Argument(bytes):
        def __del__(self) -> None:
            gone.append(bytes(self))

    argument = Argument(b"no-id")
    gc.disable()
    try:
        clients.say("w", "XADD s * f v")
        error = clients.database.call(
            clients.session("w"), Millis(1000), [b"XRANGE", b"s", argument, b"+"]
        )
        assert text(error).startswith("ERR Invalid stream ID")
        waiting = clients.say("a", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
        assert text(waiting).startswith("NOGROUP")
        del argument
        assert gone == [b"no-id"]
    finally:
        gc.enable()


def test_a_vain_awakening_does_not_start_the_time_again(clients: Clients) -> None:
    clients.say("a", "XREAD BLOCK 20 STREAMS s 5000-0")
    clients.now = 1010
    clients.say("w", "XADD s * f v")
    assert clients.database.next_deadline() == 1020


def test_deadlines_of_those_served_do_not_pile_up(clients: Clients) -> None:
    for _ in range(1000):
        clients.say("a", "XREAD BLOCK 1000000 STREAMS s $")
        clients.say("w", "XADD s * f v")
    assert len(clients.take_served()) == 1000
    assert len(clients.database.waiting.times) < 200
    assert clients.database.next_deadline() is None


def test_a_time_that_comes_back_wakes_its_waiter_once(clients: Clients) -> None:
    """CLAIM: when an entry becomes old enough moves to and fro with who owns it."""
    clients.say("w", "XADD s * f v")
    (entry_id,) = ids_of(clients.say("w", "XRANGE s - +"))
    clients.say("w", "XGROUP CREATE s g 0")
    clients.say("a", "XREADGROUP GROUP g a STREAMS s >")
    clients.say("b", "XREADGROUP GROUP g b COUNT 1 BLOCK 100000 CLAIM 1000 STREAMS s >")
    clients.say("w", f"XCLAIM s g a 0 {entry_id} IDLE 500")
    clients.say("w", f"XCLAIM s g a 0 {entry_id} IDLE 0")
    clients.expire(2000)
    assert [name for name, _ in clients.take_served()] == ["b"]
    (nack,) = rows_of(clients.say("w", "XPENDING s g - + 10"))
    assert nack[1] == b"b"
    assert nack[3] == 4  # read, claimed twice, claimed by waiting


def test_trying_in_vain_does_not_pile_up_times(clients: Clients) -> None:
    clients.say("a", "CRDT.XREAD s 1:99999999 BLOCK 10000000")
    for _ in range(1000):
        clients.say("w", "XADD s * f v")
    assert clients.database.waiting_count == 1
    assert len(clients.database.waiting.times) < 200


def test_an_entry_for_one_of_many_readers_tries_no_more_than_it_serves(clients: Clients) -> None:
    clients.say("w", "XGROUP CREATE s g $ MKSTREAM")
    clients.say("w", "XGROUP CREATE s h $")
    for n in range(50):
        clients.say(f"g{n}", f"XREADGROUP GROUP g c{n} BLOCK 0 STREAMS s >")
    clients.say("h0", "XREADGROUP GROUP h c BLOCK 0 STREAMS s >")
    for _ in range(500):
        clients.say("other", "XREAD BLOCK 0 STREAMS elsewhere $")
        clients.database.unblock(clients.session("other").id, with_error=False)
    clients.database.tries = 0
    clients.say("w", "XADD s * f v")
    assert [name for name, _ in clients.take_served()] == ["g0", "h0"]
    assert clients.database.tries <= 4
    # An error is for everybody.
    clients.say("w", "XGROUP DESTROY s g")
    assert len(clients.take_served()) == 49


@pytest.mark.parametrize(
    ("with_error", "expected"),
    [(False, Null.ARRAY), (True, "UNBLOCKED client unblocked via CLIENT UNBLOCK")],
)
def test_unblock_ends_the_waiting(clients: Clients, with_error: bool, expected: Reply) -> None:
    clients.say("a", "XREAD BLOCK 0 STREAMS s $")
    served = clients.database.unblock(clients.session("a").id, with_error=with_error)
    assert served is not None
    assert served[0] is clients.session("a")
    assert (text(served[1]) if with_error else served[1]) == expected
    assert clients.database.unblock(clients.session("a").id, with_error=with_error) is None


def test_a_client_that_left_is_not_served(clients: Clients) -> None:
    clients.say("a", "WATCH s")
    clients.say("a", "XREAD BLOCK 10 STREAMS s $")
    clients.database.forget(clients.session("a"))
    clients.say("w", "XADD s * f v")
    clients.expire(2000)
    assert clients.take_served() == []
    assert clients.database.watched_key_count == 0


def test_only_those_who_wait_for_the_key_are_run_again() -> None:
    runs: list[bytes] = []

    def block(_replica: Replica, _now: Millis, argv: list[bytes]) -> Reply | Blocked:
        def retry(_replica: Replica, _now: Millis) -> Reply | Blocked:
            runs.append(argv[1])
            return blocked

        blocked = Blocked((argv[1],), 0, retry)
        return blocked

    def touch(replica: Replica, _now: Millis, argv: list[bytes]) -> Reply:
        replica.touched.add(argv[1])
        return OK

    replica = Replica(RegionId(1))
    database = Database(
        replica, {b"block": Command(b"block", block, 2), b"touch": Command(b"touch", touch, 2)}
    )
    for number in range(100):
        database.call(database.open_session(), Millis(1), [b"block", b"%d" % number])
    database.call(database.open_session(), Millis(1), [b"touch", b"7"])
    assert database.settle(Millis(1)) == []
    assert runs == [b"7"]
    assert not replica.touched


def test_a_served_command_may_serve_the_next_and_it_ends() -> None:
    """A chain: each one served touches the key of the next; the last is never served."""

    def pass_on(_replica: Replica, _now: Millis, argv: list[bytes]) -> Reply | Blocked:
        own, following = argv[1], argv[2]

        def retry(replica: Replica, _now: Millis) -> Reply | Blocked:
            replica.touched.add(following)
            return blocked if own == b"deaf" else Status(own)

        blocked = Blocked((own,), 0, retry)
        return blocked

    def touch(replica: Replica, _now: Millis, argv: list[bytes]) -> Reply:
        replica.touched.add(argv[1])
        return OK

    replica = Replica(RegionId(1))
    rows = [Command(b"pass", pass_on, 3, frozenset({"write"})), Command(b"touch", touch, 2)]
    database = Database(replica, {row.name: row for row in rows})
    for own, following in (("a", "b"), ("b", "c"), ("c", "deaf"), ("deaf", "deaf")):
        database.call(
            database.open_session(), Millis(1), [b"pass", own.encode(), following.encode()]
        )
    database.call(database.open_session(), Millis(1), [b"touch", b"a"])
    replies = [reply for _, reply in database.settle(Millis(1))]
    assert replies == [Status(b"a"), Status(b"b"), Status(b"c")]
    assert database.waiting_count == 1


def test_blocked_writers_hear_of_a_refusing_disk(clients: Clients) -> None:
    clients.say("w", "XGROUP CREATE s g $ MKSTREAM")
    clients.say("a", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    clients.say("w", "XADD s * f v")
    assert len(clients.take_served()) == 1
    clients.say("a", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    clients.database.fault = "the disk is full"
    clients.replica.touched.add(b"s")
    clients.settle()
    ((_, reply),) = clients.take_served()
    assert text(reply) == "MISCONF the disk is full"
