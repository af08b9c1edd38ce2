"""``crdtstream up --tls``: regions of this machine with certificates of their own."""

import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
import redis

from crdtstream.local.regions import LocalRegions, LocalRegionsError, has_certificates
from crdtstream.spark.connecting import channel_to
from crdtstream.spark.options import Security
from crdtstream.v1 import query_pb2, query_pb2_grpc
from tests.conftest import free_base_port, program
from tests.live.forked import completed
from tests.patience import seconds

pytestmark = pytest.mark.live


def test_local_regions_speak_tls_and_go_on_with_their_certificates(tmp_path: Path) -> None:
    program("redis-cli")
    folder, base_port = tmp_path / "data", free_base_port(3)
    local = LocalRegions(2, folder, base_port=base_port, tls=True)
    try:
        local.start_all()
        assert local.wait_until_healthy()
        assert has_certificates(folder)
        key = folder / "certificates" / "region-1" / "key.pem"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600

        # Commands find the operator's certificate by the folder, and nothing goes without one.
        shown = completed(["crdtstream", "status", "--dir", str(folder)])
        assert shown.returncode == 0, shown.stderr
        address = local.regions[0].grpc_address
        plain = completed(["crdtstream", "status", "--address", address])
        assert plain.returncode == 1
        users = tmp_path / "users.acl"
        users.write_text("user eve on\n")
        pushed = completed(["crdtstream", "crdb", "acl", "push", str(users), "--dir", str(folder)])
        assert "not configured to use an ACL file" in pushed.stderr

        _ask_as_redis_cli(local, "XADD", "s", "*", "f", "v")
        plain_client = redis.Redis(port=local.regions[0].resp_port)
        with plain_client, pytest.raises(redis.ConnectionError):
            plain_client.ping()

        # Browsers check the host as well; the console asks for no certificate.
        authority = ssl.create_default_context(
            cafile=str(folder / "certificates" / "operator-up" / "ca.pem")
        )
        with urllib.request.urlopen(
            local.console_url, timeout=seconds(), context=authority
        ) as page:
            assert "crdtstream" in page.read().decode()
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(local.console_url.replace("https", "http"), timeout=seconds())

        # Spark checks the host, and shows a certificate of this authority.
        _ask_as_spark(address, folder / "certificates" / "operator-up")
    finally:
        local.stop_all()
        local.close()

    before = {path: path.read_bytes() for path in folder.glob("certificates/**/*.pem")}
    # Without the option, and with a region more.
    local = LocalRegions(3, folder, base_port=base_port)
    try:
        local.start_all()
        assert local.wait_until_healthy()
        assert local.join()
        shown = completed(["crdtstream", "sync", "wait", "--dir", str(folder), "--timeout", "30"])
        assert shown.returncode == 0
        assert shown.stderr.splitlines()[-1] == "equal: regions 1, 2, 3"
        assert _ask_as_redis_cli(local, "XLEN", "s") == "1"
    finally:
        local.stop_all()
        local.close()
    assert {path: path.read_bytes() for path in before} == before
    assert (folder / "certificates" / "region-3" / "key.pem").exists()


def _ask_as_redis_cli(local: LocalRegions, *command: str) -> str:
    """The answer of the last region, over TLS."""
    port = str(local.regions[-1].resp_port)
    asked = [str(program("redis-cli")), "-p", port, *local.client_options, *command]
    found = subprocess.run(asked, capture_output=True, text=True, timeout=seconds(), check=True)
    return found.stdout.strip()


def _ask_as_spark(address: str, files: Path) -> None:
    security = Security(
        tls=True,
        tls_ca_cert_file=str(files / "ca.pem"),
        tls_cert_file=str(files / "cert.pem"),
        tls_key_file=str(files / "key.pem"),
    )
    with channel_to(address, security) as channel:
        reply = query_pb2_grpc.QueryStub(channel).GetPosition(
            query_pb2.PositionRequest(), timeout=seconds()
        )
    assert reply.region == 1
    without = Security(tls=True, tls_ca_cert_file=str(files / "ca.pem"))
    with channel_to(address, without) as channel, pytest.raises(grpc.RpcError):
        query_pb2_grpc.QueryStub(channel).GetPosition(
            query_pb2.PositionRequest(), timeout=seconds()
        )


@pytest.mark.long
def test_certificates_of_another_database_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, base_port = tmp_path / "data", free_base_port(1)
    local = LocalRegions(1, folder, base_port=base_port, tls=True)
    try:
        local.start_all()
        assert local.wait_until_healthy()
    finally:
        local.stop_all()
        local.close()
    monkeypatch.setenv("CRDTSTREAM_DATABASE_ID", "orders")
    local = LocalRegions(1, folder, base_port=base_port)
    try:
        with pytest.raises(LocalRegionsError, match="of database crdb, not of orders; move that"):
            local.start_all()
    finally:
        local.close()
