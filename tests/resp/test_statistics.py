"""Times of commands and counts of error replies: INFO commandstats, errorstats, latencystats.

The numbers of the histogram are Redis's: those in the tables below were read off a redis-server
8.2.3 that was told to sleep, or by recomputing what it printed.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from crdtstream.database.statistics import ERROR_KINDS_MAX, CallStatistics, Statistics, level_of
from tests.resp.node import Node, RawClient, request, running
from tests.resp.test_protocol import wait_until

US = 1000


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as client:
        client.config_resetstat()
        yield client


def counts(r: Any, command: str) -> tuple[int, int, int]:
    """Calls, rejected calls, failed calls."""
    stats = r.info("commandstats").get(f"cmdstat_{command}")
    if stats is None:
        return 0, 0, 0
    return stats["calls"], stats["rejected_calls"], stats["failed_calls"]


# --- Adding up ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usec", "level_ns"),
    [
        (0, 1),
        (1, 1_003),
        (2, 2_007),
        (4, 4_015),
        (11, 11_007),
        (35, 35_071),
        (59, 59_135),
        (91, 91_135),
        (128, 128_511),
        (183, 183_295),
        (100_262, 100_663_295),
    ],
)
def test_durations_fall_into_redis_s_levels(usec: int, level_ns: int) -> None:
    assert level_of(usec * US) == level_ns


def test_percentiles_are_the_levels_that_hold_so_many() -> None:
    calls = CallStatistics()
    calls.samples.extend([1 * US] * 98 + [50 * US, 2000 * US])
    assert calls.percentiles((50, 98, 99, 100)) == [1_003, 1_003, 50_175, 2_007_039]
    assert calls.calls == 100
    assert calls.usec == 98 + 50 + 2000


def test_a_distribution_counts_up_and_skips_levels_that_add_nothing() -> None:
    calls = CallStatistics()
    calls.samples.extend(usec * US for usec in (0, 1, 3, 3, 30, 30, 100_000))
    assert calls.distribution() == [(1, 2), (4, 4), (33, 6), (135_266, 7)]


def test_folding_now_or_later_is_the_same() -> None:
    durations = [(n * 7919) % 300_000 for n in range(3_000)]
    now, later = CallStatistics(), CallStatistics()
    for duration in durations:
        now.samples.append(duration)
        now.fold()
    later.samples.extend(durations)
    assert now.calls == later.calls == 3_000
    assert now.usec == later.usec == sum(durations) // US
    assert now.percentiles((1, 50, 99.9)) == later.percentiles((1, 50, 99.9))
    assert now.distribution() == later.distribution()


def test_kinds_of_errors_are_bounded_and_all_are_counted() -> None:
    statistics = Statistics()
    for n in range(2 * ERROR_KINDS_MAX.value):
        statistics.note_error(f"KIND{n} something")
    statistics.note_error("KIND0 again", count=3)
    assert len(statistics.errors_by_kind()) == ERROR_KINDS_MAX.value
    assert statistics.errors_by_kind()["KIND0"] == 4
    assert statistics.errors == 2 * ERROR_KINDS_MAX.value + 3


# --- What counts as what ------------------------------------------------------------------------


def test_a_command_that_fails_was_called_and_one_that_is_refused_was_not(r: Any) -> None:
    r.xadd("counted", {"f": "v"}, id="1-*")
    for line in ("XADD counted 1-0 f v", "XADD counted", "NOSUCH", "CLIENT NOSUCH"):
        with pytest.raises(redis.ResponseError):
            r.execute_command(*line.split())
    assert counts(r, "xadd") == (2, 1, 1)
    assert r.info("errorstats") == {"errorstat_ERR": {"count": 4}}
    assert r.info("stats")["total_error_replies"] == 4


def test_commands_are_counted_when_exec_runs_them_and_not_when_queued(r: Any) -> None:
    pipe = r.pipeline(transaction=True)
    pipe.xadd("multi", {"f": "v"}, id="5-*")
    pipe.xadd("multi", {"f": "v"}, id="1-1")
    pipe.xlen("multi")
    with pytest.raises(redis.ResponseError):
        pipe.execute()
    assert counts(r, "multi") == counts(r, "exec") == counts(r, "xlen") == (1, 0, 0)
    assert counts(r, "xadd") == (2, 0, 1)


def test_an_aborted_transaction_is_a_failed_exec(node: Node, r: Any) -> None:
    with node.client() as client:
        client.send(request(b"MULTI") + request(b"XLEN", b"multi") + request(b"XLEN"))
        client.send(request(b"EXEC"))
        client.read(len(b"+OK\r\n+QUEUED\r\n"))
        assert client.read_line().startswith(b"-ERR wrong number of arguments")
        assert client.read_line().startswith(b"-EXECABORT")
    assert counts(r, "xlen") == (0, 1, 0)
    assert counts(r, "exec") == (1, 0, 1)
    assert r.info("errorstats") == {
        "errorstat_ERR": {"count": 1},
        "errorstat_EXECABORT": {"count": 1},
    }


@pytest.mark.parametrize("end", ["served", "timed out", "unblocked", "unblocked with an error"])
def test_a_blocked_command_is_one_call_when_it_ends(node: Node, r: Any, end: str) -> None:
    timeout = b"20" if end == "timed out" else b"0"
    with node.client() as reader:
        reader.send(request(b"CLIENT", b"ID"))
        client_id = int(reader.read_line()[1:])
        reader.send(request(b"XREAD", b"BLOCK", timeout, b"STREAMS", b"ends", b"$"))
        if end != "timed out":
            wait_until(node, "database.waiting_count == 1")
            assert counts(r, "xread") == (0, 0, 0)
        match end:
            case "served":
                r.xadd("ends", {"f": "v"})
            case "unblocked":
                r.execute_command("CLIENT UNBLOCK", client_id)
            case "unblocked with an error":
                r.execute_command("CLIENT UNBLOCK", client_id, "ERROR")
        reader.read(1)
        failed = int(end == "unblocked with an error")
        assert counts(r, "xread") == (1, 0, failed)
        assert r.info("stats")["total_error_replies"] == failed


def test_a_blocked_command_that_ends_in_an_error_is_one_failed_call(node: Node, r: Any) -> None:
    r.xgroup_create("goes", "g", mkstream=True)
    with node.client() as reader:
        words = b"XREADGROUP GROUP g c BLOCK 0 STREAMS goes >".split()
        reader.send(request(*words))
        wait_until(node, "database.waiting_count == 1")
        r.delete("goes")
        reader.expect(b"-NOGROUP")
    assert counts(r, "xreadgroup") == (1, 0, 1)
    assert r.info("errorstats") == {"errorstat_NOGROUP": {"count": 1}}


def test_a_refused_write_is_rejected_and_an_unknown_outcome_is_an_error() -> None:
    with running() as node, node.client() as client:
        node.log.refusal = "the disk is full"
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        client.expect(b"-MISCONF the disk refused")
        wait_until(node, "region.fault is not None")
        client.send(request(b"XADD", b"s", b"*", b"f", b"v"))
        wait_until(node, "database.statistics.errors == 2")
        with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r:
            assert counts(r, "xadd") == (1, 1, 0)
            assert r.info("errorstats") == {"errorstat_MISCONF": {"count": 2}}
        node.log.refusal = None
        wait_until(node, "region.fault is None")


def test_malformed_input_is_an_error_of_no_command(node: Node, r: Any) -> None:
    with node.client() as client:
        client.send(b"*x\r\n")
        client.expect(b"-ERR Protocol error")
    assert r.info("errorstats") == {"errorstat_ERR": {"count": 1}}


# --- What INFO and LATENCY HISTOGRAM say of it --------------------------------------------------


def test_time_is_what_the_command_took_without_the_wait(node: Node, r: Any) -> None:
    with node.client() as reader, node.each_command_taking(ms=3):
        reader.send(request(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"idle", b"$"))
        wait_until(node, "database.waiting_count == 1")
        for _ in range(10):
            r.ping()
        r.xadd("idle", {"f": "v"})
        reader.expect(b"*1\r\n*2\r\n$4\r\nidle\r\n")
    r.execute_command("DEBUG", "SLEEP", "0.02")
    stats = r.info("commandstats")
    # It ran twice: when it came and when there was an entry.
    assert stats["cmdstat_xread"]["usec"] == 2 * 3_000
    assert stats["cmdstat_debug"]["usec"] >= 20_000
    assert stats["cmdstat_debug"]["usec_per_call"] == stats["cmdstat_debug"]["usec"]
    percentiles = r.info("latencystats")["latency_percentiles_usec_debug"]
    assert percentiles.keys() == {"p50", "p99", "p99.9"}
    assert percentiles["p50"] == percentiles["p99.9"] >= 20_000


def test_a_histogram_of_a_command_or_of_all_its_subcommands(r: Any) -> None:
    for _ in range(3):
        r.client_id()
    r.execute_command("DEBUG", "SLEEP", "0.01")
    flat = r.execute_command("LATENCY", "HISTOGRAM", "client", "DEBUG", "nosuch", "client|id")
    assert flat[0::2] == [b"client|id", b"debug", b"client|id"]
    of_id, of_debug = flat[1], flat[3]
    assert of_id[:3] == [b"calls", 3, b"histogram_usec"]
    assert of_id[3][-1] == 3
    assert of_debug[:3] == [b"calls", 1, b"histogram_usec"]
    (usec, count) = of_debug[3]
    assert usec >= 10_000
    assert count == 1
    names = r.execute_command("LATENCY", "HISTOGRAM")[0::2]
    assert {b"client|id", b"debug", b"latency|histogram"} <= set(names)


def test_a_histogram_is_a_map_of_maps_in_resp3(client: RawClient) -> None:
    client.send(request(b"HELLO", b"3") + request(b"CONFIG", b"RESETSTAT") + request(b"ECHO", b"x"))
    client.send(request(b"LATENCY", b"HISTOGRAM", b"echo"))
    data = b""
    while not data.endswith(b":1\r\n") or b"histogram_usec" not in data:
        data += client.read(1)
    head = b"%1\r\n$4\r\necho\r\n%2\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n%1\r\n:"
    assert head in data


def test_resetstat_begins_anew(r: Any) -> None:
    r.ping()
    with pytest.raises(redis.ResponseError):
        r.execute_command("NOSUCH")
    r.config_resetstat()
    assert list(r.info("commandstats")) == ["cmdstat_config|resetstat"]
    assert r.info("errorstats") == {}
    stats = r.info("stats")
    assert stats["total_commands_processed"] == 3
    assert stats["total_error_replies"] == 0


def test_a_great_many_calls_are_all_counted(node: Node, r: Any) -> None:
    count = 5_000
    with node.client() as client:
        client.send(request(b"ECHO", b"x") * count)
        client.expect(b"$1\r\nx\r\n" * count)
    assert counts(r, "echo") == (count, 0, 0)
    assert node.call(lambda: len(node.database.statistics.of(b"echo").samples)) < 1024
