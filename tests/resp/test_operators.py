"""ROLE, MODULE, SHUTDOWN, DEBUG, MEMORY, ACL, LOLWUT, WAITAOF."""

import asyncio
import contextlib
import time
from itertools import pairwise
from typing import Any

import pytest
import redis

from crdtstream.core.ids import RegionId
from tests.resp.node import Node, RawClient, request, running, settings
from tests.resp.test_protocol import wait_until


def test_a_region_is_a_master_without_replicas(r: Any) -> None:
    name, before, replicas = r.role()
    assert (name, replicas) == (b"master", [])
    r.xadd("role", {"f": "v"})
    assert r.role()[1] == before + 1 == r.info("replication")["master_repl_offset"]


def test_there_are_no_modules(r: Any) -> None:
    assert r.module_list() == []


# --- SHUTDOWN -----------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"SHUTDOWN", b"shutdown save now", b"SHUTDOWN NOSAVE FORCE"])
def test_shutdown_stops_the_node_and_says_nothing(line: bytes) -> None:
    with running() as node, node.client() as client:
        told: list[bytes] = []
        node.call(lambda: setattr(node.server, "shut_down", lambda: told.append(b"stop")))
        client.send(request(b"ECHO", b"x") + request(*line.split()) + request(b"ECHO", b"y"))
        client.expect(b"$1\r\nx\r\n")
        client.expect_closed()
        assert told == [b"stop"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"SHUTDOWN FOO", b"syntax error"),
        (b"SHUTDOWN SAVE NOSAVE", b"syntax error"),
        (b"SHUTDOWN ABORT NOW", b"syntax error"),
        (b"SHUTDOWN ABORT", b"No shutdown in progress."),
        # A node that nobody can stop from within, as in these tests.
        (b"SHUTDOWN", b"Errors trying to SHUTDOWN. Check logs."),
    ],
)
def test_a_shutdown_that_cannot_be_is_refused(client: RawClient, line: bytes, error: bytes) -> None:
    client.ask(request(*line.split()), b"-ERR " + error + b"\r\n")


def test_shutdown_is_not_queued(client: RawClient) -> None:
    client.ask(
        request(b"MULTI") + request(b"SHUTDOWN") + request(b"EXEC"),
        b"+OK\r\n-ERR Command not allowed inside a transaction\r\n"
        b"-EXECABORT Transaction discarded because of previous errors.\r\n",
    )


