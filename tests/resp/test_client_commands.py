"""CLIENT: whom KILL hits, what LIST shows, and what is refused."""

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import redis

from crdtstream.core.ids import Millis
from tests.resp.node import Node, RawClient, request, running, settings
from tests.resp.test_protocol import wait_until


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as client:
        client.ping()
        yield client


def identity(client: RawClient) -> int:
    client.send(request(b"CLIENT", b"ID"))
    line = b""
    while not line.endswith(b"\r\n"):
        line += client.read(1)
    return int(line[1:])


def address(client: RawClient) -> str:
    host, port = client.socket.getsockname()
    return f"{host}:{port}"


def kill(r: Any, *filters: object) -> int:
    killed = r.execute_command("CLIENT", "KILL", *filters)
    assert isinstance(killed, int)
    return killed


def test_all_filters_have_to_hold(node: Node, r: Any) -> None:
    with node.client() as a, node.client() as b:
        id_a, id_b = identity(a), identity(b)
        assert kill(r, "ID", id_a, "ADDR", address(b)) == 0
        assert kill(r, "ID", id_a, "TYPE", "pubsub") == 0
        assert kill(r, "ID", id_b, "ADDR", address(b), "TYPE", "normal", "USER", "default") == 1
        b.expect_closed()
        assert kill(r, "LADDR", f"127.0.0.1:{node.port}", "ID", id_a) == 1
        a.expect_closed()


def test_of_an_option_given_twice_the_later_counts(node: Node, r: Any) -> None:
    with node.client() as a, node.client() as b:
        id_a, id_b = identity(a), identity(b)
        assert kill(r, "ID", id_a, "ID", id_b) == 1
        b.expect_closed()
        assert identity(a) == id_a


def test_the_old_form_takes_an_address(node: Node, r: Any) -> None:
    with node.client() as a:
        identity(a)
        assert r.client_kill(address(a)) is True
        a.expect_closed()


@pytest.mark.parametrize(("talk", "answers"), [(b"SKIP", b"$1\r\n1\r\n"), (b"OFF", b"+OK\r\n")])
def test_reply_off_and_skip_silence_a_command_that_waited(
    client: RawClient, talk: bytes, answers: bytes
) -> None:
    then = request(b"PING", b"1") if talk == b"SKIP" else request(b"CLIENT", b"REPLY", b"ON")
    client.send(
        request(b"CLIENT", b"REPLY", talk)
        + request(b"XREAD", b"BLOCK", b"20", b"STREAMS", b"none", b"$")
        + then
        + request(b"PING", b"2")
    )
    client.expect(answers + b"$1\r\n2\r\n")


def test_subscribers_can_be_told_apart(node: Node, r: Any) -> None:
    with node.client() as subscriber, node.client() as other:
        id_other = identity(other)
        subscriber.send(request(b"SUBSCRIBE", b"news"))
        subscriber.read(1)
        assert kill(r, "TYPE", "PUBSUB") == 1
        assert identity(other) == id_other


def test_skipme_no_ends_the_caller_too_after_its_reply(node: Node, client: RawClient) -> None:
    client.ask(
        request(b"CLIENT", b"KILL", b"ID", b"%d" % identity(client), b"SKIPME", b"no"), b":1\r\n"
    )
    client.expect_closed()


def test_maxage_hits_those_who_are_here_long() -> None:
    with running() as node, node.client() as old, node.client() as young:
        id_old = identity(old)
        identity(young)
        minute = 60_000
        node.call(lambda: age(node, [id_old], 2 * minute))
        with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r:
            assert kill(r, "MAXAGE", 121) == 0
            assert kill(r, "MAXAGE", 120) == 1
        old.expect_closed()
        identity(young)


