"""Many clients on one replica: transactions, watches, waiting; no sockets, time by hand."""

import gc
from dataclasses import dataclass, field

import hiredis
import pytest

from crdtstream.commands.command import Command
from crdtstream.commands.reply import (
    OK,
    Blocked,
    CommandError,
    Encoded,
    Null,
    PerKey,
    Reply,
    Status,
)
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import QUEUED, WAITING, Database, Waiting
from crdtstream.database.session import Session, SessionCommand
from crdtstream.database.waiting import Waiter

# It has a Database of its own, and compiled classes have no heirs.
pytestmark = pytest.mark.pure


class CountingDatabase(Database):
    """Counts how often a blocked command is tried again."""

    tries = 0

    def try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        self.tries += 1
        return super().try_again(waiter, now)


@dataclass
class Clients:
    """A region with clients, each made when it first speaks.

    ``say`` calls and settles; what others were served meanwhile is in ``served``, by name.
    """

    region: int = 1
    now: int = 1000
    served: list[tuple[str, Reply]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replica = Replica(RegionId(self.region))
        self.database = CountingDatabase(self.replica)
        self.sessions: dict[str, Session] = {}

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            self.sessions[name] = self.database.open_session()
        return self.sessions[name]

    def say(self, name: str, line: str) -> Reply | Waiting:
        reply = self.database.call(self.session(name), Millis(self.now), line.encode().split())
        self.settle()
        return reply

    def settle(self) -> None:
        self.note(self.database.settle(Millis(self.now)))

    def expire(self, now: int) -> None:
        self.now = now
        self.note(self.database.expire(Millis(now)))

    def note(self, served: list[tuple[Session, Reply]]) -> None:
        names = {session.id: name for name, session in self.sessions.items()}
        self.served += [(names[session.id], reply) for session, reply in served]

    def take_served(self) -> list[tuple[str, Reply]]:
        served, self.served = self.served, []
        return served


@pytest.fixture
def clients() -> Clients:
    return Clients()


def ids_of(reply: Reply | Waiting) -> list[str]:
    assert isinstance(reply, Encoded)
    reader = hiredis.Reader()
    reader.feed(reply.data)
    return [entry_id.decode() for entry_id, _ in reader.gets()]


def text(reply: Reply | Waiting) -> str:
    assert isinstance(reply, CommandError), reply
    return reply.text


def flat(reply: Reply | Waiting) -> bytes:
    """All bytes of a reply, to look for an ID or a value in."""
    match reply:
        case Encoded(data):
            return data
        case PerKey(pairs):
            return b"".join(key + flat(value) for key, value in pairs)
        case list():
            return b"".join(map(flat, reply))
        case bytes():
            return reply
        case _:
            raise AssertionError(reply)


# --- Finding the command ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("FOO", "ERR unknown command 'FOO', with args beginning with: "),
        ("Foo a b c", "ERR unknown command 'Foo', with args beginning with: 'a' 'b' 'c' "),
        (
            "foo " + "a" * 200 + " b",
            "ERR unknown command 'foo', with args beginning with: '" + "a" * 128 + "' ",
        ),
        ("f" * 200, "ERR unknown command '" + "f" * 128 + "', with args beginning with: "),
        ("xadd|x", "ERR unknown command 'xadd|x', with args beginning with: "),
        ("xadd s", "ERR wrong number of arguments for 'xadd' command"),
        ("XLEN a b", "ERR wrong number of arguments for 'xlen' command"),
        (
            "EXEC a",
            (
                "EXECABORT Transaction discarded because of: "
                "wrong number of arguments for 'exec' command"
            ),
        ),
        ("EXEC", "ERR EXEC without MULTI"),
        ("DISCARD", "ERR DISCARD without MULTI"),
    ],
)
def test_what_redis_refuses_is_refused_in_its_words(
    clients: Clients, line: str, error: str
) -> None:
    assert text(clients.say("a", line)) == error


@pytest.mark.parametrize("name", ["xlen", "XLEN", "XLen", "xLEN"])
def test_command_names_have_no_case(clients: Clients, name: str) -> None:
    assert clients.say("a", f"{name} s") == 0


