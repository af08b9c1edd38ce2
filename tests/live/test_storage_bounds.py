"""maxmemory, maxdisk and appendfsync on real nodes, set while they run and kept over restarts."""

import contextlib
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import redis

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.store.folder_lock import LOG_FILE
from tests.live.cluster import NODE_PROGRAM, Node, cluster_of, running_regions
from tests.patience import wait_until
from tests.upkeep.folders import checked

# A minute on a quiet machine; the bound is for a busy one.
pytestmark = pytest.mark.timeout(600)

MIB = 1 << 20
TEXT = "x" * (64 << 10)
# Many times what the bounds below leave room for.
ADDED_MAX = 2_000
SMALL_KEYS_MAX, SMALL_KEYS_AT_ONCE = 500_000, 1_000
# As many keys come between two looks at what nobody counts, where no more are to be taken than fit.
SMALL_KEYS_PER_LOOK = 2_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with cluster_of(1, tmp_path, program=NODE_PROGRAM) as regions:
        regions.configure()
        regions[1].start("--new-database")
        yield regions[1]


def tune(node: Node, parameter: str, value: str) -> None:
    with AdminClient(node.grpc_address) as client:
        client.tune(parameter, value)


def fill(add: Callable[[int], object], refused: type[Exception]) -> int:
    """Add something until it is refused; returns how often it was taken."""
    for count in range(ADDED_MAX):
        try:
            add(count)
        except refused:
            return count
    raise AssertionError(f"{ADDED_MAX} times something was taken")


def takes_data(node: Node) -> Callable[[], bool]:
    def takes() -> bool:
        try:
            return bool(node.client.xadd("t", {"f": "v"}))
        except redis.ResponseError:
            return False

    return takes


def synced_as(node: Node) -> str:
    with sqlite3.connect(node.folder / LOG_FILE) as log:
        (word,) = log.execute("SELECT value FROM meta WHERE key = 'fsync'").fetchone()
    return str(word)


def test_maxmemory_stops_what_adds_until_something_is_deleted(node: Node) -> None:
    used = node.client.info("memory")["used_memory"]
    assert node.client.config_set("maxmemory", str(used + 40 * MIB))
    # Entries leave memory as fast as checkpoints are written; strings stay.
    taken = fill(lambda n: node.client.set(f"s{n}", TEXT), redis.exceptions.OutOfMemoryError)
    assert taken > 100
    assert node.client.strlen("s0") == len(TEXT), "reads go on"
    with pytest.raises(redis.ResponseError, match="cannot leave memory"):
        node.client.config_set("maxmemory", "1mb")
    assert node.client.delete(*(f"s{n}" for n in range(taken))) == taken, "deleting goes on"
    wait_until(takes_data(node), "there is room again")
    assert node.client.info("persistence")["maxmemory_refused_writes"] >= 1


def overhead(node: Node) -> int:
    return int(node.client.memory_stats()["crdtstream.overhead"])


def wait_for_a_look_at_overhead(node: Node) -> None:
    """Until the node has compared its account with the system's, as it does each second.

    About half of what a small key takes is seen by that only.
    """
    info, before = node.client.info("memory"), overhead(node)
    if 2 * info["used_memory"] > info["maxmemory"]:
        wait_until(lambda: overhead(node) != before, "what nobody counts was looked at")


def fill_with_small_keys(node: Node, kind: str, *, exactly: bool = False) -> int:
    """Make small streams or strings until one is refused; returns how many there are then.

    Args:
        exactly: take hardly more than fit.  A client that does not wait adds as many as it can
            until the node has looked at its memory again: twice as many, on a busy machine.
    """
    for start in range(0, SMALL_KEYS_MAX, SMALL_KEYS_AT_ONCE):
        pipe = node.client.pipeline(transaction=False)
        for n in range(start, start + SMALL_KEYS_AT_ONCE):
            if kind == "streams":
                pipe.xadd(f"k{n}", {"field": "value"})
            else:
                pipe.set(f"k{n}", "value")
        replies = pipe.execute(raise_on_error=False)
        if any(isinstance(one, redis.exceptions.OutOfMemoryError) for one in replies):
            return int(node.client.dbsize())
        if exactly and not (start + SMALL_KEYS_AT_ONCE) % SMALL_KEYS_PER_LOOK:
            wait_for_a_look_at_overhead(node)
    raise AssertionError(f"{SMALL_KEYS_MAX} keys were taken")