def age(node: Node, client_ids: Iterable[int], ms: int) -> None:
    """As if the clients had come, and been silent, so long ago."""
    for client_id in client_ids:
        connection = node.server.connections[client_id]
        connection.connected_ms = Millis(connection.connected_ms - ms)
        connection.active_ms = Millis(connection.active_ms - ms)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("KILL ID 0", "client-id should be greater than 0"),
        ("KILL ID x", "client-id should be greater than 0"),
        ("KILL MAXAGE x", "maxage is not an integer or out of range"),
        ("KILL MAXAGE 0", "maxage should be greater than 0"),
        ("KILL USER foo", "No such user 'foo'"),
        ("KILL TYPE foo", "Unknown client type 'foo'"),
        ("KILL SKIPME foo", "syntax error"),
        ("KILL ID 1 2", "syntax error"),
        ("KILL FOO bar", "syntax error"),
        ("PAUSE x", "timeout is not an integer or out of range"),
        ("PAUSE -1", "timeout is negative"),
        ("PAUSE 9223372036854775807", "timeout is out of range"),
        ("PAUSE 10 FOO", "CLIENT PAUSE mode must be WRITE or ALL"),
        (
            "PAUSE 10 WRITE ALL",
            "unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.",
        ),
        *[
            (
                f"TRACKING on{options}",
                (
                    "client-side caching is not supported by this server: TRACKING ON is accepted "
                    "with OPTIN only. Turn the client's cache off"
                ),
            )
            for options in ("", " BCAST", " OPTOUT", " OPTIN BCAST", " OPTIN REDIRECT 1")
        ],
        ("TRACKING on FOO", "syntax error"),
        (
            "CACHING yes",
            (
                "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN "
                "or OPTOUT mode enabled"
            ),
        ),
        (
            "UNBLOCK 1 ERROR FOO",
            "unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.",
        ),
    ],
)
def test_wrong_arguments_get_the_errors_of_redis(r: Any, line: str, error: str) -> None:
    with pytest.raises(redis.ResponseError) as caught:
        r.execute_command("CLIENT", *line.split())
    assert str(caught.value) == error


def test_a_waiting_client_without_a_connection_can_be_unblocked(
    node: Node, client: RawClient
) -> None:
    """The database may have clients that are not connected to this server."""
    session = node.call(node.database.open_session)
    argv = b"XREAD BLOCK 0 STREAMS nowhere $".split()
    node.call(lambda: node.database.call(session, node.engine.now(), argv))
    client.ask(request(b"CLIENT", b"UNBLOCK", b"%d" % session.id), b":1\r\n")
    client.ask(request(b"CLIENT", b"UNBLOCK", b"%d" % session.id), b":0\r\n")


def test_tracking_may_be_on_as_long_as_nothing_is_cached(client: RawClient) -> None:
    """Some clients ask for it as they connect, and cache only what their program wants cached."""
    client.ask(request(b"CLIENT", b"TRACKING", b"ON", b"OPTIN"), b"+OK\r\n")
    client.ask(
        request(b"CLIENT", b"TRACKINGINFO"),
        b"*6\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$5\r\noptin\r\n$8\r\nredirect\r\n:0\r\n"
        b"$8\r\nprefixes\r\n*0\r\n",
    )
    client.ask(request(b"CLIENT", b"GETREDIR"), b":0\r\n")
    client.ask(
        request(b"CLIENT", b"CACHING", b"YES"),
        b"-ERR client-side caching is not supported by this server: no invalidation would be sent. "
        b"Read without the cache\r\n",
    )
    client.ask(
        request(b"CLIENT", b"CACHING", b"NO"),
        b"-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n",
    )
    client.ask(request(b"CLIENT", b"CACHING", b"MAYBE"), b"-ERR syntax error\r\n")
    for end in (request(b"RESET"), request(b"CLIENT", b"TRACKING", b"OFF")):
        client.ask(request(b"CLIENT", b"TRACKING", b"ON", b"OPTIN", b"NOLOOP"), b"+OK\r\n")
        client.send(end)
        assert client.read_line() in (b"+RESET", b"+OK")
        client.ask(request(b"CLIENT", b"GETREDIR"), b":-1\r\n")


def test_trackinginfo_says_that_it_is_off(client: RawClient) -> None:
    client.ask(
        request(b"CLIENT", b"TRACKINGINFO"),
        b"*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n"
        b"$8\r\nprefixes\r\n*0\r\n",
    )
    client.send(request(b"HELLO", b"3") + request(b"CLIENT", b"TRACKINGINFO"))
    told = (
        b"%3\r\n$5\r\nflags\r\n~1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n"
    )
    data = b""
    while not data.endswith(told):
        data += client.read(1)


