"""Real regions that speak mutual TLS: operated, killed, joined, removed, and rotated under load."""

import asyncio
import itertools
import json
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import redis
from typer.testing import CliRunner

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.certificates.certificate import parse_certificates
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.names import Role
from crdtstream.certificates.node_files import CertificateSet, read_set
from crdtstream.cli import rladmin
from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.v1 import (
    admin_pb2,
    bootstrap_pb2,
    bootstrap_pb2_grpc,
    membership_pb2,
    membership_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
    replication_pb2_grpc,
)
from crdtstream.v1 import replication_pb2 as pb
from tests.certificates.making import NOW, Made, make_authority
from tests.certificates.node_folder import NodeFolder
from tests.harness.driven import SAID
from tests.live.cluster import Cluster, Node, cluster_of, vv_of
from tests.live.forked import completed
from tests.live.test_closed import METHODS
from tests.live.test_joining import NEW, Joiner, level, status_of
from tests.live.test_members import crdb, listed
from tests.patience import seconds, wait_until
from tests.replication.identities import Issuer, showing

pytestmark = pytest.mark.live

PASSWORD: Final = "open sesame"
# Methods that a holder may call; reflection is in METHODS, and Join asks for more than this.
BETWEEN_REGIONS: Final = {"Replication", "Membership", "Bootstrap"}
OF_MEMBERS: Final = {
    f"crdtstream.v1.Admin/{name}" for name in ("GroupProgress", "Members", "Status")
}


def options_of(files: NodeFolder) -> tuple[str, ...]:
    paths = files.paths
    return (
        *("--tls-cert-file", str(paths.certificate)),
        *("--tls-key-file", str(paths.key)),
        *("--tls-ca-cert-file", str(paths.ca)),
    )


def settings_of(files: NodeFolder) -> dict[str, object]:
    paths = files.paths
    return {
        "tls_cert_file": str(paths.certificate),
        "tls_key_file": str(paths.key),
        "tls_ca_cert_file": str(paths.ca),
        "tls_replication": True,
        "requirepass": PASSWORD,
    }


def files_of(folder: Path, made: Made) -> NodeFolder:
    folder.mkdir()
    files = NodeFolder(folder)
    files.put_all(made)
    return files


def set_of(files: NodeFolder) -> CertificateSet:
    return read_set(files.paths, Wanted(), NOW)[0]


