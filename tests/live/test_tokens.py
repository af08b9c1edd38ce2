"""Clients that go from one region to another: tokens and cursors, on real nodes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.connection import AbstractConnection

from tests.live.cluster import Cluster, Node
from tests.patience import wait_until

# For ever: each client gives up by itself.
TIMEOUT_MS = 0


@contextmanager
def waiting_for(node: Node, *command: str | bytes | int) -> Iterator[AbstractConnection]:
    """A client of the node that has sent a command and is seen to wait in it."""
    client = node.connect()
    connection = client.connection_pool.get_connection()
    connection.send_command(*command)
    name = str(command[0]).lower()
    wait_until(
        lambda: any(
            row["cmd"] == name and "b" in row["flags"] for row in node.client.client_list()
        ),
        f"{name} waits",
    )
    try:
        yield connection
    finally:
        client.close()


def test_a_client_that_moves_reads_its_own_writes(three_regions: Cluster) -> None:
    """Acknowledgements included: what was acknowledged in a row is not handed out again."""
    first, second = three_regions[1], three_regions[2]
    client = first.client
    client.xgroup_create("s", "g", id="0", mkstream=True)
    three_regions.converge()
    second.set_links(paused=True)

    ids = [client.xadd("s", {"index": index}) for index in range(5)]
    client.xreadgroup("g", "c", {"s": ">"})
    assert client.xack("s", "g", *ids[:3]) == 3
    token = client.execute_command("CRDT.TOKEN")
    client.close()

    assert second.client.execute_command("CRDT.WAITFOR", token, 1) == 0
    assert second.client.xrange("s") == []
    with waiting_for(second, "CRDT.WAITFOR", token, TIMEOUT_MS) as connection:
        second.set_links(paused=False)
        assert connection.read_response() == 1
    assert [entry_id for entry_id, _ in second.client.xrange("s")] == ids
    ((_, entries),) = second.client.xreadgroup("g", "c", {"s": ">"})
    assert [entry_id for entry_id, _ in entries] == ids[3:]


def test_a_token_outlives_a_kill_of_the_region_that_gave_it(three_regions: Cluster) -> None:
    first, second, third = three_regions.nodes.values()
    for node in (second, third):
        node.set_links(paused=True, peers=[1])
    entry_id = first.client.xadd("s", {"f": "v"})
    token = first.client.execute_command("CRDT.TOKEN")
    first.end(signal.SIGKILL)
    with waiting_for(second, "CRDT.WAITFOR", token, TIMEOUT_MS) as connection:
        first.start()
        for node in (second, third):
            node.set_links(paused=False)
        assert connection.read_response() == 1
    assert [found for found, _ in second.client.xrange("s")] == [entry_id]


def test_a_reader_goes_from_region_to_region_and_has_each_entry_once(
    three_regions: Cluster,
) -> None:
    for index in range(20):
        for node in three_regions.nodes.values():
            node.client.xadd("s", {"index": index})
    cursor: Any = b"0"
    had: list[Any] = []
    while len(had) < 60:
        for node in three_regions.nodes.values():
            cursor, entries = node.client.execute_command(
                "CRDT.XREAD", "s", cursor, "COUNT", 7, "BLOCK", 100
            )
            had += [entry_id for entry_id, _ in entries]
    assert len(set(had)) == len(had) == 60
    three_regions.converge()
    for node in three_regions.nodes.values():
        assert sorted(had) == sorted(entry_id for entry_id, _ in node.client.xrange("s"))
        assert node.client.execute_command("CRDT.XREAD", "s", cursor)[1] == []


def test_a_reader_with_a_cursor_is_woken_by_another_region(three_regions: Cluster) -> None:
    with waiting_for(three_regions[2], "CRDT.XREAD", "s", "$", "BLOCK", TIMEOUT_MS) as connection:
        entry_id = three_regions[1].client.xadd("s", {"f": "v"})
        cursor = three_regions[1].client.execute_command("CRDT.TOKEN")
        assert cursor.startswith(f"{three_regions[1].status().database_uid}/1:1~".encode())
        assert connection.read_response() == [cursor, [[entry_id, [b"f", b"v"]]]]


def test_maps_are_maps_in_resp3(three_regions: Cluster) -> None:
    node = three_regions[1]
    entry_id = node.client.xadd("s", {"f": "v"})
    node.client.xgroup_create("s", "g", id="0")
    with redis.Redis(port=node.resp_port, protocol=3) as client:
        (row,) = client.execute_command("CRDT.WHY", "s", entry_id)
        assert row[b"dot"] == b"1:1"
        assert row[b"groups"] == {b"g": {b"state": b"undelivered", b"handed-out-by": None}}
        mode = client.execute_command("CRDT.XGROUP", "GETMODE", "s", "g")
        assert mode == {b"mode": b"at-least-once", b"home": None, b"epoch": 0, b"issuer": None}
