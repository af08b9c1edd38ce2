"""Reading certificates, keys and requests: what is no such thing is one kind of error."""

import base64
import contextlib
import datetime
from collections.abc import Callable
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.certificates.certificate import (
    Certificate,
    parse_certificates,
    parse_key,
    parse_request,
    public_bytes,
)
from crdtstream.certificates.checking import Pair, Wanted, check
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.showing import as_json, lines_of
from tests.certificates.making import (
    DAY,
    DNS,
    URI,
    Made,
    make,
    make_authority,
    pem_of,
)
from tests.conftest import examples

PARSERS = (parse_certificates, parse_key, parse_request)


def request_of(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anyone")])
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    is_ecdsa = isinstance(key, ec.EllipticCurvePrivateKey)
    request = builder.sign(key, algorithm, ecdsa_deterministic=True if is_ecdsa else None)
    return request.public_bytes(serialization.Encoding.PEM)


# The same bytes in every process, so that an example that fails does so again.
KEY, CA_KEY = (ec.derive_private_key(number, ec.SECP256R1()) for number in (4711, 4712))
THEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@cache
def good() -> Made:
    authority = make_authority(
        permitted=[x509.DNSName("crdtstream")],
        path_length=0,
        key=CA_KEY,
        serial=1,
        begins=THEN - DAY,
        ends=THEN + DAY,
    )
    return make(
        authority,
        addresses=["10.0.0.1", "::1"],
        key=KEY,
        serial=2,
        begins=THEN - DAY,
        ends=THEN + DAY,
    )


def test_a_certificate_is_read_in_full() -> None:
    made = good()
    found, above = parse_certificates(made.pem + made.root.pem)
    assert (found.dns_names, found.uris) == ((DNS,), (URI,))
    assert list(map(str, found.addresses)) == ["10.0.0.1", "::1"]
    assert (found.common_name, found.subject, found.issuer) == (
        "region-1",
        "CN=region-1",
        "CN=a CA",
    )
    assert (found.is_authority, found.may_sign, found.may_sign_certificates) == (False, True, False)
    assert (above.is_authority, above.path_length, above.may_sign) == (True, 0, False)
    assert above.may_sign_certificates
    assert found.key_kind == "ECDSA P-256"
    assert found.holder is not None
    assert found.holder.uri == URI
    assert found.serial == made.certificate.serial_number
    assert found.fingerprint == made.certificate.fingerprint(hashes.SHA256()).hex()
    assert found.pem == made.pem


def test_it_was_issued_by_the_one_that_signed_it() -> None:
    made = good()
    other = make_authority()
    leaf, root, namesake = map(only, (made.pem, made.root.pem, other.pem))
    assert leaf.is_issued_by(root)
    assert root.is_issued_by(root)
    assert not leaf.is_issued_by(namesake), "the name alone is no proof"
    assert not root.is_issued_by(leaf)


def only(pem: bytes) -> Certificate:
    (found,) = parse_certificates(pem)
    return found


def test_a_key_belongs_to_its_certificate_alone() -> None:
    made = good()
    assert only(made.pem).has_key(parse_key(made.key_pem))
    assert not only(made.pem).has_key(parse_key(make_authority().key_pem))


def test_text_around_a_certificate_and_a_key_beside_it_are_skipped() -> None:
    made = good()
    assert only(b"a comment\n" + made.key_pem + made.pem + b"the end\n").pem == made.pem


@pytest.mark.parametrize("bits", [2048, 1024])
def test_an_rsa_key_is_taken_from_2048_bits_on(bits: int) -> None:
    pem = pem_of(rsa.generate_private_key(65537, bits))
    if bits == 2048:
        assert isinstance(parse_key(pem), rsa.RSAPrivateKey)
    else:
        with pytest.raises(CertificateError, match="RSA 1024; use ECDSA P-256"):
            parse_key(pem)


def test_an_encrypted_key_is_told_how_to_decrypt_it() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    password = serialization.BestAvailableEncryption(b"secret")
    for form in (
        serialization.PrivateFormat.PKCS8,
        serialization.PrivateFormat.TraditionalOpenSSL,
    ):
        pem = key.private_bytes(serialization.Encoding.PEM, form, password)
        with pytest.raises(CertificateError, match="openssl pkey"):
            parse_key(pem)


def test_keys_of_other_kinds_are_named() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(CertificateError, match="kind Ed25519; use"):
        parse_key(pem_of(key))
    with pytest.raises(CertificateError, match="kind Ed25519; use"):
        parse_request(request_of(key))
    with pytest.raises(CertificateError, match="kind ECDSA secp521r1; use"):
        parse_key(pem_of(ec.generate_private_key(ec.SECP521R1())))


def test_a_request_yields_the_key_that_signed_it() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    assert public_bytes(parse_request(request_of(key))) == public_bytes(key.public_key())


def test_a_request_that_its_key_did_not_sign_is_refused() -> None:
    """Else someone could have another one's key certified as their own."""
    key = ec.generate_private_key(ec.SECP256R1())
    der = base64.b64decode(b"".join(request_of(key).splitlines()[1:-1]))
    other = ec.generate_private_key(ec.SECP256R1())
    swapped = der.replace(public_bytes(key.public_key()), public_bytes(other.public_key()))
    assert swapped != der
    with pytest.raises(CertificateError, match="signature is wrong"):
        parse_request(pem(swapped, "CERTIFICATE REQUEST"))


def test_files_that_were_mixed_up_are_refused() -> None:
    made = good()
    with pytest.raises(CertificateError, match="no certificate in PEM"):
        parse_certificates(made.key_pem)
    with pytest.raises(CertificateError, match="no private key in PEM"):
        parse_key(made.pem)
    with pytest.raises(CertificateError, match="no signing request in PEM"):
        parse_request(made.pem)
    with pytest.raises(CertificateError, match="convert DER"):
        parse_certificates(made.certificate.public_bytes(serialization.Encoding.DER))


def test_an_extension_that_stands_twice_is_damage() -> None:
    """``cryptography`` notices when extensions are asked for, not when they are loaded."""
    der = good().certificate.public_bytes(serialization.Encoding.DER)
    # The object identifier of the subject's key identifier becomes that of the authority's.
    twice = der.replace(b"\x06\x03\x55\x1d\x0e", b"\x06\x03\x55\x1d\x23")
    assert twice != der
    with pytest.raises(CertificateError):
        parse_certificates(pem(twice, "CERTIFICATE"))


# --- Anything at all ------------------------------------------------------------------------------


def pem(der: bytes, label: str) -> bytes:
    body = base64.encodebytes(der)
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), body, label.encode())