class Secure:
    """Regions with certificates, and an operator who has one."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.ca = Issuer(folder / "certificates")
        self.cluster = cluster
        self.operator = files_of(folder / "operator", self.ca.made(Role.OPERATOR, "alice"))
        for region, node in cluster.nodes.items():
            peers = {n: one.grpc_address for n, one in cluster.nodes.items() if n != region}
            node.configure(peers, **settings_of(self.ca.files(region)))
            self.operate(node)

    def operate(self, node: Node) -> None:
        """The operator asks this node."""
        node.login = Login(certificates=set_of(self.operator))
        node.login_options = options_of(self.operator)
        node.client = redis.Redis(port=node.resp_port, password=PASSWORD, socket_timeout=seconds())

    def __getitem__(self, region: int) -> Node:
        return self.cluster[region]

    @property
    def nodes(self) -> list[Node]:
        return list(self.cluster.nodes.values())


@contextmanager
def secure_regions(count: int, folder: Path) -> Iterator[Secure]:
    with cluster_of(count, folder) as cluster:
        secure = Secure(cluster, folder)
        cluster.start()
        yield secure


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """Three regions for the tests that end none."""
    with secure_regions(3, tmp_path_factory.mktemp("secure")) as found:
        yield found


def program(node: Node, *words: str) -> str:
    """Output of a command that succeeds, about this node."""
    run = completed([*words, *node.login_options])
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


# --- Who may call what ----------------------------------------------------------------------------


def may_call(role: Role, method: str) -> bool:
    service = method.partition("/")[0].rpartition(".")[2]
    if role is Role.REGION:
        return service in BETWEEN_REGIONS or method in OF_MEMBERS
    if service in BETWEEN_REGIONS or role is Role.CLIENT:
        return False
    return role is Role.OPERATOR or service == "Query"


async def answers(address: str, shown: Made, metadata: Any = ()) -> dict[str, tuple[Any, str]]:
    """Of each method the status and text for a call without content."""
    found = {}
    async with showing(address, shown) as channel:
        for method, (streams_in, streams_out) in METHODS.items():
            kind = f"{'stream' if streams_in else 'unary'}_{'stream' if streams_out else 'unary'}"
            call = getattr(channel, kind)(f"/{method}")
            # A message that meets the end of its call fails by itself.
            request = iter(()) if streams_in else b""
            answer = call(request, metadata=metadata, timeout=seconds())
            try:
                if streams_out:
                    await answer.read()
                else:
                    await answer
            except grpc.aio.AioRpcError as error:
                found[method] = error.code(), error.details() or ""
            else:
                found[method] = grpc.StatusCode.OK, ""
            answer.cancel()
    return found


def is_refused_by_guard(answer: tuple[Any, str]) -> bool:
    code, text = answer
    reasons = ("this call is for role", "for the port of Redis clients alone")
    return code is grpc.StatusCode.PERMISSION_DENIED and any(one in text for one in reasons)


@pytest.mark.parametrize("role", Role)
async def test_each_holder_calls_what_is_for_it_and_nothing_else(
    secure: Secure, role: Role
) -> None:
    # The backup, the digests and such of an empty request may be answered; a flush deletes nothing.
    name = "2" if role is Role.REGION else "somebody"
    found = await answers(secure[1].grpc_address, secure.ca.made(role, name))
    assert {method for method in METHODS if not is_refused_by_guard(found[method])} == {
        method for method in METHODS if may_call(role, method)
    }


async def test_a_user_with_the_password_is_an_operator_with_any_certificate(
    secure: Secure,
) -> None:
    shown = secure.ca.made(Role.QUERY, "etl")
    address = secure[1].grpc_address
    found = await answers(address, shown, Login(PASSWORD).metadata)
    assert {method for method in METHODS if not is_refused_by_guard(found[method])} == {
        method for method in METHODS if may_call(Role.OPERATOR, method)
    }
    async with showing(address, shown) as channel:
        call: Any = channel.unary_unary("/crdtstream.v1.Admin/Status")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", metadata=Login("wrong").metadata, timeout=seconds())
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_user_beside_a_certificate_has_the_rights_of_that_user_alone(
    secure: Secure,
) -> None:
    """A reader's certificate alone reads all streams."""
    client = secure[1].client
    client.xadd("salaries", {"f": "v"})
    client.acl_setuser(
        "few", enabled=True, passwords=["+pass"], keys=["few:*"], commands=["+xinfo", "+xrange"]
    )
    address, shown = secure[1].grpc_address, secure.ca.made(Role.QUERY, "etl")

    async def described(login: Login) -> set[bytes]:
        async with showing(address, shown) as channel:
            request = query_pb2.ListStreamsRequest()
            call = query_pb2_grpc.QueryStub(channel).ListStreams(
                request, metadata=login.metadata, timeout=seconds()
            )
            return {one.key async for one in call}

    assert b"salaries" in await described(NO_LOGIN)
    assert b"salaries" in await described(Login(PASSWORD))
    for login, code in (
        (Login("pass", "few"), grpc.StatusCode.PERMISSION_DENIED),
        (Login("wrong", "few"), grpc.StatusCode.UNAUTHENTICATED),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await described(login)
        assert caught.value.code() is code


async def test_a_region_copies_nothing_in_the_name_of_another_one(secure: Secure) -> None:
    request = bootstrap_pb2.CopyRequest(
        protocol=PROTOCOL_VERSION, region=3, database_id="crdb", run_id=7
    )
    async with showing(secure[1].grpc_address, secure.ca.region(2)) as channel:
        call = bootstrap_pb2_grpc.BootstrapStub(channel).Copy(request, timeout=seconds())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert caught.value.details() == "certificate is of region 2, Copy says 3"


def test_refusals_are_counted_for_operators(secure: Secure) -> None:
    async def refused() -> None:
        async with showing(secure[2].grpc_address, secure.ca.region(3), region=2) as channel:
            request = membership_pb2.IntroduceRequest(database_id="crdb", region=1)
            with pytest.raises(grpc.aio.AioRpcError):
                await membership_pb2_grpc.MembershipStub(channel).Introduce(request)

    def failures() -> int:
        return int(secure[2].client.info("crdt")["crdt_peer_auth_failures"])

    before = failures()
    asyncio.run(refused())
    assert failures() == before + 1
    assert secure[2].client.info("crdt")["crdt_tls_certificate_version"] == 1


# --- Operating ------------------------------------------------------------------------------------


def test_commands_present_a_certificate(secure: Secure, tmp_path: Path) -> None:
    node = secure[1]
    where = ("--address", node.grpc_address)
    status = program(node, "crdtstream", "status", *where)
    assert all(other.grpc_address in status for other in secure.nodes)
    assert '"epoch"' in crdb(node, "list", "--json").stdout
    words = ["tune", "db", "crdb", "maxmemory", "1gb", *where, *node.login_options]
    tuned = CliRunner().invoke(rladmin.app, words)
    assert tuned.exit_code == 0, tuned.output
    program(node, "crdtstream", "sync", "wait", *where)
    program(node, "crdtstream", "backup", str(tmp_path / "backup"), "--address", node.grpc_address)
    reloaded = program(node, "crdtstream", "certs", "reload", *where)
    assert reloaded.startswith("region 1: certificate 1 since its start, serial ")


def test_the_pages_of_a_node_have_what_the_others_answer_it(secure: Secure) -> None:
    """A region asks the others for their health by its own certificate."""
    guid = secure[1].status().database_uid
    url = f"http://127.0.0.1:{secure[1].http_port}/v1/crdbs/{guid}/health_report"
    with urllib.request.urlopen(url, timeout=seconds()) as reply:
        reports = json.load(reply)
    links = [link["status"] for one in reports for link in one["connections"]]
    assert links == ["ok"] * 6, reports
    assert all(one["configurations"][0]["encryption"] for one in reports)


async def test_headers_of_a_call_are_bounded(secure: Secure) -> None:
    shown = secure.ca.made(Role.OPERATOR, "alice")
    async with showing(secure[1].grpc_address, shown) as channel:
        call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        await call(b"", metadata=(("x", "y" * 4_000),), timeout=seconds())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"", metadata=(("x", "y" * 9_000),), timeout=seconds())
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.long
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a hello"])
def test_half_a_handshake_is_ended(secure: Secure, sent: bytes) -> None:
    host, _, port = secure[1].grpc_address.rpartition(":")
    with socket.create_connection((host, int(port)), seconds()) as connection:
        connection.sendall(sent)
        # Until the node closes it.
        assert connection.recv(100) == b""


