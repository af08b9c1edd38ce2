"""redis-py and valkey-py when connections are shared, killed, refused, or lost with the node."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

from tests.clients.conftest import wait_until_blocked
from tests.clients.libraries import Library, by_key, ids_of
from tests.live.cluster import Node as Process
from tests.live.cluster import running_regions
from tests.patience import seconds, wait_until
from tests.resp.node import Node, running, settings


@pytest.fixture
def r(node: Node, library: Library) -> Iterator[Any]:
    with library.connect(node.port, decode_responses=True) as client:
        yield client


@contextmanager
def in_thread(work: Callable[[], Any]) -> Iterator[list[BaseException]]:
    """Runs ``work`` beside the block; yields a list for the error it may end with."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield errors
    finally:
        thread.join(seconds())
        assert not thread.is_alive()


def blocked_clients(r: Any) -> list[Any]:
    return [client for client in r.client_list() if "b" in client["flags"]]


# --- Pools --------------------------------------------------------------------------------------


def test_many_threads_share_few_connections(node: Node, library: Library) -> None:
    pool = library.module.BlockingConnectionPool(
        port=node.port, protocol=library.protocol, max_connections=3, timeout=seconds()
    )
    with library.module.Redis.from_pool(pool) as r, ThreadPoolExecutor(12) as threads:
        ids = list(threads.map(lambda n: r.xadd("s", {"n": n}), range(300)))
        assert len(set(ids)) == r.xlen("s") == 300
        assert len(r.client_list()) <= 3


def test_a_client_tells_its_name_and_library(node: Node, library: Library) -> None:
    with library.connect(node.port, client_name="me", decode_responses=True) as r:
        (row,) = (row for row in r.client_list() if row["name"] == "me")
        assert r.client_id() == int(row["id"])
        assert row["lib-name"] == f"{library.module.__name__}-py"
        assert row["lib-ver"] == library.module.__version__
        assert row["resp"] == str(library.protocol)


# --- Passwords ----------------------------------------------------------------------------------


def test_passwords(library: Library) -> None:
    # Without retries: to redis-py, a refused password is a lost connection.
    with running(settings(requirepass="secret")) as node:

        def connect(**options: Any) -> Any:
            return library.connect(node.port, **options)

        with connect(password="secret") as r:
            assert r.ping()
        with connect(username="default", password="secret") as r:
            assert r.ping()
        with (
            connect(password="wrong", retry=None) as r,
            pytest.raises(library.module.AuthenticationError),
        ):
            r.ping()
        with connect(retry=None) as r, pytest.raises(library.module.AuthenticationError):
            r.ping()


# --- Blocked clients ----------------------------------------------------------------------------


def test_a_killed_reader_takes_nothing_with_it(r: Any, node: Node, library: Library) -> None:
    r.xgroup_create("s", "g", mkstream=True)
    with library.connect(node.port, retry=None) as victim:
        with in_thread(lambda: victim.xreadgroup("g", "gone", {"s": ">"}, block=60_000)) as errors:
            wait_until_blocked(node)
            (row,) = blocked_clients(r)
            assert r.client_kill_filter(_id=row["id"]) == 1
        assert [type(error) for error in errors] == [library.module.ConnectionError]
    wait_until_blocked(node, 0)
    entry_id = r.xadd("s", {"a": 1})
    assert r.xpending("s", "g")["pending"] == 0
    assert ids_of(by_key(r.xreadgroup("g", "alice", {"s": ">"}))["s"]) == [entry_id]


def test_a_reader_that_hangs_up_takes_nothing_with_it(r: Any, node: Node, library: Library) -> None:
    r.xgroup_create("s", "g", mkstream=True)
    with (
        library.connect(node.port, socket_timeout=0.05, retry=None) as impatient,
        pytest.raises(library.module.TimeoutError),
    ):
        impatient.xreadgroup("g", "gone", {"s": ">"}, block=60_000)
    wait_until_blocked(node, 0)
    r.xadd("s", {"a": 1})
    assert r.xpending("s", "g")["pending"] == 0


