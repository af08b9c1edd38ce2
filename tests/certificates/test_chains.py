"""The check of a chain agrees with OpenSSL and gRPC, which decide in the end."""

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.certificates.chain import Flaw
from crdtstream.certificates.checking import Wanted, check
from tests.certificates.making import (
    DAY,
    NOW,
    Made,
    does_grpc_take,
    does_openssl_take,
    make,
    make_authority,
    pair_of,
)
from tests.conftest import examples

# Handshakes of gRPC are over sockets.
pytestmark = pytest.mark.live

CRDTSTREAM = x509.DNSName("crdtstream")
TRUST = x509.UniformResourceIdentifier("crdtstream.internal")


def below(**authority: object) -> Made:
    """A region's certificate, of an authority that differs in this from a good one."""
    return make(make_authority(**authority))  # type: ignore[arg-type]


def through(middle: dict[str, object], root: dict[str, object] | None = None) -> Made:
    """A region's certificate of an authority below another one."""
    top = make_authority(name="the root", **(root or {}))  # type: ignore[arg-type]
    return make(make_authority(top, "between", **middle))  # type: ignore[arg-type]


def p384() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


RIGHT: dict[str, Callable[[], Made]] = {
    "plain": below,
    "of-crdtstream": lambda: below(path_length=0, permitted=[CRDTSTREAM, TRUST]),
    "through-another": lambda: through({"path_length": 0}, {"path_length": 1}),
    "through-three": lambda: make(
        make_authority(make_authority(make_authority(name="1"), "2"), "3")
    ),
    "p-384": lambda: make(make_authority(key=p384()), key=p384()),
    "rsa": lambda: make(
        make_authority(key=rsa.generate_private_key(65537, 2048)),
        key=rsa.generate_private_key(65537, 2048),
    ),
    "no-key-usage": lambda: make(make_authority(), signs=None),
    "limited-to-both-usages": lambda: below(
        usages=[ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    ),
    "an-address": lambda: make(make_authority(permitted=[CRDTSTREAM, TRUST]), addresses=["::1"]),
    "addresses-limited-where-none-is": lambda: below(
        permitted=[x509.IPAddress(ip_network("10.0.0.0/8"))]
    ),
    "excluded-elsewhere": lambda: below(excluded=[x509.DNSName("example.com")]),
    "permitted-in-other-case": lambda: below(permitted=[x509.DNSName("CrdtStream")]),
    "permitted-with-a-dot": lambda: below(permitted=[x509.DNSName(".crdtstream")]),
    "permitted-below-the-host": lambda: below(
        permitted=[x509.UniformResourceIdentifier(".internal")]
    ),
    "every-name-permitted": lambda: below(permitted=[x509.DNSName("")]),
}

# With the flaw that is found, and the libraries that refuse.
BOTH = "grpc openssl"
WRONG: dict[str, tuple[Callable[[], Made], Flaw, str]] = {
    "expired": (lambda: make(make_authority(), ends=NOW - DAY / 24), Flaw.EXPIRED, BOTH),
    "not-yet": (lambda: make(make_authority(), begins=NOW + DAY), Flaw.NOT_YET_VALID, BOTH),
    "root-expired": (lambda: below(ends=NOW - DAY / 24), Flaw.EXPIRED, BOTH),
    "root-not-yet": (lambda: below(begins=NOW + DAY), Flaw.NOT_YET_VALID, BOTH),
    "between-expired": (lambda: through({"ends": NOW - DAY / 24}), Flaw.EXPIRED, BOTH),
    "between-is-a-leaf": (lambda: through({"is_authority": False}), Flaw.NO_AUTHORITY, BOTH),
    "between-may-not-certify": (lambda: through({"certifies": False}), Flaw.NO_AUTHORITY, BOTH),
    "too-deep": (
        lambda: make(
            make_authority(make_authority(make_authority(name="1"), "2", path_length=0), "3")
        ),
        Flaw.TOO_DEEP,
        BOTH,
    ),
    # BoringSSL does not ask a root for its depth, nor for extensions that it does not know.
    "too-deep-below-the-root": (
        lambda: through({}, {"path_length": 0}),
        Flaw.TOO_DEEP,
        "openssl",
    ),
    "other-domain": (
        lambda: below(permitted=[x509.DNSName("example.com")]),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "half-a-label": (
        lambda: below(permitted=[x509.DNSName("stream")]),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "a-host-more": (
        lambda: make(
            make_authority(permitted=[CRDTSTREAM]),
            dns=("region-1.crdb.crdtstream", "eu.example.com"),
        ),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "excluded": (
        lambda: below(excluded=[x509.DNSName("crdb.crdtstream")]),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "other-trust-domain": (
        lambda: below(permitted=[x509.UniformResourceIdentifier("other.internal")]),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "trust-domain-below": (
        lambda: below(permitted=[x509.UniformResourceIdentifier("internal")]),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "limited-higher-up": (
        lambda: through({}, {"permitted": [x509.DNSName("example.com")]}),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "common-name-like-dns": (
        lambda: make(make_authority(permitted=[CRDTSTREAM]), "alice.smith", dns=()),
        Flaw.NAME_NOT_PERMITTED,
        BOTH,
    ),
    "address-limits": (
        lambda: make(
            make_authority(permitted=[x509.IPAddress(ip_network("10.0.0.0/8"))]),
            addresses=["10.0.0.1"],
        ),
        Flaw.NOT_UNDERSTOOD,
        "grpc",
    ),
    "strange": (lambda: make(make_authority(), strange=True), Flaw.NOT_UNDERSTOOD, BOTH),
    "strange-root": (lambda: below(strange=True), Flaw.NOT_UNDERSTOOD, "openssl"),
    "for-servers-only": (
        lambda: make(make_authority(), usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
        Flaw.EXTENDED_KEY_USAGE,
        BOTH,
    ),
    "for-clients-only": (
        lambda: make(make_authority(), usages=[ExtendedKeyUsageOID.CLIENT_AUTH]),
        Flaw.EXTENDED_KEY_USAGE,
        BOTH,
    ),
    "authority-for-servers-only": (
        lambda: through({"usages": [ExtendedKeyUsageOID.SERVER_AUTH]}),
        Flaw.EXTENDED_KEY_USAGE,
        BOTH,
    ),
    "may-not-sign": (lambda: make(make_authority(), signs=False), Flaw.KEY_USAGE, BOTH),
    "weak-key": (
        lambda: make(make_authority(), key=rsa.generate_private_key(65537, 1024)),
        Flaw.KEY_KIND,
        "openssl",
    ),
}


def check_refused(leaf: Made, ca: bytes, flaw: Flaw) -> None:
    found = check(pair_of(leaf, ca=ca), Wanted(), NOW)
    assert flaw in {finding.flaw for finding in found.findings}


@pytest.mark.parametrize("name", RIGHT)
def test_a_chain_without_findings_is_taken(name: str, tmp_path: Path) -> None:
    leaf = RIGHT[name]()
    assert check(pair_of(leaf), Wanted(), NOW).findings == ()
    assert does_openssl_take(tmp_path, leaf, leaf.root.pem)
    assert does_grpc_take(leaf, leaf.root.pem)


@pytest.mark.parametrize("name", WRONG)
def test_a_chain_that_tls_refuses_has_a_finding(name: str, tmp_path: Path) -> None:
    made, flaw, refused_by = WRONG[name]
    leaf = made()
    taken_by = {
        "openssl": does_openssl_take(tmp_path, leaf, leaf.root.pem),
        "grpc": does_grpc_take(leaf, leaf.root.pem),
    }
    assert " ".join(sorted(one for one, taken in taken_by.items() if not taken)) == refused_by
    if name == "weak-key":
        # This file of a key is refused before anything is checked.
        own = ec.generate_private_key(ec.SECP256R1())
        leaf = Made(leaf.certificate, own, leaf.issuer)
    check_refused(leaf, leaf.root.pem, flaw)


# Few labels, so that names and trees meet often; DNS ignores case.
HOSTS = st.lists(st.sampled_from(["a", "b", "ab", "A"]), min_size=1, max_size=3).map(".".join)
URIS = HOSTS.map(lambda host: f"spiffe://{host}/a.b")
DNS_TREES = st.builds(x509.DNSName, HOSTS | HOSTS.map(lambda host: f".{host}") | st.just(""))
URI_TREES = st.builds(x509.UniformResourceIdentifier, HOSTS | HOSTS.map(lambda host: f".{host}"))
TREES = st.lists(DNS_TREES | URI_TREES, max_size=3)
KEYS = [ec.derive_private_key(number, ec.SECP256R1()) for number in (4711, 4712, 4713)]


@settings(max_examples=examples(200), deadline=None)
@given(
    dns=st.lists(HOSTS, max_size=2, unique=True),
    uris=st.lists(URIS, max_size=2, unique=True),
    name=st.sampled_from(["region-1", "a.b", "ab.a"]),
    trees=st.tuples(TREES, TREES),
    above=st.tuples(TREES, TREES),
)
def test_names_are_permitted_as_openssl_permits_them(
    dns: list[str],
    uris: list[str],
    name: str,
    trees: tuple[list[x509.GeneralName], list[x509.GeneralName]],
    above: tuple[list[x509.GeneralName], list[x509.GeneralName]],
) -> None:
    """With permitted and excluded trees, of the authority and of one above it."""
    root = make_authority(name="root", permitted=above[0], excluded=above[1], key=KEYS[0])
    middle = make_authority(root, "one", permitted=trees[0], excluded=trees[1], key=KEYS[1])
    leaf = make(middle, name, dns=dns, uris=uris, key=KEYS[2])
    flaws = {finding.flaw for finding in check(pair_of(leaf), Wanted(), NOW).findings}
    assert not flaws - {Flaw.NAME_NOT_PERMITTED, Flaw.NO_HOLDER}
    with TemporaryDirectory() as folder:
        is_taken = does_openssl_take(Path(folder), leaf, root.pem, wanted=None)
    assert (Flaw.NAME_NOT_PERMITTED in flaws) == (not is_taken)


def test_another_authority_is_refused_though_it_has_the_same_name(tmp_path: Path) -> None:
    leaf, other = below(), make_authority()
    assert leaf.root.certificate.subject == other.certificate.subject
    check_refused(leaf, other.pem, Flaw.NO_CHAIN)
    assert not does_openssl_take(tmp_path, leaf, other.pem)
    assert not does_grpc_take(leaf, other.pem)


def test_an_authority_that_is_not_in_the_file_breaks_the_chain(tmp_path: Path) -> None:
    whole = through({})
    leaf = Made(whole.certificate, whole.key, None)
    check_refused(leaf, whole.root.pem, Flaw.NO_CHAIN)
    assert not does_openssl_take(tmp_path, leaf, whole.root.pem)
    assert not does_grpc_take(leaf, whole.root.pem)


def test_an_authority_in_between_is_no_root(tmp_path: Path) -> None:
    """gRPC takes it for one, OpenSSL does not: a certificate must do for both."""
    whole = through({})
    assert whole.issuer is not None
    check_refused(whole, whole.issuer.pem, Flaw.NO_CHAIN)
    assert not does_openssl_take(tmp_path, whole, whole.issuer.pem)


def test_an_authority_that_its_namesake_signed_is_no_root(tmp_path: Path) -> None:
    """As in a change of keys: the new key, under the same name, signed by the old one."""
    old = make_authority()
    new = make_authority(old)
    assert new.certificate.subject == new.certificate.issuer
    check_refused(make(new), new.pem, Flaw.NO_CHAIN)
    assert not does_openssl_take(tmp_path, make(new), new.pem)
    assert check(pair_of(make(new), ca=old.pem), Wanted(), NOW).is_good
    assert does_openssl_take(tmp_path, make(new), old.pem)


def test_an_authority_in_between_may_stand_in_the_ca_file(tmp_path: Path) -> None:
    whole = through({})
    assert whole.issuer is not None
    leaf = Made(whole.certificate, whole.key, None)
    ca = whole.root.pem + whole.issuer.pem
    assert check(pair_of(leaf, ca=ca), Wanted(), NOW).is_good
    assert does_openssl_take(tmp_path, leaf, ca)
    assert does_grpc_take(leaf, ca)


@pytest.mark.parametrize("is_old_first", [True, False])
def test_of_a_root_that_was_renewed_the_valid_certificate_counts(is_old_first: bool) -> None:
    old = make_authority(ends=NOW - DAY / 24)
    new = make_authority(key=old.key)
    ca = old.pem + new.pem if is_old_first else new.pem + old.pem
    assert check(pair_of(make(new), ca=ca), Wanted(), NOW).is_good


def test_while_authorities_change_both_are_in_the_file(tmp_path: Path) -> None:
    old, new = make_authority(name="old"), make_authority(name="new")
    for issuer in (old, new):
        leaf = make(issuer)
        assert check(pair_of(leaf, ca=old.pem + new.pem), Wanted(), NOW).is_good
        assert does_openssl_take(tmp_path, leaf, old.pem + new.pem)
        assert does_grpc_take(leaf, old.pem + new.pem)


def test_the_end_is_that_of_the_first_certificate_that_expires() -> None:
    leaf = make(make_authority(ends=NOW + 2 * DAY), ends=NOW + 9 * DAY)
    assert check(pair_of(leaf), Wanted(), NOW).not_after == NOW + 2 * DAY
    later = check(pair_of(leaf), Wanted(), NOW + 3 * DAY)
    assert [finding.flaw for finding in later.findings] == [Flaw.EXPIRED]


def test_authorities_that_issue_each_other_lead_nowhere() -> None:
    """In a circle each is looked at once."""
    one, two = make_authority(name="one"), make_authority(name="two")
    of_two = make_authority(two, "one", key=one.key)
    of_one = make_authority(one, "two", key=two.key)
    leaf = make(of_two)
    spoilt = Made(leaf.certificate, leaf.key, None)
    check_refused(spoilt, of_one.pem + of_two.pem, Flaw.NO_CHAIN)


def test_a_chain_that_is_too_long_is_not_followed() -> None:
    issuer = make_authority(name="0")
    for number in range(1, 12):
        issuer = make_authority(issuer, str(number))
    check_refused(make(issuer), issuer.root.pem, Flaw.NO_CHAIN)
