"""redis-py, redis-cli and redis-benchmark over TLS, with certificates of their own."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.clients.conftest import wait_until_blocked
from tests.clients.terminal import run
from tests.conftest import program
from tests.patience import seconds
from tests.resp.node import Node
from tests.resp.tls import Party, wait_until

MIB = 1 << 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Party]]:
    party = Party.of(tmp_path_factory.mktemp("tls"))
    with party.running(tls_auth_clients="yes") as (node, _):
        yield node, party


@pytest.fixture
def node(served: tuple[Node, Party]) -> Node:
    with contextlib.closing(redis.Redis(port=served[0].port)) as r:
        r.flushall()
    return served[0]


@pytest.fixture
def party(served: tuple[Node, Party]) -> Party:
    return served[1]


def options(node: Node, party: Party) -> dict[str, Any]:
    """Arguments of redis-py."""
    certificate, key = party.files_of("client")
    return {
        "host": "localhost",
        "port": node.tls_port,
        "ssl": True,
        "ssl_ca_certs": str(party.ca_path),
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key),
    }


@pytest.fixture(params=[2, 3])
def r(node: Node, party: Party, request: pytest.FixtureRequest) -> Iterator[Any]:
    given = options(node, party) | {"protocol": request.param}
    with contextlib.closing(redis.Redis(**given)) as client:
        yield client


def test_redis_py_writes_and_reads(r: Any) -> None:
    ids = [r.xadd("s", {"n": n}) for n in range(100)]
    assert [one for one, _ in r.xrange("s")] == ids


def test_redis_py_without_a_certificate_is_refused(node: Node, party: Party) -> None:
    given = options(node, party)
    del given["ssl_certfile"], given["ssl_keyfile"]
    with contextlib.closing(redis.Redis(**given)) as r, pytest.raises(redis.ConnectionError):
        r.ping()


def test_redis_py_checks_the_name_of_the_node(node: Node, party: Party) -> None:
    given = options(node, party) | {"host": "127.0.0.1"}
    with (
        contextlib.closing(redis.Redis(**given)) as r,
        pytest.raises(redis.ConnectionError, match=r"certificate is not valid for '127\.0\.0\.1'"),
    ):
        r.ping()


def test_a_large_pipeline_is_answered(r: Any) -> None:
    pipeline = r.pipeline(transaction=False)
    for n in range(20_000):
        pipeline.xadd("s", {"n": n})
    ids = pipeline.execute()
    assert len(set(ids)) == r.xlen("s") == 20_000


def test_a_large_value_is_kept(r: Any) -> None:
    value = bytes(range(256)) * (64 * MIB // 256)
    r.set("large", value)
    assert r.get("large") == value


def test_a_transaction_runs_as_a_whole(r: Any) -> None:
    with r.pipeline(transaction=True) as transaction:
        transaction.set("a", 1).xadd("s", {"f": "v"}).get("a")
        done = transaction.execute()
    assert (done[0], done[2]) == (True, b"1")


def test_a_blocked_reader_gets_an_entry(node: Node, party: Party, r: Any) -> None:
    r.xgroup_create("s", "g", mkstream=True)
    got: list[Any] = []
    with contextlib.closing(redis.Redis(**options(node, party))) as reader:
        thread = threading.Thread(
            target=lambda: got.extend(reader.xreadgroup("g", "c", {"s": ">"}, block=10_000))
        )
        thread.start()
        wait_until_blocked(node)
        entry_id = r.xadd("s", {"f": "v"})
        thread.join()
    ((_, entries),) = got
    assert entries == [(entry_id, {b"f": b"v"})]


def test_a_blocked_reader_that_is_killed_is_told(node: Node, party: Party, r: Any) -> None:
    failed = threading.Event()
    with contextlib.closing(
        redis.Redis(**options(node, party), retry=Retry(NoBackoff(), 0))
    ) as reader:

        def read() -> None:
            try:
                reader.xread({"nothing": "$"}, block=0)
            except redis.ConnectionError:
                failed.set()

        thread = threading.Thread(target=read)
        thread.start()
        wait_until_blocked(node)
        assert r.client_kill_filter(skipme=True, _type="normal") == 1
        thread.join(seconds())
    assert failed.is_set()


def test_a_subscriber_hears_what_is_published(node: Node, party: Party, r: Any) -> None:
    with contextlib.closing(redis.Redis(**options(node, party))) as other:
        listener = other.pubsub(ignore_subscribe_messages=True)
        listener.subscribe("channel")
        listener.get_message(timeout=seconds())
        for n in range(100):
            r.publish("channel", n)
        heard = [listener.get_message(timeout=seconds())["data"] for _ in range(100)]
    assert heard == [b"%d" % n for n in range(100)]


async def test_many_clients_of_redis_py_asyncio(node: Node, party: Party) -> None:
    clients: list[Any] = [redis.asyncio.Redis(**options(node, party)) for _ in range(30)]
    try:
        ids = await asyncio.gather(*(one.xadd("s", {"f": "v"}) for one in clients))
        assert len(set(ids)) == await clients[0].xlen("s") == len(clients)
        reads = [asyncio.create_task(one.xread({"t": "$"}, block=0)) for one in clients[1:]]
        await asyncio.to_thread(wait_until_blocked, node, len(reads))
        entry_id = await clients[0].xadd("t", {"f": "v"})
        for found in await asyncio.gather(*reads):
            assert found[0][1][0][0] == entry_id
    finally:
        for one in clients:
            await one.aclose()
    await asyncio.to_thread(wait_until, node, lambda: not node.server.connections)


# --- redis-cli ------------------------------------------------------------------------------------


def redis_cli(node: Node, party: Party, *words: str, certificate: bool = True) -> str:
    own = party.files_of("client")
    shown = ["--cert", str(own[0]), "--key", str(own[1])] if certificate else []
    trusted = ["--tls", "--cacert", str(party.ca_path)]
    return run(program("redis-cli"), "-p", str(node.tls_port), *trusted, *shown, *words)


def test_redis_cli_with_a_certificate(node: Node, party: Party) -> None:
    assert redis_cli(node, party, "SET", "k", "v") == "OK\n"
    assert redis_cli(node, party, "GET", "k") == "v\n"


def test_redis_cli_without_a_certificate_is_refused(node: Node, party: Party) -> None:
    assert "PONG" not in redis_cli(node, party, "PING", certificate=False)


def test_redis_cli_without_tls_is_refused(node: Node) -> None:
    assert "PONG" not in run(program("redis-cli"), "-p", str(node.tls_port), "PING")


def test_redis_benchmark(node: Node, party: Party) -> None:
    benchmark = program("redis-benchmark")
    certificate, key = party.files_of("client")
    told = run(
        *(benchmark, "-p", str(node.tls_port), "--tls", "--cacert", party.ca_path),
        *("--cert", certificate, "--key", key, "-c", "50", "-P", "16", "-n", "20000", "--csv"),
        *("XADD", "bench", "*", "field", "value"),
    )
    assert "XADD" in told
    with contextlib.closing(redis.Redis(port=node.port)) as r:
        assert r.xlen("bench") == 20_000


# --- Without certificates of clients --------------------------------------------------------------


@pytest.fixture(scope="module", params=["no", "optional"])
def unasked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Party]]:
    """A node that wants no certificates of its clients."""
    party = Party.of(tmp_path_factory.mktemp("unasked"))
    with party.running(tls_auth_clients=request.param) as (node, _):
        yield node, party


async def test_clients_without_certificates_are_served(unasked: tuple[Node, Party]) -> None:
    node, party = unasked
    given: dict[str, Any] = {
        name: value
        for name, value in options(node, party).items()
        if name not in {"ssl_certfile", "ssl_keyfile"}
    }
    with contextlib.closing(redis.Redis(**given)) as r:
        assert r.set("k", "v")
    async with redis.asyncio.Redis(**given) as r:
        assert await r.get("k") == b"v"
    found = await asyncio.to_thread(redis_cli, node, party, "GET", "k", certificate=False)
    assert found == "v\n"
    # A certificate is no fault either.
    with contextlib.closing(redis.Redis(**options(node, party))) as r:
        assert r.get("k") == b"v"
