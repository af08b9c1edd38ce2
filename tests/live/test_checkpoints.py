"""Checkpoints of real nodes: killed at every step of one, and with a disk that refuses it."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from crdtstream.region.checkpointing import REPLAY_US_QUIET
from crdtstream.store.failpoints import EXIT_STATUS
from tests.live.cluster import Node, cluster_of
from tests.patience import seconds, wait_until

ENTRIES: Final = 300
# Each step of a checkpoint and of cutting the log behind it, at the time at which a node that
# wrote a checkpoint before comes to it for the second one.
STEPS: Final = (
    "checkpoint.begin",
    "checkpoint.put-bodies",
    "checkpoint.put",
    "checkpoint.drop",
    "checkpoint.commit",
    "checkpoint.committed",
    "checkpoint.verify",
    "checkpoint.verified",
    "checkpoint.forget",
    "checkpoint.forget-slice",
    "log.cut",
    "log.cut-slice",
    "log.vacuum",
)
IN_EVERY_RUN: Final = {"checkpoint.committed"}
# What a restart has to replay until a checkpoint is worth it though nothing is written.
REPLAYED: Final = REPLAY_US_QUIET.default * 6 // 5
PAGE: Final = 5_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with cluster_of(1, tmp_path) as regions:
        regions.configure()
        yield regions[1]


def drill(monkeypatch: pytest.MonkeyPatch, failpoint: str) -> None:
    monkeypatch.setenv("CRDTSTREAM_DRILL_FAILPOINTS", "1")
    monkeypatch.setenv("CRDTSTREAM_DRILL__FAILPOINT", failpoint)


def write(node: Node) -> None:
    """Entries, a group with pending ones, deletes: each with records of its own."""
    client = node.client
    for index in range(ENTRIES):
        client.xadd("s", {"index": index, "text": "x" * 100})
    if not client.xinfo_groups("s"):
        client.xgroup_create("s", "g", "0")
    got = client.xreadgroup("g", "alice", {"s": ">"}, count=ENTRIES // 2)
    ids = [entry_id for entry_id, _ in got[0][1]]
    client.xack("s", "g", *ids[::3])
    client.xdel("s", *ids[::7])


def told(node: Node) -> Any:
    client = node.client
    pending = client.xpending_range("s", "g", "-", "+", 10 * ENTRIES)
    for row in pending:
        row.pop("time_since_delivered")
    return (
        client.execute_command("CRDT.DIGEST"),
        client.xrange("s"),
        pending,
        client.xinfo_groups("s"),
    )


def saves(node: Node) -> int:
    return int(node.client.info("persistence")["rdb_saves"])


def checkpoint(node: Node) -> None:
    """Have one written, and wait for it."""
    before = saves(node)
    node.client.bgsave(schedule=False)
    wait_until(lambda: saves(node) > before, "a checkpoint is written")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step in IN_EVERY_RUN else [pytest.mark.long])
        for step in STEPS
    ],
)
def test_a_node_killed_at_any_step_of_a_checkpoint_has_everything(
    node: Node, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    node.start("--new-database")
    write(node)
    checkpoint(node)
    node.end()
    # Nothing is written between its start and the checkpoint that kills it, but by these.
    drill(monkeypatch, step)
    process = node.launch()
    node.wait()
    write(node)
    before = told(node)
    with contextlib.suppress(redis.ConnectionError):
        node.client.bgsave(schedule=False)
    assert process.wait(seconds()) == EXIT_STATUS, node.log.read_text()

    monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
    node.start()
    assert told(node) == before
    node.client.xadd("s", {"f": "v"})
    checkpoint(node)
    before = told(node)
    node.end(signal.SIGKILL)
    node.start()
    assert told(node) == before


@pytest.mark.long
@pytest.mark.parametrize("step", ["checkpoint.put", "checkpoint.commit", "checkpoint.verify"])
def test_a_checkpoint_that_the_disk_refused_is_tried_again(
    node: Node, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    drill(monkeypatch, f"{step}:1-2 refused")
    node.start("--new-database")
    write(node)
    before = told(node)
    node.client.bgsave(schedule=False)

    def failures() -> int:
        return int(node.client.info("persistence")["checkpoint_failures"])

    wait_until(lambda: failures() >= 1, "a checkpoint is refused")
    assert "the disk refuses" in node.client.info("persistence")["checkpoint_failure"]
    assert node.client.info("persistence")["rdb_last_bgsave_status"] == "err"
    node.client.xadd("s", {"f": "writes go on"})
    checkpoint(node)
    assert node.client.info("persistence")["rdb_last_bgsave_status"] == "ok"
    # What is pending; the entry above counts in what the others tell.
    assert told(node)[2] == before[2]
    before = told(node)
    node.end(signal.SIGKILL)
    monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
    node.start()
    assert told(node) == before


@pytest.mark.long
def test_writes_that_the_disk_refuses_are_made_when_it_takes_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An I/O error that goes away: writes are refused with the reason, reads go on, and the node
    takes writes again without a restart."""
    drill(monkeypatch, f"log.append:{ENTRIES + 50}-{ENTRIES + 54} refused")
    node.start("--new-database")
    acknowledged = []
    refusal = ""
    for index in range(2 * ENTRIES):
        try:
            acknowledged.append(node.client.xadd("s", {"index": index}))
        except redis.ResponseError as error:
            refusal = str(error)
            break
    assert "MISCONF" in refusal or "the disk refuses" in refusal
    assert node.client.xlen("s") >= len(acknowledged)
    wait_until(lambda: not node.status().fault, "it takes writes again")
    acknowledged.append(node.client.xadd("s", {"f": "v"}))
    node.end(signal.SIGKILL)
    monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")
    node.start()
    assert {*acknowledged} <= {entry_id for entry_id, _ in node.client.xrange("s")}


@pytest.mark.long
def test_a_start_that_replayed_much_is_followed_by_a_checkpoint(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each start after it replays the same again, as nothing is written."""
    # However long writing takes, nothing but the log is there for the next start.
    drill(monkeypatch, "checkpoint.begin:1-999 refused")
    node.start()
    for _ in range(0, REPLAYED, PAGE):
        pipe = node.client.pipeline(transaction=False)
        for _ in range(PAGE):
            pipe.xadd("s", {"f": "v"})
        pipe.execute()
    assert node.client.info("persistence")["rdb_saves"] == 0
    node.end(signal.SIGKILL)
    monkeypatch.delenv("CRDTSTREAM_DRILL__FAILPOINT")

    node.start()

    wait_until(
        lambda: node.client.info("persistence")["rdb_saves"],
        "a checkpoint",
    )
    assert node.client.xlen("s") == REPLAYED
