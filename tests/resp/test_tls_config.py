"""CONFIG and INFO about TLS; certificates that are replaced while the node serves."""

import socket
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.certificates.making import Made, make, make_authority
from tests.resp.node import Node, RawClient, running
from tests.resp.tls import Party, TlsClient, is_served


@pytest.fixture
def node(party: Party) -> Iterator[Node]:
    with party.running() as (node, _):
        yield node


def shown(node: Node, party: Party) -> bytes:
    """The certificate that a new client sees, in PEM."""
    with TlsClient(node.tls_port, party.context()) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
        return ssl.DER_cert_to_PEM_cert(client.tls.getpeercert(True) or b"").encode()


# --- Rotation -------------------------------------------------------------------------------------


def test_new_connections_get_a_replaced_certificate_and_open_ones_stay(
    node: Node, party: Party
) -> None:
    assert node.certificates is not None
    with TlsClient(node.tls_port, party.context()) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
        leaf = party.issue("renewed")
        party.folder.put_all(leaf)
        assert node.run(node.certificates.reload()) is None
        assert shown(node, party) == leaf.pem
        client.ask(b"PING\r\n", b"+PONG\r\n")


def test_new_connections_are_checked_by_a_replaced_ca_file(party: Party) -> None:
    with party.running(tls_auth_clients="yes") as (node, _):
        assert node.certificates is not None
        old, new = party.context("old"), make_authority(name="another CA")
        newcomer = party.context("new", leaf=make(new, "new"))
        assert is_served(node.tls_port, old)
        assert not is_served(node.tls_port, newcomer)
        party.folder.put("ca.pem", new.pem)
        assert node.run(node.certificates.reload()) is None
        assert is_served(node.tls_port, newcomer)
        # The former authority counts no more, not even for a session that was begun with it.
        assert not is_served(node.tls_port, old)


def set_files(r: Any, folder: Path, leaf: Made, key: bytes | None = None) -> Any:
    """Have the node take a certificate and its key in one CONFIG SET."""
    paths = {"tls-cert-file": folder / "set.pem", "tls-key-file": folder / "set-key.pem"}
    for path, content in zip(
        paths.values(), (leaf.pem, leaf.key_pem if key is None else key), strict=True
    ):
        path.write_bytes(content)
        path.chmod(0o600)
    return r.config_set(*[str(word) for pair in paths.items() for word in pair])


def test_config_set_takes_a_certificate_and_its_key_together(
    node: Node, party: Party, r: Any, tmp_path: Path
) -> None:
    leaf = party.issue("set")
    assert set_files(r, tmp_path, leaf)
    assert shown(node, party) == leaf.pem
    assert r.config_get("tls-*-file") == {
        "tls-ca-cert-file": str(tmp_path / "ca.pem"),
        "tls-cert-file": str(tmp_path / "set.pem"),
        "tls-key-file": str(tmp_path / "set-key.pem"),
        "tls-key-file-pass-file": "",
    }
    # From now on these files are watched.
    leaf = party.issue("set again")
    party.folder.put("set.pem", leaf.pem)
    party.folder.put("set-key.pem", leaf.key_pem)
    assert node.certificates is not None
    assert node.run(node.certificates.reload()) is None
    assert shown(node, party) == leaf.pem


def test_a_bad_pair_is_refused_and_the_old_one_goes_on(
    node: Node, party: Party, r: Any, tmp_path: Path
) -> None:
    before, files = shown(node, party), r.config_get("tls-*-file")
    leaf = party.issue("set")
    with pytest.raises(redis.ResponseError, match=r"Unable to update TLS.*key does not belong"):
        set_files(r, tmp_path, leaf, key=party.issue("another").key_pem)
    with pytest.raises(redis.ResponseError, match=r"Unable to update TLS.*No such file"):
        r.config_set("tls-cert-file", str(tmp_path / "missing.pem"))
    with pytest.raises(redis.ResponseError, match="Unable to update TLS"):
        r.config_set("tls-key-file", "")
    assert shown(node, party) == before
    assert r.config_get("tls-*-file") == files


