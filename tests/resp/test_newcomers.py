"""Clients that have not logged in: what they may take, and that others keep their places."""

import asyncio
import resource
import socket
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from structlog.testing import capture_logs

from crdtstream.resp.clients import newcomers
from crdtstream.resp.clients.connection import (
    UNTRUSTED_REPLY_BYTES_MAX,
    UNTRUSTED_UNREAD_BYTES_MAX,
)
from tests.patience import seconds, wait_until
from tests.resp.node import Node, RawClient, request, running, settings
from tests.resp.piped import Side

PING = request(b"PING")
PONG = b"+PONG\r\n"
LOGIN = request(b"AUTH", b"secret")
NO_AUTH = b"-NOAUTH Authentication required.\r\n"
SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"


@contextmanager
def guarded(**limits: int) -> Iterator[Node]:
    """A node that asks for a password."""
    with running(settings("secret", **limits)) as node:
        yield node


def counted(node: Node) -> int:
    return node.call(lambda: node.server.newcomers.cut_off)


# --- Time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"*2\r\n$4\r\nAU", PING], ids=["nothing", "half", "command"])
def test_a_client_that_does_not_log_in_is_ended(said: bytes) -> None:
    with guarded(login_ms_max=100) as node, node.client() as client:
        client.send(said)
        # It may have been ended before its command came.
        assert client.read(len(NO_AUTH) + 1) in (b"", NO_AUTH)
        assert counted(node) == 1


def test_bytes_and_wrong_logins_buy_no_time() -> None:
    with guarded(login_ms_max=200) as node, node.client() as slow, node.client() as guesser:
        slow.send(b"*2\r\n$4\r\nAUTH\r\n$16000\r\n")
        with suppress(ConnectionError):
            while counted(node) < 2:
                slow.send(b"x")
                guesser.send(request(b"AUTH", b"wrong"))
                time.sleep(0.01)
        slow.expect_closed()


def test_a_client_with_a_login_stays() -> None:
    with guarded(login_ms_max=100) as node, node.client() as client, node.client() as other:
        client.ask(LOGIN, b"+OK\r\n")
        # The other one came later: its end shows that the time of the first has passed.
        other.expect_closed()
        client.ask(PING, PONG)
        assert counted(node) == 1


def test_after_reset_a_client_has_to_log_in_again_in_time() -> None:
    with guarded(login_ms_max=100) as node, node.client() as client:
        client.ask(LOGIN, b"+OK\r\n")
        assert node.call(lambda: node.server.newcomers.count) == 0
        client.ask(request(b"RESET"), b"+RESET\r\n")
        assert node.call(lambda: node.server.newcomers.count) == 1
        client.expect_closed()
        assert counted(node) == 1


@pytest.mark.parametrize(
    "change",
    [(b"CONFIG", b"SET", b"requirepass", b""), (b"ACL", b"SETUSER", b"default", b"nopass")],
)
def test_a_client_that_need_not_log_in_any_more_stays(change: tuple[bytes, ...]) -> None:
    with guarded(login_ms_max=1_000) as node, node.client() as client, node.client() as operator:
        client.ask(PING, NO_AUTH)
        operator.ask(LOGIN, b"+OK\r\n")
        operator.ask(request(*change), b"+OK\r\n")
        # Its timer shows that the time has passed.
        wait_until(lambda: node.call(lambda: node.server.newcomers._timer) is None)
        client.ask(PING, PONG)
        assert counted(node) == 0


def test_without_a_password_nobody_has_to_hurry() -> None:
    with running(settings(login_ms_max=1)) as node, node.client() as client:
        client.ask(request(b"RESET"), b"+RESET\r\n")
        wait_until(lambda: node.call(lambda: node.server.newcomers.count) == 0)
        client.ask(PING, PONG)
        assert counted(node) == 0


def test_no_bound_on_the_time_sets_no_timer() -> None:
    with guarded(login_ms_max=0) as node, node.client() as client:
        client.ask(PING, NO_AUTH)
        assert node.call(lambda: node.server.newcomers._timer) is None


# --- Places -------------------------------------------------------------------------------------


