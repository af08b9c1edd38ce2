"""SLOWLOG: which commands it names, and how."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.resp.node import Node, request, running, settings
from tests.resp.test_protocol import wait_until


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as client:
        client.config_set("slowlog-log-slower-than", 0)
        client.config_set("slowlog-max-len", 128)
        client.slowlog_reset()
        with node.each_command_taking(ms=0):
            yield client
        client.config_set("slowlog-log-slower-than", 10_000)


def logged(r: Any) -> list[bytes]:
    """The commands, the oldest first, without those that this file itself sends to look."""
    entries = r.slowlog_get(-1)
    commands = [entry["command"] for entry in reversed(entries)]
    return [command for command in commands if not command.startswith(b"SLOWLOG")]


def test_a_slow_command_is_named_with_all_that_redis_tells(node: Node, r: Any) -> None:
    r.config_set("slowlog-log-slower-than", 20_000)
    with node.client() as client:
        client.ask(request(b"CLIENT", b"SETNAME", b"sleepy"), b"+OK\r\n")
        with node.each_command_taking(ms=19):
            client.ask(request(b"ECHO", b"19"), b"$2\r\n19\r\n")
        with node.each_command_taking(ms=20):
            client.ask(request(b"ECHO", b"20"), b"$2\r\n20\r\n")
        host, port = client.socket.getsockname()
    assert logged(r) == [b"ECHO 20"]
    entry = r.slowlog_get()[0]
    assert entry["duration"] == 20_000
    assert entry["client_address"] == f"{host}:{port}".encode()
    assert entry["client_name"] == b"sleepy"
    assert abs(entry["start_time"] - node.engine.now() // 1000) < 100


def test_by_default_ten_milliseconds_are_slow() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port)) as r:
        with node.each_command_taking(ms=9):
            r.ping()
            r.slowlog_len()
        with node.each_command_taking(ms=10):
            r.echo("slow")
        with node.each_command_taking(ms=0):
            assert logged(r) == [b"ECHO slow"]
        assert r.config_get("slowlog-*") == {
            "slowlog-log-slower-than": "10000",
            "slowlog-max-len": "128",
        }


def test_ids_ascend_and_the_newest_come_first(r: Any) -> None:
    for text in ("a", "b", "c"):
        r.echo(text)
    newest = r.slowlog_get(2)
    assert [entry["command"] for entry in newest] == [b"ECHO c", b"ECHO b"]
    assert newest[0]["id"] == newest[1]["id"] + 1
    r.slowlog_reset()
    r.echo("d")
    assert logged(r) == [b"ECHO d"]
    assert r.slowlog_get(-1)[-1]["id"] > newest[0]["id"]


def test_the_log_keeps_the_last_ones_only(r: Any) -> None:
    r.config_set("slowlog-max-len", 3)
    for n in range(10):
        r.echo(n)
    assert r.slowlog_len() == 3
    r.config_set("slowlog-max-len", 0)
    r.echo("nobody knows")
    assert r.slowlog_len() == 0


def test_minus_one_logs_nothing(node: Node, r: Any) -> None:
    r.config_set("slowlog-log-slower-than", -1)
    r.slowlog_reset()
    with node.each_command_taking(ms=1_000):
        r.echo("slow")
    assert r.slowlog_len() == 0


def test_long_commands_are_shortened(r: Any) -> None:
    r.execute_command("EXISTS", *["k"] * 40)
    r.execute_command("EXISTS", *["k"] * 31)
    r.echo("x" * 200)
    r.echo("y" * 128)
    many, all_shown, long, fits = logged(r)
    assert many == b"EXISTS" + b" k" * 30 + b" ... (10 more arguments)"
    assert all_shown == b"EXISTS" + b" k" * 31
    assert long == b"ECHO " + b"x" * 128 + b"... (72 more bytes)"
    assert fits == b"ECHO " + b"y" * 128


def test_a_transaction_s_commands_are_logged_and_exec_is_not(r: Any) -> None:
    pipe = r.pipeline(transaction=True)
    pipe.echo("one")
    pipe.echo("two")
    pipe.execute()
    assert logged(r) == [b"MULTI", b"ECHO one", b"ECHO two"]


def test_a_blocked_command_is_logged_when_it_ends(node: Node, r: Any) -> None:
    with node.client() as reader:
        reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"slow", b"$"))
        wait_until(node, "database.waiting_count == 1")
        assert logged(r) == []
        r.xadd("slow", {"f": "v"})
        reader.read(1)
    assert logged(r)[-1] == b"XREAD BLOCK 0 STREAMS slow $"


def test_passwords_are_not_logged() -> None:
    guarded = settings(requirepass="secret")
    with running(guarded) as node, node.client() as client:
        client.send(request(b"AUTH", b"secret"))
        client.send(request(b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"))
        client.send(request(b"auth", b"secret") + request(b"AUTH", b"default", b"secret"))
        client.expect(b"+OK\r\n" * 4)
        client.send(request(*b"hello 3 AUTH default secret SETNAME me".split()))
        client.expect(b"%7\r\n")
        arguments = node.call(lambda: [call.arguments for call in node.server.slowlog.calls()])
    assert arguments == [
        [b"hello", b"3", b"AUTH", b"(redacted)", b"(redacted)", b"SETNAME", b"me"],
        [b"AUTH", b"(redacted)", b"(redacted)"],
        [b"auth", b"(redacted)"],
        [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"],
    ]


@pytest.mark.parametrize("count", ["-2", "x", "9" * 30])
def test_a_count_is_minus_one_or_more(r: Any, count: str) -> None:
    with pytest.raises(redis.ResponseError, match="greater than or equal to -1"):
        r.execute_command("SLOWLOG", "GET", count)
