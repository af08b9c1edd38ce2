"""Folders and files that other users of the machine cannot open, whatever the umask is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.secrets.private_files import others_may_enter, private_files
from crdtstream.store.folder_lock import lock_folder


@pytest.fixture(params=[0, 0o027], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    former = os.umask(request.param)
    yield request.param
    os.umask(former)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_folder_of_a_region_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    lock_folder(tmp_path / "region", makes_log=True).close()
    assert mode(tmp_path / "region") == 0o700
    # One that exists is the operator's.
    (tmp_path / "made").mkdir(0o755)
    lock_folder(tmp_path / "made", makes_log=True).close()
    assert mode(tmp_path / "made") == 0o755 & ~umask


def test_files_are_private_within_the_block_and_as_before_behind_it(
    tmp_path: Path, umask: int
) -> None:
    with private_files():
        (tmp_path / "private").touch()
    (tmp_path / "other").touch()
    assert mode(tmp_path / "private") == 0o600
    assert mode(tmp_path / "other") == 0o666 & ~umask


@pytest.mark.parametrize(("rights", "expected"), [(0o700, 0), (0o750, 0), (0o701, 1), (0o755, 1)])
def test_a_folder_that_all_users_can_open_is_told(
    tmp_path: Path, rights: int, expected: int
) -> None:
    tmp_path.chmod(rights)
    assert others_may_enter(tmp_path) is bool(expected)
    assert not others_may_enter(tmp_path / "none")
