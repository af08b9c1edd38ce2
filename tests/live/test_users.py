"""Users of real nodes: their rights over gRPC and HTTP, and one aclfile for all regions."""

from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import redis

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.v1 import admin_pb2, admin_pb2_grpc, query_pb2, query_pb2_grpc
from tests.live.cluster import Cluster, cluster_of
from tests.live.forked import completed
from tests.live.test_closed import page
from tests.patience import seconds

pytestmark = pytest.mark.live

PASSWORD: Final = "a password of 26 characters"
USERS: Final = f"""
user default off
user root on >{PASSWORD.replace(" ", "-")} ~* &* +@all
user reader on >{PASSWORD.replace(" ", "-")} ~orders:* resetchannels -@all +@read -keys +info
user writer on >{PASSWORD.replace(" ", "-")} %W~orders:* resetchannels -@all +xadd
user scraper on >{PASSWORD.replace(" ", "-")} -@all +info +keys
"""
ROW: Final = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def login(user: str) -> Login:
    return Login(PASSWORD.replace(" ", "-"), user)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two regions that other machines reach, each with an aclfile of its own."""
    folder = tmp_path_factory.mktemp("users")
    with cluster_of(2, folder) as cluster:
        for region, node in cluster.nodes.items():
            aclfile = folder / f"users-{region}.acl"
            aclfile.write_text(USERS)
            other = cluster[3 - region]
            opened: dict[str, Any] = dict.fromkeys(("host", "grpc_host", "http_host"), "0.0.0.0")
            node.configure(
                {other.region: other.grpc_address},
                aclfile=str(aclfile),
                # For the regions' own login; the users are those of the file.
                requirepass="a password of regions",
                insecure_peers=True,
                **opened,
            )
            node.login = login("root")
            node.client = redis.Redis(
                port=node.resp_port, username="root", password=node.login.password
            )
        cluster.start()
        yield cluster


def asked(cluster: Cluster, call: str, request: Any, who: Login) -> grpc.StatusCode:
    """Status of a call of the Query or the Admin service of region 1."""
    with grpc.insecure_channel(cluster[1].grpc_address) as channel:
        stub: Any = query_pb2_grpc.QueryStub(channel)
        if not hasattr(stub, call):
            stub = admin_pb2_grpc.AdminStub(channel)
        try:
            reply = getattr(stub, call)(request, timeout=seconds(), metadata=who.metadata)
            if hasattr(reply, "__next__"):
                list(reply)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK


def append(key: bytes) -> query_pb2.AppendRequest:
    lengths = array("I", [len(ROW)]).tobytes()
    return query_pb2.AppendRequest(key=key, producer=b"p", lengths=lengths, fields=ROW)


OK: Final = grpc.StatusCode.OK
DENIED: Final = grpc.StatusCode.PERMISSION_DENIED


def test_bulk_reads_and_writes_need_rights_on_their_keys(cluster: Cluster) -> None:
    cluster[1].client.xadd("orders:1", {"f": "v"})
    cluster[1].client.xadd("secret", {"f": "v"})
    plan = query_pb2.PlanRequest
    scan = query_pb2.ScanRequest
    streams = query_pb2.ListStreamsRequest
    reader, writer = login("reader"), login("writer")
    assert asked(cluster, "Plan", plan(patterns=[b"orders:*"]), reader) is OK
    assert asked(cluster, "Plan", plan(), reader) is DENIED
    assert asked(cluster, "Plan", plan(patterns=[b"orders:*"]), writer) is DENIED
    assert asked(cluster, "Scan", scan(key=b"orders:1", origin=1), reader) is OK
    assert asked(cluster, "Scan", scan(key=b"secret", origin=1), reader) is DENIED
    assert asked(cluster, "ListStreams", streams(patterns=[b"orders:*"]), reader) is OK
    assert asked(cluster, "ListStreams", streams(), reader) is DENIED
    assert asked(cluster, "ScanPending", query_pb2.ScanPendingRequest(), reader) is DENIED
    assert asked(cluster, "Append", append(b"orders:1"), writer) is OK
    assert asked(cluster, "Append", append(b"secret"), writer) is DENIED
    assert asked(cluster, "Append", append(b"orders:1"), reader) is DENIED
    trim = query_pb2.TrimReadRequest(key=b"orders:1")
    assert asked(cluster, "TrimRead", trim, reader) is DENIED
    assert asked(cluster, "PlanTrim", query_pb2.TrimReadRequest(key=b"secret"), reader) is DENIED
    assert asked(cluster, "Plan", plan(), login("root")) is OK


def test_refusals_of_calls_and_pages_are_in_acl_log(cluster: Cluster) -> None:
    client = cluster[1].client
    client.acl_log_reset()
    before = client.info("stats")
    reader, wrong = login("reader"), Login("wrong", "reader")
    status, scan = admin_pb2.StatusRequest(), append(b"orders:1")
    assert asked(cluster, "Status", status, wrong) is grpc.StatusCode.UNAUTHENTICATED
    assert asked(cluster, "Tune", admin_pb2.TuneRequest(), reader) is DENIED
    assert asked(cluster, "Append", scan, reader) is DENIED
    assert page(cluster[1], "/metrics", reader)[0] == 403
    # Without any login nobody is named.
    assert asked(cluster, "Status", status, NO_LOGIN) is grpc.StatusCode.UNAUTHENTICATED
    found = {
        (one["context"], one["reason"], one["object"], one["username"]): one["client-info"]
        for one in client.acl_log()
    }
    assert found.keys() == {
        ("grpc", "auth", "crdtstream.v1.Admin/Status", "reader"),
        ("grpc", "command", "crdtstream.v1.Admin/Tune", "reader"),
        ("grpc", "command", "xadd", "reader"),
        ("http", "command", "/metrics", "reader"),
    }
    assert {one["addr"].partition(":")[0] for one in found.values()} == {"127.0.0.1"}
    after = client.info("stats")
    assert after["acl_access_denied_auth"] == before["acl_access_denied_auth"] + 1
    assert after["acl_access_denied_cmd"] == before["acl_access_denied_cmd"] + 3


def test_operators_need_all_of_admin(cluster: Cluster) -> None:
    status, tune = admin_pb2.StatusRequest(), admin_pb2.TuneRequest(parameter="x", value="y")
    for who in (NO_LOGIN, Login("wrong", "root"), login("default"), login("nobody")):
        assert asked(cluster, "Status", status, who) is grpc.StatusCode.UNAUTHENTICATED
    # Figures need what INFO needs.
    assert asked(cluster, "Status", status, login("reader")) is OK
    assert asked(cluster, "Status", status, login("writer")) is DENIED
    assert asked(cluster, "Tune", tune, login("reader")) is DENIED
    assert asked(cluster, "Backup", admin_pb2.BackupRequest(), login("reader")) is DENIED
    assert asked(cluster, "Tune", tune, login("root")) is grpc.StatusCode.INVALID_ARGUMENT


def test_pages_need_info_and_metrics_also_keys(cluster: Cluster) -> None:
    node = cluster[1]
    found = {
        who: [page(node, path, login(who))[0] for path in ("/metrics", "/v1/bdbs")]
        for who in ("root", "scraper", "reader", "writer")
    }
    assert found == {
        "root": [200, 200],
        "scraper": [200, 200],
        "reader": [403, 200],
        "writer": [403, 403],
    }
    assert page(node, "/metrics")[0] == 401
    assert page(node, "/healthz")[0] == 200


def test_one_file_is_pushed_to_all_regions_and_differences_are_shown(
    cluster: Cluster, tmp_path: Path
) -> None:
    password, users = tmp_path / "password", tmp_path / "users.acl"
    password.write_text(login("root").password)
    operator = ["--user", "root", "--password-file", str(password)]
    operator += ["--address", cluster[1].grpc_address]

    def run(*words: str) -> tuple[int, str]:
        found = completed(["crdtstream", *words, *operator])
        return found.returncode, found.stdout + found.stderr

    assert "users and rights differ" not in run("status")[1]
    cluster[2].client.execute_command("ACL", "SETUSER", "eve", "on", "nocommands")
    assert "users and rights differ between the regions" in run("status")[1]

    users.write_text(USERS + "user eve on +nosuch\n")
    code, told = run("crdb", "acl", "push", str(users))
    assert code == 1
    assert "region 1: " in told
    line = len(USERS.splitlines()) + 1
    assert f"the pushed file:{line}: Error in applying operation '+nosuch'" in told
    assert [node.status().users_epoch for node in cluster.nodes.values()] == [0, 0]

    users.write_text(USERS + "user eve on +get ~e\n")
    code, told = run("crdb", "acl", "push", str(users))
    assert code == 0, told
    assert "epoch 1" in told
    assert "users and rights differ" not in run("status")[1]
    for node in cluster.nodes.values():
        assert node.client.acl_getuser("eve")["keys"] == ["~e"]
        assert node.status().users_epoch == 1
    # Once more changes nothing but the epoch.
    code, told = run("crdb", "acl", "push", str(users))
    assert (code, "epoch 2" in told) == (0, True), told
    assert [node.client.acl_getuser("eve")["keys"] for node in cluster.nodes.values()] == [
        ["~e"],
        ["~e"],
    ]
    # It is kept over a restart.
    cluster[2].end()
    cluster[2].start()
    assert cluster[2].status().users_hash == cluster[1].status().users_hash


def test_a_push_that_locks_operators_out_is_refused_by_all_or_forced(tmp_path: Path) -> None:
    password, users = tmp_path / "password", tmp_path / "pushed.acl"
    password.write_text(login("root").password)
    aclfile = tmp_path / "users.acl"
    with cluster_of(1, tmp_path) as cluster:
        node = cluster[1]
        aclfile.write_text(USERS)
        node.configure({}, aclfile=str(aclfile))
        node.client = redis.Redis(
            port=node.resp_port, username="root", password=login("root").password
        )
        node.start()

        def push(content: str, *options: str) -> tuple[int, str]:
            users.write_text(content)
            words = ["crdtstream", "crdb", "acl", "push", str(users), *options]
            words += ["--user", "root", "--password-file", str(password)]
            found = completed([*words, "--address", node.grpc_address])
            return found.returncode, found.stdout + found.stderr

        nobody = USERS.replace("+@all", "+@all -config")
        code, told = push(nobody, "--dry-run")
        assert (code, "nobody could administer this region" in told) == (1, True)
        code, told = push(nobody)
        assert (code, "nothing is changed" in told) == (1, True)
        others = USERS.replace("user root", "user ann")
        code, told = push(others)
        assert (code, "user 'root', which pushes the file" in told) == (1, True)
        assert aclfile.read_text() == USERS
        assert node.client.acl_whoami() == "root"
        code, told = push(others, "--force")
        assert code == 0, told
        assert "user ann on" in aclfile.read_text()


def test_streams_in_a_status_are_for_those_who_may_see_keys(cluster: Cluster) -> None:
    stub_of = admin_pb2_grpc.AdminStub
    with grpc.insecure_channel(cluster[1].grpc_address) as channel:
        for user, is_allowed in (("scraper", True), ("reader", False)):
            plain = admin_pb2.StatusRequest()
            stub_of(channel).Status(plain, metadata=login(user).metadata, timeout=seconds())
            for more in (
                admin_pb2.StatusRequest(with_streams=True),
                admin_pb2.StatusRequest(with_digest=True),
            ):
                asked = partial(
                    stub_of(channel).Status, more, metadata=login(user).metadata, timeout=seconds()
                )
                if is_allowed:
                    asked()
                    continue
                with pytest.raises(grpc.RpcError) as caught:
                    asked()
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_users_are_replaced_by_nobody_without_a_login(tmp_path: Path) -> None:
    """Admin is open otherwise, on a port that only this machine reaches."""
    with cluster_of(1, tmp_path) as cluster:
        node = cluster[1]
        aclfile = tmp_path / "users.acl"
        aclfile.write_text(USERS)
        node.configure({}, aclfile=str(aclfile))
        node.client = redis.Redis(
            port=node.resp_port, username="root", password=login("root").password
        )
        node.start()
        request = admin_pb2.PushUsersRequest(
            aclfile=b"user default on nopass ~* &* +@all\n", epoch=1
        )
        with grpc.insecure_channel(node.grpc_address) as channel:
            for given, code in (
                (NO_LOGIN, grpc.StatusCode.UNAUTHENTICATED),
                (login("reader"), grpc.StatusCode.PERMISSION_DENIED),
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    admin_pb2_grpc.AdminStub(channel).PushUsers(
                        request, metadata=given.metadata, timeout=seconds()
                    )
                assert caught.value.code() is code
        assert aclfile.read_text() == USERS
        assert node.client.acl_whoami() == "root"


def test_a_push_that_a_node_refuses_has_the_status_of_the_reason(cluster: Cluster) -> None:
    epoch = cluster[1].status().users_epoch
    wanted = {
        (b"user eve +nosuch\n", epoch + 1): grpc.StatusCode.INVALID_ARGUMENT,
        (b"user eve\n", epoch): grpc.StatusCode.FAILED_PRECONDITION,
    }
    with AdminClient(cluster[1].grpc_address, login=login("root")) as client:
        for (aclfile, pushed), status in wanted.items():
            request = admin_pb2.PushUsersRequest(aclfile=aclfile, epoch=pushed)
            with pytest.raises(AdminError) as caught:
                client.push_users(request)
            assert isinstance(caught.value.__cause__, grpc.RpcError)
            assert caught.value.__cause__.code() is status


def test_a_node_with_an_open_user_does_not_start(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        node = cluster[1]
        aclfile = tmp_path / "open.acl"
        aclfile.write_text("user default on nopass ~* &* +@all\n")
        node.configure({}, host="0.0.0.0", aclfile=str(aclfile))
        assert node.launch().wait(seconds()) == 1
        told = node.log.read_text()
        assert "user 'default' is on and needs no password (nopass)" in told
        assert not node.folder.exists()
