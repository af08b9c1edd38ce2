"""Certificates of ``crdtstream certs``, spoken with: gRPC, Python's ssl, and openssl itself."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from tests.certificates.issued import Files, issued, new_ca, regions
from tests.conftest import program
from tests.patience import seconds

pytestmark = pytest.mark.live

SERVED = "region-2.crdb.crdtstream"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_ca(tmp_path_factory.mktemp("certs") / "ca")


@pytest.fixture(scope="module")
def nodes(ca: Path) -> dict[int, Files]:
    return dict(zip((1, 2, 3), regions(ca, (1, 2, 3)), strict=True))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Region 1, by another authority."""
    return issued(new_ca(tmp_path_factory.mktemp("other") / "ca"), "region", "1")


# --- gRPC, as nodes will use it ---------------------------------------------------------------


class Own:
    """The files of a server, which may change while it runs."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        files = self.files
        return grpc.ssl_server_certificate_configuration(
            [(files.key, files.certificate)], root_certificates=files.ca
        )


async def who(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    """The URIs of the certificate that the client showed."""
    return b" ".join(context.auth_context()["peer_uri"])


@asynccontextmanager
async def served(own: Own) -> AsyncIterator[str]:
    """A server that demands certificates; its address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "test.Who", {"Ask": grpc.unary_unary_rpc_method_handler(who)}
            ),
        )
    )
    credentials = grpc.dynamic_ssl_server_credentials(
        own.configuration(), own.configuration, require_client_authentication=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def asked(address: str, files: Files | None, *, ca: bytes, wanted: str = SERVED) -> bytes:
    """The answer to a client with these files that demands this name of its server.

    Raises:
        grpc.aio.AioRpcError: one of the two refuses the other.
    """
    credentials = grpc.ssl_channel_credentials(
        ca, *((files.key, files.certificate) if files else (None, None))
    )
    options = [("grpc.ssl_target_name_override", wanted)]
    async with grpc.aio.secure_channel(address, credentials, options) as channel:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
        ask = channel.unary_unary("/test.Who/Ask")
        return await ask(b"", timeout=seconds())


async def check_refused(
    address: str, files: Files | None, *, ca: bytes, wanted: str = SERVED
) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked(address, files, ca=ca, wanted=wanted)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    return caught.value.details() or ""


async def test_a_server_learns_which_region_called(nodes: dict[int, Files]) -> None:
    async with served(Own(nodes[2])) as address:
        for region in (1, 3):
            uri = f"spiffe://crdtstream.internal/crdtstream/crdb/region/{region}"
            assert await asked(address, nodes[region], ca=nodes[region].ca) == uri.encode()


async def test_a_server_learns_who_called(ca: Path, nodes: dict[int, Files]) -> None:
    async with served(Own(nodes[2])) as address:
        for role, name in (("operator", "alice"), ("query", "etl"), ("client", "app")):
            files = issued(ca, role, name)
            answer = await asked(address, files, ca=files.ca)
            assert answer == f"spiffe://crdtstream.internal/crdtstream/crdb/{role}/{name}".encode()


async def test_a_client_that_wants_region_3_refuses_region_2(nodes: dict[int, Files]) -> None:
    async with served(Own(nodes[2])) as address:
        why = await check_refused(
            address, nodes[1], ca=nodes[1].ca, wanted="region-3.crdb.crdtstream"
        )
        assert "Hostname Verification" in why


async def test_another_authority_is_refused_on_either_side(
    nodes: dict[int, Files], stranger: Files
) -> None:
    async with served(Own(nodes[2])) as address:
        await check_refused(address, stranger, ca=nodes[1].ca)
        await check_refused(address, nodes[1], ca=stranger.ca)


async def test_a_client_without_a_certificate_is_refused(nodes: dict[int, Files]) -> None:
    async with served(Own(nodes[2])) as address:
        await check_refused(address, None, ca=nodes[1].ca)


async def test_an_operator_never_serves_as_a_region(ca: Path, nodes: dict[int, Files]) -> None:
    """Nor as a host: gRPC looks at the common name of a server without DNS names."""
    operator = issued(ca, "operator", "localhost")
    async with served(Own(operator)) as address:
        for wanted in (SERVED, "localhost"):
            await check_refused(address, nodes[1], ca=nodes[1].ca, wanted=wanted)
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(operator, nodes[1], "localhost")


async def test_a_running_server_changes_its_certificate(ca: Path, nodes: dict[int, Files]) -> None:
    own = Own(nodes[2])
    async with served(own) as address:
        await asked(address, nodes[1], ca=nodes[1].ca)
        own.files = issued(ca, "region", "7")
        await asked(address, nodes[1], ca=nodes[1].ca, wanted="region-7.crdb.crdtstream")
        await check_refused(address, nodes[1], ca=nodes[1].ca)


# --- Python's ssl, as RESP and HTTP will use it -------------------------------------------------


def context_of(files: Files, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files.folder / "ca.pem")
    context.load_cert_chain(files.folder / "cert.pem", files.folder / "key.pem")
    return context


async def shake_hands(server_files: Files, client_files: Files, wanted: str) -> object:
    """The names of the client as its server has them, after a line each way.

    Raises:
        OSError: one of the two refuses the other.
    """
    subjects: list[object] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subjects.append(writer.get_extra_info("peercert")["subjectAltName"])
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(
        serve, "127.0.0.1", 0, ssl=context_of(server_files, ssl.PROTOCOL_TLS_SERVER)
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            port,
            ssl=context_of(client_files, ssl.PROTOCOL_TLS_CLIENT),
            server_hostname=wanted,
        )
        try:
            writer.write(b"PING\r\n")
            line = await reader.readline()
        finally:
            writer.close()
    if line != b"PING\r\n":
        raise ConnectionResetError("no answer")
    return subjects[0]


@pytest.mark.parametrize("wanted", [SERVED, "localhost"])
async def test_pythons_ssl_takes_them(nodes: dict[int, Files], wanted: str) -> None:
    names = await shake_hands(nodes[2], nodes[1], wanted)
    assert names == (
        ("DNS", "region-1.crdb.crdtstream"),
        ("DNS", "localhost"),
        ("URI", "spiffe://crdtstream.internal/crdtstream/crdb/region/1"),
    )


async def test_pythons_ssl_takes_addresses_and_permitted_names(tmp_path: Path) -> None:
    ca = new_ca(tmp_path / "ca", "--permit", "example.com")
    hosts = ("127.0.0.1", "::1", "eu.example.com")
    files = issued(ca, "region", "1", *(word for host in hosts for word in ("--host", host)))
    for wanted in hosts:
        await shake_hands(files, files, wanted)
    async with served(Own(files)) as address:
        await asked(address, files, ca=files.ca, wanted="eu.example.com")


async def test_pythons_ssl_takes_an_operator_as_client(ca: Path, nodes: dict[int, Files]) -> None:
    """OpenSSL would take a dot in the common name for a DNS name; operators' names have none."""
    bob = issued(ca, "operator", "bob-smith_2")
    await shake_hands(nodes[2], bob, SERVED)


@pytest.mark.parametrize("wanted", ["region-3.crdb.crdtstream", "127.0.0.1", "example.com"])
async def test_pythons_ssl_refuses_other_names(nodes: dict[int, Files], wanted: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(nodes[2], nodes[1], wanted)


async def test_pythons_ssl_refuses_another_authority(
    nodes: dict[int, Files], stranger: Files
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(nodes[2], stranger, SERVED)
    with pytest.raises(ssl.SSLCertVerificationError):
        await shake_hands(stranger, nodes[2], "region-1.crdb.crdtstream")


# --- openssl --------------------------------------------------------------------------------------


def openssl(*words: str | Path) -> subprocess.CompletedProcess[str]:
    asked = [program("openssl"), *words]
    return subprocess.run(asked, capture_output=True, text=True, timeout=seconds(), check=False)


def test_openssl_takes_those_who_serve_nobody_as_clients_only(ca: Path) -> None:
    for role in ("operator", "query", "client"):
        files = issued(ca, role, "openssl")
        for purpose, is_taken in (("sslclient", True), ("sslserver", False)):
            found = openssl(
                *("verify", "-x509_strict", "-purpose", purpose, "-CAfile"),
                *(files.folder / "ca.pem", files.folder / "cert.pem"),
            )
            assert (found.returncode == 0) is is_taken


@pytest.mark.parametrize("purpose", ["sslserver", "sslclient"])
def test_openssl_verifies_the_chain_in_its_strictest_mode(
    nodes: dict[int, Files], stranger: Files, purpose: str
) -> None:
    words = ("verify", "-x509_strict", "-purpose", purpose, "-CAfile")
    for files in nodes.values():
        found = openssl(*words, files.folder / "ca.pem", files.folder / "cert.pem")
        assert found.returncode == 0, found.stderr
    refused = openssl(*words, stranger.folder / "ca.pem", nodes[1].folder / "cert.pem")
    assert refused.returncode != 0


def test_a_request_of_openssl_is_issued_for_its_key(ca: Path, tmp_path: Path) -> None:
    """The key never leaves its machine; the names are those that the operator says."""
    made = openssl(
        *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-keyout", tmp_path / "own.pem", "-out", tmp_path / "own.csr"),
        *("-subj", "/CN=region-9", "-addext", "subjectAltName=DNS:region-9.crdb.crdtstream"),
    )
    assert made.returncode == 0, made.stderr
    files = issued(*(ca, "region", "4", "--csr", tmp_path / "own.csr"), *("--host", "localhost"))
    assert sorted(path.name for path in files.folder.iterdir()) == ["ca.pem", "cert.pem"]
    assert b"region-9" not in files.certificate
    text = openssl("x509", "-in", files.folder / "cert.pem", "-noout", "-text").stdout
    assert "DNS:region-4.crdb.crdtstream, DNS:localhost, URI:spiffe://" in text
    assert "region-9" not in text
    public = openssl("x509", "-in", files.folder / "cert.pem", "-noout", "-pubkey").stdout
    assert public == openssl("pkey", "-in", tmp_path / "own.pem", "-pubout").stdout