def test_flags_tell_what_a_client_asked_for_and_reset_takes_it_back(
    node: Node, r: Any, client: RawClient
) -> None:
    client_id = identity(client)

    def flags() -> str:
        (row,) = r.client_list(client_id=[client_id])
        return str(row["flags"])

    assert flags() == "N"
    client.ask(request(b"CLIENT", b"NO-EVICT", b"on"), b"+OK\r\n")
    client.ask(request(b"CLIENT", b"NO-TOUCH", b"on"), b"+OK\r\n")
    assert flags() == "eT"
    client.ask(request(b"MULTI"), b"+OK\r\n")
    assert flags() == "xeT"
    client.ask(request(b"RESET"), b"+RESET\r\n")
    assert flags() == "N"


def test_reset_ends_everything_that_a_session_began(node: Node, client: RawClient) -> None:
    client.send(request(b"HELLO", b"3") + request(b"CLIENT", b"SETNAME", b"me"))
    client.send(request(b"WATCH", b"k") + request(b"SUBSCRIBE", b"news") + request(b"MONITOR"))
    client.send(request(b"CLIENT", b"REPLY", b"OFF") + request(b"MULTI"))
    wait_until(node, "any(c.session.queue is not None for c in server.connections.values())")
    client.send(request(b"RESET"))
    data = b""
    while not data.endswith(b"+RESET\r\n"):
        data += client.read(1)
    client.ask(request(b"EXEC"), b"-ERR EXEC without MULTI\r\n")
    client.ask(request(b"CLIENT", b"GETNAME"), b"$-1\r\n")
    (connection,) = node.call(lambda: list(node.server.connections.values()))
    session = connection.session
    assert (session.protocol, session.watched, session.subscriptions) == (2, set(), 0)
    assert node.call(lambda: node.database.on_call) is None


def test_reset_forgets_what_xread_gave(node: Node, client: RawClient) -> None:
    client.ask(request(b"CONFIG", b"SET", b"crdt_xread_mode", b"never-skip"), b"+OK\r\n")
    client.ask(request(b"XADD", b"s", b"5", b"f", b"v"), b"$3\r\n5-1\r\n")
    entry = b"*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    client.ask(request(b"XREAD", b"STREAMS", b"s", b"0"), b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n" + entry)
    (connection,) = node.call(lambda: list(node.server.connections.values()))

    def given() -> object:
        return connection.session.given

    assert given() is not None
    client.ask(request(b"RESET"), b"+RESET\r\n")
    assert given() is None
    client.ask(request(b"CONFIG", b"SET", b"crdt_xread_mode", b"by-id"), b"+OK\r\n")
    client.ask(request(b"DEL", b"s"), b":1\r\n")


def test_idle_clients_are_hung_up_on_and_those_who_wait_are_not() -> None:
    with (
        running() as node,
        node.client() as idle,
        node.client() as reader,
        node.client() as subscriber,
        node.client() as busy,
    ):
        everyone = [identity(client) for client in (idle, reader, subscriber, busy)]
        reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"))
        subscriber.send(request(b"SUBSCRIBE", b"news"))
        subscriber.read(1)
        wait_until(node, "database.waiting_count == 1")
        busy.ask(request(b"CONFIG", b"SET", b"timeout", b"60"), b"+OK\r\n")
        node.call(lambda: age(node, everyone[:3], 61_000))
        node.call(node.server.hang_up_on_idle)
        idle.expect_closed()
        wait_until(node, "len(server.connections) == 3")
        identity(busy)


def test_a_timeout_is_kept_without_being_asked() -> None:
    impatient = settings().model_copy(update={"timeout": 1})
    with running(impatient) as node, node.client() as idle:
        identity(idle)
        began = time.monotonic()
        idle.expect_closed()
        assert time.monotonic() - began >= 0.9


def test_connections_are_kept_alive_by_tcp(node: Node, r: Any, client: RawClient) -> None:
    def keepalive(client_id: int) -> tuple[int, int]:
        own = node.server.connections[client_id]._transport.get_extra_info("socket")
        return (
            own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            own.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        )

    client_id = identity(client)
    assert node.call(lambda: keepalive(client_id)) == (1, 300)
    r.config_set("tcp-keepalive", 0)
    with node.client() as later:
        later_id = identity(later)
        assert node.call(lambda: keepalive(later_id))[0] == 0
    r.config_set("tcp-keepalive", 300)
