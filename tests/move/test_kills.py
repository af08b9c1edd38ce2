"""Moves that are killed, and moves under load: nothing is lost, and nothing comes twice.

What arrived is read by redis-py, page by page, and compared with what producers were told.
"""

import random
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from tests.live.forked import Forked
from tests.move.ends import Server, fill, move, seen
from tests.patience import LONG, seconds, wait_until

PAGE: Final = 5_000
FILLED_AT_A_TIME: Final = 5_000
STREAMS: Final = ("load:0", "load:1", "load:2", "load:3")
# Between two bursts of a producer.
BREATH_SECONDS: Final = 0.002


def amount(server: Server) -> int:
    """Something that grows while a move brings entries, groups and pending entries."""
    client = server.client
    total = 0
    for key in client.scan_iter(_type="STREAM"):
        total += client.xlen(key)
        total += sum(1 + group["pending"] for group in client.xinfo_groups(key))
    return total


@pytest.mark.parametrize("seed", [11, 12])
def test_a_move_that_is_killed_ten_times_brings_everything_once(
    old: Server, region: Server, tmp_path: Path, seed: int
) -> None:
    fill(old, streams=3, entries=1_000, seed=seed)
    draw = random.Random(seed)
    total = amount(old)
    for share in sorted(draw.random() for _ in range(10)):
        words = ["import", old.url, "--node", region.url]
        process = Forked(["crdtstream", *words], tmp_path / "import.log")
        try:
            wait_until(
                lambda process=process, share=share: (
                    process.poll() is not None  # type: ignore[misc]
                    or amount(region) >= share * total
                ),
                "it comes that far",
            )
        finally:
            process.kill()
        process.wait(seconds())
    done = move("import", old.url, "--node", region.url, "--cut-over")
    assert done.returncode == 0, done.stderr
    assert seen(region) == seen(old)


class Application:
    """Producers and consumers of the source, until it refuses writes.

    Attributes:
        written: the numbers that were acknowledged; each is in one entry.
    """

    def __init__(self, server: Server, first: int) -> None:
        self.written: list[int] = []
        self._next = first
        self._path = server.path
        self._ended = threading.Event()
        self._failed: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (self._produce, self._consume)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Wait until both have met the fence, or end them."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        assert self._failed == []

    def has_ended(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _guarded(self, work: "object") -> None:
        client = redis.Redis(unix_socket_path=str(self._path))
        try:
            while not self._ended.is_set():
                work(client)  # type: ignore[operator]
                time.sleep(BREATH_SECONDS)
        except redis.ResponseError as error:
            # The application would go to the other server now.
            if "NOREPLICAS" not in str(error):
                self._failed.append(error)
        finally:
            client.close()

    def _produce(self, client: "redis.Redis") -> None:
        number = self._next
        client.xadd(STREAMS[number % len(STREAMS)], {"n": number})
        self.written.append(number)
        self._next += 1

    def _consume(self, client: "redis.Redis") -> None:
        for key in STREAMS:
            rows: Any = client.xreadgroup("workers", "w", {key: ">"}, count=20)
            ids = [entry_id for _, entries in rows for entry_id, _ in entries]
            if ids:
                client.xack(key, "workers", *ids[::2])


def arrived(server: Server) -> list[int]:
    """The numbers of all entries, ascending."""
    numbers = []
    for key in STREAMS:
        start = "-"
        while rows := server.client.xrange(key, start, "+", count=PAGE):
            numbers += [int(fields[b"n"]) for _, fields in rows]
            start = "(" + rows[-1][0].decode()
    return sorted(numbers)


def prepare(server: Server, entries: int) -> None:
    for begin in range(0, entries, FILLED_AT_A_TIME):
        pipeline = server.client.pipeline(transaction=False)
        for number in range(begin, min(begin + FILLED_AT_A_TIME, entries)):
            pipeline.xadd(STREAMS[number % len(STREAMS)], {"n": number})
        pipeline.execute()
    for key in STREAMS:
        server.client.xgroup_create(key, "workers", "0")


def cut_over_under_load(
    source: Server, region: Server, log: Path, *, entries: int, kills: int, seed: int
) -> list[int]:
    """Import, killed at random moments while an application goes on, and cut over.

    Returns:
        The numbers of all entries that the source acknowledged.
    """
    draw = random.Random(seed)
    prepare(source, entries)
    application = Application(source, entries)
    application.start()
    words = ["import", source.url, "--node", region.url, "--follow"]
    try:
        for share in sorted(draw.random() for _ in range(kills)):
            process = Forked(["crdtstream", *words], log)
            try:
                wait_until(
                    lambda share=share: (
                        sum(map(region.client.xlen, STREAMS))  # type: ignore[misc]
                        >= share * entries
                    ),
                    "it comes that far",
                    base=12 * LONG,
                )
            finally:
                process.kill()
            process.wait(seconds())
        done = move(*words, "--cut-over", "--stop-writes", timeout=seconds(12 * LONG))
        assert done.returncode == 0, done.stderr
        wait_until(application.has_ended, "the source refuses writes")
    finally:
        application.end()
    return [*range(entries), *application.written]


def check_arrived(source: Server, region: Server, acknowledged: list[int]) -> None:
    assert arrived(region) == acknowledged
    for key in STREAMS:
        (theirs,), (ours,) = source.client.xinfo_groups(key), region.client.xinfo_groups(key)
        for fact in ("name", "last-delivered-id", "pending", "consumers", "entries-read"):
            assert theirs[fact] == ours[fact]
    # The application goes on in the region.
    source_last = source.client.xinfo_stream(STREAMS[0])["last-generated-id"]
    assert region.client.xadd(STREAMS[0], {"n": -1}) > source_last


def test_a_cut_over_under_load_loses_and_doubles_nothing(
    old: Server, region: Server, tmp_path: Path
) -> None:
    acknowledged = cut_over_under_load(
        old, region, tmp_path / "import.log", entries=2_000, kills=3, seed=21
    )
    assert len(acknowledged) > 2_000
    check_arrived(old, region, acknowledged)


@pytest.mark.soak
def test_two_million_entries_killed_ten_times_and_cut_over_under_load(
    old: Server, region: Server, tmp_path: Path
) -> None:
    acknowledged = cut_over_under_load(
        old, region, tmp_path / "import.log", entries=2_000_000, kills=10, seed=22
    )
    check_arrived(old, region, acknowledged)


def test_a_cut_over_that_fails_lowers_the_fence(old: Server, region: Server) -> None:
    old.do("XADD s 1-1 f v")
    words = ["import", old.url, "--node", region.url]
    assert move(*words).returncode == 0
    region.do("XADD s * f own")
    assert move(*words, "--cut-over", "--stop-writes").returncode == 1
    assert old.do("XADD s 2-1 f v") == b"2-1"


def test_a_fence_stays_when_both_ends_are_equal(old: Server, region: Server) -> None:
    old.do("XADD s 1-1 f v")
    words = ["import", old.url, "--node", region.url, "--cut-over", "--stop-writes"]
    assert move(*words).returncode == 0
    for line in ("XADD s 2-1 f v", "SET x y"):
        with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
            old.do(line)
