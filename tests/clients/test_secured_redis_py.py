"""redis-py and valkey-py, sync and asyncio, at a node that takes clients over TLS alone."""

import contextlib
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import valkey

from tests.clients.libraries import Library
from tests.clients.secured import PASSWORD, Secured
from tests.patience import seconds, wait_until

MIB = 1 << 20
PIPELINE = 1_000


def connect(
    library: Library, secured: Secured, name: str | None = "client-app", **more: Any
) -> Any:
    """A client with the certificate of a holder; it tries once."""
    module = library.module
    once = module.retry.Retry(module.backoff.NoBackoff(), 0)
    given = {"host": "localhost", "retry": once, **secured.files.redis_py(name), **more}
    return library.connect(secured.port, **given)


@pytest.fixture
def r(library: Library, secured: Secured) -> Iterator[Any]:
    with contextlib.closing(connect(library, secured)) as client:
        yield client


@pytest.fixture
async def asynchronous(library: Library, secured: Secured) -> AsyncIterator[Any]:
    client = library.connect_asyncio(
        secured.port, host="localhost", **secured.files.redis_py("client-app")
    )
    yield client
    await client.aclose()


def until_blocked(secured: Secured, count: int = 1) -> None:
    wait_until(
        lambda: secured.node.client.info("clients")["blocked_clients"] == count,
        f"{count} blocked clients",
    )


def test_a_certificate_is_the_login(r: Any) -> None:
    assert r.acl_whoami() in ("app", b"app")
    assert r.client_info()["user"] == "app"


async def test_a_certificate_is_the_login_of_asyncio(asynchronous: Any) -> None:
    assert await asynchronous.acl_whoami() in ("app", b"app")
    ids = [await asynchronous.xadd("s", {"n": n}) for n in range(10)]
    assert [entry_id for entry_id, _ in await asynchronous.xrange("s")] == ids


def test_a_name_and_a_password_replace_the_user_of_the_certificate(
    library: Library, secured: Secured
) -> None:
    login = {"username": "reader", "password": PASSWORD}
    for name in ("client-app", "client-stranger"):
        with contextlib.closing(connect(library, secured, name, **login)) as r:
            assert r.acl_whoami() in ("reader", b"reader")


def test_a_command_that_the_user_may_not_run_has_the_error_of_the_library(
    library: Library, secured: Secured
) -> None:
    error = library.module.exceptions.NoPermissionError
    with contextlib.closing(connect(library, secured, "client-reader")) as r:
        assert r.xrange("orders:1") == []
        with pytest.raises(error, match="no permissions to run the 'xadd' command"):
            r.xadd("orders:1", {"f": "v"})
        with pytest.raises(error, match="No permissions to access a key"):
            r.xrange("secret")
        # A pipeline goes on behind what is refused.
        pipeline = r.pipeline(transaction=False)
        refused, read = pipeline.xlen("orders:1").xrange("orders:1").execute(raise_on_error=False)
        assert isinstance(refused, error)
        assert read == []


async def test_a_command_that_the_user_may_not_run_has_the_error_of_asyncio(
    library: Library, secured: Secured
) -> None:
    r = library.connect_asyncio(
        secured.port, host="localhost", **secured.files.redis_py("client-reader")
    )
    with pytest.raises(library.module.exceptions.NoPermissionError):
        await r.xadd("orders:1", {"f": "v"})
    await r.aclose()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (None, "certificate required"),
        ("client-expired", "certificate expired"),
        ("client-forged", "unknown ca"),
    ],
)
def test_a_client_that_is_refused_gets_a_connection_error_with_the_reason(
    library: Library, secured: Secured, name: str | None, reason: str
) -> None:
    exceptions = library.module.exceptions
    with contextlib.closing(connect(library, secured, name)) as r:
        with pytest.raises(exceptions.ConnectionError, match=rf"(?i){reason}") as refused:
            r.ping()
        assert not isinstance(refused.value, exceptions.AuthenticationError)


def test_a_client_checks_the_name_of_the_node(library: Library, secured: Secured) -> None:
    address: dict[str, Any] = {"host": "127.0.0.1"}
    if library.module is valkey:
        # It does so only if it is told to.
        with contextlib.closing(connect(library, secured, **address)) as r:
            assert r.ping()
        address["ssl_check_hostname"] = True
    with (
        contextlib.closing(connect(library, secured, **address)) as r,
        pytest.raises(library.module.exceptions.ConnectionError, match="certificate is not valid"),
    ):
        r.ping()


