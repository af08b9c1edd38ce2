"""Two regions, each alone for longer than its backlog: what only one has stays in its log."""

import os
from pathlib import Path
from typing import Final

import pytest

from tests.live.cluster import Node, running_regions
from tests.patience import wait_until

BACKLOG_BYTES: Final = 64 << 10
# Of bytes that do not pack, so the log grows by more than the backlog.
ENTRY_BYTES: Final = 1 << 10
ENTRIES: Final = 2 * BACKLOG_BYTES // ENTRY_BYTES


def write_and_cut(node: Node, key: str) -> None:
    """More than the backlog, a checkpoint, and a cut of all that may go."""
    for _ in range(ENTRIES):
        node.client.xadd(key, {"bytes": os.urandom(ENTRY_BYTES)})
    # The log is cut between two checkpoints.
    for _ in range(2):
        saves = node.client.info("persistence")["rdb_saves"]
        node.client.xadd(key, {"one": "more"})
        node.client.bgsave()
        wait_until(
            lambda saves=saves: node.client.info("persistence")["rdb_saves"] > saves,  # type: ignore[misc]
            "a checkpoint",
        )


@pytest.mark.long
def test_regions_alone_for_longer_than_the_backlog_converge_by_their_logs(tmp_path: Path) -> None:
    with running_regions(
        2, tmp_path, replication_backlog_size=BACKLOG_BYTES, checkpoint_interval_s=0
    ) as regions:
        regions[2].end()
        write_and_cut(regions[1], "s1")
        kept = regions[1].client.info()["crdt_log_kept_for_2"]
        regions[1].end()

        regions[2].start()
        write_and_cut(regions[2], "s2")
        regions[1].start()
        regions.converge()
        for region in (1, 2):
            client = regions[region].client
            assert client.xlen("s1") == client.xlen("s2") == ENTRIES + 2
        assert kept["keeping"] == "only-copy"
        assert kept["bytes"] > BACKLOG_BYTES
