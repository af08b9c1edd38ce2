"""Folders of one region that are used in turns, by machines that do not hear of each other."""

import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.live.cluster import Cluster, Node, running_regions, vv_of
from tests.live.test_salvage import salvage
from tests.patience import wait_until

MARK = "goes on in another folder"


def add(node: Node, *values: str) -> list[bytes]:
    return [node.client.xadd("s", {"value": value}) for value in values]


def values_of(node: Node) -> list[str]:
    return [fields[b"value"].decode() for _, fields in node.client.xrange("s")]


def refusal(node: Node) -> str:
    with pytest.raises(redis.ResponseError) as refused:
        node.client.xadd("s", {"f": "v"})
    return str(refused.value)


def is_earlier(node: Node) -> bool:
    """True if the node reports that its folder is an earlier one."""
    return MARK in node.status().fault


def use(node: Node, folder: Path) -> None:
    """The node's settings name another folder from now on: another machine takes its place."""
    node.config.write_text(node.config.read_text().replace(str(node.folder), str(folder)))
    node.folder = folder


def moved(cluster: Cluster, folder: Path) -> None:
    """Region 1 goes on in a copy of its folder, and has had effects there that are nowhere else."""
    first, second = cluster[1], cluster[2]
    add(first, "both", "both")
    cluster.converge()
    first.end()
    shutil.copytree(first.folder, folder)
    use(first, folder)
    first.start()
    cluster.converge()
    # Cut off from here on.
    second.set_links(paused=True)
    add(first, "copy 1", "copy 2")
    first.end(signal.SIGKILL)
    second.set_links(paused=False)


def test_an_old_folder_that_is_started_again_takes_no_writes(tmp_path: Path) -> None:
    """Rule 18: both folders are the one last open where they are, and 1:3 would be two things."""
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        old, copy = first.folder, tmp_path / "copy"
        moved(cluster, copy)
        had = vv_of(second.status())[1]

        use(first, old)
        first.launch()
        first.wait(for_writes=False)
        wait_until(partial(is_earlier, first), "the old folder hears of the copy")
        assert f"MISCONF region 1 {MARK}" in refusal(first)
        assert values_of(first) == ["both", "both"]
        wait_until(lambda: MARK in second.link(1).error, "and is refused")
        assert vv_of(second.status())[1] == had
        # Its next start knows so before it has heard anybody.
        first.end()
        second.end()
        first.launch()
        first.wait(for_writes=False)
        assert MARK in refusal(first)
        first.end()

        # The copy goes on.
        use(first, copy)
        second.launch()
        first.launch()
        first.wait()
        second.wait()
        add(first, "copy 3")
        cluster.converge()
        assert values_of(second) == ["both", "both", "copy 1", "copy 2", "copy 3"]


@pytest.mark.long
def test_an_old_folder_goes_on_once_it_has_asked_all_members(tmp_path: Path) -> None:
    """The way that the refusal names; then the copy is the earlier folder."""
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        old, copy = first.folder, tmp_path / "copy"
        moved(cluster, copy)
        use(first, old)
        first.launch()
        first.wait(for_writes=False)
        wait_until(partial(is_earlier, first), "the old folder hears of the copy")
        assert "remove the file 'opened'" in refusal(first)
        first.end()
        (old / "opened").unlink()
        first.start()
        add(first, "old 1")
        cluster.converge()
        assert values_of(second) == ["both", "both", "old 1"]
        first.end()

        use(first, copy)
        first.launch()
        first.wait(for_writes=False)
        wait_until(partial(is_earlier, first), "the copy hears of the old folder")
        told = refusal(first)
        assert "are not in the other one" in told
        assert "crdb salvage" in told
        assert values_of(first)[2:] == ["copy 1", "copy 2"]
        first.end()
        for _ in range(2):
            run = salvage(copy, second)
            assert run.returncode == 0, run.stderr
            assert "Of region 1 2 effects count; 2 are beyond that" in run.stdout
            assert values_of(second)[2:] == ["old 1", "copy 1", "copy 2"]
        # Of the folder that goes on nothing is salvaged.
        run = salvage(old, second)
        assert "does not go on in another folder" in run.stderr


