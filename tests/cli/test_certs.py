"""``crdtstream certs``: files, texts, exit statuses."""

import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crdtstream.cli.start import program

APP = program(["certs"])


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(APP, ["certs", *map(str, words)])


def ok(*words: str | Path) -> str:
    result = run(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    ok("init", tmp_path / "ca")
    return tmp_path / "ca"


@pytest.fixture
def own(ca: Path) -> Path:
    ok("issue", ca, "region", "1")
    return ca / "region-1"


def check_words(own: Path) -> list[str | Path]:
    key, ca = own / "key.pem", own / "ca.pem"
    return ["check", own / "cert.pem", "--key", key, "--ca", ca]


def test_an_authority_is_two_files_in_a_closed_folder(ca: Path) -> None:
    assert {path.name: mode(path) for path in ca.iterdir()} == {
        "ca.pem": 0o644,
        "ca-key.pem": 0o600,
    }
    assert mode(ca) == 0o700


def test_a_holder_gets_all_that_it_needs(ca: Path) -> None:
    text = ok("issue", ca, "region", "1", "--host", "localhost", "--host", "10.0.0.1")
    assert "cert.pem, key.pem, ca.pem of region 1 of database crdb" in text
    assert "names region-1.crdb.crdtstream, localhost, 10.0.0.1, spiffe://" in text
    own = ca / "region-1"
    assert {path.name: mode(path) for path in own.iterdir()} == {
        "cert.pem": 0o644,
        "key.pem": 0o600,
        "ca.pem": 0o644,
    }
    assert (own / "ca.pem").read_bytes() == (ca / "ca.pem").read_bytes()
    assert (own / "key.pem").read_bytes() != (ca / "ca-key.pem").read_bytes()


def test_database_and_trust_domain_are_those_of_the_authority(tmp_path: Path) -> None:
    ok("init", tmp_path / "ca", "--database-id", "orders", "--trust-domain", "example.com")
    text = ok("issue", tmp_path / "ca", "query", "etl")
    assert "names spiffe://example.com/crdtstream/orders/query/etl" in text


def test_nothing_is_ever_overwritten(ca: Path, own: Path) -> None:
    before = {path: path.read_bytes() for path in ca.rglob("*") if path.is_file()}
    for words in (
        ("init", ca),
        ("issue", ca, "region", "1"),
        ("issue", ca, "region", "2", "--out", own),
    ):
        result = run(*words)
        assert result.exit_code == 2
        assert "nothing is overwritten; name another folder" in result.stderr
    assert {path: path.read_bytes() for path in ca.rglob("*") if path.is_file()} == before


def test_the_next_certificate_of_a_holder_goes_elsewhere(ca: Path, own: Path) -> None:
    ok("issue", ca, "region", "1", "--out", ca.parent / "next")
    assert (ca.parent / "next" / "key.pem").read_bytes() != (own / "key.pem").read_bytes()
    assert ok(*check_words(ca.parent / "next"), "--region", "1")


def test_check_accepts_what_issue_made(own: Path) -> None:
    text = ok(*check_words(own), "--region", "1", "--database-id", "crdb")
    assert "region 1 of database crdb, can be used until 20" in text


def test_check_prints_each_finding_with_what_to_do(own: Path) -> None:
    (own / "key.pem").chmod(0o644)
    result = run(*check_words(own), "--region", "2", "--database-id", "other")
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "key file open to others",
        "other holder",
        "other holder",
    ]
    assert all("; " in line for line in lines)


def test_check_as_json(own: Path) -> None:
    verdict = json.loads(ok(*check_words(own), "--json"))
    assert verdict["is_good"]
    assert verdict["findings"] == []
    assert verdict["holder"] == "spiffe://crdtstream.internal/crdtstream/crdb/region/1"
    result = run(*check_words(own), "--json", "--region", "2")
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["flaw"] == "other_holder"


def test_show_prints_every_certificate_of_every_file(ca: Path, own: Path, tmp_path: Path) -> None:
    chain = tmp_path / "chain.pem"
    chain.write_bytes((own / "cert.pem").read_bytes() + (ca / "ca.pem").read_bytes())
    text = ok("show", chain, ca / "ca.pem")
    assert text.count("subject") == 3
    assert "holder      region 1 of database crdb" in text
    assert "days left" in text
    shown = json.loads(ok("show", "--json", chain, ca / "ca.pem"))
    assert [one["file"] for one in shown] == [str(chain), str(chain), str(ca / "ca.pem")]
    assert [one["is_authority"] for one in shown] == [False, True, True]
    assert shown[0]["issuer"] == shown[1]["subject"]


def test_keys_are_never_printed(ca: Path, own: Path) -> None:
    texts = [ok("show", own / "cert.pem"), ok(*check_words(own)), ok("issue", ca, "operator", "a")]
    assert "PRIVATE" not in "".join(texts)
    assert run("show", own / "key.pem").exit_code == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("init new --database-id Orders", "cannot be named in certificates"),
        ("init new --trust-domain Example.com", "is no trust domain"),
        ("init new --permit *.example.com", "is no DNS name"),
        ("issue nowhere region 1", "nowhere/ca.pem: No such file"),
        ("issue ca region 0", "is no region"),
        ("issue ca region alice", "is no region"),
        ("issue ca operator a.b", "no name of an operator"),
        ("issue ca admin alice", "'admin' is not one of"),
        ("issue ca region 2 --host example.com", "--permit example.com"),
        ("issue ca region 2 --host region-3.crdb.crdtstream", "stand for regions"),
        ("issue ca region 2 --days 4000", "use --days 36"),
        ("issue ca region 2 --days 0", "--days"),
        ("issue ca region 2 --csr ca/ca.pem", "ca.pem: no signing request"),
        ("issue ca/region-1 region 2", "ca-key.pem: No such file"),
        ("show ca", "ca: Is a directory"),
        ("show /dev/zero", "no regular file"),
        ("check ca/ca.pem --key ca/ca.pem --ca ca/ca.pem", "no private key in PEM"),
        ("check ca/ca-key.pem --key ca/ca-key.pem --ca ca/ca.pem", "no certificate in PEM"),
        ("check ca/ca.pem --key ca/ca-key.pem --ca ca/ca.pem --database-id A", "lower-case"),
        ("check ca/ca.pem --ca ca/ca.pem", "--key"),
    ],
)
def test_refusal(own: Path, monkeypatch: pytest.MonkeyPatch, words: str, why: str) -> None:
    root = own.parent.parent
    monkeypatch.chdir(root)
    before = sorted(root.rglob("*"))
    result = run(*words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
    assert sorted(root.rglob("*")) == before, "nothing is left behind"


def test_an_authority_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("init", tmp_path / "file" / "ca")
    assert result.exit_code == 1
    assert "check path and rights" in result.stderr
