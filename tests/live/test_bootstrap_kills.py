"""Bootstraps of real nodes whose receiver, or sender, is killed at any step."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import redis

from crdtstream.store.failpoints import EXIT_STATUS
from tests.live.bootstraps import (
    SLOW_BYTES_PER_S,
    bootstrap,
    cut_log,
    is_copying,
    level,
    lose_folder,
    lose_second,
    staging_is_gone,
    write,
)
from tests.live.cluster import Cluster, Node, running_regions
from tests.patience import seconds, wait_until

# In the order in which the receiver comes by.  Those of a checkpoint are of the one that has what
# was merged.
STEPS: Final = (
    "staging.begin",
    "staging.put",
    "staging.put-done",
    "staging.finish",
    "staging.complete",
    "staging.completed",
    "bootstrap.staged",
    "bootstrap.merge",
    "bootstrap.merged",
    "bootstrap.logged",
    "checkpoint.begin",
    "checkpoint.commit",
    "checkpoint.verified",
    "bootstrap.saved",
    "staging.discard",
)
# Nothing of the record is on the disk; all of it is.
IN_EVERY_RUN: Final = {"bootstrap.merge"}
PENDING: Final = 20


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[Cluster]:
    """Two regions whose logs are cut; region 2 is down, and its folder is lost."""
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster.nodes.values()
        write(first, "a", 150)
        write(second, "b", 150)
        first.client.xgroup_create("b", "g", "0")
        first.client.xreadgroup("g", "alice", {"b": ">"}, count=PENDING)
        level(first, second)
        cut_log(first)
        lose_folder(second)
        yield cluster


def has_everything(cluster: Cluster) -> None:
    """Both are equal, also after one more kill, and go on."""
    first, second = cluster.nodes.values()
    level(first, second)
    wait_until(lambda: staging_is_gone(second), "what was staged is deleted")
    second.end(signal.SIGKILL)
    second.start()
    write(second, "b", 3)
    write(first, "a", 3)
    level(first, second)
    assert [second.client.xlen(key) for key in "ab"] == [153, 153]
    assert first.client.xpending("b", "g")["pending"] == PENDING
    assert second.client.xpending("b", "g")["pending"] == 0


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step in IN_EVERY_RUN else [pytest.mark.long])
        for step in STEPS
    ],
)
def test_a_receiver_killed_at_any_step_of_a_bootstrap_has_everything(
    lost: Cluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    second = lost[2]
    monkeypatch.setenv("CRDTSTREAM_DRILL_FAILPOINTS", "1")
    monkeypatch.setenv("CRDTSTREAM_DRILL__FAILPOINT", step)
    process = second.launch()
    assert process.wait(seconds()) == EXIT_STATUS, second.log.read_text()
    monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
    second.start()
    has_everything(lost)


@pytest.mark.long
@pytest.mark.parametrize("step", ["staging.put", "staging.finish", "staging.discard", "log.append"])
def test_a_step_that_the_disk_of_the_receiver_refused_is_tried_again(
    lost: Cluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setenv("CRDTSTREAM_DRILL_FAILPOINTS", "1")
    monkeypatch.setenv("CRDTSTREAM_DRILL__FAILPOINT", f"{step}:1-2 refused")
    lost[2].launch()
    level_or_starting(lost)
    monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
    has_everything(lost)


def level_or_starting(cluster: Cluster) -> None:
    """Wait until region 2 has all, and takes writes."""
    second = cluster[2]

    def takes_writes() -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(second.client.xlen("a") == 150 and not second.status().fault)
        return False

    wait_until(takes_writes, "it has what it lacked")


@pytest.mark.long
def test_a_sender_killed_in_the_middle_of_a_copy_sends_it_when_it_is_back(tmp_path: Path) -> None:
    with running_regions(2, tmp_path, bootstrap_bytes_per_s=SLOW_BYTES_PER_S) as cluster:
        first, second = cluster.nodes.values()
        lose_second(cluster)
        second.launch()
        wait_until(lambda: is_copying(second), "a part has come")
        first.end(signal.SIGKILL)
        first.start()
        second.wait()
        level(first, second)
        assert bootstrap(second)["failures"] >= 1
        assert bootstrap(second)["taken_over"] == 1
        wait_until(lambda: staging_is_gone(second), "what was staged is deleted")


@pytest.mark.soak
@pytest.mark.parametrize("at", range(1, 8))
def test_a_receiver_killed_at_any_image_goes_on_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    with running_regions(2, tmp_path) as cluster:
        first, second = cluster.nodes.values()
        lose_second(cluster)
        monkeypatch.setenv("CRDTSTREAM_DRILL_FAILPOINTS", "1")
        monkeypatch.setenv("CRDTSTREAM_DRILL__FAILPOINT", f"staging.put-done:{at}")
        process = second.launch()
        assert process.wait(seconds()) == EXIT_STATUS, second.log.read_text()
        monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
        second.start()
        level(first, second)
        assert went_on(first), first.log.read_text()


def went_on(sender: Node) -> bool:
    """True if some call of a copy began behind an image that had arrived."""
    return any(
        "the state is sent" in line and "after=0" not in line
        for line in sender.log.read_text().splitlines()
    )
