"""SAVE, BGSAVE, LASTSAVE, and what INFO and MEMORY STATS tell of storage."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from crdtstream.core.ids import Millis
from crdtstream.region.room import SPARE_BYTES, Account
from tests.resp.node import Node, request, running
from tests.resp.test_protocol import wait_until


@pytest.fixture
def node() -> Iterator[Node]:
    """A node by itself, whose checkpoints the test writes."""
    with running() as node:
        node.region.checkpointing.is_supported = True
        yield node


def begin(node: Node) -> None:
    node.call(lambda: node.region.checkpointing.note_begun(node.engine.now()))


def write(node: Node) -> None:
    checkpointing, outstanding = node.region.checkpointing, node.region.outstanding
    node.call(
        lambda: checkpointing.note_written(
            outstanding.logged_seq, node.engine.now(), size_bytes=1_000
        )
    )


def fail(node: Node) -> None:
    node.call(lambda: node.region.checkpointing.note_failed("no space"))


def test_bgsave_asks_for_a_checkpoint(node: Node, r: Any) -> None:
    checkpointing = node.region.checkpointing
    assert r.bgsave(schedule=False) is True
    assert checkpointing.is_due(Millis(0), seq=0, grown_bytes=0)
    # It has not begun, but who waits until none is in progress waits for it.
    assert r.info("persistence")["rdb_bgsave_in_progress"] == 1
    begin(node)
    with pytest.raises(redis.ResponseError, match="Background save already in progress"):
        r.bgsave(schedule=False)
    assert r.execute_command("BGSAVE", "SCHEDULE")
    with pytest.raises(redis.ResponseError, match="syntax error"):
        r.execute_command("BGSAVE", "NOW")
    write(node)
    assert checkpointing.is_due(Millis(0), seq=0, grown_bytes=0)


def test_save_answers_when_it_is_written(node: Node) -> None:
    with node.client() as client:
        client.send(request(b"SAVE"))
        wait_until(node, "database.waiting_count == 1")
        begin(node)
        write(node)
        client.expect(b"+OK\r\n")


def test_save_waits_for_the_one_behind_that_which_is_under_way(node: Node) -> None:
    begin(node)
    with node.client() as client:
        client.send(request(b"SAVE"))
        wait_until(node, "database.waiting_count == 1")
        write(node)
        assert node.call(lambda: node.database.waiting_count) == 1
        begin(node)
        write(node)
        client.expect(b"+OK\r\n")


def test_save_says_why_it_could_not_be_written(node: Node) -> None:
    with node.client() as client:
        client.send(request(b"SAVE"))
        wait_until(node, "database.waiting_count == 1")
        begin(node)
        fail(node)
        client.expect(b"-ERR no space\r\n")


def test_a_node_without_checkpoints_says_so() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r:
        for command in ("SAVE", "BGSAVE"):
            with pytest.raises(redis.ResponseError, match="writes no checkpoints"):
                r.execute_command(command)


def test_info_tells_of_checkpoints_and_log(node: Node, r: Any) -> None:
    started = r.lastsave()
    r.xadd("s", {"f": "v"})
    told = r.info("persistence")
    assert told["rdb_changes_since_last_save"] == 1
    assert told["rdb_last_bgsave_status"] == "ok"
    assert (told["rdb_saves"], told["rdb_last_bgsave_time_sec"]) == (0, -1)
    begin(node)
    assert r.info("persistence")["rdb_bgsave_in_progress"] == 1
    write(node)
    told = r.info("persistence")
    assert told["rdb_changes_since_last_save"] == told["rdb_bgsave_in_progress"] == 0
    assert (told["rdb_saves"], told["checkpoint_record"], told["checkpoint_bytes"]) == (1, 1, 1_000)
    assert r.lastsave() >= started
    begin(node)
    fail(node)
    told = r.info("persistence")
    assert (told["rdb_last_bgsave_status"], told["checkpoint_failure"]) == ("err", "no space")
    assert told["rdb_bgsave_in_progress"] == 0


def test_memory_is_told_by_the_account_that_maxmemory_goes_by(node: Node, r: Any) -> None:
    account = Account({"base": 600, "nodes": 300, "keys": 50, "log": 40, "clients": 10})
    node.call(lambda: node.region.room.look(account=account))
    told = r.info("memory")
    assert (told["used_memory"], told["used_memory_dataset"]) == (1_000, 350)
    stats = r.memory_stats()
    assert stats["total.allocated"] == 1_000
    assert stats["crdtstream.nodes"] == 300
    with pytest.raises(redis.ResponseError, match="1000 bytes are taken by what cannot leave"):
        r.config_set("maxmemory", str(SPARE_BYTES.value + 999))
    assert r.config_set("maxmemory", "17mb")
    told = r.info("memory")
    assert (told["maxmemory"], told["maxmemory_human"]) == (17 << 20, "17.00M")
    node.call(lambda: node.region.room.look(account=Account({"nodes": (17 << 20) + 1})))
    with pytest.raises(redis.exceptions.OutOfMemoryError, match="used memory > 'maxmemory'"):
        r.xadd("s", {"f": "v"})
    assert r.info("persistence")["maxmemory_refused_writes"] == 1
