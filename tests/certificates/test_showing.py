"""Certificates as text and JSON."""

import datetime
import json

import pytest
from cryptography import x509

from crdtstream.certificates.certificate import parse_certificates
from crdtstream.certificates.showing import as_json, lines_of, printable
from tests.certificates.making import DAY, DNS, NOW, URI, Made, make, make_authority

CA = make_authority(permitted=[x509.DNSName("crdtstream")], path_length=0)


def lines(made: Made, now: datetime.datetime = NOW) -> dict[str, str]:
    (found,) = parse_certificates(made.pem)
    return {line[:12].strip(): line[12:] for line in lines_of(found, now)}


def test_a_regions_certificate_in_lines() -> None:
    shown = lines(make(CA, addresses=["10.0.0.1"]))
    assert shown["holder"] == "region 1 of database crdb"
    assert shown["trust"] == "crdtstream.internal"
    assert (shown["DNS name"], shown["URI"], shown["address"]) == (DNS, URI, "10.0.0.1")
    assert shown["issuer"] == "CN=a CA"
    assert shown["used by"] == "clientAuth, serverAuth"
    assert shown["key"] == "ECDSA P-256"


def test_an_authority_in_lines() -> None:
    shown = lines(CA)
    assert (shown["issuer"], shown["used by"], shown["permits"]) == (
        "itself",
        "authorities",
        "crdtstream",
    )
    assert "holder" not in shown


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (-3 * DAY, "begins in 2 days"),
        (0 * DAY, "10 days left"),
        (8.5 * DAY, "36 hours left"),
        (10 * DAY - DAY / 24, "60 minutes left"),
        (10 * DAY - DAY / 86_400, "1 second left"),
        (10 * DAY, "0 seconds left"),
        (13 * DAY, "expired 3 days ago"),
    ],
)
def test_the_time_left_is_in_its_largest_unit(later: datetime.timedelta, text: str) -> None:
    assert lines(make(CA), NOW + later)["valid until"].endswith(text)


def test_a_certificate_as_json() -> None:
    made = make(CA, addresses=["::1"])
    (found,) = parse_certificates(made.pem)
    shown = json.loads(json.dumps(as_json(found, NOW)))
    assert shown["holder"] == {
        "role": "region",
        "name": "1",
        "region": 1,
        "database_id": "crdb",
        "trust_domain": "crdtstream.internal",
    }
    assert (shown["dns_names"], shown["uris"], shown["addresses"]) == ([DNS], [URI], ["::1"])
    assert shown["serial"] == f"{made.certificate.serial_number:x}"
    assert datetime.datetime.fromisoformat(shown["not_after"]) == NOW + 10 * DAY
    assert shown["seconds_left"] == 864_000
    assert not shown["is_authority"]


def test_names_never_control_a_terminal() -> None:
    shown = lines(make(CA, "\x1b[2Jgone\nvalid until never", dns=["\x1b]0;t\x07.example"]))
    assert "\x1b" not in "".join(shown.values())
    assert shown["subject"] == r"CN=\x1b[2Jgone\nvalid until never"
    assert printable("für\u202e") == r"für\u202e"
