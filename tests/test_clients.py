"""The clients that people have, unchanged: redis-py in all its ways, redis-cli, iredis."""

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from tests.conftest import program
from tests.resp.node import Node, running

pytestmark = pytest.mark.live

PROTOCOLS = [2, 3]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with running() as node:
        yield node


@pytest.fixture(params=PROTOCOLS, ids=["resp2", "resp3"])
def r(node: Node, request: pytest.FixtureRequest) -> Iterator[Any]:
    with contextlib.closing(
        redis.Redis(port=node.port, protocol=request.param, decode_responses=True)
    ) as client:
        client.flushall()
        yield client


def entries(reply: Any) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """XREAD's answer by key, whichever protocol it came in."""
    if isinstance(reply, dict):
        # redis-py leaves RESP3's one level deeper than RESP2's.
        return {
            key: value[0] if value and isinstance(value[0], list) else value
            for key, value in reply.items()
        }
    return dict(reply)


# --- redis-py -----------------------------------------------------------------------------------


def test_redis_py_works_without_being_told_anything(node: Node) -> None:
    with contextlib.closing(redis.Redis(port=node.port)) as client:
        assert client.ping()
        entry_id = client.xadd("plain", {"text": "hello"})
        assert client.xrange("plain") == [(entry_id, {b"text": b"hello"})]
        client.delete("plain")


def test_streams_and_groups(r: Any) -> None:
    ids = [r.xadd("s", {"n": n}) for n in range(5)]
    assert r.xlen("s") == 5
    assert [entry_id for entry_id, _ in r.xrevrange("s", count=2)] == ids[:-3:-1]
    assert [entry_id for entry_id, _ in entries(r.xread({"s": ids[2]}))["s"]] == ids[3:]

    r.xgroup_create("s", "g", id="0")
    got = entries(r.xreadgroup("g", "alice", {"s": ">"}, count=3))["s"]
    assert [entry_id for entry_id, _ in got] == ids[:3]
    assert r.xpending("s", "g")["pending"] == 3
    assert r.xack("s", "g", *ids[:2]) == 2
    (pending,) = r.xpending_range("s", "g", "-", "+", 10)
    assert (pending["message_id"], pending["consumer"]) == (ids[2], "alice")
    claimed = r.xclaim("s", "g", "bob", 0, [ids[2]])
    assert [entry_id for entry_id, _ in claimed] == [ids[2]]
    assert r.xautoclaim("s", "g", "carol", 0)[1][0][0] == ids[2]
    assert r.xinfo_stream("s")["length"] == 5
    assert r.xinfo_groups("s")[0]["consumers"] == 3
    assert {row["name"] for row in r.xinfo_consumers("s", "g")} == {"alice", "bob", "carol"}
    assert r.xdel("s", ids[0]) == 1
    assert r.xtrim("s", maxlen=2, approximate=False) == 2
    assert r.xgroup_destroy("s", "g")
    assert (r.type("s"), r.exists("s"), r.dbsize()) == ("stream", 1, 1)
    assert r.keys("*") == list(r.scan_iter()) == ["s"]


def test_values_of_any_bytes_survive(node: Node) -> None:
    value = bytes(range(256)) * 100
    with contextlib.closing(redis.Redis(port=node.port)) as client:
        entry_id = client.xadd(value[:300], {value: value, b"": b""})
        assert client.xrange(value[:300]) == [(entry_id, {value: value, b"": b""})]
        client.delete(value[:300])


def test_a_pipeline_is_a_transaction(r: Any) -> None:
    with r.pipeline() as pipe:
        pipe.xadd("s", {"a": 1}).xadd("s", {"a": 2}).xlen("s")
        first, second, length = pipe.execute()
    assert [entry_id for entry_id, _ in r.xrange("s")] == [first, second]
    assert length == 2


def test_a_plain_pipeline_is_many_commands_at_once(r: Any) -> None:
    with r.pipeline(transaction=False) as pipe:
        for n in range(10_000):
            pipe.xadd("s", {"n": n})
        ids = pipe.execute()
    assert len(set(ids)) == r.xlen("s") == 10_000


def test_an_error_in_a_pipeline_stands_in_its_place(r: Any) -> None:
    with r.pipeline() as pipe:
        pipe.xadd("s", {"a": 1}).xgroup_create("none", "g").xlen("s")
        replies = pipe.execute(raise_on_error=False)
    assert isinstance(replies[1], redis.ResponseError)
    assert replies[2] == 1


def test_watch_makes_a_transaction_try_again(r: Any) -> None:
    attempts = 0

    def append_if_short(pipe: Any) -> None:
        nonlocal attempts
        attempts += 1
        length = pipe.xlen("s")
        if attempts == 1:
            r.xadd("s", {"from": "elsewhere"})
        pipe.multi()
        pipe.xadd("s", {"length": length})

    r.transaction(append_if_short, "s")
    assert attempts == 2
    assert [fields for _, fields in r.xrange("s")] == [{"from": "elsewhere"}, {"length": "1"}]


def test_a_lost_watch_is_an_error(r: Any) -> None:
    with r.pipeline() as pipe:
        pipe.watch("s")
        r.xadd("s", {"a": 1})
        pipe.multi()
        pipe.xadd("s", {"a": 2})
        with pytest.raises(redis.WatchError):
            pipe.execute()


