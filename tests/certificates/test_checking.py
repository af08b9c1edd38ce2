"""The check of a pair: key, usages and names; chains have their own file."""

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from crdtstream.certificates.chain import Flaw
from crdtstream.certificates.checking import Access, Pair, Verdict, Wanted, check
from crdtstream.core.ids import RegionId
from tests.certificates.making import DNS, NOW, URI, Made, make, make_authority, pair_of

OPERATOR = "spiffe://crdtstream.internal/crdtstream/crdb/operator/alice"
QUERY = "spiffe://crdtstream.internal/crdtstream/crdb/query/etl"
CA = make_authority()


def verdict_of(leaf: Made, wanted: Wanted | None = None) -> Verdict:
    return check(pair_of(leaf), wanted or Wanted(), NOW)


def flaws(verdict: Verdict) -> list[Flaw]:
    return [finding.flaw for finding in verdict.findings]


def test_a_good_pair_has_no_findings_and_names_its_holder() -> None:
    verdict = verdict_of(make(CA), Wanted(RegionId(1), "crdb"))
    assert verdict.findings == ()
    assert verdict.is_good
    assert verdict.holder is not None
    assert verdict.holder.uri == URI


def test_a_key_of_another_certificate_is_found() -> None:
    """As after half of a change: the new certificate, the old key."""
    verdict = check(pair_of(make(CA), key=make(CA).key_pem), Wanted(), NOW)
    assert flaws(verdict) == [Flaw.KEY_OF_ANOTHER]


@pytest.mark.parametrize(
    ("mode", "owner", "is_open"),
    [
        (0o600, 1000, False),
        (0o400, 1000, False),
        (0o700, 1000, False),
        (0o640, 1000, True),
        (0o604, 1000, True),
        (0o620, 1000, True),
        # Of root: as Kubernetes mounts a Secret with fsGroup.
        (0o440, 0, False),
        (0o640, 0, False),
        (0o660, 0, True),
        (0o644, 0, True),
    ],
)
def test_a_key_that_is_open_to_others_is_found(mode: int, owner: int, is_open: bool) -> None:
    pair = pair_of(make(CA))
    pair = Pair(pair.certificates, pair.key, Access(mode, owner), pair.roots)
    assert flaws(check(pair, Wanted(), NOW)) == ([Flaw.KEY_FILE_OPEN] if is_open else [])


def test_the_access_to_a_key_can_be_left_out() -> None:
    pair = pair_of(make(CA))
    assert check(Pair(pair.certificates, pair.key, None, pair.roots), Wanted(), NOW).is_good


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), []),
        (Wanted(region=RegionId(1)), []),
        (Wanted(region=RegionId(2)), [Flaw.OTHER_HOLDER]),
        (Wanted(database_id="crdb"), []),
        (Wanted(database_id="other"), [Flaw.OTHER_HOLDER]),
        (Wanted(RegionId(2), "other"), [Flaw.OTHER_HOLDER, Flaw.OTHER_HOLDER]),
    ],
)
def test_a_certificate_of_another_region_or_database_is_found(
    wanted: Wanted, found: list[Flaw]
) -> None:
    assert flaws(verdict_of(make(CA), wanted)) == found


@pytest.mark.parametrize("uri", [OPERATOR, QUERY])
def test_operators_and_readers_are_no_region(uri: str) -> None:
    leaf = make(CA, "alice", uris=[uri], dns=[])
    assert verdict_of(leaf).is_good
    assert flaws(verdict_of(leaf, Wanted(region=RegionId(1)))) == [Flaw.OTHER_HOLDER]


@pytest.mark.parametrize(
    "uris",
    [
        [],
        [URI, URI.replace("region/1", "region/2")],
        [URI, "https://example.com"],
        ["spiffe://crdtstream.internal/ns/default/sa/node"],
        [URI + "/"],
    ],
)
def test_a_certificate_names_exactly_one_holder(uris: list[str]) -> None:
    """Two names would let it choose which region it is."""
    verdict = verdict_of(make(CA, uris=uris))
    assert flaws(verdict) == [Flaw.NO_HOLDER]
    assert verdict.holder is None