def test_a_command_without_the_right_certificate_says_what_is_missing(
    secure: Secure, tmp_path: Path
) -> None:
    node = secure[1]
    words = ["crdtstream", "status", "--address", node.grpc_address]
    plain = completed(words)
    assert plain.returncode == 1
    assert "--tls-cert-file" in plain.stderr
    reader = files_of(tmp_path / "reader", secure.ca.made(Role.QUERY, "etl"))
    denied = completed([*words, *options_of(reader)])
    assert denied.returncode == 1
    assert "this call is for role operator" in denied.stderr
    stranger = files_of(
        tmp_path / "stranger",
        Issuer(tmp_path, make_authority(name="another")).made(Role.OPERATOR, "eve"),
    )
    unknown = completed([*words, *options_of(stranger)])
    assert unknown.returncode == 1
    assert "its certificate is not trusted" in unknown.stderr


def test_a_node_does_not_start_with_the_files_of_another_region(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        node = cluster[1]
        files = files_of(tmp_path / "files", Issuer(tmp_path).region(2))
        node.configure({}, **settings_of(files))
        assert node.launch().wait(seconds()) == 1
        assert "it is for region 2 of database crdb, not for region 1" in node.log.read_text()


# --- Members --------------------------------------------------------------------------------------


def test_a_revoked_certificate_is_refused_by_all_regions(tmp_path: Path) -> None:
    """A region that was away hears of it, and a restart keeps it."""
    with secure_regions(3, tmp_path) as secure:
        lost = secure.ca.made(Role.OPERATOR, "mallory")
        files = files_of(tmp_path / "mallory", lost)
        certificate = str(files.paths.certificate)

        def run(node: Node, options: tuple[str, ...], *words: str) -> str:
            where = ("--address", node.grpc_address)
            return completed(["crdtstream", *words, *where, *options]).stderr

        def is_refused(node: Node) -> bool:
            told = run(node, options_of(files), "crdb", "list")
            return "was revoked; it needs a new one" in told

        assert run(secure[3], options_of(files), "crdb", "list") == ""
        # Neither the own certificate, nor that of the node that is asked.
        told = run(secure[1], options_of(files), "certs", "revoke", certificate)
        assert "present another one" in told
        used = str(secure.ca.files(1).paths.certificate)
        told = run(secure[1], options_of(secure.operator), "certs", "revoke", used, "--force")
        assert "issue a new one for it, replace its files, and then revoke" in told

        secure[2].end(signal.SIGKILL)
        where = ("--address", secure[1].grpc_address)
        shown = program(secure[1], "crdtstream", "certs", "revoke", certificate, *where)
        (parsed,) = parse_certificates(lost.pem)
        serial = f"{parsed.serial:x}"
        assert serial in shown
        # Again is no error, and changes nothing.
        again = program(secure[1], "crdtstream", "certs", "revoke", certificate, *where)
        assert again.endswith(shown)
        secure[2].start()
        for node in secure.nodes:
            wait_until(partial(is_refused, node), f"region {node.region} refuses it")
        secure[1].end()
        secure[1].start()
        secure.cluster.converge()
        assert is_refused(secure[1])
        found = json.loads(program(secure[1], "crdtstream", "certs", "revoked", "--json", *where))
        assert [one["serial"] for one in found["revoked"]] == [serial]


@pytest.mark.long
def test_a_certificate_in_use_is_revoked_by_another_region_and_by_force_only(
    tmp_path: Path,
) -> None:
    with secure_regions(3, tmp_path) as secure:
        used = str(secure.ca.files(3).paths.certificate)
        (parsed,) = parse_certificates(secure.ca.files(3).paths.certificate.read_bytes())
        words = ["crdtstream", "certs", "revoke", used, *options_of(secure.operator)]

        def ask(node: Node, *options: str) -> tuple[int, str]:
            run = completed([*words, "--address", node.grpc_address, *options])
            return run.returncode, run.stdout + run.stderr

        def degraded() -> str | None:
            url = f"http://127.0.0.1:{secure[3].http_port}/health"
            with urllib.request.urlopen(url, timeout=seconds()) as reply:
                found: str | None = json.load(reply)["degraded"]
            return found

        for options in ((), ("--dry-run",)):
            code, told = ask(secure[1], *options)
            assert (code, f"region 3 uses certificate {parsed.serial:x}" in told) == (1, True), told
        assert degraded() is None
        code, told = ask(secure[3], "--force")
        assert (code, "or ask another region, with --force" in told) == (1, True), told
        code, told = ask(secure[1], "--force")
        assert code == 0, told
        wait_until(
            lambda: degraded() == "the certificate was revoked; replace it", "its page says so"
        )


def test_regions_converge_restart_join_and_leave(tmp_path: Path) -> None:
    with secure_regions(3, tmp_path) as secure:
        for node in secure.nodes:
            for number in range(20):
                node.client.xadd("s", {"n": number})
        secure.cluster.converge()

        secure[2].end(signal.SIGKILL)
        secure[1].client.xadd("s", {"while": "2 is away"})
        secure[2].start()
        secure.cluster.converge()

        joiner = Joiner(tmp_path)
        assert joiner.add(secure[1]).returncode == 0
        _join_with_the_certificate_of_another_region_fails(secure, joiner, tmp_path)
        joiner.options = options_of(secure.ca.files(NEW))
        secure.operate(joiner.node)
        joiner.launch(secure[1])
        joiner.wait_until_active(secure[1])
        level([*secure.nodes, joiner.node])
        joiner.node.client.xadd("s", {"from": "the new one"})
        level([*secure.nodes, joiner.node])
        # Everything that it needs is in its file.
        joiner.node.end()
        joiner.node.start()

        run = crdb(secure[1], "remove-instance", "--instance-id", "3", "--yes")
        assert run.returncode == 0, run.stdout + run.stderr
        wait_until(lambda: status_of(secure[2], 3) == "removed", "region 2 knows it")
        _a_removed_region_is_told_so_and_gets_nothing(secure)
        joiner.node.end()


def _join_with_the_certificate_of_another_region_fails(
    secure: Secure, joiner: Joiner, folder: Path
) -> None:
    """And the token stays unbound: its region joins by it afterwards."""
    joiner.options = options_of(secure.ca.files(2))
    text = joiner.refused(secure[1], name="thief")
    assert "certificate is of region 2, the token says 4" in text
    assert listed(secure[1])["instances"][-1]["status"] == "joining"
    del folder


def _a_removed_region_is_told_so_and_gets_nothing(secure: Secure) -> None:
    """S2: its certificate is valid for years."""
    node, shown = secure[1], secure.ca.region(3)

    async def opened() -> tuple[Any, str]:
        async with showing(node.grpc_address, shown) as channel:
            call = replication_pb2_grpc.ReplicationStub(channel).Sync()
            opening = pb.Open(
                protocol=PROTOCOL_VERSION,
                region=3,
                database_id="crdb",
                run_id=7,
                origins=[1],
                membership=SAID,
            )
            await call.write(pb.SyncRequest(open=opening))
            await call.read()
            return await call.code(), await call.details()

    async def asked() -> str:
        async with showing(node.grpc_address, shown) as channel:
            call: Any = channel.unary_unary("/crdtstream.v1.Admin/Status")
            try:
                await call(admin_pb2.StatusRequest().SerializeToString(), timeout=seconds())
            except grpc.aio.AioRpcError as error:
                return error.details() or ""
        return "answered"

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        asyncio.run(opened())
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "region 3 was removed at epoch" in (caught.value.details() or "")
    assert asyncio.run(asked()) == "certificate is of region 3, which is no member"


# --- Rotation -------------------------------------------------------------------------------------


class Writers:
    """A client in each region that writes without a pause, and counts what it was told."""

    def __init__(self, nodes: list[Node]) -> None:
        self._stop = threading.Event()
        self.acknowledged: dict[int, int] = {}
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._write, args=(node,)) for node in nodes]

    def _write(self, node: Node) -> None:
        client = redis.Redis(port=node.resp_port, password=PASSWORD, socket_timeout=seconds())
        for number in itertools.count(1):
            if self._stop.is_set():
                return
            try:
                client.xadd(f"s{node.region}", {"n": number})
            except redis.RedisError as error:
                self.errors.append(f"region {node.region}: {error}")
                return
            self.acknowledged[node.region] = number
            self._stop.wait(0.01)

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def reconnects(nodes: list[Node]) -> dict[tuple[int, int], int]:
    return {
        (node.region, one.peer): one.reconnects for node in nodes for one in node.status().links
    }


