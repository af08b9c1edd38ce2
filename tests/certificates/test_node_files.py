"""Sets of a node's files: whole and checked, or an error that says what to do."""

import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from crdtstream.certificates.certificate import parse_certificates
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import (
    AUTHORITY_FILES_MAX,
    CertificateSet,
    Paths,
    Stamped,
    read_set,
)
from crdtstream.core.ids import RegionId
from tests.certificates.making import DAY, DNS, NOW, Made, make, make_authority, pem_of
from tests.certificates.node_folder import NodeFolder

ONE = Wanted(RegionId(1), "crdb")


@pytest.fixture
def node(tmp_path: Path) -> NodeFolder:
    return NodeFolder(tmp_path)


def read(node: NodeFolder, wanted: Wanted | None = ONE) -> CertificateSet:
    return read_set(node.paths, wanted, NOW)[0]


def test_a_set_has_all_files_as_they_are(node: NodeFolder) -> None:
    between = make_authority(make_authority(), "between")
    leaf = make(between)
    node.put_all(leaf)
    found = read(node)
    assert found.certificates == leaf.pem + between.pem
    assert found.key == leaf.key_pem
    assert found.ca == leaf.root.pem
    assert found.holder is not None
    assert found.holder.region == 1
    assert (found.version, found.ca_version) == (1, 1)


def test_a_system_without_files_in_memory_leaves_no_key_behind(
    node: NodeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.put_all(make(make_authority()))
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.delattr(os, "memfd_create")
    assert read(node).server_context().cert_store_stats()["x509"] == 0
    assert list(elsewhere.iterdir()) == []


def test_the_first_end_in_the_chain_is_the_end_of_the_set(node: NodeFolder) -> None:
    root = make_authority(ends=NOW + 2 * DAY)
    node.put_all(make(root, ends=NOW + 5 * DAY))
    assert read(node).not_after == NOW + 2 * DAY


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: make(root, ends=NOW - DAY, begins=NOW - 2 * DAY), "expired: "),
        (lambda root: make(root, begins=NOW + DAY), "not yet valid: "),
        (
            lambda root: make(
                root,
                dns=["region-2.crdb.crdtstream"],
                uris=["spiffe://crdtstream.internal/crdtstream/crdb/region/2"],
            ),
            "it is for region 2 of database crdb, not for region 1",
        ),
        (
            lambda root: make(
                root,
                dns=["region-1.other.crdtstream"],
                uris=["spiffe://crdtstream.internal/crdtstream/other/region/1"],
            ),
            "it is for database other, not for crdb",
        ),
        (lambda root: make(root, dns=["localhost"], uris=[]), "no holder: "),
    ],
)
def test_a_certificate_that_peers_would_refuse_is_no_set(
    node: NodeFolder, spoil: Callable[[Made], Made], said: str
) -> None:
    node.put_all(spoil(make_authority()))
    with pytest.raises(CertificateError, match=said):
        read(node)


def test_a_key_of_another_certificate_makes_no_set(node: NodeFolder) -> None:
    node.put_all(make(make_authority()))
    node.put("key.pem", make(None).key_pem)
    with pytest.raises(CertificateError, match="key of another certificate: "):
        read(node)
    with pytest.raises(CertificateError, match="key of another certificate: "):
        read(node, wanted=None)


def test_a_certificate_of_another_authority_makes_no_set(node: NodeFolder) -> None:
    node.put_all(make(make_authority()), ca=make_authority(name="another").pem)
    with pytest.raises(CertificateError, match="no chain leads from there to a root"):
        read(node)


def test_a_key_that_others_can_read_makes_no_set(node: NodeFolder) -> None:
    node.put_all(make(make_authority()))
    node.paths.key.chmod(0o644)
    with pytest.raises(CertificateError, match="chmod 600"):
        read(node)


def test_a_certificate_for_hosts_alone_needs_no_names_of_ours(node: NodeFolder) -> None:
    # Of a public authority; ca.pem is of the clients' certificates.
    node.put_all(make(make_authority(), dns=["redis.example.com"], uris=[]), ca=make(None).pem)
    found = read(node, wanted=None)
    assert found.holder is None
    without = Paths(node.paths.certificate, node.paths.key)
    assert read_set(without, None, NOW)[0].ca == b""


def test_an_expired_certificate_for_hosts_makes_no_set(node: NodeFolder) -> None:
    node.put_all(make(make_authority(), begins=NOW - 2 * DAY, ends=NOW - DAY))
    with pytest.raises(CertificateError, match="expired at"):
        read(node, wanted=None)


def test_an_encrypted_key_is_read_with_the_password_of_a_file(node: NodeFolder) -> None:
    leaf = make(make_authority())
    node.put_all(leaf)
    node.put("key.pem", pem_of(leaf.key, b"a secret"))
    node.put("password", b"a secret\nmore\n")
    named = replace(node.paths, key_password=node.folder / "password")
    assert read_set(named, ONE, NOW)[0].key == leaf.key_pem

    with pytest.raises(CertificateError, match=r"an encrypted key.*tls_key_file_pass_file"):
        read(node)
    node.put("password", b"wrong\n")
    with pytest.raises(CertificateError, match="cannot be read with this password") as caught:
        read_set(named, ONE, NOW)
    assert "wrong" not in str(caught.value)
    node.put("password", b"\n")
    with pytest.raises(CertificateError, match="no password in its first line"):
        read_set(named, ONE, NOW)
    (node.folder / "password").chmod(0o644)
    with pytest.raises(CertificateError, match=r"password: other users can read"):
        read_set(named, ONE, NOW)


