"""TLS as Redis's own tests want it: tests/unit/tls.tcl of Redis 8.6.

Without a counterpart here: the certificate that a replica shows to its master, and the ports that
CLUSTER SLOTS names (``cluster-response-tls.tcl``), as a region is neither.
"""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.certificates.making import pem_of
from tests.resp.node import Node, RawClient
from tests.resp.tls import Party, TlsClient, is_served

PASSWORD = "a-password-of-the-users"


@pytest.fixture
def node(party: Party) -> Iterator[Node]:
    with party.running() as (node, _):
        yield node


def test_a_client_without_tls_is_not_accepted_on_the_tls_port(node: Node, party: Party) -> None:
    with RawClient(node.tls_port) as client:
        client.send(b"PING\r\n")
        client.expect_closed()
    assert is_served(node.tls_port, party.context())


def test_tls_auth_clients(node: Node, party: Party, r: Any) -> None:
    port = node.tls_port
    r.config_set("tls-auth-clients", "yes")
    assert not is_served(port, party.context())
    assert is_served(port, party.context("client"))
    r.config_set("tls-auth-clients", "no")
    assert is_served(port, party.context())
    r.config_set("tls-auth-clients", "optional")
    assert is_served(port, party.context())
    assert is_served(port, party.context("client"))
    r.config_set("tls-auth-clients", "yes")
    assert not is_served(port, party.context())


def test_tls_protocols(node: Node, party: Party, r: Any) -> None:
    port = node.tls_port
    for protocols, serves in (
        ("TLSv1.2", {"1.2"}),
        ("TLSv1.3", {"1.3"}),
        ("tlsv1.3 tlsv1.2", {"1.2", "1.3"}),
        ("", {"1.2", "1.3"}),
    ):
        r.config_set("tls-protocols", protocols)
        served = {one for one in ("1.2", "1.3") if is_served(port, party.context(version=one))}
        assert served == serves, protocols
        assert r.config_get("tls-protocols") == {"tls-protocols": protocols}


def context_with(party: Party, ciphers: str) -> ssl.SSLContext:
    context = party.context(version="1.2")
    context.set_ciphers(ciphers)
    return context


def test_tls_ciphers(node: Node, party: Party, r: Any) -> None:
    refused, taken = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
    r.config_set("tls-protocols", "TLSv1.2")
    r.config_set("tls-ciphers", f"DEFAULT:-{refused}")
    assert not is_served(node.tls_port, context_with(party, refused))
    assert is_served(node.tls_port, context_with(party, taken))
    r.config_set("tls-ciphers", "DEFAULT")
    assert is_served(node.tls_port, context_with(party, refused))


def test_tls_prefer_server_ciphers(node: Node, party: Party, r: Any) -> None:
    short, long = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
    r.config_set("tls-ciphers", f"{short}:{long}")
    for wanted, chosen in (("no", long), ("yes", short), ("no", long)):
        r.config_set("tls-prefer-server-ciphers", wanted)
        with TlsClient(node.tls_port, context_with(party, f"{long}:{short}")) as client:
            cipher = client.tls.cipher()
        assert cipher is not None
        assert cipher[0] == chosen, wanted


def test_ports_are_switched_while_the_node_serves(node: Node, party: Party) -> None:
    port = node.tls_port
    context = party.context()
    with TlsClient(port, context) as first:
        first.ask(b"CONFIG SET tls-port 0\r\n", b"+OK\r\n")
        first.ask(b"CONFIG SET port %d\r\n" % port, b"+OK\r\n")
        with RawClient(port) as second:
            second.ask(b"PING\r\n", b"+PONG\r\n")
            second.ask(b"CONFIG SET port 0\r\n", b"+OK\r\n")
            second.ask(b"CONFIG SET tls-port %d\r\n" % port, b"+OK\r\n")
            assert is_served(port, context)
            assert (node.port, node.tls_port) == (0, port)
            # Connections stay, whatever becomes of their port.
            second.ask(b"PING\r\n", b"+PONG\r\n")
        first.ask(b"PING\r\n", b"+PONG\r\n")


def test_an_encrypted_key_needs_its_password(node: Node, party: Party, r: Any) -> None:
    leaf = party.issue("other")
    party.folder.put("other.pem", leaf.pem)
    party.folder.put("encrypted.pem", pem_of(leaf.key, b"1234"))
    party.folder.put("password", b"1234\n")
    folder = party.folder.folder
    files = {
        "tls-cert-file": str(folder / "other.pem"),
        "tls-key-file": str(folder / "encrypted.pem"),
    }
    with pytest.raises(redis.ResponseError, match="Unable to update TLS"):
        r.config_set(*[word for pair in files.items() for word in pair])
    assert is_served(node.tls_port, party.context())
    files["tls-key-file-pass-file"] = str(folder / "password")
    assert r.config_set(*[word for pair in files.items() for word in pair])
    with TlsClient(node.tls_port, party.context()) as client:
        assert ssl.DER_cert_to_PEM_cert(client.tls.getpeercert(True) or b"").encode() == leaf.pem


# --- Logins by certificate ------------------------------------------------------------------------


def test_a_certificate_logs_its_user_in(party: Party) -> None:
    settings: dict[str, Any] = {
        "tls_auth_clients": "yes",
        "tls_auth_clients_user": "CN",
        "requirepass": "secret",
    }
    with party.running(**settings) as (node, _):
        with TlsClient(node.tls_port, party.context("default")) as client:
            client.ask(b"ACL WHOAMI\r\n", b"$7\r\ndefault\r\n")
        with RawClient(node.port) as client:
            client.send(b"PING\r\n")
            assert client.read_line().startswith(b"-NOAUTH")