def have_begun_again(nodes: list[Node], expected: dict[tuple[int, int], int]) -> bool:
    found = reconnects(nodes)
    return all(found[link] >= count for link, count in expected.items())


def are_linked(nodes: list[Node]) -> bool:
    up = admin_pb2.LinkStatus.State.UP
    return all(one.state == up for node in nodes for one in node.status().links)


@pytest.mark.long
def test_certificates_and_authority_change_under_load(tmp_path: Path) -> None:
    """Leaves; then the runbook of a new authority: bundle, new leaves, the new one alone."""
    with cluster_of(3, tmp_path) as cluster:
        for node in cluster.nodes.values():
            # On a busy machine a link may be silent; here it counts what ends one.
            node.link_silence_ms_max = 30_000
        secure = Secure(cluster, tmp_path)
        cluster.start()
        old, new = secure.ca, Issuer(tmp_path / "new", make_authority(name="the next one"))
        bundle = old.root.pem + new.root.pem
        leaves = {"key.pem", "cert.pem"}
        nodes = secure.nodes
        version = 1

        def step(issuer: Issuer, ca: bytes, names: set[str]) -> None:
            """Change files of all nodes, one node after the other; look at the links each time."""
            nonlocal version
            for node in nodes:
                expected = reconnects(nodes)
                if "ca.pem" in names:
                    # It begins what it pulls again by itself; others are cut off from it, once.
                    for link in expected:
                        expected[link] += link[1] == node.region
                files, leaf = old.files(node.region), issuer.region(node.region)
                if "ca.pem" in names:
                    files.put("ca.pem", ca)
                if leaves <= names:
                    # Both at once, as one whole: half of it is not used anyway.
                    files.put("key.pem", leaf.key_pem)
                    files.put("cert.pem", leaf.pem)
                program(node, "crdtstream", "certs", "reload", "--address", node.grpc_address)
                wait_until(partial(have_begun_again, nodes, expected), "its links began again")
                wait_until(partial(are_linked, nodes), "all links are up again")
                assert reconnects(nodes) == expected
            version += 1

        with Writers(nodes) as writers:
            wait_until(lambda: len(writers.acknowledged) == 3, "all write")
            before = reconnects(nodes)
            step(old, old.root.pem, leaves)
            step(old, bundle, {"ca.pem"})
            # The operator's certificate changes like those of the regions.
            secure.operator.put_all(new.made(Role.OPERATOR, "alice"), ca=bundle)
            for node in nodes:
                secure.operate(node)
            step(new, bundle, leaves)
            step(new, new.root.pem, {"ca.pem"})
        assert writers.errors == []
        # Twice the authorities changed; no leaf and nothing else cut a link off.
        assert reconnects(nodes) == {link: count + 2 for link, count in before.items()}
        secure.cluster.converge()
        for node in nodes:
            for region, count in writers.acknowledged.items():
                assert node.client.xlen(f"s{region}") == count
        versions = {int(node.client.info("crdt")["crdt_tls_certificate_version"]) for node in nodes}
        assert versions == {version}
        # What the former authority issued is worth nothing any more.
        with pytest.raises(grpc.RpcError):
            asyncio.run(_health(nodes[0].grpc_address, old.region(2), new.root.pem))
        assert vv_of(nodes[0].status())


async def _health(address: str, shown: Made, ca: bytes) -> None:
    async with showing(address, shown, ca=ca) as channel:
        call: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        await call(b"", timeout=seconds())


def test_a_signal_reloads(tmp_path: Path) -> None:
    with secure_regions(1, tmp_path) as secure:
        node = secure[1]
        secure.ca.files(1).put_all(secure.ca.region(1))
        assert node.process is not None
        node.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: node.client.info("crdt")["crdt_tls_certificate_version"] == 2, "it is used"
        )