def test_a_password_of_a_key_that_is_not_encrypted_changes_nothing(node: NodeFolder) -> None:
    leaf = make(make_authority())
    node.put_all(leaf)
    node.put("password", b"a secret")
    named = replace(node.paths, key_password=node.folder / "password")
    assert read_set(named, ONE, NOW)[0].key == leaf.key_pem


def test_the_key_is_in_no_text_of_a_set(node: NodeFolder) -> None:
    node.put_all(make(make_authority()))
    assert "PRIVATE" not in repr(read(node))


@pytest.mark.parametrize("name", ["cert.pem", "key.pem", "ca.pem"])
def test_a_missing_file_is_named(node: NodeFolder, name: str) -> None:
    node.put_all(make(make_authority()))
    (node.folder / name).unlink()
    with pytest.raises(CertificateError, match=rf"{name}: No such file"):
        read(node)


def test_stamps_differ_after_each_kind_of_change(tmp_path: Path) -> None:
    """Rename, Kubernetes' swap of a link to a folder, writing in place, chmod, removal."""
    for number in (1, 2):
        folder = tmp_path / f"..{number}"
        folder.mkdir()
        NodeFolder(folder).put_all(make(make_authority()))
    (tmp_path / "..data").symlink_to("..1")
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    node = NodeFolder(tmp_path)
    seen = [Stamped.of(node.paths)]
    assert Stamped.of(node.paths) == seen[0]

    def changed() -> None:
        seen.append(Stamped.of(node.paths))
        assert seen[-1] not in seen[:-1]

    (tmp_path / "..data_new").symlink_to("..2")
    (tmp_path / "..data_new").rename(tmp_path / "..data")
    changed()
    node.put("cert.pem", b"renamed over the link")
    changed()
    (tmp_path / "cert.pem").write_bytes(b"written over the file")
    changed()
    (tmp_path / "key.pem").chmod(0o400)
    changed()
    (tmp_path / "ca.pem").unlink()
    changed()


def test_a_context_speaks_tls_with_the_set_and_reads_no_file(node: NodeFolder) -> None:
    leaf = make(make_authority())
    node.put_all(leaf)
    found = read(node)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(node.paths.ca)
    client.load_cert_chain(node.paths.certificate, node.paths.key)
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.load_verify_locations(node.paths.ca)
    for path in node.paths.all:
        path.unlink()

    assert shake_hands(found.server_context(), stranger)
    assert shake_hands(found.server_context(ssl.CERT_REQUIRED), client)
    assert not shake_hands(found.server_context(ssl.CERT_REQUIRED), stranger)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """True if the server sends a byte to the client after their handshake."""
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(there, server_side=True) as connection:
                connection.send(b".")
        except ssl.SSLError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(here, server_hostname=DNS) as connection:
            return connection.recv(1) == b"."
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        thread.join()


# --- A folder of authorities --------------------------------------------------------------------


def in_folder(node: NodeFolder, **files: bytes) -> Paths:
    """The files of a node, with a folder of authorities and no file of them."""
    folder = node.folder / "authorities"
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".").removeprefix("n")).write_bytes(content)
    return replace(node.paths, ca=None, ca_folder=folder)


def read_all(paths: Paths) -> CertificateSet:
    return read_set(paths, ONE, NOW)[0]


def test_authorities_of_a_folder_are_those_that_rehash_has_named(node: NodeFolder) -> None:
    first, second, other = make_authority(), make_authority(name="second"), make_authority(name="x")
    node.put_all(make(first))
    paths = in_folder(node, n9d66eef0_0=first.pem, n00000001_1=second.pem, other_pem=other.pem)
    found = parse_certificates(read_all(paths).ca)
    assert {one.subject for one in found} == {
        parse_certificates(one.pem)[0].subject for one in (first, second)
    }
    # Beside a file, and each once.
    both = replace(paths, ca=node.paths.ca)
    assert len(parse_certificates(read_all(both).ca)) == 2


def test_a_folder_without_such_names_says_what_to_do(node: NodeFolder) -> None:
    root = make_authority()
    node.put_all(make(root))
    for paths in (
        in_folder(node, root_pem=root.pem),
        replace(node.paths, ca_folder=node.folder / "nosuch"),
    ):
        with pytest.raises(CertificateError, match=r"run `openssl rehash .*(nosuch|authorities)`"):
            read_all(paths)


def test_a_folder_of_the_whole_web_is_refused(node: NodeFolder) -> None:
    root = make_authority()
    node.put_all(make(root))
    paths = in_folder(node, **{f"n0000000a_{n}": root.pem for n in range(AUTHORITY_FILES_MAX + 1)})
    with pytest.raises(CertificateError, match="65 authorities are more than 64"):
        read_all(paths)


def test_an_authority_that_is_taken_out_of_the_folder_is_seen(node: NodeFolder) -> None:
    first, second = make_authority(), make_authority(name="second")
    node.put_all(make(first))
    paths = in_folder(node, n9d66eef0_0=first.pem, n00000001_0=second.pem)
    before = Stamped.of(paths)
    assert Stamped.of(paths) == before
    assert paths.ca_folder is not None
    (paths.ca_folder / "00000001.0").write_bytes(make_authority(name="third").pem)
    changed = Stamped.of(paths)
    assert changed != before
    (paths.ca_folder / "00000001.0").unlink()
    assert Stamped.of(paths) not in (before, changed)
    assert len(parse_certificates(read_all(paths).ca)) == 1
