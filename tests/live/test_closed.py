"""Ports that other machines can reach: refused at start, or closed to callers without a password.

The ports listen on all addresses, and the tests call them over 127.0.0.1: the address that a port
listens on decides, not that of the caller, who may be a proxy on this machine.
"""

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.engine.log_cutting import CUT_RECORDS_MIN
from crdtstream.node.health import QUERY
from crdtstream.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    bootstrap_pb2,
    membership_pb2,
    query_pb2,
    replication_pb2,
)
from tests.live.bootstraps import SMALL_BACKLOG, cut_log, write
from tests.live.cluster import Cluster, Node, cluster_of
from tests.live.forked import completed
from tests.live.test_joining import Joiner, status_of
from tests.live.test_members import crdb
from tests.patience import seconds, wait_until
from tests.resp.node import RawClient, request

pytestmark = pytest.mark.live

PASSWORD: Final = "open sesame"
LOGIN: Final = Login(PASSWORD)
EVERYWHERE: Final = "0.0.0.0"
OPENED: Final[dict[str, Any]] = {
    "requirepass": PASSWORD,
    "host": EVERYWHERE,
    "grpc_host": EVERYWHERE,
    "http_host": EVERYWHERE,
    "insecure_peers": True,
}
# All methods of our services, and what reflection has.
METHODS: Final = {
    f"{service.full_name}/{method.name}": (method.client_streaming, method.server_streaming)
    for file in (admin_pb2, bootstrap_pb2, membership_pb2, query_pb2, replication_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
} | {"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": (True, True)}
MESSAGES_REFUSED: Final = "a region does not take this region's messages"
PUSH_USERS: Final = "crdtstream.v1.Admin/PushUsers"
OPEN_METHODS: Final = {"crdtstream.v1.Replication/Sync", "crdtstream.v1.Membership/Join"}


def opened(node: Node, login: Login = LOGIN) -> Node:
    """The node, as one that wants a password of everybody."""
    node.login = login
    node.client = redis.Redis(port=node.resp_port, password=login.password)
    return node


@pytest.fixture(scope="module")
def reachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One region whose ports other machines reach."""
    with cluster_of(1, tmp_path_factory.mktemp("reachable")) as cluster:
        cluster.configure(**OPENED)
        opened(cluster[1])
        cluster.start()
        yield cluster[1]


def code_of(channel: grpc.Channel, method: str, login: Login) -> grpc.StatusCode:
    """Status of a call with a request without content."""
    streams_in, streams_out = METHODS[method]
    kind = f"{'stream' if streams_in else 'unary'}_{'stream' if streams_out else 'unary'}"
    call = getattr(channel, kind)(f"/{method}")
    request = iter([b""]) if streams_in else b""
    try:
        reply = call(request, timeout=seconds(), metadata=login.metadata)
        if streams_out:
            next(reply, None)
            reply.cancel()
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def tells_refusal(node: Node) -> bool:
    return MESSAGES_REFUSED in node.log.read_text()


def page(node: Node, path: str, login: Login = NO_LOGIN) -> tuple[int, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{node.http_port}{path}")
    if login.password:
        request.add_header("Authorization", login.header)
    try:
        with urllib.request.urlopen(request, timeout=seconds()) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# --- At start -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_out", "told"),
    [
        ("insecure_peers", "grpc_host: 0.0.0.0 can be reached from other machines; write"),
        ("requirepass", "http_host: 0.0.0.0 can be reached from other machines; set requirepass"),
    ],
)
def test_a_port_that_is_not_guarded_is_refused_at_start(
    tmp_path: Path, left_out: str, told: str
) -> None:
    with cluster_of(1, tmp_path) as cluster:
        given = {name: value for name, value in OPENED.items() if name != left_out}
        cluster[1].configure({}, **given)
        process = cluster[1].launch()
        assert process.wait(seconds()) == 2
        assert told in cluster[1].log.read_text()
        cluster[1].process = None


def test_host_opens_the_port_for_redis_clients_only(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        given = {**OPENED, "grpc_host": "127.0.0.1", "http_host": "127.0.0.1"}
        cluster.configure(**given)
        node = opened(cluster[1], Login(PASSWORD))
        cluster.start()
        # 127.0.0.2 is another address of this machine.
        socket.create_connection(("127.0.0.2", node.resp_port), timeout=seconds()).close()
        for port in (node.grpc_port, node.http_port):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), timeout=seconds())
        assert "grpc_host and http_host open the others" in node.log.read_text()
        # The operator of this machine is asked nothing, as before; programs that read are.
        node.login = NO_LOGIN
        assert node.status().region == 1
        assert page(node, "/metrics")[0] == 200
        with grpc.insecure_channel(node.grpc_address) as channel:
            for method in METHODS:
                is_asked = code_of(channel, method, NO_LOGIN) is grpc.StatusCode.UNAUTHENTICATED
                asks = method.startswith(QUERY) or method == PUSH_USERS
                assert is_asked == asks, method


# --- gRPC and HTTP ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_wants_a_password_unless_it_is_open(reachable: Node, method: str) -> None:
    with grpc.insecure_channel(reachable.grpc_address) as channel:
        code = code_of(channel, method, NO_LOGIN)
        assert (code is grpc.StatusCode.UNAUTHENTICATED) == (method not in OPEN_METHODS)
        if method not in OPEN_METHODS:
            assert code_of(channel, method, LOGIN) is not grpc.StatusCode.UNAUTHENTICATED


def test_health_is_open_and_reflection_answers_with_the_password(reachable: Node) -> None:
    with grpc.insecure_channel(reachable.grpc_address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        reply = health.Check(health_pb2.HealthCheckRequest(), timeout=seconds())
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        [listed] = stub.ServerReflectionInfo(
            iter([request]), metadata=LOGIN.metadata, timeout=seconds()
        )
        assert "crdtstream.v1.Admin" in str(listed)


def test_a_backup_streams_to_its_end_behind_the_check(reachable: Node) -> None:
    reachable.client.xadd("s", {"f": "v"})
    with grpc.insecure_channel(reachable.grpc_address) as channel:
        stub = admin_pb2_grpc.AdminStub(channel)
        pieces = list(
            stub.Backup(admin_pb2.BackupRequest(), metadata=LOGIN.metadata, timeout=seconds())
        )
    assert pieces
    assert sum(len(piece.data) for piece in pieces) > 100


def test_pages_but_health_want_the_password(reachable: Node) -> None:
    assert page(reachable, "/readyz")[0] == 200
    assert page(reachable, "/v1/bdbs/1/availability")[0] == 200
    for path in ("/metrics", "/v1/bdbs", "/v1/crdbs"):
        assert page(reachable, path)[0] == 401
        assert page(reachable, path, LOGIN)[0] == 200


def test_refused_logins_are_counted_and_logged_without_the_password(reachable: Node) -> None:
    def counted(reason: str) -> int:
        return int(reachable.client.info("crdt")[f"crdt_logins_{reason}"])

    missing, wrong = counted("missing"), counted("wrong")
    assert page(reachable, "/metrics")[0] == 401
    assert page(reachable, "/metrics", Login("abracadabra"))[0] == 401
    assert (counted("missing"), counted("wrong")) == (missing + 1, wrong + 1)
    # redis-py would try it again, and again.
    with RawClient(reachable.resp_port) as stranger:
        stranger.send(request(b"AUTH", b"abracadabra"))
        assert stranger.read_line().startswith(b"-WRONGPASS")
    assert counted("wrong") == wrong + 2
    _, text = page(reachable, "/metrics", LOGIN)
    for port in (b"http", b"resp"):
        count = b'crdtstream_logins_refused_total{port="%b",reason="wrong",region="1"}' % port
        assert count in text
    log = reachable.log.read_text()
    assert "wrong user or password" in log
    assert "abracadabra" not in log
    assert PASSWORD not in log


def test_commands_take_the_password_from_a_file_or_the_environment(
    reachable: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "password"
    at = ("--address", reachable.grpc_address)
    with_file = ("--password-file", str(path))
    path.write_text(f"{PASSWORD}\n")
    for words in (["crdtstream", "status"], ["crdtstream", "crdb", "list"], ["rladmin", "status"]):
        run = completed([*words, *at])
        assert run.returncode == 1
        assert "takes no call without its password (none was given): name --password-file" in (
            run.stderr
        )
        run = completed([*words, *at, *with_file])
        assert run.returncode == 0, run.stderr
    copy = ["crdtstream", "backup", str(tmp_path / "copy"), "--address", reachable.grpc_address]
    assert completed(copy).returncode == 1
    assert completed([*copy, *with_file]).returncode == 0
    second = [*copy[:2], str(tmp_path / "c2"), *copy[3:]]
    assert completed([*second, "--user", "eve", *with_file]).returncode == 1
    monkeypatch.setenv("CRDTSTREAM_PASSWORD", PASSWORD)
    run = completed(["crdtstream", "status", "--json", *at])
    assert run.returncode == 0
    assert PASSWORD not in run.stdout


# --- Peers --------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """Two regions whose ports other machines reach; not started."""
    with cluster_of(2, tmp_path) as cluster:
        for node in cluster.nodes.values():
            opened(node)
        yield cluster


def test_regions_with_one_password_agree_and_let_another_join(
    pair: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Introductions, messages about members and a bootstrap carry the password; Join, a token."""
    pair.configure(**OPENED, replication_backlog_size=SMALL_BACKLOG)
    pair.start()
    write(pair[1], "s", 2 * CUT_RECORDS_MIN)
    pair.converge()
    for node in pair.nodes.values():
        cut_log(node)
    joiner = Joiner(tmp_path, 3)
    opened(joiner.node)
    monkeypatch.setenv("CRDTSTREAM_PASSWORD", PASSWORD)
    added = joiner.add(pair[1])
    assert added.returncode == 0, added.stderr
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", PASSWORD)
    joiner.launch(pair[2])
    try:
        joiner.wait_until_active(pair[1])
        assert joiner.node.status().bootstrap.taken_over == 1
        wait_until(lambda: joiner.node.status().digest == pair[1].status().digest, "all are equal")
        assert status_of(pair[2], 3) == "active"
        _, text = page(pair[1], "/v1/crdbs/1/health_report", LOGIN)
        if text:
            assert b"takes another password" not in text
    finally:
        joiner.node.end(signal.SIGKILL)


def test_regions_with_different_passwords_link_and_say_why_they_do_not_agree(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.configure(**OPENED)
    other = Login("another one")
    text = pair[2].config.read_text()
    pair[2].config.write_text(text.replace(PASSWORD, other.password))
    opened(pair[2], other)
    for node in pair.nodes.values():
        node.launch()
    for node in pair.nodes.values():
        node.wait(for_writes=False)
        wait_until(lambda: tells_refusal(node), "its log says why")  # noqa: B023 - called here
    assert pair[1].link(2).state == admin_pb2.LinkStatus.State.UP
    monkeypatch.setenv("CRDTSTREAM_PASSWORD", PASSWORD)
    moved = f"replication_endpoint=localhost:{pair[2].grpc_port}"
    run = crdb(pair[1], "update", "--instance-id", "2", "--instance", moved)
    assert run.returncode == 1
    assert "region 2 at localhost" in run.stderr
    assert "takes another password than this region has; set the same requirepass" in run.stderr
    run = completed(["crdtstream", "status", "--address", pair[1].grpc_address, "--json"])
    assert run.returncode == 1
    assert json.loads(run.stdout)["regions"]
    assert "takes no call without its password (this one is wrong)" in run.stderr
    # Once the files have the same password, all is well.
    pair[2].end()
    pair[2].config.write_text(text)
    opened(pair[2])
    pair[2].start()
    assert crdb(pair[1], "update", "--instance-id", "2", "--instance", moved).returncode == 0
    # A change of the password, in one region after the other, stops no writes.
    pair[2].end()
    pair[2].config.write_text(text.replace(PASSWORD, other.password))
    opened(pair[2], other)
    pair[2].start()
    pair[2].client.xadd("s", {"f": "v"})
    pair.converge()