def test_a_client_that_does_not_trust_the_node_says_so(library: Library, secured: Secured) -> None:
    trusted = {"ssl_ca_certs": str(secured.files.folder / "other-ca.pem")}
    with (
        contextlib.closing(connect(library, secured, **trusted)) as r,
        pytest.raises(library.module.exceptions.ConnectionError, match="certificate verify failed"),
    ):
        r.ping()


def test_a_certificate_of_no_user_is_not_a_login(library: Library, secured: Secured) -> None:
    # HELLO of RESP3 is refused as well, before the command is sent.
    with (
        contextlib.closing(connect(library, secured, "client-stranger")) as r,
        pytest.raises(library.module.exceptions.AuthenticationError, match=r"(?i)auth"),
    ):
        r.ping()


def test_a_wrong_password_is_refused_whatever_the_certificate_is(
    library: Library, secured: Secured
) -> None:
    login = {"username": "app", "password": "a-wrong-password-of-users"}
    with (
        contextlib.closing(connect(library, secured, **login)) as r,
        pytest.raises(
            library.module.exceptions.AuthenticationError, match="invalid username-password pair"
        ),
    ):
        r.ping()


def test_a_subscriber_hears_what_is_published(library: Library, secured: Secured, r: Any) -> None:
    with contextlib.closing(connect(library, secured)) as other:
        listener = other.pubsub(ignore_subscribe_messages=True)
        listener.subscribe("channel")
        listener.get_message(timeout=seconds())
        for n in range(100):
            r.publish("channel", n)
        heard = [listener.get_message(timeout=seconds())["data"] for _ in range(100)]
    assert heard == [b"%d" % n for n in range(100)]


def test_a_reader_of_a_group_waits(library: Library, secured: Secured, r: Any) -> None:
    r.xgroup_create("s", "g", mkstream=True)
    got: list[Any] = []
    with contextlib.closing(connect(library, secured)) as reader:
        thread = threading.Thread(
            target=lambda: got.append(reader.xreadgroup("g", "c", {"s": ">"}, block=20_000))
        )
        thread.start()
        until_blocked(secured)
        entry_id = r.xadd("s", {"f": "v"})
        thread.join()
    assert entry_id.decode() in repr(got)


def test_a_long_pipeline_and_a_large_value(r: Any) -> None:
    pipeline = r.pipeline(transaction=False)
    for n in range(PIPELINE):
        pipeline.xadd("s", {"n": n})
    assert len(set(pipeline.execute())) == r.xlen("s") == PIPELINE
    value = bytes(range(256)) * (8 * MIB // 256)
    assert r.set("large", value)
    assert r.get("large") == value


def server_name(r: Any) -> str:
    """Common name of the certificate that the node shows to a pooled connection of this client."""
    assert r.ping()
    [connection] = r.connection_pool._available_connections
    subject = dict(pair for (pair,) in connection._sock.getpeercert()["subject"])
    return str(subject["commonName"])


def use_certificate(r: Any, secured: Secured, name: str) -> None:
    certificate, key = map(str, secured.files.pair(name))
    assert r.config_set("tls-cert-file", certificate, "tls-key-file", key)


def test_a_client_reconnects_after_the_node_got_another_certificate(
    secured: Secured, r: Any
) -> None:
    assert server_name(r) == "server"
    try:
        use_certificate(r, secured, "renewed")
        # The open connection goes on, with what it was shown.
        assert server_name(r) == "server"
        r.connection_pool.disconnect()
        assert server_name(r) == "renewed"
    finally:
        use_certificate(r, secured, "region-1")


def test_files_of_a_client_are_read_for_each_connection(
    library: Library, secured: Secured, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def put(name: str) -> None:
        for source, target in zip(secured.files.pair(name), (certificate, key), strict=True):
            shutil.copy(source, target)

    put("client-app")
    own = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    with contextlib.closing(connect(library, secured, **own)) as r:
        assert r.acl_whoami() in ("app", b"app")
        put("client-reader")
        assert r.acl_whoami() in ("app", b"app")
        r.connection_pool.disconnect()
        assert r.acl_whoami() in ("reader", b"reader")
