"""Moves over TLS: the server proves itself, or nothing is sent to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from tests.conftest import free_base_port, require
from tests.like_redis import oracles
from tests.move.ends import Server, move, seen


class Secure(NamedTuple):
    """A Redis that also speaks TLS, and the file of its authority."""

    server: Server
    url: str
    authority: str


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    binary = oracles.binaries()["redis 7"]
    require(binary is not None, "a redis-server with TLS: apt-get install redis-server")
    assert binary is not None
    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    made.private_key_and_cert_chain_pem.write_to_path(files["key"])
    port = free_base_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "no"]
    options += ["--tls-cert-file", str(files["key"]), "--tls-key-file", str(files["key"])]
    options += ["--tls-ca-cert-file", str(files["ca"])]
    with oracles.running(binary, tmp_path, *options) as running:
        yield Secure(Server(running.path), f"rediss://localhost:{port}", str(files["ca"]))


def test_an_import_over_tls(secure: Secure, region: Server) -> None:
    secure.server.do("XADD s 1-1 f v")
    words = ["import", secure.url, "--node", region.url, "--cut-over"]
    done = move(*words, "--other-tls-ca-cert-file", secure.authority)
    assert done.returncode == 0, done.stderr
    assert seen(region) == seen(secure.server)


@pytest.mark.parametrize("password", [None, "a-secret-password"])
def test_a_server_that_cannot_prove_itself_gets_no_password(
    secure: Secure, region: Server, monkeypatch: pytest.MonkeyPatch, password: str | None
) -> None:
    if password is not None:
        monkeypatch.setenv("CRDTSTREAM_OTHER_PASSWORD", password)
    done = move("import", secure.url, "--node", region.url)
    assert done.returncode == 1
    assert "TLS fails" in done.stderr
    assert "check the authorities" in done.stderr
    # A login with a password that the server does not have would leave a trace.
    assert secure.server.client.acl_log() == []


def test_a_certificate_for_another_name_is_refused(secure: Secure, region: Server) -> None:
    url = secure.url.replace("localhost", "127.0.0.1")
    words = ["import", url, "--node", region.url]
    done = move(*words, "--other-tls-ca-cert-file", secure.authority)
    assert done.returncode == 1
    assert "TLS fails" in done.stderr


def test_a_port_with_tls_named_without_it(secure: Secure, region: Server) -> None:
    url = secure.url.replace("rediss", "redis")
    done = move("import", url, "--node", region.url, "--retry", "0")
    assert done.returncode == 1
    assert "does not answer" in done.stderr
