"""The development authority: its bounds, and what it issues."""

import datetime
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from crdtstream.certificates.authority import (
    AUTHORITY_DAYS_DEFAULT,
    BACKDATED,
    Authority,
    issue,
    key_pem,
    make_authority,
    new_key,
)
from crdtstream.certificates.certificate import Certificate, parse_certificates, parse_key
from crdtstream.certificates.checking import Pair, Wanted, check
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.names import Role
from crdtstream.core.ids import RegionId
from tests.certificates import making
from tests.certificates.making import DAY, NOW

# Those who serve nobody.
PEOPLE = (Role.OPERATOR, Role.QUERY, Role.CLIENT)


def authority(
    *domains: str, database_id: str = "crdb", days: int = AUTHORITY_DAYS_DEFAULT
) -> Authority:
    return make_authority(
        database_id=database_id,
        trust_domain="crdtstream.internal",
        domains=domains,
        days=days,
        now=NOW,
    )


def issued(
    own: Authority,
    role: Role = Role.REGION,
    name: str = "1",
    *,
    hosts: tuple[str, ...] = (),
    days: int = 90,
    now: datetime.datetime = NOW,
) -> tuple[Certificate, ec.EllipticCurvePrivateKey]:
    key = new_key()
    holder = own.holder(role, name)
    return issue(own, holder, key.public_key(), hosts=hosts, days=days, now=now), key


@pytest.mark.parametrize(
    ("role", "name"), [*((role, "etl_2") for role in PEOPLE), (Role.REGION, "1023")]
)
def test_issued_certificates_pass_the_check(role: Role, name: str) -> None:
    own = authority()
    certificate, key = issued(own, role, name)
    verdict = check(Pair((certificate,), key, None, (own.certificate,)), Wanted(), NOW)
    assert verdict.findings == ()
    assert verdict.holder == own.holder(role, name)


def test_the_authority_is_bounded() -> None:
    found = authority("Example.com").certificate
    assert (found.is_authority, found.path_length) == (True, 0)
    assert not found.may_sign
    assert found.extended_usages is None
    assert found.constraints is not None
    assert [(type(tree), tree.value) for tree in found.constraints.permitted_subtrees or ()] == [
        (x509.DNSName, "crdtstream"),
        (x509.DNSName, "localhost"),
        (x509.DNSName, "example.com"),
        (x509.UniformResourceIdentifier, "crdtstream.internal"),
    ]
    for kind in (x509.BasicConstraints, x509.KeyUsage, x509.NameConstraints):
        assert found.raw.extensions.get_extension_for_class(kind).critical
    assert found.key_kind == "ECDSA P-256"


def test_lives_are_as_long_as_asked_for_and_begin_a_little_earlier() -> None:
    """Clocks of other machines may be behind."""
    own = authority()
    ten_years = own.certificate.not_after - NOW
    assert 3652 * DAY <= ten_years < 3653 * DAY
    certificate, _ = issued(own, days=90)
    assert certificate.not_before == NOW - BACKDATED
    assert certificate.not_after == NOW + 90 * DAY


def test_a_file_that_other_programs_refuse_is_refused() -> None:
    """gRPC takes the first certificate of a file that is cut off, or none, and OpenSSL refuses."""
    pem = authority().certificate.pem
    assert len(parse_certificates(pem + pem)) == 2
    for wrong, reason in (
        (pem + pem[: len(pem) // 2], "2 certificates begin in it, and 1 can be read"),
        (b"\xef\xbb\xbf" + pem, "byte order mark"),
    ):
        with pytest.raises(CertificateError, match=reason):
            parse_certificates(wrong)


def test_an_authority_is_read_back_from_its_files() -> None:
    own = authority("example.com", database_id="orders.eu")
    key = parse_key(key_pem(own.key))
    again = Authority.of(parse_certificates(own.certificate.pem), key)
    assert again.certificate == own.certificate
    assert (again.database_id, again.trust_domain) == ("orders.eu", "crdtstream.internal")
    assert again.permitted == ("crdtstream", "localhost", "example.com")


def test_authorities_of_one_database_have_different_names() -> None:
    """While one replaces the other, both are trusted."""
    assert authority().certificate.subject != authority().certificate.subject


def test_no_two_certificates_share_serial_or_key() -> None:
    own = authority()
    (one, key), (other, _) = issued(own), issued(own)
    assert one.serial != other.serial
    assert not other.has_key(key)


def test_hosts_are_names_and_addresses() -> None:
    own = authority("example.com")
    hosts = ("EU.example.com", "localhost", "10.0.0.1", "::1", "localhost")
    certificate, _ = issued(own, hosts=hosts)
    assert certificate.dns_names == ("region-1.crdb.crdtstream", "eu.example.com", "localhost")
    assert certificate.addresses == (ip_address("10.0.0.1"), ip_address("::1"))


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("region-2.crdb.crdtstream", "stand for regions"),
        ("REGION-2.crdb.crdtstream", "stand for regions"),
        ("region-1.crdb.crdtstream", "always in its certificate"),
        ("crdtstream", "stand for regions"),
        ("example.org", "--permit example.org"),
        ("notexample.com", "only for localhost, example.com"),
        ("*.example.com", "no wildcard"),
        ("example.com:6379", "no port"),
        ("example.com.", "no DNS name"),
        ("10.0.0.256", "no DNS name"),
        ("10.0.0.0/8", "no DNS name"),
        ("fe80::1%eth0", "no DNS name"),
        ("", "no DNS name"),
        ("ä.example.com", "xn--"),
    ],
)
def test_a_host_that_may_not_stand_in_a_certificate_is_refused(host: str, why: str) -> None:
    with pytest.raises(CertificateError, match=why):
        issued(authority("example.com"), hosts=(host,))


