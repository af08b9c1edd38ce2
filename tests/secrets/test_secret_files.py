"""Secrets in files: what is read of them, and what is refused without showing any of it."""

import os
from pathlib import Path

import pytest

from crdtstream.secrets.secret_files import (
    SECRET_BYTES_MAX,
    SecretError,
    others_may_read,
    read_secret,
)


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"open sesame", "open sesame"),
        (b"open sesame\n", "open sesame"),
        (b"open sesame\r\n", "open sesame"),
        (b" open sesame \n", " open sesame "),
        (b"first\nsecond\n", "first"),
        ("schlüssel\n".encode(), "schlüssel"),
    ],
)
def test_a_secret_is_the_first_line_without_its_end(
    tmp_path: Path, content: bytes, secret: str
) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    assert read_secret(path) == secret


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "its first line is empty; write the secret into it"),
        (b"\nsesame\n", "its first line is empty; write the secret into it"),
        (b"\r\n", "its first line is empty"),
        (b"sesame\xff\n", "is no text in UTF-8; name another file"),
        (b"sesame" * SECRET_BYTES_MAX, "is longer than 4096 bytes; name another file"),
    ],
)
def test_a_file_without_a_secret_is_refused_and_not_shown(
    tmp_path: Path, content: bytes, told: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(SecretError) as caught:
        read_secret(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)
    assert "sesame" not in str(caught.value)
    # Python prints what an error was raised from as well.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_pipes_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, told in (
        (pipe, "is no file"),
        (tmp_path, "is no file"),
        (tmp_path / "nothing", "cannot be read: No such file or directory; check path and rights"),
    ):
        with pytest.raises(SecretError, match=told):
            read_secret(path)


def test_a_link_is_followed_to_what_it_names_now(tmp_path: Path) -> None:
    """Kubernetes mounts a folder of links, and changes one link to replace all secrets."""
    for version, secret in (("..1", "old"), ("..2", "new")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "requirepass").write_text(f"{secret}\n")
    data, path = tmp_path / "..data", tmp_path / "requirepass"
    data.symlink_to("..1")
    path.symlink_to("..data/requirepass")
    assert read_secret(path) == "old"
    swapped = tmp_path / "..data_tmp"
    swapped.symlink_to("..2")
    swapped.rename(data)
    assert read_secret(path) == "new"


@pytest.mark.parametrize(
    ("mode", "may"), [(0o600, False), (0o640, False), (0o644, True), (0o604, True), (0o400, False)]
)
def test_a_file_that_every_user_can_read_is_noticed(tmp_path: Path, mode: int, may: bool) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(mode)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert others_may_read(path) == others_may_read(link) == may


def test_a_file_that_does_not_exist_is_read_by_nobody(tmp_path: Path) -> None:
    assert not others_may_read(tmp_path / "nothing")
