"""Files: bounded when read; whole or absent when written, and never overwritten."""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.certificates.checking import Access
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.files import (
    FILE_BYTES_MAX,
    PRIVATE,
    PUBLIC,
    NewFile,
    check_free,
    read_certificates,
    read_file,
    read_pair,
    write_folder,
)
from tests.certificates.making import make, make_authority

FILES = {"cert.pem": NewFile(b"certificate", PUBLIC), "key.pem": NewFile(b"key", PRIVATE)}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o000, 0o077], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """One that a shell may have set."""
    former = os.umask(request.param)
    yield request.param
    os.umask(former)


def test_a_folder_is_written_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    write_folder(tmp_path / "above" / "region-1", FILES)
    folder = tmp_path / "above" / "region-1"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "cert.pem": b"certificate",
        "key.pem": b"key",
    }
    assert mode(folder) == 0o700
    assert mode(folder / "key.pem") == 0o600
    assert mode(folder / "cert.pem") == 0o644 & ~umask
    assert [path.name for path in folder.parent.iterdir()] == ["region-1"]


def test_an_empty_folder_is_taken_and_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir(mode=0o755)
    write_folder(tmp_path / "ca", FILES)
    assert mode(tmp_path / "ca") == 0o700
    assert mode(tmp_path / "ca" / "key.pem") == 0o600


def test_the_folder_in_which_a_command_runs_is_taken_if_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca").mkdir()
    monkeypatch.chdir(tmp_path / "ca")
    write_folder(Path("."), FILES)
    assert sorted(path.name for path in (tmp_path / "ca").iterdir()) == ["cert.pem", "key.pem"]
    assert [path.name for path in tmp_path.iterdir()] == ["ca"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca" / "notes").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    for name, why in (("ca", "exists already"), ("file", "no folder"), ("link", "no folder")):
        with pytest.raises(CertificateError, match=why):
            check_free(tmp_path / name)
        with pytest.raises(CertificateError, match=why):
            write_folder(tmp_path / name, FILES)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        *("ca", "empty", "file", "link", "notes")
    ]


def test_of_two_that_write_at_once_one_is_refused(tmp_path: Path) -> None:
    """Neither sees the other's folder before it begins."""
    winners: list[str] = []
    losers: list[str] = []
    start = threading.Barrier(4)

    def write(text: str) -> None:
        files = {
            "cert.pem": NewFile(text.encode(), PUBLIC),
            "key.pem": NewFile(text.encode(), 0o600),
        }
        start.wait()
        try:
            write_folder(tmp_path / "region-1", files)
            winners.append(text)
        except CertificateError as error:
            losers.append(str(error))

    threads = [threading.Thread(target=write, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = winners
    assert ["exists already" in text for text in losers] == [True] * 3
    assert {path.read_text() for path in (tmp_path / "region-1").iterdir()} == {winner}
    assert [path.name for path in tmp_path.iterdir()] == ["region-1"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    files = {**FILES, "nowhere/ca.pem": NewFile(b"", PUBLIC)}
    with pytest.raises(CertificateError, match="nothing was written"):
        write_folder(tmp_path / "region-1", files)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match="check path and rights"):
        write_folder(tmp_path / "file" / "ca", FILES)


def test_a_file_is_read_with_the_access_to_it(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(b"key")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to("key.pem")
    for name in ("key.pem", "link"):
        found = read_file(tmp_path / name)
        assert (found.data, found.access) == (b"key", Access(0o640, os.geteuid()))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * FILE_BYTES_MAX)
    assert len(read_file(path).data) == FILE_BYTES_MAX
    path.write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    with pytest.raises(CertificateError, match="more than 1 MiB"):
        read_file(path)
    with pytest.raises(CertificateError, match="regular file"):
        read_file(Path("/dev/zero"))


def test_pipes_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CertificateError, match="no regular file"):
        read_file(tmp_path / "fifo")
    with pytest.raises(CertificateError, match="Is a directory"):
        read_file(tmp_path)
    with pytest.raises(CertificateError, match="No such file"):
        read_file(tmp_path / "gone")


def test_an_error_names_the_file(tmp_path: Path) -> None:
    leaf = make(make_authority())
    paths = {name: tmp_path / name for name in ("certificate", "key", "ca")}
    texts = {"certificate": leaf.pem, "key": leaf.key_pem, "ca": leaf.root.pem}
    for name, path in paths.items():
        path.write_bytes(texts[name])
    paths["key"].chmod(0o640)
    pair = read_pair(**paths)
    assert pair.key_access == Access(0o640, os.geteuid())
    for name, path in paths.items():
        path.write_text("garbage")
        with pytest.raises(CertificateError, match=f"{name}: no "):
            read_pair(**paths)
        path.write_bytes(texts[name])
    with pytest.raises(CertificateError, match="key: no certificate"):
        read_certificates(paths["key"])
