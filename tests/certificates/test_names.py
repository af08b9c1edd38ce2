"""Names of holders: one spelling, read back as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.names import (
    Holder,
    Role,
    check_database_id,
    is_host_name,
    is_within,
    parse_uri,
)

LABELS = st.from_regex(r"[a-z0-9_-]{1,20}(\.[a-z0-9_-]{1,20}){0,2}", fullmatch=True)
REGIONS = st.builds(
    lambda trust, database, region: Holder(trust, database, Role.REGION, str(region)),
    LABELS,
    LABELS,
    st.integers(1, 1023),
)
OTHERS = st.builds(
    Holder,
    LABELS,
    LABELS,
    st.sampled_from([one for one in Role if one is not Role.REGION]),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", fullmatch=True),
)


@given(REGIONS | OTHERS)
def test_a_uri_is_read_back_as_its_holder(holder: Holder) -> None:
    assert parse_uri(holder.uri) == holder


@given(REGIONS, REGIONS | OTHERS)
def test_two_holders_never_share_a_name(one: Holder, other: Holder) -> None:
    if one != other:
        assert one.uri != other.uri
    if other.dns_name == one.dns_name:
        assert (one.database_id, one.region) == (other.database_id, other.region)


@given(st.text() | st.from_regex(r"spiffe://[a-z./]{0,30}region/[0-9a-z]{0,5}"))
def test_other_text_names_no_holder_in_a_second_spelling(text: str) -> None:
    found = parse_uri(text)
    assert found is None or found.uri == text


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "spiffe://t/crdtstream/crdb/region/0",
        "spiffe://t/crdtstream/crdb/region/01",
        "spiffe://t/crdtstream/crdb/region/1024",
        "spiffe://t/crdtstream/crdb/region/1/",
        "spiffe://t/crdtstream/crdb/region/1\n",
        "spiffe://t/crdtstream/crdb/region/١",
        "spiffe://t/crdtstream/crdb/region/alice",
        "spiffe://t/crdtstream/crdb/shard/3/region/1",
        "spiffe://t/crdtstream/Crdb/region/1",
        "spiffe://T/crdtstream/crdb/region/1",
        "SPIFFE://t/crdtstream/crdb/region/1",
        "spiffe://t:1/crdtstream/crdb/region/1",
        "spiffe://t/crdtstream//region/1",
        "spiffe://t/crdtstream/../region/1",
        "spiffe://t/crdtstream/crdb/admin/alice",
        "spiffe://t/crdtstream/crdb/operator/a.b",
        "spiffe://t/crdtstream/crdb/operator/",
        "spiffe://t/other/crdb/region/1",
        "https://t/crdtstream/crdb/region/1",
        f"spiffe://{'t' * 256}/crdtstream/crdb/region/1",
        f"spiffe://t/crdtstream/{'a' * 63}.{'b' * 63}/region/1",
    ],
)
def test_a_uri_that_is_not_exactly_right_names_nobody(uri: str) -> None:
    assert parse_uri(uri) is None


@pytest.mark.parametrize("database_id", ["Orders", "a:b", "", ".", "a..b", "a.", "a" * 65, "ä"])
def test_a_database_whose_name_dns_cannot_carry_is_refused(database_id: str) -> None:
    """Some are a ``database_id`` of settings all the same."""
    with pytest.raises(CertificateError, match="lower-case letters"):
        check_database_id(database_id)


@pytest.mark.parametrize("database_id", ["crdb", "a", "a" * 63, "orders.eu", "a_b-c", "7"])
def test_other_databases_have_names_in_dns(database_id: str) -> None:
    holder = Holder("t", database_id, Role.REGION, "1023")
    assert holder.dns_name == f"region-1023.{database_id}.crdtstream"
    assert is_host_name(holder.dns_name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("crdtstream", True),
        ("a.crdtstream", True),
        ("A.CRDTSTREAM", True),
        ("a.crdtstream.", True),
        ("*.crdtstream", True),
        ("acrdtstream", False),
        ("crdtstream.com", False),
        ("", False),
    ],
)
def test_a_domain_contains_itself_and_names_below_it(name: str, expected: bool) -> None:
    assert is_within(name, "crdtstream") is expected


@pytest.mark.parametrize(
    "text",
    ["*.a.com", "a.com:80", "a b", "1.2.3", "", "a.", "a" * 64, "a." * 130 + "a", "ä.de", "A"],
)
def test_wildcards_ports_and_numbers_are_no_host_names(text: str) -> None:
    assert not is_host_name(text)
