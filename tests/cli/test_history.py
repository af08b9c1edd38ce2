"""The history of a shell: for its owner alone, bounded, without secrets."""

import os
import stat
from pathlib import Path

import pytest

from crdtstream.cli.history import LINE_CHARACTERS_MAX, LINES_MAX, History, is_kept


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "crdtstream" / "rladmin-history"


def test_lines_are_there_the_next_time_in_their_order(path: Path) -> None:
    first = History(path)
    for line in ("status", "info db", "status"):
        first.add(line)
    assert History(path).lines() == ["status", "info db", "status"]


def test_the_file_is_for_its_owner_alone_whatever_the_umask_is(path: Path) -> None:
    before = os.umask(0)
    try:
        History(path).add("status")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        path.chmod(0o644)
        History(path).add("info db")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_file_that_has_grown_is_made_shorter_and_stays_closed(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"line {n}\n" for n in range(LINES_MAX + 5)))
    path.chmod(0o644)
    expected = [f"line {n}" for n in range(5, LINES_MAX + 5)]
    assert History(path).lines() == expected
    assert path.read_text().splitlines() == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("status nodes", True),
        ("status --password-file /run/password", True),
        ("status --tls-key-file key.pem", True),
        ("tune db db:1 requirepass hunter2", False),
        ("status --password hunter2", False),
        ("CRDTSTREAM_PASSWORD=hunter2 rladmin status", False),
        ("tune db db:1 join_token 12ab", False),
        ("status --password-file p --password hunter2", False),
        (" status of mine", False),
        ("", False),
        ("status \x1b[2J", False),
        ("s" * (LINE_CHARACTERS_MAX + 1), False),
    ],
)
def test_lines_with_secrets_are_not_kept(path: Path, line: str, kept: bool) -> None:
    seen: list[str] = []
    history = History(path)
    history.on_added = seen.append
    history.add(line)
    assert is_kept(line) == kept
    # Neither for the arrow keys nor for the next time.
    assert (seen, History(path).lines()) == (([line], [line]) if kept else ([], []))


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    history = History(tmp_path / "state" / "crdtstream" / "history")
    history.add("status")
    assert history.lines() == []


def test_a_link_to_another_file_is_not_followed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("")
    path.parent.mkdir(parents=True)
    path.symlink_to(other)
    History(path).add("status")
    assert other.read_text() == ""


def test_the_folder_is_the_users_unless_an_absolute_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    History.of_user("h").add("status")
    assert (tmp_path / ".local" / "state" / "crdtstream" / "h").exists()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "named"))
    History.of_user("h").add("status")
    assert (tmp_path / "named" / "crdtstream" / "h").exists()