@given(st.binary(max_size=300), st.sampled_from(["", "CERTIFICATE", "CERTIFICATE REQUEST", "KEY"]))
def test_garbage_is_refused_by_this_error_alone(data: bytes, label: str) -> None:
    for parse in PARSERS:
        with pytest.raises(CertificateError):
            parse(pem(data, label) if label else data)
    with pytest.raises(CertificateError):
        parse_key(pem(data, "PRIVATE KEY"))


@settings(max_examples=examples(400))
@given(st.data())
def test_a_spoilt_certificate_is_refused_or_checked_and_shown(data: st.DataObject) -> None:
    """A few bytes of it are others: most such structures no authority ever makes."""
    made = data.draw(st.sampled_from([good(), good().root]))
    der = bytearray(made.certificate.public_bytes(serialization.Encoding.DER))
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    try:
        (found,) = parse_certificates(pem(bytes(der), "CERTIFICATE"))
    except CertificateError:
        return
    roots = parse_certificates(made.root.pem)
    verdict = check(Pair((found,), parse_key(made.key_pem), None, roots), Wanted(), THEN)
    assert verdict.is_good == (made is good() and found.pem == made.pem)
    assert all("\n" not in line for line in lines_of(found, THEN))
    assert as_json(found, THEN)["sha256"] == found.fingerprint


@given(st.data())
def test_a_spoilt_key_or_request_is_refused_or_read(data: st.DataObject) -> None:
    kinds: list[tuple[Callable[[bytes], object], bytes]] = [
        (parse_key, pem_of(KEY)),
        (parse_request, request_of(KEY)),
    ]
    parse, text = data.draw(st.sampled_from(kinds))
    spoilt = bytearray(text)
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CertificateError):
        parse(bytes(spoilt))
