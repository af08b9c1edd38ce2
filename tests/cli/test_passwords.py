"""Passwords that commands read from files."""

from pathlib import Path

import pytest
import typer

from crdtstream.command_line.reach import password_of


def test_a_password_is_the_first_line_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("secret\nmore\n")
    assert password_of(path) == "secret"


@pytest.mark.parametrize("content", [b"", b"\n", b"ses\xffame\n"])
def test_a_file_without_a_password_is_refused(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(typer.Exit):
        password_of(path)
    told = capsys.readouterr().err
    assert str(path) in told
    assert "ses" not in told.replace(str(path), "")


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit):
        password_of(tmp_path / "nothing")