def test_the_authorities_cannot_go_while_clients_are_checked(
    node: Node, party: Party, r: Any
) -> None:
    r.config_set("tls-auth-clients", "yes")
    with pytest.raises(redis.ResponseError, match="needs authorities"):
        r.config_set("tls-ca-cert-file", "")
    assert not is_served(node.tls_port, party.context())
    # A folder of authorities may take its place, and may not go either.
    folder = party.folder.folder / "authorities"
    folder.mkdir()
    with pytest.raises(redis.ResponseError, match="openssl rehash"):
        r.config_set("tls-ca-cert-file", "", "tls-ca-cert-dir", str(folder))
    (folder / "9d66eef0.0").write_bytes(party.authority.pem)
    r.config_set("tls-ca-cert-file", "", "tls-ca-cert-dir", str(folder))
    assert r.config_get("tls-ca-*") == {"tls-ca-cert-file": "", "tls-ca-cert-dir": str(folder)}
    assert is_served(node.tls_port, party.context("client"))
    assert not is_served(node.tls_port, party.context())
    with pytest.raises(redis.ResponseError, match="needs authorities"):
        r.config_set("tls-ca-cert-dir", "")
    r.config_set("tls-auth-clients", "no", "tls-ca-cert-dir", "")
    with pytest.raises(redis.ResponseError, match="needs authorities"):
        r.config_set("tls-auth-clients", "optional")


# --- Values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("tls-auth-clients", "maybe", "must be one of the following: no, optional, yes"),
        ("tls-auth-clients-user", "SAN", "must be one of the following: off, CN"),
        ("tls-protocols", "TLSv1.1", "TLSv1.1 is broken; use TLSv1.2 and TLSv1.3"),
        ("tls-protocols", "TLSv9", "TLSv9 is none of TLSv1.2 and TLSv1.3"),
        ("tls-ciphers", "NOSUCH", "OpenSSL knows no cipher of 'NOSUCH'"),
        ("tls-ciphers", "aNULL:@SECLEVEL=0", "does not protect a connection"),
        ("tls-ciphers", "eNULL:@SECLEVEL=0", "does not protect a connection"),
        ("tls-ciphersuites", "TLS_AES_128_GCM_SHA256", "cannot choose ciphers of TLS 1.3"),
        ("tls-session-caching", "no", "cannot switch it off in TLS 1.2"),
        ("tls-session-cache-size", "10", "it is 20480 here, and cannot be changed"),
        ("tls-session-cache-timeout", "10", "it is 7200 here, and cannot be changed"),
        ("tls-prefer-server-ciphers", "perhaps", "must be one of the following: yes, no"),
        ("tls-key-file-pass", "1234", "a password does not belong into a command"),
        ("tls-cluster", "yes", "it is no here, and cannot be changed"),
        ("tls-port", "70000", "must be between 0 and 65535 inclusive"),
        ("port", "-1", "must be between 0 and 65535 inclusive"),
    ],
)
def test_a_value_that_cannot_be_had_is_refused(
    node: Node, party: Party, r: Any, name: str, value: str, reason: str
) -> None:
    before = r.config_get("*")
    with pytest.raises(redis.ResponseError) as refused:
        r.config_set(name, value)
    assert f"(possibly related to argument '{name}')" in str(refused.value)
    assert reason in str(refused.value)
    assert r.config_get("*") == before
    assert is_served(node.tls_port, party.context())


def test_every_value_may_be_set_to_what_it_is(r: Any) -> None:
    values = {**r.config_get("tls-*"), **r.config_get("port")}
    assert len(values) == 18
    assert r.config_set(*[word for pair in values.items() for word in pair])
    assert {**r.config_get("tls-*"), **r.config_get("port")} == values


def test_sessions_last_as_long_as_config_says(node: Node, party: Party, r: Any) -> None:
    with TlsClient(node.tls_port, party.context()) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
        session = client.tls.session
    assert session is not None
    seconds = int(r.config_get("tls-session-cache-timeout")["tls-session-cache-timeout"])
    assert session.ticket_lifetime_hint == seconds


def test_without_session_caching_nothing_is_resumed(node: Node, party: Party, r: Any) -> None:
    r.config_set("tls-protocols", "TLSv1.3", "tls-session-caching", "no")
    with TlsClient(node.tls_port, party.context()) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
        session = client.tls.session
        assert session is None or not session.has_ticket


