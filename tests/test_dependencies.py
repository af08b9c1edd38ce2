"""The page of dependencies has all that a node installs; licences that are not known are found."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.programs import module_at

pytestmark = pytest.mark.house


tool = module_at(ROOT / "tools" / "dependencies.py")


@pytest.fixture
def a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A page that is current."""
    path = tmp_path / "dependencies.md"
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    monkeypatch.setattr(tool, "PAGE", path)
    assert tool.main(check_only=False) == 0
    assert tool.main(check_only=True) == 0
    return path


def test_packages_that_others_need_are_found() -> None:
    found = {one.name: one for one in tool.dependencies()}
    assert found["starlette"].bounds
    assert not found["anyio"].bounds, "starlette needs it"
    assert found["py4j"].extra == "spark"
    assert "pytest" not in found


def test_a_newer_version_changes_nothing_and_a_package_more_does(a_page: Path) -> None:
    lines = a_page.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("| `anyio`"))
    newer = lines[at].split(" | ")
    newer[1] = "999.9"
    a_page.write_text("\n".join([*lines[:at], " | ".join(newer), *lines[at + 1 :]]))
    assert tool.main(check_only=True) == 0
    a_page.write_text("\n".join([*lines[:at], *lines[at + 1 :]]))
    assert tool.main(check_only=True) == 1


def test_a_licence_that_is_not_known_is_reported(
    a_page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "LICENCES", tool.LICENCES - {"MIT"})
    for check_only in (True, False):
        assert tool.main(check_only=check_only) == 1
    assert "anyio 4" in capsys.readouterr().err