def test_the_one_that_has_waited_longest_makes_room() -> None:
    with guarded(newcomers_max=3) as node, ExitStack() as open_ones:
        strangers = [open_ones.enter_context(node.client()) for _ in range(3)]
        for stranger in strangers:
            stranger.ask(PING, NO_AUTH)
        late = open_ones.enter_context(node.client())
        late.ask(PING, NO_AUTH)
        strangers[0].expect_closed()
        for stranger in strangers[1:]:
            stranger.ask(PING, NO_AUTH)
        assert counted(node) == 1


def test_strangers_take_no_places_of_clients_with_a_login() -> None:
    with guarded(newcomers_max=2, clients_max=8) as node, ExitStack() as open_ones:
        members = []
        for _ in range(4):
            members.append(open_ones.enter_context(node.client()))
            members[-1].ask(LOGIN, b"+OK\r\n")
        for _ in range(50):
            open_ones.enter_context(node.client()).send(PING)
        for member in members:
            member.ask(PING, PONG)
        # Another one still finds a place.
        open_ones.enter_context(node.client()).ask(LOGIN, b"+OK\r\n")
        assert node.call(lambda: node.server.traffic.rejected) == 0


def test_an_address_has_few_places_and_gets_them_again() -> None:
    refused = b"-ERR max number of clients reached for this address\r\n"
    with running(settings(clients_per_address_max=2)) as node, ExitStack() as open_ones:
        clients = [open_ones.enter_context(node.client()) for _ in range(2)]
        for client in clients:
            client.ask(PING, PONG)
        for _ in range(3):
            with node.client() as late:
                late.expect(refused)
                late.expect_closed()
        # Another address of this machine.
        other = socket.create_connection(
            ("127.0.0.1", node.port), timeout=seconds(), source_address=("127.0.0.2", 0)
        )
        with other:
            other.sendall(PING)
            assert other.recv(len(PONG)) == PONG
        clients[0].socket.close()
        wait_until(lambda: node.call(lambda: len(node.server.connections)) == 1)
        open_ones.enter_context(node.client()).ask(PING, PONG)
        assert node.call(lambda: node.server.traffic.rejected) == 3


def test_half_of_few_places_are_for_clients_with_a_login() -> None:
    with guarded(clients_max=4) as node, ExitStack() as open_ones:
        strangers = [open_ones.enter_context(node.client()) for _ in range(3)]
        strangers[0].expect_closed()
        strangers[2].ask(LOGIN, b"+OK\r\n")


def test_many_clients_that_log_in_at_once_are_all_served() -> None:
    with guarded(newcomers_max=20) as node, ExitStack() as open_ones:
        for _ in range(100):
            client = open_ones.enter_context(node.client())
            client.ask(LOGIN, b"+OK\r\n")
        assert counted(node) == 0
        assert node.call(lambda: len(node.server.connections)) == 100


def test_reset_takes_a_place_of_those_without_a_login() -> None:
    with guarded(newcomers_max=1) as node, ExitStack() as open_ones:
        # One after the other, as there is one place for both before the login.
        member = open_ones.enter_context(node.client())
        member.ask(LOGIN, b"+OK\r\n")
        stranger = open_ones.enter_context(node.client())
        stranger.ask(PING, NO_AUTH)
        member.ask(request(b"RESET"), b"+RESET\r\n")
        stranger.expect_closed()
        member.ask(PING, NO_AUTH)
        assert node.call(lambda: node.server.newcomers.count) == 1