@pytest.mark.long
def test_both_folders_of_a_region_that_were_used_apart_are_refused_by_name(tmp_path: Path) -> None:
    """The member that granted the copy was put back to before that, and took effects of the old
    folder: nobody can know, and nothing is merged."""
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        old, copy = first.folder, tmp_path / "copy"
        add(first, "both", "both")
        cluster.converge()
        for node in (first, second):
            node.end()
        before = tmp_path / "before"
        shutil.copytree(second.folder, before)
        shutil.copytree(old, copy)
        use(first, copy)
        second.launch()
        first.start()
        cluster.converge()
        second.end()
        add(first, "copy 1", "copy 2")
        first.end()

        use(second, before)
        use(first, old)
        first.launch()
        second.start()
        first.wait()
        add(first, "old 1", "old 2", "old 3")
        cluster.converge()
        first.end()

        use(first, copy)
        first.launch()
        first.wait(for_writes=False)
        wait_until(lambda: "it numbered them in two folders" in first.link(2).error, "it says so")
        assert values_of(second)[2:] == ["old 1", "old 2", "old 3"]
        assert values_of(first)[2:] == ["copy 1", "copy 2"]


@pytest.mark.long
def test_effects_of_a_lost_folder_are_lost_for_tokens_and_cursors(tmp_path: Path) -> None:
    """An earlier folder is put back, and gives numbers again that clients hold."""
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster[1], cluster[2]
        add(first, "both")
        cluster.converge()
        first.end()
        backup = tmp_path / "backup"
        shutil.copytree(first.folder, backup)
        first.start()
        second.set_links(paused=True)
        cursor, _ = first.client.execute_command("CRDT.XREAD", "s", "0")
        add(first, "lost 1", "lost 2")
        token = first.client.execute_command("CRDT.TOKEN")
        held, entries = first.client.execute_command("CRDT.XREAD", "s", cursor)
        assert len(entries) == 2
        first.end(signal.SIGKILL)

        shutil.rmtree(first.folder)
        shutil.copytree(backup, first.folder)
        second.set_links(paused=False)
        first.start()
        add(first, "new 1", "new 2")
        cluster.converge()
        for node in (first, second):
            assert vv_of(node.status())[1] == 3, "the numbers were given again"
            for command in (("CRDT.WAITFOR", token, "0"), ("CRDT.XREAD", "s", held)):
                with pytest.raises(redis.ResponseError, match="LOST region 1"):
                    node.client.execute_command(*command)
            # What it had before the backup is still what it is.
            fresh, entries = node.client.execute_command("CRDT.XREAD", "s", cursor)
            assert [fields[1] for _, fields in entries] == [b"new 1", b"new 2"]
            assert node.client.execute_command("CRDT.WAITFOR", fresh, "0") == 1
        # An operator sees which folder goes on.
        own = first.client.info("crdt")["crdt_incarnation"]
        assert own["after"] == 1
        assert first.status().incarnation == own["number"]
        for node in (first, second):
            assert f"1:3@{own['number']}" in node.status().token.partition("/")[2].split(",")
        assert "@" not in second.status().token.partition(",")[2], "of region 2 there is one"


@pytest.mark.long
def test_one_region_alone_knows_its_earlier_folders(tmp_path: Path) -> None:
    """Two restores of one backup: the second knows nothing of the first, and nobody else does."""
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        add(node, "kept")
        node.end()
        backup = tmp_path / "backup"
        shutil.copytree(node.folder, backup)
        node.start()
        tokens = []
        for way in ("own", "first restore"):
            add(node, way)
            tokens.append(node.client.execute_command("CRDT.TOKEN"))
            node.end()
            shutil.rmtree(node.folder)
            shutil.copytree(backup, node.folder)
            node.start()
        add(node, "second restore")
        for token in tokens:
            with pytest.raises(redis.ResponseError, match="LOST region 1"):
                node.client.execute_command("CRDT.WAITFOR", token, "0")
        token = node.client.execute_command("CRDT.TOKEN")
        assert node.client.execute_command("CRDT.WAITFOR", token, "0") == 1
