"""Many clients on one replica: transactions, watches, waiting; no sockets, time by hand."""

import pytest

from crdtstream.commands.command import Command
from crdtstream.commands.reply import (
    OK,
    Blocked,
    Null,
    Reply,
)
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import QUEUED
from crdtstream.database.session import Session, SessionCommand
from tests.database.clients import Clients, ids_of, text

# `Clients` have a Database of their own, and compiled classes have no heirs.
pytestmark = pytest.mark.pure


@pytest.fixture
def clients() -> Clients:
    return Clients()


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
def test_requests_that_redis_refuses_get_its_errors(
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
    clients.database.users.default.is_nopass = False
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


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("XDEL s 1000-1", "1001-1"),
        ("XTRIM s MAXLEN 1", "1001-1"),
        ("XADD s MAXLEN 1 * f v", "1002-1"),
        ("XREADGROUP GROUP g c STREAMS s >", "1000-1"),
    ],
)
def test_a_transaction_works_on_entries_that_were_there_before(
    clients: Clients, line: str, after: str
) -> None:
    clients.say("a", "XADD s * f v")
    clients.now = 1001
    clients.say("a", "XADD s * f v")
    clients.say("a", "XGROUP CREATE s g 0")
    clients.now = 1002
    for queued in ("MULTI", line, "XRANGE s - + COUNT 1"):
        clients.say("a", queued)
    reply = clients.say("a", "EXEC")
    assert isinstance(reply, list)
    assert ids_of(reply[1]) == [after]


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


def test_watch_does_not_trip_on_acknowledgements_here_or_elsewhere(clients: Clients) -> None:
    """Nor on the effects that tell other regions of them, which are issued later."""
    clients.say("b", "XADD s * f v")
    clients.say("b", "XGROUP CREATE s g 0")
    clients.say("b", "XREADGROUP GROUP g c STREAMS s >")
    clients.say("a", "WATCH s")
    clients.say("b", "XACK s g 1000-1")
    clients.replica.issue_frontiers()
    assert clients.replica.frontier_count == 1
    clients.settle()
    clients.say("a", "MULTI")
    assert clients.say("a", "EXEC") == []


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


# --- WAIT's half of waiting ---------------------------------------------------------------------


def test_the_last_write_of_a_client_is_remembered(clients: Clients) -> None:
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
    monkeypatch.setattr("crdtstream.database.database.BATCH_BYTES_TARGET.value", 1000)
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
    monkeypatch.setattr("crdtstream.database.transactions.TRANSACTION_BYTES_MAX.value", 1000)
    clients.say("w", "MULTI")
    for _ in range(10):
        clients.say("w", f"XADD s * f {'v' * 100}")
    assert text(clients.say("w", "EXEC")).startswith("EXECABORT Transaction discarded because of")
    assert clients.say("w", "EXISTS s") == 0
    assert clients.session("w").queue is None


def test_an_entry_too_large_is_refused(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtstream.commands.streams.xadd.ENTRY_BYTES_MAX.value", 100)
    assert text(clients.say("w", f"XADD s * f {'v' * 100}")).startswith("ERR an entry may have")
    assert clients.say("w", "EXISTS s") == 0


def test_a_key_touched_by_a_retry_without_a_reply_trips_its_watchers() -> None:
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
