"""Tests with a whole node: SHUTDOWN ends its process, CONFIG REWRITE changes its next start."""

from pathlib import Path

import pytest
import redis

from tests.live.cluster import running_regions
from tests.patience import seconds

pytestmark = pytest.mark.live


def test_shutdown_ends_the_process_with_everything_acknowledged(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        client = node.connect()
        writer = node.connect().pipeline(transaction=False)
        for n in range(1_000):
            writer.xadd("s", {"n": n})
        acknowledged = writer.execute()
        client.shutdown(nosave=True)
        assert node.process is not None
        assert node.process.wait(timeout=seconds()) == 0
        with pytest.raises(redis.ConnectionError):
            node.connect().ping()

        cluster.start()
        assert [entry_id for entry_id, _ in node.connect().xrange("s")] == acknowledged


@pytest.mark.long
def test_rewritten_settings_hold_after_the_next_start(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        client = node.connect()
        client.config_set("maxclients", 77)
        client.config_set("slowlog-max-len", 3)
        client.config_set("loglevel", "debug")
        path = Path(client.info("server")["config_file"])
        before = path.read_text()
        client.config_rewrite()
        assert path.read_text() != before
        client.shutdown(nosave=True)
        assert node.process is not None
        node.process.wait(timeout=seconds())

        cluster.start()
        client = node.connect()
        for name, value in (("maxclients", "77"), ("slowlog-max-len", "3"), ("loglevel", "debug")):
            assert client.config_get(name) == {name: value}
