"""The nodes that a command asks, and what it presents to them."""

from pathlib import Path

import pytest
import typer

from crdtstream.command_line.reach import ADMIN_DEFAULT, ADMIN_VARIABLE, LoginOptions, Reach
from crdtstream.core.ids import RegionId
from crdtstream.local.certificates import make_certificates, operator_certificates
from crdtstream.local.regions import CERTIFICATES_FOLDER, layout, settings_text


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ADMIN_VARIABLE, raising=False)
    monkeypatch.delenv("CRDTSTREAM_PASSWORD", raising=False)


def regions_in(folder: Path) -> Path:
    """The folder, as if `crdtstream up --tls` had run there."""
    folder.mkdir()
    for own in layout(2, folder, base_port=20_000):
        own.config.write_text(settings_text(own, layout(2, folder, base_port=20_000), {}))
    regions = [RegionId(1), RegionId(2)]
    make_certificates(folder / CERTIFICATES_FOLDER, regions, database_id="crdb", host="127.0.0.1")
    return folder


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a:1", "b:2"], ["a:1", "b:2"]),
        (["a:1,b:2", "[::1]:3"], ["a:1", "b:2", "[::1]:3"]),
        (["a:1, b:2,a:1"], ["a:1", "b:2"]),
    ],
)
def test_addresses_are_repeated_or_have_commas(given: list[str], expected: list[str]) -> None:
    assert Reach(address=given).addresses() == expected


def test_the_environment_names_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADMIN_VARIABLE, "a:1, b:2")
    assert Reach().addresses() == ["a:1", "b:2"]
    assert Reach(address=["c:3"]).addresses() == ["c:3"]


def test_the_current_folder_decides_nothing_unless_it_is_named(tmp_path: Path) -> None:
    """Anybody who can write there could have the password sent to a port of theirs."""
    folder = regions_in(tmp_path / "crdtstream-data")
    assert Reach().addresses() == [ADMIN_DEFAULT]
    assert Reach(folder=folder).addresses() == ["127.0.0.1:21001", "127.0.0.1:21002"]


def test_the_named_folder_has_the_certificate(tmp_path: Path) -> None:
    folder = regions_in(tmp_path / "regions")
    expected = operator_certificates(folder / CERTIFICATES_FOLDER)
    assert Reach(folder=folder).login().certificates == expected
    assert Reach(address=["a:1"]).login().certificates is None


def test_a_user_without_a_password_is_refused_beside_a_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the certificate alone the call had the rights of the operator."""
    folder = regions_in(tmp_path / "regions")
    with pytest.raises(typer.Exit):
        Reach(folder, presented=LoginOptions(user="reader")).login()
    assert "--user reader: its password is missing" in capsys.readouterr().err