def test_errors_have_redis_py_s_types(r: Any) -> None:
    with pytest.raises(redis.ResponseError, match="unknown command 'GET'"):
        r.get("k")
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        r.xreadgroup("g", "c", {"none": ">"})
    with pytest.raises(redis.ResponseError, match="DB index is out of range"):
        r.select(3)


def test_blocking_reads_wait_and_wake(r: Any, node: Node) -> None:
    assert not r.xread({"s": "$"}, block=10)

    def append() -> None:
        while not node.call(lambda: node.database.waiting_count):
            time.sleep(0.002)
        with contextlib.closing(redis.Redis(port=node.port)) as writer:
            writer.xadd("s", {"late": "1"})

    thread = threading.Thread(target=append)
    thread.start()
    reply = r.xread({"s": "$"}, block=10_000)
    thread.join()
    assert [fields for _, fields in entries(reply)["s"]] == [{"late": "1"}]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_asyncio_client_works(node: Node, protocol: int) -> None:
    async with redis.asyncio.Redis(
        port=node.port, protocol=protocol, decode_responses=True
    ) as client:
        await client.flushall()
        reader = asyncio.create_task(client.xread({"s": "$"}, block=10_000))
        while not node.call(lambda: node.database.waiting_count):
            await asyncio.sleep(0.002)
        async with client.pipeline() as pipe:
            pipe.xadd("s", {"n": "1"})
            pipe.xadd("s", {"n": "2"})
            ids = await pipe.execute()
        got = entries(await reader)["s"]
        # Two appends of one transaction arrive together.
        assert [(entry_id, fields) for entry_id, fields in got] == [
            (ids[0], {"n": "1"}),
            (ids[1], {"n": "2"}),
        ]
        replies = await asyncio.gather(*(client.xadd("s", {"n": str(n)}) for n in range(50)))
        assert len(set(replies)) == 50


def test_a_cancelled_blocking_read_leaves_nothing_behind(node: Node) -> None:
    client = redis.Redis(port=node.port, socket_timeout=0.05, retry=None)
    with pytest.raises(redis.TimeoutError):
        client.xread({"s": "$"}, block=60_000)
    client.close()
    deadline = time.monotonic() + 10
    while node.call(lambda: node.database.waiting_count):
        assert time.monotonic() < deadline
        time.sleep(0.005)


# --- Programs -----------------------------------------------------------------------------------


def run(*command: str, stdin: str = "", home: Path = Path("/nonexistent")) -> str:
    """What a program prints."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "TERM": "dumb", "HOME": str(home)},
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("flags", [[], ["-3"]], ids=["resp2", "resp3"])
def test_redis_cli_speaks_to_us(node: Node, flags: list[str]) -> None:
    cli = [str(program("redis-cli")), "-p", str(node.port), *flags]
    assert run(*cli, "ping").strip() == "PONG"
    entry_id = run(*cli, "xadd", "cli", "*", "text", "hello world").strip()
    assert run(*cli, "xrange", "cli", "-", "+").split("\n")[:3] == [entry_id, "text", "hello world"]
    assert "redis_version:8" in run(*cli, "info", "server")
    assert run(*cli, "foo").startswith("ERR unknown command 'foo'")
    assert run(*cli, "del", "cli").strip() == "1"


def test_redis_cli_takes_a_script(node: Node) -> None:
    cli = [str(program("redis-cli")), "-p", str(node.port)]
    script = "MULTI\nXADD script * a 1\nXADD script * a 2\nEXEC\nXLEN script\nDEL script\n"
    lines = run(*cli, stdin=script).split()
    assert lines[:3] == ["OK", "QUEUED", "QUEUED"]
    assert lines[5:] == ["2", "1"]


def test_redis_cli_pipe_mode_loads_in_bulk(node: Node) -> None:
    cli = [str(program("redis-cli")), "-p", str(node.port)]
    script = "".join(f"XADD bulk * n {n}\r\n" for n in range(20_000))
    assert "errors: 0, replies: 20000" in run(*cli, "--pipe", stdin=script)
    assert run(*cli, "xlen", "bulk").strip() == "20000"
    run(*cli, "del", "bulk")


def test_redis_cli_statistics_modes_work(node: Node) -> None:
    cli = [str(program("redis-cli")), "-p", str(node.port)]
    run(*cli, "xadd", "big", "*", "a", "b")
    assert "Biggest stream" in run(*cli, "--bigkeys")
    run(*cli, "del", "big")


def test_redis_benchmark_runs(node: Node) -> None:
    benchmark = [str(program("redis-benchmark")), "-p", str(node.port), "-q", "-n", "2000"]
    output = run(*benchmark, "-P", "16", "xadd", "bench", "*", "f", "v")
    assert "requests per second" in output
    assert "rror" not in output
    with contextlib.closing(redis.Redis(port=node.port)) as client:
        assert client.xlen("bench") == 2000
        client.delete("bench")


def test_iredis_speaks_to_us(node: Node, tmp_path: Path) -> None:
    iredis = [str(program("iredis")), "-p", str(node.port)]
    script = (
        "xadd ired * text hello\n"
        "xgroup create ired g 0\n"
        "xreadgroup group g alice count 1 streams ired >\n"
        "xinfo stream ired\n"
        "del ired\n"
    )
    output = run(*iredis, stdin=script, home=tmp_path)
    assert output.count("hello") >= 2
    assert "OK" in output
    assert "last-generated-id" in output
    assert "rror" not in output