def test_subcommands_with_rows_of_their_own_are_found(clients: Clients) -> None:
    def answer(_session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        return argv[-1]

    clients.database.register(
        [SessionCommand(b"tool", answer, -2), SessionCommand(b"tool|sub", answer, 3)]
    )
    assert clients.say("a", "TOOL Sub x") == b"x"
    assert text(clients.say("a", "tool sub")) == (
        "ERR wrong number of arguments for 'tool|sub' command"
    )
    assert text(clients.say("a", "tool foo")) == "ERR unknown subcommand 'foo'. Try TOOL HELP."
    assert text(clients.say("a", "tool")) == "ERR wrong number of arguments for 'tool' command"
    assert text(clients.say("a", "tool|sub x y")).startswith("ERR unknown command 'tool|sub'")


def test_nothing_runs_before_authentication(clients: Clients) -> None:
    clients.session("a").authenticated = False
    assert text(clients.say("a", "XADD s * f v")) == "NOAUTH Authentication required."
    assert text(clients.say("a", "MULTI")) == "NOAUTH Authentication required."
    assert clients.replica.stream(b"s") is None


def test_only_writes_are_refused_while_the_disk_refuses(clients: Clients) -> None:
    clients.database.fault = "the disk is full"
    assert text(clients.say("a", "XADD s * f v")) == "MISCONF the disk is full"
    assert clients.say("a", "XLEN s") == 0
    clients.database.fault = None
    assert isinstance(clients.say("a", "XADD s * f v"), bytes)


# --- Transactions -------------------------------------------------------------------------------


def test_exec_runs_the_queue_and_answers_in_order(clients: Clients) -> None:
    assert clients.say("a", "MULTI") == OK
    assert clients.say("a", "XADD s * f v") == QUEUED
    assert clients.say("a", "XLEN s") == QUEUED
    assert clients.say("b", "XLEN s") == 0
    reply = clients.say("a", "EXEC")
    assert reply == [b"1000-1", 1]
    assert text(clients.say("a", "EXEC")) == "ERR EXEC without MULTI"


def test_a_transaction_is_one_batch(clients: Clients) -> None:
    clients.say("a", "MULTI")
    for line in ("XADD s * f v", "XGROUP CREATE s g 0", "XADD t * f v", "DEL s"):
        assert clients.say("a", line) == QUEUED
    clients.say("a", "EXEC")
    (record,) = clients.replica.take_records(Millis(clients.now))
    assert record.batch is not None
    assert decode_batch(record.batch).count == 4


def test_a_command_refused_when_queued_aborts_exec(clients: Clients) -> None:
    clients.say("a", "MULTI")
    clients.say("a", "XADD s * f v")
    clients.say("a", "XADD s")
    assert text(clients.say("a", "EXEC")) == (
        "EXECABORT Transaction discarded because of previous errors."
    )
    assert clients.say("a", "XLEN s") == 0


def test_a_command_that_fails_in_exec_stops_no_other(clients: Clients) -> None:
    clients.say("a", "MULTI")
    clients.say("a", "XADD s bad f v")
    clients.say("a", "XADD s * f v")
    reply = clients.say("a", "EXEC")
    assert isinstance(reply, list)
    assert text(reply[0]).startswith("ERR Invalid stream ID")
    assert reply[1] == b"1000-1"


def test_exec_with_arguments_discards(clients: Clients) -> None:
    clients.say("a", "MULTI")
    assert text(clients.say("a", "EXEC now")) == (
        "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"
    )
    assert text(clients.say("a", "EXEC")) == "ERR EXEC without MULTI"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("MULTI", "ERR MULTI calls can not be nested"),
        ("WATCH k", "ERR WATCH inside MULTI is not allowed"),
    ],
)
def test_nesting_is_refused_and_spoils_nothing(clients: Clients, line: str, error: str) -> None:
    clients.say("a", "MULTI")
    assert text(clients.say("a", line)) == error
    clients.say("a", "XLEN s")
    assert clients.say("a", "EXEC") == [0]


def test_discard_forgets_queue_and_watches(clients: Clients) -> None:
    clients.say("a", "WATCH s")
    clients.say("a", "MULTI")
    clients.say("a", "XADD s * f v")
    assert clients.say("a", "DISCARD") == OK
    clients.say("b", "XADD s * f v")
    clients.say("a", "MULTI")
    clients.say("a", "XLEN s")
    assert clients.say("a", "EXEC") == [1]


def test_writes_queued_before_the_disk_refused_abort(clients: Clients) -> None:
    clients.say("a", "MULTI")
    clients.say("a", "XADD s * f v")
    clients.database.fault = "the disk is full"
    assert text(clients.say("a", "EXEC")) == (
        "EXECABORT Transaction discarded because of: MISCONF the disk is full"
    )
    assert clients.say("a", "XLEN s") == 0


# --- Watching -----------------------------------------------------------------------------------


@pytest.mark.parametrize("writer", ["a", "b"])
def test_watch_trips_when_the_key_changes(clients: Clients, writer: str) -> None:
    clients.say("a", "WATCH s other")
    clients.say(writer, "XADD s * f v")
    clients.say("a", "MULTI")
    clients.say("a", "XADD t * f v")
    assert clients.say("a", "EXEC") is Null.ARRAY
    assert clients.say("a", "XLEN t") == 0
    clients.say("a", "MULTI")
    assert clients.say("a", "EXEC") == []