def test_a_node_whose_disk_refuses_wants_force() -> None:
    with running() as node, node.client() as client:
        told: list[bytes] = []
        node.call(lambda: setattr(node.server, "shut_down", lambda: told.append(b"stop")))
        node.log.refusal = "the disk is full"
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        client.expect(b"-MISCONF")
        wait_until(node, "region.fault is not None")
        with node.client() as other:
            other.ask(request(b"SHUTDOWN"), b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n")
            other.send(request(b"SHUTDOWN", b"FORCE"))
            other.expect_closed()
        assert told == [b"stop"]
        node.log.refusal = None
        wait_until(node, "region.fault is None")


def test_nobody_stops_or_delays_a_node_without_its_password() -> None:
    with running(settings(requirepass="secret")) as node, node.client() as client:
        for line in (b"SHUTDOWN", b"DEBUG SLEEP 30", b"CLIENT PAUSE 30000", b"MONITOR"):
            client.ask(request(*line.split()), b"-NOAUTH Authentication required.\r\n")


# --- DEBUG --------------------------------------------------------------------------------------


def test_debug_sleep_holds_up_everyone(node: Node, client: RawClient) -> None:
    ticker = Ticker(node)
    client.ask(request(b"DEBUG", b"SLEEP", b"0.2"), b"+OK\r\n")
    assert ticker.stop() >= 0.2


class Ticker:
    """Looks at the clock whenever the node's event loop has come round."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._turns_s: list[float] = []
        self._timer = node.call(self._turn)

    def stop(self) -> float:
        """The longest time for which the event loop came to nobody, in seconds."""
        self._node.call(self._stop)
        return max(after - before for before, after in pairwise(self._turns_s))

    def _turn(self) -> asyncio.TimerHandle:
        self._turns_s.append(time.monotonic())
        self._timer = self._node.loop.call_later(0, self._turn)
        return self._timer

    def _stop(self) -> None:
        self._timer.cancel()
        self._turns_s.append(time.monotonic())


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"DEBUG SLEEP x", b"value is not a valid float"),
        (b"DEBUG SLEEP nan", b"value is not a valid float"),
        (b"DEBUG SLEEP 61", b"DEBUG SLEEP takes 0 to 60 seconds"),
        (b"DEBUG SLEEP -1", b"DEBUG SLEEP takes 0 to 60 seconds"),
        (
            b"DEBUG SEGFAULT",
            b"unknown subcommand or wrong number of arguments for 'SEGFAULT'. Try DEBUG HELP.",
        ),
    ],
)
def test_debug_does_nothing_else(client: RawClient, line: bytes, error: bytes) -> None:
    client.ask(request(*line.split()), b"-ERR " + error + b"\r\n")


# --- MEMORY, ACL, LOLWUT ------------------------------------------------------------------------


def test_memory_tells_what_it_knows(r: Any) -> None:
    r.xadd("memory", {"f": "v"})
    stats = r.memory_stats()
    assert stats["keys.count"] >= 1
    assert stats["peak.allocated"] > 0
    assert r.memory_purge() is True
    assert b"MEMORY USAGE" in r.execute_command("MEMORY", "DOCTOR")
    assert b"not supported" in r.memory_malloc_stats()


def test_the_one_user_is_default(r: Any) -> None:
    assert r.acl_whoami() == "default"
    assert r.acl_users() == ["default"]
    assert r.acl_list() == ["user default on nopass sanitize-payload ~* &* +@all"]
    assert r.acl_getuser("nosuch") is None
    assert r.acl_log() == []
    user = r.acl_getuser("default")
    assert {"on", "nopass"} <= set(user["flags"])
    assert user["categories"] == ["+@all"]


def test_a_password_is_shown_as_its_hash() -> None:
    guarded = settings(requirepass="foo")
    with (
        running(guarded) as node,
        contextlib.closing(redis.Redis(port=node.port, protocol=2, password="foo")) as r,
    ):
        sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
        assert r.acl_list() == [f"user default on sanitize-payload #{sha256} ~* &* +@all"]
        user = r.acl_getuser("default")
        assert user is not None
        assert user["passwords"] == [sha256]


def test_lolwut_tells_the_version(r: Any) -> None:
    assert b"Redis ver. 8." in r.execute_command("LOLWUT")
    assert b"Redis ver. 8." in r.execute_command("LOLWUT", "VERSION", "5", "1")
    with pytest.raises(redis.ResponseError, match="not an integer"):
        r.execute_command("LOLWUT", "VERSION", "x")


# --- WAITAOF ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"WAITAOF 2 0 0", b"value is out of range, value must between 0 and 1"),
        (b"WAITAOF -1 0 0", b"value is out of range, value must between 0 and 1"),
        (b"WAITAOF x 0 0", b"value is not an integer or out of range"),
        (b"WAITAOF 0 -1 0", b"value is out of range, must be positive"),
        (b"WAITAOF 0 x 0", b"value is out of range, must be positive"),
        (b"WAITAOF 0 0 -1", b"timeout is negative"),
        (b"WAITAOF 0 0 9223372036854775807", b"timeout is out of range"),
        (b"WAITAOF 0 0 x", b"timeout is not an integer or out of range"),
    ],
)
def test_waitaof_refuses_as_redis_does(client: RawClient, line: bytes, error: bytes) -> None:
    client.ask(request(*line.split()), b"-ERR " + error + b"\r\n")


def test_waitaof_counts_this_disk_and_those_of_other_regions() -> None:
    with running(peers=(2, 3)) as node, node.client() as client:
        client.ask(request(b"WAITAOF", b"1", b"0", b"0"), b"*2\r\n:1\r\n:0\r\n")
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        client.read_reply()
        client.ask(request(b"WAITAOF", b"1", b"0", b"0"), b"*2\r\n:1\r\n:0\r\n")
        client.ask(request(b"WAITAOF", b"1", b"1", b"20"), b"*2\r\n:1\r\n:0\r\n")
        client.send(request(b"WAITAOF", b"1", b"1", b"0"))
        wait_until(node, "database.waiting_count == 1")
        node.call(lambda: node.region.stability.learn(RegionId(2), {RegionId(1): 1}))
        client.expect(b"*2\r\n:1\r\n:1\r\n")


def test_waitaof_waits_for_the_sync_where_replies_do_not() -> None:
    """As with ``appendfsync everysec``: a reply comes before the disk has synced."""
    with running() as node, node.client() as client:
        client.ask(request(b"CONFIG", b"SET", b"appendfsync", b"everysec"), b"+OK\r\n")
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        client.read_reply()
        client.ask(request(b"WAITAOF", b"1", b"0", b"20"), b"*2\r\n:0\r\n:0\r\n")
        client.send(request(b"WAITAOF", b"1", b"0", b"0"))
        wait_until(node, "database.waiting_count == 1")
        node.run(node.engine._sync(node.region.outstanding.mark()))
        client.expect(b"*2\r\n:1\r\n:0\r\n")
