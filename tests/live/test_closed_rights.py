"""Rights that an operator takes away, over gRPC and HTTP: the next call on an open connection is
judged by what holds then (S7)."""

import http.client
import ssl
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from crdtstream.access.basic import Login
from crdtstream.v1 import admin_pb2, admin_pb2_grpc, query_pb2, query_pb2_grpc
from tests.live.closed import PASSWORD, Closed, Files, closed_regions
from tests.patience import seconds

pytestmark = pytest.mark.live

OTHER_PASSWORD: Final = "another-horse-battery"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    with closed_regions(1, tmp_path_factory.mktemp("closed")) as closed:
        closed[1].client.xadd("orders:1", {"f": "v"})
        closed[1].client.xadd("salaries", {"f": "v"})
        yield closed


@pytest.fixture(autouse=True)
def users_as_before(closed: Closed) -> Iterator[None]:
    yield
    closed[1].client.execute_command("ACL", "LOAD")


def acl(closed: Closed, *words: str) -> None:
    closed[1].client.execute_command("ACL", *words)


@pytest.fixture
def stub(closed: Closed) -> Iterator[Any]:
    """The Query service, over one connection with a reader's certificate."""
    credentials = channel_credentials(closed.reader)
    with grpc.secure_channel(closed[1].grpc_address, credentials) as channel:
        yield query_pb2_grpc.QueryStub(channel)


def channel_credentials(shown: Files) -> grpc.ChannelCredentials:
    contents = shown.contents
    return grpc.ssl_channel_credentials(contents.ca, contents.key, contents.certificates)


def code_of(call: Any, request: Any, who: Login) -> tuple[grpc.StatusCode, str]:
    """Status of a call, and the node's reason."""
    try:
        reply = call(request, metadata=who.metadata, timeout=seconds())
        if hasattr(reply, "__next__"):
            list(reply)
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


SCAN: Final = query_pb2.ScanRequest(key=b"orders:1", origin=1)


@pytest.mark.long
def test_a_reader_whose_right_is_taken_away_reads_no_more(closed: Closed, stub: Any) -> None:
    etl = Login(PASSWORD, "etl")
    assert code_of(stub.Scan, SCAN, etl)[0] is grpc.StatusCode.OK
    acl(closed, "SETUSER", "etl", "-xrange")
    code, reason = code_of(stub.Scan, SCAN, etl)
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert reason.startswith("rights: this user may not run XRANGE on 1 of 1 keys")


def test_a_reader_whose_keys_change_reads_the_new_ones_only(closed: Closed, stub: Any) -> None:
    etl = Login(PASSWORD, "etl")
    other = query_pb2.ScanRequest(key=b"salaries", origin=1)
    assert code_of(stub.Scan, other, etl)[0] is grpc.StatusCode.PERMISSION_DENIED
    acl(closed, "SETUSER", "etl", "resetkeys", "~salaries")
    assert code_of(stub.Scan, other, etl)[0] is grpc.StatusCode.OK
    assert code_of(stub.Scan, SCAN, etl)[0] is grpc.StatusCode.PERMISSION_DENIED


def test_a_user_beside_a_readers_certificate_has_no_more_than_its_own_rights(
    closed: Closed, stub: Any
) -> None:
    """The certificate alone would read everything."""
    assert code_of(stub.Scan, SCAN, Login(PASSWORD, "nobody"))[0] is (
        grpc.StatusCode.PERMISSION_DENIED
    )
    assert code_of(stub.Scan, SCAN, Login())[0] is grpc.StatusCode.OK


@pytest.mark.parametrize(
    "change", [("SETUSER", "etl", "off"), ("DELUSER", "etl"), ("SETUSER", "etl", "resetpass")]
)
def test_a_login_that_was_right_is_judged_again(
    closed: Closed, stub: Any, change: tuple[str, ...]
) -> None:
    etl = Login(PASSWORD, "etl")
    assert code_of(stub.Scan, SCAN, etl)[0] is grpc.StatusCode.OK
    acl(closed, *change)
    assert code_of(stub.Scan, SCAN, etl)[0] is grpc.StatusCode.UNAUTHENTICATED


def test_a_clients_certificate_opens_the_port_of_redis_clients_and_nothing_else(
    closed: Closed,
) -> None:
    """Beside the password of a user who may do everything as well."""
    app, node = closed.authority.client("app"), closed[1]
    assert closed.redis(node, **app.for_redis).ping()
    credentials = channel_credentials(app)
    with grpc.secure_channel(node.grpc_address, credentials) as channel:
        query, admin = query_pb2_grpc.QueryStub(channel), admin_pb2_grpc.AdminStub(channel)
        health: Any = health_pb2_grpc.HealthStub(channel)
        for call, request in (
            (query.ListStreams, query_pb2.ListStreamsRequest()),
            (query.Scan, SCAN),
            (admin.Status, admin_pb2.StatusRequest()),
            (health.Check, health_pb2.HealthCheckRequest()),
        ):
            for who in (Login(), Login(PASSWORD, "root")):
                code, reason = code_of(call, request, who)
                assert code is grpc.StatusCode.PERMISSION_DENIED
                assert "of client app of database crdb, for the port of Redis clients" in reason
    browser = Browser(closed, app)
    assert browser.get(Login()) == 401
    browser.close()


class Browser:
    """One connection to the pages, over TLS, which stays open."""

    def __init__(self, closed: Closed, shown: Files | None = None) -> None:
        context = ssl.create_default_context(cafile=str(closed.authority.ca))
        if shown is not None:
            context.load_cert_chain(shown.paths.certificate, shown.paths.key)
        self._connection = http.client.HTTPSConnection(
            "localhost", closed[1].http_port, timeout=seconds(), context=context
        )

    def get(self, who: Login) -> int:
        self._connection.request("GET", "/metrics", headers={"Authorization": who.header})
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def browser(closed: Closed) -> Iterator[Browser]:
    browser = Browser(closed)
    yield browser
    browser.close()


def test_pages_are_refused_once_the_right_is_gone(closed: Closed, browser: Browser) -> None:
    scraper = Login(PASSWORD, "prometheus")
    assert browser.get(scraper) == 200
    acl(closed, "SETUSER", "prometheus", "-info")
    assert browser.get(scraper) == 403
    acl(closed, "SETUSER", "prometheus", "+info")
    assert browser.get(scraper) == 200


def test_pages_are_refused_once_the_password_has_changed(closed: Closed, browser: Browser) -> None:
    scraper = Login(PASSWORD, "prometheus")
    assert browser.get(scraper) == 200
    acl(closed, "SETUSER", "prometheus", "resetpass", f">{OTHER_PASSWORD}")
    assert browser.get(scraper) == 401
    assert browser.get(Login(OTHER_PASSWORD, "prometheus")) == 200