def test_a_certificate_of_no_user_logs_nobody_in(party: Party) -> None:
    settings: dict[str, Any] = {
        "tls_auth_clients": "yes",
        "tls_auth_clients_user": "CN",
        "requirepass": "secret",
    }
    with party.running(**settings) as (node, _):
        with TlsClient(node.tls_port, party.context("stranger")) as client:
            client.send(b"PING\r\n")
            assert client.read_line().startswith(b"-NOAUTH")
            client.ask(b"AUTH secret\r\n", b"+OK\r\n")
            client.ask(b"PING\r\n", b"+PONG\r\n")
        with redis.Redis(port=node.port, password="secret") as r:
            # Redis 8.2 does not have the field.
            assert "acl_access_denied_tls_cert" not in r.info("stats")
            r.config_set("redis-version", "8.6.0")
            assert r.info("stats")["acl_access_denied_tls_cert"] == 1
            (refused,) = r.acl_log()
            assert (refused["reason"], refused["context"]) == ("tls-cert", "toplevel")
            assert (refused["object"], refused["username"]) == ("", "stranger")
            assert refused["client-info"]["user"] == "default"


def test_a_certificate_logs_its_user_in_with_the_rights_of_that_user(party: Party) -> None:
    settings: dict[str, Any] = {
        "tls_auth_clients": "yes",
        "tls_auth_clients_user": "CN",
        "requirepass": "secret",
    }
    with party.running(**settings) as (node, _):
        with redis.Redis(port=node.port, password="secret") as r:
            r.acl_setuser("reader", enabled=True, nopass=True, keys=["a*"], commands=["+get"])
            r.acl_setuser("away", enabled=False, nopass=True, keys=["*"], categories=["+@all"])
        with TlsClient(node.tls_port, party.context("reader")) as client:
            client.ask(b"GET a\r\n", b"$-1\r\n")
            client.send(b"GET b\r\n")
            assert client.read_line().startswith(b"-NOPERM")
        with TlsClient(node.tls_port, party.context("away")) as client:
            client.send(b"PING\r\n")
            assert client.read_line().startswith(b"-NOAUTH")


def by_certificate(**more: Any) -> dict[str, Any]:
    """Settings: the certificate of a client is its login."""
    return {
        "tls_auth_clients": "yes",
        "tls_auth_clients_user": "CN",
        "users": [f"reader on >{PASSWORD} ~* -@all +acl|whoami"],
        "requirepass": "secret",
        **more,
    }


WHOAMI = b"ACL WHOAMI\r\n"
READER = b"$6\r\nreader\r\n"


def test_hello_needs_no_auth_where_a_certificate_is_the_login(party: Party) -> None:
    """Libraries send it first; a user without any rights may."""
    with party.running(**by_certificate()) as (node, _):
        with TlsClient(node.tls_port, party.context("reader")) as client:
            client.send(b"HELLO 3 SETNAME app\r\n")
            assert client.read_line() == b"%7"
        with TlsClient(node.tls_port, party.context("reader")) as client:
            client.send(b"CLIENT SETINFO lib-name x\r\n")
            assert client.read_line().startswith(b"-NOPERM")
            client.ask(WHOAMI, READER)


def test_first_commands_of_libraries_are_refused_without_a_login(party: Party) -> None:
    """HELLO with AUTH is taken; both as on a port without TLS."""
    with (
        party.running(**by_certificate()) as (node, _),
        TlsClient(node.tls_port, party.context("stranger")) as client,
    ):
        for first in (b"HELLO 3", b"CLIENT SETINFO lib-name x", b"CLIENT SETNAME x"):
            client.send(first + b"\r\n")
            assert client.read_line().startswith(b"-NOAUTH"), first
        client.send(b"HELLO 3 AUTH reader %b\r\n" % PASSWORD.encode())
        assert client.read_line() == b"%7"


def test_hello_with_auth_replaces_the_user_of_the_certificate(party: Party) -> None:
    with (
        party.running(**by_certificate()) as (node, _),
        TlsClient(node.tls_port, party.context("default")) as client,
    ):
        client.send(b"HELLO 2 AUTH reader wrong\r\n")
        assert client.read_line().startswith(b"-WRONGPASS")
        client.ask(WHOAMI, b"$7\r\ndefault\r\n")
        client.send(b"AUTH reader %b\r\n" % PASSWORD.encode())
        client.expect(b"+OK\r\n")
        client.ask(WHOAMI, READER)


def test_reset_ends_the_login_by_certificate(party: Party) -> None:
    with (
        party.running(**by_certificate()) as (node, _),
        TlsClient(node.tls_port, party.context("reader")) as client,
    ):
        client.ask(WHOAMI, READER)
        client.ask(b"RESET\r\n", b"+RESET\r\n")
        client.send(WHOAMI)
        assert client.read_line().startswith(b"-NOAUTH")


@pytest.mark.parametrize("user", ["off", "CN"])
def test_only_a_checked_certificate_logs_in(party: Party, user: str) -> None:
    """Not one that was not asked for, and none at all where ``off`` says so."""
    auth = "yes" if user == "off" else "no"
    settings: dict[str, Any] = {
        "tls_auth_clients": auth,
        "tls_auth_clients_user": user,
        "requirepass": "secret",
    }
    with (
        party.running(**settings) as (node, _),
        TlsClient(node.tls_port, party.context("default")) as client,
    ):
        client.send(b"PING\r\n")
        assert client.read_line().startswith(b"-NOAUTH")
