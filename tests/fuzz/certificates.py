"""Certificates, keys, requests and chains, damaged in their PEM and in their DER."""

import base64
import datetime
import functools
import re
from functools import cache
from random import Random
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crdtstream.certificates.authority import Authority
from crdtstream.certificates.certificate import (
    Certificate,
    PrivateKey,
    parse_certificates,
    parse_key,
    parse_request,
)
from crdtstream.certificates.checking import Access, Pair, Wanted, check
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.showing import as_json, lines_of
from tests.certificates.making import make, make_authority
from tests.fuzz.damage import damaged_bytes, damaging_story, one_of, packed, pieces_of, story
from tests.fuzz.surface import Surface

# The same bytes each time.
BEGINS: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ENDS: Final = datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)
NOW: Final = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
_PEM: Final = re.compile(
    rb"(-----BEGIN ([A-Z ]+)-----\n)([A-Za-z0-9+/=\n]+)(-----END [A-Z ]+-----\n?)"
)
# A tag, and a length of one byte, of DER.
_SHORT: Final = 0x80


def target(data: bytes) -> object:
    """A story: the certificates, the key and the CA file of a holder, then a request."""
    certificates, key, roots, request, *_ = [*pieces_of(data), b"", b"", b"", b""]
    found: list[str] = []
    chain, above = _certificates(certificates, found), _certificates(roots, found)
    private: PrivateKey | None = None
    try:
        private = parse_key(key)
    except CertificateError as error:
        found.append(str(error))
    try:
        parse_request(request)
    except CertificateError as error:
        found.append(str(error))
    for one in (*chain, *above):
        "\n".join(lines_of(one, NOW)).encode()
        as_json(one, NOW)
        assert one.fingerprint
    if chain and above and private is not None:
        verdict = check(Pair(chain, private, Access(0o600, 1), above), Wanted(), NOW)
        found += [str(finding) for finding in verdict.findings]
    if above and private is not None:
        try:
            Authority.of(above, private)
        except CertificateError as error:
            found.append(str(error))
    return found


def _certificates(pem: bytes, found: list[str]) -> tuple[Certificate, ...]:
    try:
        return parse_certificates(pem)
    except CertificateError as error:
        found.append(str(error))
        return ()


@cache
def seeds() -> list[bytes]:
    keys = iter([ec.derive_private_key(number, ec.SECP256R1()) for number in range(5, 10)])
    made = functools.partial(make, begins=BEGINS, ends=ENDS)
    authority = functools.partial(make_authority, begins=BEGINS, ends=ENDS)
    names = [x509.DNSName("crdtstream"), x509.UniformResourceIdentifier("crdtstream.internal")]
    not_9 = [x509.DNSName("region-9.crdb.crdtstream")]
    uri = "spiffe://crdtstream.internal/crdtstream/crdb/operator/ann"
    root = authority(permitted=names, excluded=not_9, key=next(keys), serial=1)
    between = authority(root, "between", path_length=0, key=next(keys), serial=2)
    leaf = made(between, addresses=("10.0.0.4", "::1"), key=next(keys), serial=3)
    other = made(root, "operator", dns=(), uris=(uri,), key=next(keys), serial=4)
    cross = authority(between, "a CA", key=root.key, serial=5)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "region-1")]))
        .sign(_private(leaf.key), hashes.SHA256(), ecdsa_deterministic=True)
        .public_bytes(serialization.Encoding.PEM)
    )
    return [
        story(leaf.pem + between.pem, leaf.key_pem, root.pem, request),
        story(other.pem, other.key_pem, root.pem, request),
        story(leaf.pem + between.pem + cross.pem, root.key_pem, root.pem + cross.pem, request),
        # Each chain may be as long as a file allows.
        story(leaf.pem + (between.pem + cross.pem) * 9, leaf.key_pem, root.pem * 9, b""),
    ]


def _private(key: object) -> PrivateKey:
    assert isinstance(key, PrivateKey)
    return key


def with_other_der(data: bytes, draw: Random) -> bytes:
    """One of the blocks of a PEM with other bytes in its DER."""
    blocks = list(_PEM.finditer(data))
    if not blocks:
        return damaged_bytes(data, draw)
    block = draw.choice(blocks)
    try:
        der = base64.b64decode(block[3])
    except ValueError:
        return damaged_bytes(data, draw)
    changed = base64.encodebytes(_damaged_der(der, draw))
    return data[: block.start()] + block[1] + changed + block[4] + data[block.end() :]


def _damaged_der(der: bytes, draw: Random) -> bytes:
    """Mostly of the same length, so that all around it is still read."""
    if not der or draw.random() < 0.2:
        return damaged_bytes(der, draw)
    at = draw.randrange(len(der))
    changed = draw.choice((der[at] ^ 1 << draw.randrange(8), 0, 0xFF, _SHORT, 0x30, 0x05))
    return der[:at] + bytes([changed]) + der[at + 1 :]


def with_another_block(data: bytes, draw: Random) -> bytes:
    """A story with a block of one file in another one."""
    pieces = pieces_of(data)
    blocks = [block[0] for piece in pieces for block in _PEM.finditer(piece)]
    if not blocks or not pieces:
        return damaged_bytes(data, draw)
    at = draw.randrange(len(pieces))
    pieces[at] = draw.choice((pieces[at], b"")) + draw.choice(blocks)
    return packed(pieces)


CERTIFICATES: Final = Surface(
    "certificates",
    target,
    seeds,
    one_of(
        *[damaging_story(with_other_der)] * 4, damaging_story(damaged_bytes), with_another_block
    ),
    "certificates, keys, requests and chains of them",
)