def test_a_password_in_a_refused_command_is_not_shown(node: Node) -> None:
    with RawClient(node.port) as client, RawClient(node.port) as watcher:
        client.ask(b"CONFIG SET slowlog-log-slower-than 0\r\n", b"+OK\r\n")
        watcher.ask(b"MONITOR\r\n", b"+OK\r\n")
        client.send(b"CONFIG SET tls-key-file-pass planted-secret\r\n")
        assert client.read_line().startswith(b"-ERR CONFIG SET failed")
        client.send(b"SLOWLOG GET\r\nPING\r\n")
        told = b""
        while not told.endswith(b"+PONG\r\n"):
            told += client.read(1)
        client.ask(b"SET seen 1\r\n", b"+OK\r\n")
        shown = b""
        while b"seen" not in shown:
            shown += watcher.read_line()
    assert b"(redacted)" in told
    assert b"planted-secret" not in told + shown


# --- Ports ----------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_refused_and_nothing_changes(
    node: Node, party: Party, r: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for name in ("port", "tls-port"):
            with pytest.raises(redis.ResponseError, match="Unable to listen on this port"):
                r.config_set("timeout", 5, name, taken.getsockname()[1])
    assert r.config_get("timeout") == {"timeout": "0"}
    assert is_served(node.tls_port, party.context())
    with RawClient(node.port) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")


def test_a_port_moves_at_once(node: Node, party: Party, r: Any) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as free,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        numbers = free.getsockname()[1], other.getsockname()[1]
    before = node.port, node.tls_port
    r.config_set("port", numbers[0], "tls-port", numbers[1])
    assert is_served(numbers[1], party.context())
    with RawClient(numbers[0]) as client:
        client.ask(b"PING\r\n", b"+PONG\r\n")
    for port in before:
        with pytest.raises(ConnectionRefusedError):
            RawClient(port)


def test_tls_cannot_be_had_without_a_certificate() -> None:
    with running() as node, redis.Redis(port=node.port, protocol=2) as r:
        assert r.config_get("tls-port") == {"tls-port": "0"}
        for name, value in (("tls-port", "16380"), ("tls-cert-file", "cert.pem")):
            with pytest.raises(redis.ResponseError, match="started without a certificate"):
                r.config_set(name, value)
        # Options are checked all the same, for later.
        assert r.config_set("tls-auth-clients", "optional", "tls-protocols", "TLSv1.3")
        with pytest.raises(redis.ResponseError, match="knows no cipher"):
            r.config_set("tls-ciphers", "NOSUCH")


def listeners(r: Any) -> dict[str, Any]:
    server = r.info("server")
    found = {name: value for name, value in server.items() if name.startswith("listener")}
    return {**found, "tcp_port": server["tcp_port"]}


def test_info_names_the_listeners_as_redis_does(node: Node, r: Any) -> None:
    plain, tls = node.port, node.tls_port
    assert listeners(r) == {
        "tcp_port": plain,
        "listener0": {"name": "tcp", "bind": "127.0.0.1", "port": plain},
        "listener2": {"name": "tls", "bind": "127.0.0.1", "port": tls},
    }
    r.config_set("port", 0)
    assert listeners(r) == {
        "tcp_port": tls,
        "listener2": {"name": "tls", "bind": "127.0.0.1", "port": tls},
    }


def test_config_rewrite_writes_options_of_tls(party: Party, tmp_path: Path) -> None:
    path = tmp_path / "region.toml"
    path.write_text('region = 1\ndir = "unused"\n')
    with party.running(config_file=path) as (node, _), redis.Redis(port=node.port) as r:
        r.config_set(
            *("tls-auth-clients", "yes", "tls-auth-clients-user", "cn"),
            *("tls-prefer-server-ciphers", "yes", "tls-protocols", "TLSv1.3"),
            *("tls-key-file", str(tmp_path / "key.pem")),
        )
        r.config_rewrite()
    assert tomllib.loads(path.read_text()) == {
        "region": 1,
        "dir": "unused",
        "tls_auth_clients": "yes",
        "tls_auth_clients_user": "CN",
        "tls_key_file": str(tmp_path / "key.pem"),
        "tls_prefer_server_ciphers": True,
        "tls_protocols": "TLSv1.3",
    }