@pytest.mark.parametrize("role", PEOPLE)
def test_those_who_serve_nobody_get_no_host_names(role: Role) -> None:
    with pytest.raises(CertificateError, match="no server"):
        issued(authority(), role, "alice", hosts=("localhost",))


@pytest.mark.parametrize("role", PEOPLE)
@pytest.mark.parametrize("name", ["", "a.b", "-a", "a b", "a/b", "a" * 64, "ä", "a\n"])
def test_a_name_that_is_none_is_refused(role: Role, name: str) -> None:
    with pytest.raises(CertificateError, match="no name of"):
        authority().holder(role, name)


@pytest.mark.parametrize("name", ["0", "01", "1024", "-1", "one", "", "1 ", "٣"])
def test_a_number_of_no_region_is_refused(name: str) -> None:
    with pytest.raises(CertificateError, match="from 1 to 1023"):
        authority().holder(Role.REGION, name)


def test_nothing_is_issued_that_outlives_the_authority() -> None:
    own = authority(days=30)
    issued(own, days=30)
    with pytest.raises(CertificateError, match="use --days 30"):
        issued(own, days=31)
    later = NOW + 29 * DAY + DAY / 2
    with pytest.raises(CertificateError, match=r"expires first.*; make another"):
        issued(own, days=1, now=later)
    with pytest.raises(CertificateError, match="clock"):
        issued(own, now=NOW - DAY)


def test_trust_domains_and_databases_are_checked_when_an_authority_is_made() -> None:
    for database_id, trust_domain, domain in (
        ("Orders", "t", "example.com"),
        ("crdb", "T", "example.com"),
        ("crdb", "a/b", "example.com"),
        ("crdb", "t", "*.example.com"),
    ):
        with pytest.raises(CertificateError):
            make_authority(
                database_id=database_id,
                trust_domain=trust_domain,
                domains=[domain],
                days=1,
                now=NOW,
            )


def test_files_that_are_no_such_authority_are_refused() -> None:
    own, other = authority(), making.make_authority()
    certificate, key = issued(own)
    with pytest.raises(CertificateError, match="another certificate"):
        Authority.of((own.certificate,), authority().key)
    with pytest.raises(CertificateError, match="no authority that"):
        Authority.of((certificate,), key)
    with pytest.raises(CertificateError, match="no authority that"):
        Authority.of((own.certificate, certificate), own.key)
    with pytest.raises(CertificateError, match="no authority that"):
        Authority.of(parse_certificates(other.pem), parse_key(other.key_pem))
    constrained = making.make_authority(permitted=[x509.DNSName("crdtstream")])
    with pytest.raises(CertificateError, match="does not say"):
        Authority.of(parse_certificates(constrained.pem), parse_key(constrained.key_pem))


def test_a_certificate_is_of_the_authoritys_own_database() -> None:
    verdict = check(_pair(authority(database_id="other")), Wanted(RegionId(1), "crdb"), NOW)
    assert not verdict.is_good


def _pair(own: Authority) -> Pair:
    certificate, key = issued(own)
    return Pair((certificate,), key, None, (own.certificate,))
