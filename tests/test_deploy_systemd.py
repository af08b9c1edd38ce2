"""The units of ``deploy/systemd``: systemd reads them, and they give a node what it needs alone."""

import configparser
import subprocess
from pathlib import Path
from typing import Final

import pytest

from crdtstream.settings.node_settings import ENV_PREFIX, NodeSettings
from tests.conftest import ROOT, program

FOLDER: Final = ROOT / "deploy" / "systemd"
UNIT: Final = FOLDER / "crdtstream@.service"
PASSWORD: Final = FOLDER / "requirepass.conf"
# Of systemd's own measure, in tenths: 0 is a service that can reach nothing.
EXPOSURE_MAX: Final = 15


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """An instance of the unit, with the password, whose program exists."""
    path = tmp_path / "crdtstream@region.service"
    path.write_text(UNIT.read_text().replace("/opt/crdtstream/bin/crdtstream", "/bin/true"))
    folder = tmp_path / "crdtstream@region.service.d"
    folder.mkdir()
    (folder / PASSWORD.name).write_text(PASSWORD.read_text())
    return path


def analyze(*words: str) -> "subprocess.CompletedProcess[str]":
    found = str(program("systemd-analyze", hint="apt-get install systemd"))
    return subprocess.run([found, *words], capture_output=True, text=True, check=False)


def test_systemd_reads_the_unit(unit: Path) -> None:
    checked = analyze("verify", str(unit))
    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == ""


def test_systemd_finds_the_unit_little_exposed(unit: Path) -> None:
    checked = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(unit))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_word_that_systemd_does_not_know_is_found(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectClock=", "ProtectClocks="))
    assert "ProtectClocks" in analyze("verify", str(unit)).stderr


def test_the_unit_starts_a_node_that_speaks_to_systemd() -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(UNIT.read_text())
    service = parsed["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("node --config /etc/crdtstream/%i.toml")
    assert service["User"] == "crdtstream"
    # The node is told of no secret but in files.
    assert "Environment" not in service
    assert "AF_UNIX" in service["RestrictAddressFamilies"].split(), "it speaks to systemd"


def test_the_password_is_a_credential() -> None:
    """Its variable names a setting, and the path is the credential's."""
    lines = PASSWORD.read_text().splitlines()
    (credential,) = (line for line in lines if line.startswith("LoadCredential="))
    (variable,) = (line for line in lines if line.startswith("Environment="))
    name = credential.removeprefix("LoadCredential=").partition(":")[0]
    key, _, path = variable.removeprefix("Environment=").partition("=")
    assert key.removeprefix(ENV_PREFIX).lower() in NodeSettings.model_fields
    assert path == f"%d/{name}"