@pytest.mark.parametrize("with_error", [False, True], ids=["as a timeout", "with an error"])
def test_an_unblocked_reader(r: Any, node: Node, library: Library, with_error: bool) -> None:
    replies: list[Any] = []
    with library.connect(node.port) as reader:
        with in_thread(lambda: replies.append(reader.xread({"s": "$"}, block=60_000))) as errors:
            wait_until_blocked(node)
            (row,) = blocked_clients(r)
            assert r.client_unblock(row["id"], error=with_error)
        if with_error:
            assert [type(error) for error in errors] == [library.module.ResponseError]
            assert str(errors[0]).startswith("UNBLOCKED")
        else:
            assert errors == []
            assert not replies[0]
        assert reader.ping()


# --- Restarts -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A node with a disk, as a process."""
    with running_regions(1, tmp_path_factory.mktemp("node")) as cluster:
        yield cluster[1]


def restart(process: Process) -> None:
    process.end()
    process.start()


def test_a_pool_survives_a_restart(process: Process, library: Library) -> None:
    with library.connect(process.resp_port, decode_responses=True) as r:
        key = f"pool:{library}"
        before = r.xadd(key, {"n": 0})
        # Several connections; all of them go stale.
        with ThreadPoolExecutor(4) as threads:
            barrier = threading.Barrier(4, timeout=seconds())
            assert all(threads.map(lambda _: (barrier.wait(), r.ping()), range(4)))
        restart(process)
        after = [r.xadd(key, {"n": n}) for n in range(1, 6)]
        assert ids_of(r.xrange(key)) == [before, *after]


def test_a_group_goes_on_after_a_restart(process: Process, library: Library) -> None:
    with library.connect(process.resp_port, decode_responses=True) as r:
        key = f"group:{library}"
        r.xgroup_create(key, "g", mkstream=True)
        ids = [r.xadd(key, {"n": n}) for n in range(3)]
        r.xreadgroup("g", "alice", {key: ">"}, count=2)
        r.xack(key, "g", ids[0])
        restart(process)
        assert [row["message_id"] for row in r.xpending_range(key, "g", "-", "+", 10)] == [ids[1]]
        assert ids_of(by_key(r.xreadgroup("g", "alice", {key: "0"}))[key]) == [ids[1]]
        assert ids_of(by_key(r.xreadgroup("g", "alice", {key: ">"}))[key]) == [ids[2]]


class TellingBackoff(ConstantBackoff):
    """Tells when a first attempt has failed."""

    def __init__(self) -> None:
        super().__init__(0.05)
        self.has_failed = threading.Event()

    def __deepcopy__(self, _memo: dict[int, Any]) -> "TellingBackoff":
        """Itself: redis-py gives each connection a copy, and all of them shall tell."""
        return self

    def compute(self, failures: int) -> float:
        self.has_failed.set()
        return super().compute(failures)


def test_a_client_that_retries_waits_for_the_node(process: Process) -> None:
    backoff = TellingBackoff()
    with redis.Redis(port=process.resp_port, retry=Retry(backoff, 600)) as r:
        process.end()
        ids: list[bytes] = []
        with in_thread(lambda: ids.append(r.xadd("patient", {"a": 1}))) as errors:
            assert backoff.has_failed.wait(seconds())
            process.start()
        assert errors == []
        assert ids_of(r.xrange("patient")) == ids
        assert len(ids) == 1


def test_a_blocked_reader_hears_of_the_end(process: Process) -> None:
    with redis.Redis(port=process.resp_port, retry=Retry(NoBackoff(), 0)) as reader:
        with in_thread(lambda: reader.xread({"quiet": "$"}, block=60_000)) as errors:
            wait_until(
                lambda: process.client.info("clients")["blocked_clients"] == 1, "a blocked client"
            )
            restart(process)
        assert [type(error) for error in errors] == [redis.ConnectionError]