@pytest.mark.parametrize(
    ("dns", "is_good"),
    [
        ([DNS], True),
        ([DNS.upper()], True),
        ([DNS, "eu.example.com"], True),
        ([DNS, "*.example.com"], True),
        ([], False),
        (["region-2.crdb.crdtstream"], False),
        ([DNS, "region-2.crdb.crdtstream"], False),
        ([DNS, "Region-2.crdb.crdtstream"], False),
        # gRPC removes the dot.
        ([DNS, "region-2.crdb.crdtstream."], False),
        ([DNS, "*.crdb.crdtstream"], False),
        ([DNS, "region-1.other.crdtstream"], False),
        (["localhost"], False),
    ],
)
def test_a_region_has_its_own_dns_name_and_no_other_regions(dns: list[str], is_good: bool) -> None:
    assert flaws(verdict_of(make(CA, dns=dns))) == ([] if is_good else [Flaw.OTHER_NAMES])


def test_an_operator_with_a_regions_dns_name_could_pose_as_its_server() -> None:
    assert flaws(verdict_of(make(CA, uris=[OPERATOR]))) == [Flaw.OTHER_NAMES]


def test_a_regions_name_as_common_name_counts_too() -> None:
    """Some clients look at it where DNS names are missing."""
    assert verdict_of(make(CA, DNS)).is_good
    assert flaws(verdict_of(make(CA, DNS, uris=[OPERATOR], dns=[]))) == [Flaw.OTHER_NAMES]
    assert flaws(verdict_of(make(CA, DNS, dns=[]))) == [Flaw.OTHER_NAMES]


def test_an_authority_is_no_certificate_of_a_node() -> None:
    verdict = check(pair_of(make(CA, is_authority=True, certifies=True)), Wanted(), NOW)
    assert flaws(verdict) == [Flaw.NO_LEAF]


@pytest.mark.parametrize(
    ("usages", "missing"),
    [
        (None, "clientAuth and serverAuth"),
        ([ExtendedKeyUsageOID.SERVER_AUTH], "clientAuth"),
        ([ExtendedKeyUsageOID.CLIENT_AUTH], "serverAuth"),
        ([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE], "clientAuth and serverAuth"),
    ],
)
def test_nodes_are_clients_and_servers(usages: list[object] | None, missing: str) -> None:
    verdict = verdict_of(make(CA, usages=usages))  # type: ignore[arg-type]
    assert flaws(verdict) == [Flaw.EXTENDED_KEY_USAGE]
    assert f"is not for {missing}; " in verdict.findings[0].text


def test_operators_and_readers_are_clients_only() -> None:
    """An authority that is limited to clients may issue theirs, but no region's."""
    client = [ExtendedKeyUsageOID.CLIENT_AUTH]
    limited = make_authority(make_authority(), "limited", usages=client)
    for uri in (OPERATOR, QUERY):
        assert verdict_of(make(limited, "alice", uris=[uri], dns=[], usages=client)).is_good
        no_client = make(CA, "alice", uris=[uri], dns=[], usages=[ExtendedKeyUsageOID.SERVER_AUTH])
        assert flaws(verdict_of(no_client)) == [Flaw.EXTENDED_KEY_USAGE]
    assert flaws(verdict_of(make(limited))) == [Flaw.EXTENDED_KEY_USAGE]


def test_all_findings_are_reported_and_each_says_what_to_do() -> None:
    leaf = make(CA, dns=[], usages=None)
    pair = pair_of(leaf, key=CA.key_pem, ca=make_authority(name="other").pem)
    pair = Pair(pair.certificates, pair.key, Access(0o644, 0), pair.roots)
    verdict = check(pair, Wanted(RegionId(9), "x"), NOW)
    assert set(flaws(verdict)) == {
        Flaw.KEY_OF_ANOTHER,
        Flaw.KEY_FILE_OPEN,
        Flaw.EXTENDED_KEY_USAGE,
        Flaw.OTHER_HOLDER,
        Flaw.OTHER_NAMES,
        Flaw.NO_CHAIN,
    }
    assert all("; " in finding.text for finding in verdict.findings)