def test_watch_trips_on_a_replicated_change(clients: Clients) -> None:
    peer = Clients(region=2)
    peer.say("p", "XADD s * f v")
    (record,) = peer.replica.take_records(Millis(1000))
    assert record.batch is not None

    clients.say("a", "WATCH s")
    clients.replica.receive(decode_batch(record.batch), record.batch, Millis(1000))
    clients.settle()
    clients.say("a", "MULTI")
    clients.say("a", "XLEN s")
    assert clients.say("a", "EXEC") is Null.ARRAY


def test_watch_does_not_trip_on_other_keys_nor_on_earlier_changes(clients: Clients) -> None:
    clients.say("b", "XADD s * f v")
    clients.say("a", "WATCH s")
    clients.say("b", "XADD t * f v")
    clients.say("a", "MULTI")
    clients.say("a", "XLEN s")
    assert clients.say("a", "EXEC") == [1]


def test_unwatch_untrips(clients: Clients) -> None:
    clients.say("a", "WATCH s")
    clients.say("b", "XADD s * f v")
    assert clients.say("a", "UNWATCH") == OK
    clients.say("a", "MULTI")
    assert clients.say("a", "EXEC") == []
    assert clients.database.watched_key_count == 0


# --- Waiting ------------------------------------------------------------------------------------


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
    assert len(clients.database._serving.waiting._times) < 200
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
    pending = clients.say("w", "XPENDING s g - + 10")
    assert isinstance(pending, list)
    (nack,) = pending
    assert isinstance(nack, list)
    assert nack[1] == b"b"
    assert nack[3] == 4  # read, claimed twice, claimed by waiting


def test_trying_in_vain_does_not_pile_up_times(clients: Clients) -> None:
    clients.say("a", "CRDT.XREAD s 1:99999999 BLOCK 10000000")
    for _ in range(1000):
        clients.say("w", "XADD s * f v")
    assert clients.database.waiting_count == 1
    assert len(clients.database._serving.waiting._times) < 200


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


# --- WAIT's half of waiting ---------------------------------------------------------------------


def test_what_a_client_last_wrote_is_remembered(clients: Clients) -> None:
    clients.say("a", "XADD s * f v")
    clients.say("b", "XADD s * f v")
    clients.say("a", "XLEN s")
    assert clients.session("a").wrote_n == 1
    assert clients.session("b").wrote_n == 2


def test_a_watched_key_that_expires_is_a_change(clients: Clients) -> None:
    clients.say("w", "XADD s * f v")
    clients.say("w", "PEXPIRE s 10")
    clients.say("a", "WATCH s")
    clients.say("a", "MULTI")
    clients.say("a", "XLEN s")
    # No timer has run between.
    clients.now += 20
    assert clients.say("a", "EXEC") is Null.ARRAY


def test_a_pipeline_is_divided_into_batches_and_a_transaction_never(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.database.database.BATCH_BYTES_TARGET", 1000)
    for _ in range(30):
        clients.say("w", f"XADD s * f {'v' * 100}")
    clients.say("w", "MULTI")
    for _ in range(30):
        clients.say("w", f"XADD s * f {'v' * 100}")
    clients.say("w", "EXEC")
    records = clients.replica.take_records(Millis(1000))
    counts = [decode_batch(record.batch).count for record in records if record.batch]
    assert sum(counts) == 60
    assert len(counts) >= 4
    assert max(counts) >= 30


def test_a_transaction_too_large_changes_nothing(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.database.transactions.TRANSACTION_BYTES_MAX", 1000)
    clients.say("w", "MULTI")
    for _ in range(10):
        clients.say("w", f"XADD s * f {'v' * 100}")
    assert text(clients.say("w", "EXEC")).startswith("EXECABORT Transaction discarded because of")
    assert clients.say("w", "EXISTS s") == 0
    assert clients.session("w").queue is None


def test_an_entry_too_large_is_refused(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtstream.commands.streams.xadd.ENTRY_BYTES_MAX", 100)
    assert text(clients.say("w", f"XADD s * f {'v' * 100}")).startswith("ERR an entry may have")
    assert clients.say("w", "EXISTS s") == 0


def test_what_one_touches_who_is_served_nothing_is_a_change_to_who_watches_it() -> None:
    """Database's promise to every command; XREAD and XREADGROUP touch nothing in vain."""

    def block(_replica: Replica, _now: Millis, argv: list[bytes]) -> Reply | Blocked:
        def retry(replica: Replica, _now: Millis) -> Reply | Blocked:
            replica.touched.add(argv[2])
            return blocked

        blocked = Blocked((argv[1],), 0, retry)
        return blocked

    clients = Clients()
    clients.database.register([Command(b"block", block, 3, frozenset({"write"}))])
    clients.say("reader", "BLOCK s t")
    clients.say("a", "WATCH t")
    clients.say("b", "WATCH u")
    clients.say("w", "XADD s * f v")
    assert clients.take_served() == []
    for name, reply in (("a", Null.ARRAY), ("b", [])):
        clients.say(name, "MULTI")
        assert clients.say(name, "EXEC") == reply