def is_saving(node: Node) -> bool:
    return bool(node.client.info("persistence")["rdb_bgsave_in_progress"])


def delete_small_keys(node: Node) -> None:
    while keys := node.client.scan(count=SMALL_KEYS_AT_ONCE)[1]:
        node.client.delete(*keys)
    assert node.client.dbsize() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "added"),
    [("streams", 40 * MIB), ("streams", 168 * MIB), ("strings", 168 * MIB)],
)
def test_writes_are_taken_again_after_everything_was_deleted(
    node: Node, kind: str, added: int
) -> None:
    """Small objects leave holes all over Python's heap, which the system does not get back."""
    used = node.client.info("memory")["used_memory"]
    node.client.config_set("maxmemory", str(used + added))
    first = fill_with_small_keys(node, kind, exactly=True)
    delete_small_keys(node)
    # Until it ends, a checkpoint needs what was there when it began.
    wait_until(lambda: not is_saving(node), "no checkpoint is under way")
    wait_until(takes_data(node), "there is room again")
    node.client.delete("t")
    # And for about as much as before, not for one write.
    wait_until(lambda: node.client.info("memory")["used_memory"] < used + added // 2, "half of it")
    assert fill_with_small_keys(node, kind) > first // 2


def test_maxdisk_stops_what_adds_until_it_is_raised(node: Node) -> None:
    def folder_is_measured() -> bool:
        info = node.client.info("persistence")
        return bool(0 < info["wal_bytes"] < info["disk_bytes"])

    # The folder is looked at now and then, and the write-ahead log is written in its full length.
    wait_until(folder_is_measured, "the folder was measured with its write-ahead log")
    size = node.client.info("persistence")["disk_bytes"]
    tune(node, "maxdisk", str(size + 4 * MIB))
    # What can be packed would hardly fill a disk.
    fill(lambda n: node.client.xadd("s", {"f": Random(n).randbytes(64 << 10)}), redis.ResponseError)
    with pytest.raises(redis.ResponseError, match=r"MISCONF the data folder takes .* maxdisk is"):
        node.client.xadd("s", {"f": "v"})
    assert node.client.delete("s") == 1, "deleting goes on"
    with pytest.raises(AdminError, match="the folder takes"):
        tune(node, "maxdisk", "1mb")
    tune(node, "maxdisk", "0")
    wait_until(takes_data(node), "there is no bound any more")


@pytest.mark.long
def test_tuned_settings_survive_a_kill(node: Node) -> None:
    wanted = {
        "appendfsync": "everysec",
        "checkpoint_interval_s": "7",
        "checkpoint_log_bytes": "3mb",
        "maxdisk": "900gb",
        "maxmemory": "800gb",
        "replication_backlog_size": "2gb",
        "replication_backlog_ttl_s": "60",
    }
    for parameter, value in wanted.items():
        tune(node, parameter, value)
    told = node.client.config_get(*wanted)
    assert (told["maxmemory"], told["appendfsync"]) == (str(800 << 30), "everysec")
    node.end(signal.SIGKILL)
    node.start()
    assert node.client.config_get(*wanted) == told


@pytest.mark.long
def test_the_folder_says_at_any_time_whether_its_commits_are_synced(node: Node) -> None:
    """By that a node that was killed knows whether its log's end may be lost."""
    assert synced_as(node) == "always"
    for word in ("everysec", "no", "always"):
        node.client.config_set("appendfsync", word)
        node.client.xadd("s", {"f": word})
        wait_until(lambda word=word: synced_as(node) == word, f"appendfsync {word}")  # type: ignore[misc]
    node.end(signal.SIGKILL)
    node.start()
    assert node.client.xlen("s") == 3


@pytest.mark.long
def test_status_tells_of_memory_and_disk_and_whom_the_log_is_kept_for(node: Node) -> None:
    node.client.xadd("s", {"f": "v"})
    wait_until(lambda: node.status().storage.disk_bytes, "the folder was measured")
    storage = node.status().storage
    assert storage.used_memory > 10 * MIB
    assert (storage.first_seq, storage.last_seq) == (1, 1)
    assert not storage.kept


@pytest.mark.long
def test_used_memory_follows_what_the_system_counts(node: Node) -> None:
    """Within 15 per cent, before and after a hundred thousand entries."""
    before = node.client.info("memory")["used_memory"]
    for _ in range(100):
        pipe = node.client.pipeline(transaction=False)
        for number in range(1_000):
            pipe.xadd("s", {"sensor": "s-1", "temperature": f"{number % 40}.5", "text": "x" * 100})
        pipe.execute()
    usage = node.client.memory_usage("s")
    assert usage > 10 * MIB

    def follows() -> bool:
        told = node.client.info("memory")
        used, resident = int(told["used_memory"]), int(told["used_memory_rss"])
        return abs(used / resident - 1) < 0.15 and used > before + 0.9 * usage

    wait_until(follows, "a walk has found the entries")


@pytest.mark.long
def test_a_restart_keeps_the_log_for_a_region_that_is_away(tmp_path: Path) -> None:
    """Also when a checkpoint has all of it, so that no row has to be read to start."""
    with running_regions(2, tmp_path, program=NODE_PROGRAM) as regions:
        node, away = regions[1], regions[2]
        node.client.xadd("s", {"f": "v"})
        regions.converge()
        away.end(signal.SIGKILL)
        for _ in range(10):
            pipe = node.client.pipeline(transaction=False)
            for _ in range(100):
                pipe.xadd("s", {"f": TEXT[:300]})
            pipe.execute()
        node.client.bgsave()

        def is_saved() -> bool:
            info = node.client.info("persistence")
            return not info["rdb_bgsave_in_progress"] and not info["rdb_changes_since_last_save"]

        wait_until(is_saved, "a checkpoint has all")
        assert node.end() == 0
        node.start()
        wait_until(lambda: node.status().storage.kept[0].bytes, "it was seen what region 2 lacks")
        (kept,) = node.status().storage.kept
        assert kept.bytes > 300, "what is packed takes less than its 300 kB"
        assert node.status().storage.first_seq == 1
        away.start()
        regions.converge()
        assert away.client.xlen("s") == 1_001


@pytest.mark.long
def test_a_kill_does_not_prolong_how_long_a_region_is_waited_for(tmp_path: Path) -> None:
    with running_regions(2, tmp_path, program=NODE_PROGRAM) as regions:
        node, peer = regions[1], regions[2]
        peer.end(signal.SIGKILL)
        node.client.xadd("s", {"f": "v"})

        def since_ms() -> int:
            (kept,) = node.status().storage.kept
            return kept.since_ms

        def is_written_down() -> bool:
            with contextlib.closing(sqlite3.connect(node.folder / LOG_FILE)) as log:
                rows = log.execute("SELECT value FROM meta WHERE key = 'absences'").fetchall()
            return rows == [(f"2:{since_ms()}",)]

        wait_until(is_written_down, "since when region 2 is away is in the folder")
        before = since_ms()
        node.end(signal.SIGKILL)
        node.start()
        node.client.xadd("s", {"f": "v"})
        wait_until(lambda: since_ms() == before, "region 2 is away since it went")
        node.end(signal.SIGKILL)
        assert checked(node.folder).is_sound