def test_strangers_have_no_client_with_a_login_evicted() -> None:
    """As many strangers are ended as exceed the bound, and the log has one line about them."""
    with guarded() as node, ExitStack() as open_ones:
        operator, listener = (open_ones.enter_context(node.client()) for _ in range(2))
        operator.ask(LOGIN, b"+OK\r\n")
        operator.ask(request(b"CONFIG", b"SET", b"maxmemory-clients", b"131072"), b"+OK\r\n")
        listener.ask(LOGIN, b"+OK\r\n")
        # It takes more than others do, so it would be the first one to be evicted.
        listener.ask(request(b"SUBSCRIBE", b"c"), SUBSCRIBED)
        with capture_logs() as logs:
            strangers = [open_ones.enter_context(node.client()) for _ in range(50)]
            wait_until(lambda: node.call(lambda: len(node.server.connections)) == 52)
            operator.ask(PING, PONG)
            wait_until(lambda: node.call(lambda: len(node.server.connections)) < 52)
        # Room for 16 clients of 8 KiB, except for what the listener takes besides.
        assert node.call(lambda: len(node.server.connections)) == 15
        assert [one["event"] for one in logs] == ["client cut off"]
        assert node.call(lambda: node.server.traffic.evicted) == counted(node) == 37
        strangers[-1].ask(LOGIN, b"+OK\r\n")
        listener.ask(PING, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n")


# --- Bytes --------------------------------------------------------------------------------------


def test_a_client_that_leaves_its_refusals_unread_is_cut_off() -> None:
    """As in Redis: else each connection could make the node keep a whole output buffer."""
    with guarded(login_ms_max=0) as node, node.client() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        worst = 0
        with suppress(ConnectionError, TimeoutError):
            for _ in range(100_000):
                client.send(PING * 100)
                held = node.call(lambda: [c.unsent_bytes for c in node.server.connections.values()])
                worst = max(worst, *held, 0)
        assert node.call(lambda: node.server.traffic.cut_off_unread) == 1
        assert worst <= 2 * UNTRUSTED_UNREAD_BYTES_MAX


async def test_requests_before_the_login_are_not_kept_parsed() -> None:
    """A request of two bytes takes a hundred once it is parsed."""
    side = Side(password="secret")
    said = b"x\n" * 100_000
    tracemalloc.start()
    try:
        side.send(0, said)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert side.connections[0].held_bytes
    assert taken < 2 * len(said)


async def test_a_turn_before_the_login_has_few_replies() -> None:
    """A client that reads is not cut off for what it could not read yet."""
    side = Side(password="secret")
    wire = side.wires[0]
    side.send(0, PING * 2_000)
    most = 0
    for _ in range(40):
        before = len(wire.got)
        side._commit()
        most = max(most, len(wire.got) - before)
        await asyncio.sleep(0)
    assert wire.got == NO_AUTH * 2_000
    assert most <= 2 * UNTRUSTED_REPLY_BYTES_MAX


def test_a_pipeline_before_the_login_is_answered_as_long_as_it_is_read() -> None:
    with guarded() as node, node.client() as client:
        client.send(PING * 10_000)
        client.expect(NO_AUTH * 10_000)
        client.ask(LOGIN + PING * 2_000, b"+OK\r\n" + PONG * 2_000)


@pytest.mark.parametrize(
    "said",
    [
        b"*10\r\n" + b"$16384\r\n%b\r\n" % (b"x" * 16_384) * 9,
        b"x" * (60 << 10),
        b"*2\r\n$4\r\nAUTH\r\n$16384\r\n" + b"x" * 16_000,
        b"x\n" * 100_000,
    ],
    ids=["arguments", "line", "password", "commands"],
)
def test_a_stranger_takes_at_most_one_mebibyte(said: bytes) -> None:
    """Measured as memory of this process, with 100 of them; the clients' own side is in it."""
    count = 100
    with guarded() as node, ExitStack() as open_ones:
        node.client().ask(LOGIN, b"+OK\r\n")
        before = resident()
        clients = [open_ones.enter_context(node.client()) for _ in range(count)]
        for client in clients:
            client.send(said)
        wait_until(lambda: node.call(lambda: has_read(node, len(said))))
        assert (resident() - before) / count < 1 << 20


def has_read(node: Node, size: int) -> bool:
    """True if each client was read to the end, or has to fetch replies first, or was cut off."""
    return all(
        one.bytes_in >= size or not one._reading
        for one in node.server.connections.values()
        if not one.session.authenticated
    )


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_the_log_has_few_lines_about_many_strangers(capsys: pytest.CaptureFixture[str]) -> None:
    with guarded(newcomers_max=1) as node, ExitStack() as open_ones:
        clients: list[RawClient] = [open_ones.enter_context(node.client()) for _ in range(50)]
        clients[-1].ask(PING, NO_AUTH)
        assert counted(node) == 49
    told = capsys.readouterr()
    assert (told.out + told.err).count("client cut off") == 1
    assert newcomers.LOG_SECONDS.value >= 1
