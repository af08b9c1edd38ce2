"""The client of the admin service: causes of a call that no node answers."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import trustme

from crdtstream.access.probing import speaks_tls
from crdtstream.admin.client import CALL_SECONDS_MAX, AdminClient, AdminError, UnreachableError


@pytest.fixture(scope="module")
def mutual_tls() -> Iterator[str]:
    """Address of a gRPC server that asks its callers for a certificate."""
    ca = trustme.CA()
    own = ca.issue_cert("127.0.0.1")
    chain = b"".join(one.bytes() for one in own.cert_chain_pems)
    credentials = grpc.ssl_server_credentials(
        [(own.private_key_pem.bytes(), chain)], ca.cert_pem.bytes(), require_client_auth=True
    )
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that accepts connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def empty() -> Iterator[str]:
    """Address of a gRPC server that knows none of the calls, as an earlier version one of them."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def told(address: str, seconds: float = CALL_SECONDS_MAX) -> str:
    with (
        AdminClient(address, call_seconds_max=seconds) as client,
        pytest.raises(UnreachableError) as raised,
    ):
        client.status()
    return str(raised.value)


def test_a_node_that_speaks_tls_is_named_as_the_cause(mutual_tls: str) -> None:
    text = told(mutual_tls)
    assert f"the node at {mutual_tls} speaks TLS, and no certificate was named" in text
    assert "--tls-cert-file, --tls-key-file and --tls-ca-cert-file" in text


def test_a_node_that_is_only_silent_is_not_taken_for_one_that_speaks_tls(silent: str) -> None:
    assert not speaks_tls(silent, 0.2)


def test_a_program_that_polls_waits_for_no_explanation(mutual_tls: str, silent: str) -> None:
    text = told(silent, seconds=0.2)
    assert text == f"the node at {silent} did not answer within 0.2 s: look into its log"
    assert "speaks TLS" not in told(mutual_tls, seconds=0.5 * CALL_SECONDS_MAX)


def test_nothing_at_an_address_is_not_taken_for_a_node_that_speaks_tls() -> None:
    text = told("127.0.0.1:1")
    assert text.startswith("no region node answers at 127.0.0.1:1: start it")
    assert "TLS" not in text


def test_a_node_that_does_not_know_a_call_is_to_be_upgraded(empty: str) -> None:
    with AdminClient(empty) as client, pytest.raises(AdminError) as raised:
        client.status()
    assert str(raised.value).startswith(f"what answers at {empty} does not know this call: ")
    assert "it runs an earlier version, so upgrade it" in str(raised.value)
