"""LATENCY: the monitor of events, and its picture."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from crdtstream.database.statistics import Statistics
from crdtstream.resp.commands.server.latency import SAMPLES_MAX, LatencyMonitor, age
from crdtstream.resp.commands.server.sparkline import sparkline
from tests.resp.node import Node, running


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    with contextlib.closing(redis.Redis(port=node.port, protocol=2)) as client:
        with node.each_command_taking(ms=0):
            client.config_set("latency-monitor-threshold", 10)
            client.latency_reset()
            yield client
        client.config_set("latency-monitor-threshold", 0)


def take(node: Node, r: Any, ms: int) -> None:
    """Run a command that is not flagged fast, and takes so long."""
    with node.each_command_taking(ms):
        r.execute_command("DEBUG", "SLEEP", "0")


def test_a_slow_command_is_a_latency_event(node: Node, r: Any) -> None:
    take(node, r, 9)
    assert r.latency_latest() == []
    take(node, r, 10)
    ((name, unix_s, last_ms, max_ms),) = r.latency_latest()
    assert (name, last_ms, max_ms) == (b"command", 10, 10)
    assert abs(unix_s - node.engine.now() // 1000) < 100
    assert r.latency_history("command") == [[unix_s, 10]]
    assert r.latency_history("fast-command") == []


def test_fast_commands_are_an_event_of_their_own(node: Node, r: Any) -> None:
    with node.each_command_taking(ms=30):
        r.echo("fast")
    ((name, _, last_ms, _),) = r.latency_latest()
    assert (name, last_ms) == (b"fast-command", 30)


def test_a_server_that_sleeps_is_slow_by_the_real_clock() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port)) as r:
        r.config_set("latency-monitor-threshold", 20)
        r.execute_command("DEBUG", "SLEEP", "0.02")
        ms = {event[0]: event[3] for event in r.latency_latest()}
        assert int(ms[b"command"]) >= 20


def test_it_is_off_by_default_and_says_so(node: Node, r: Any) -> None:
    r.config_set("latency-monitor-threshold", 0)
    take(node, r, 1_000)
    assert r.latency_latest() == []
    assert b"latency-monitor-threshold" in r.execute_command("LATENCY", "DOCTOR")


def test_reset_forgets_these_or_all_and_tells_how_many(node: Node, r: Any) -> None:
    take(node, r, 20)
    assert r.latency_reset("nosuch") == 0
    assert r.latency_reset("nosuch", "command") == 1
    take(node, r, 20)
    assert r.latency_reset() == 1
    assert r.latency_latest() == []


def test_the_doctor_tells_of_events_in_words(node: Node, r: Any) -> None:
    assert b"All is well" in r.execute_command("LATENCY", "DOCTOR")
    take(node, r, 20)
    report = r.execute_command("LATENCY", "DOCTOR").decode()
    assert "1. command: 1 latency spikes (average 20ms, mean deviation 0ms" in report
    assert "Worst all time event 20ms." in report


def test_a_graph_needs_samples(node: Node, r: Any) -> None:
    with pytest.raises(redis.ResponseError, match="No samples available for event 'nosuch'"):
        r.execute_command("LATENCY", "GRAPH", "nosuch")
    take(node, r, 20)
    lines = r.execute_command("LATENCY", "GRAPH", "command").decode().split("\n")
    assert lines[0] == "command - high 20 ms, low 20 ms (all time high 20 ms)"
    assert lines[1] == "-" * 80
    assert lines[2:7] == [" ", " ", " ", "_", " "]


def test_of_one_second_the_worst_is_kept_and_of_all_the_last() -> None:
    monitor = LatencyMonitor(Statistics(), threshold_ms=5)
    for ms in (7, 30, 9):
        monitor.note("command", ms=ms, unix_s=100)
    monitor.note("command", ms=4, unix_s=101)
    assert list(monitor.events["command"].samples) == [(100, 30)]
    for second in range(SAMPLES_MAX + 10):
        monitor.note("command", ms=6, unix_s=200 + second)
    assert len(monitor.events["command"].samples) == SAMPLES_MAX
    assert monitor.events["command"].max_ms == 30


def test_the_picture_is_redis_s() -> None:
    """Read off a redis-server 8.2.3 that was told to sleep for these times, second by second."""
    picture = sparkline(
        [14, 55, 9, 27, 50, 5, 2, 50, 20],
        ["8s", "7s", "6s", "5s", "4s", "3s", "2s", "1s", "0s"],
        columns=80,
    )
    assert picture.split("\n") == [
        " #  o  o ",
        " |  |  | ",
        " | #|  |o",
        "#|o||__||",
        "         ",
        "876543210",
        "sssssssss",
        "",
    ]


def test_a_long_picture_goes_on_below() -> None:
    lines = sparkline([1] * 5, ["10s", "9s", "8s", "7s", "6s"], columns=3).split("\n")
    assert lines == [
        *["   ", "   ", "   ", "___", "   ", "198", "0ss", "s  "],
        *["  ", "  ", "  ", "__", "  ", "76", "ss"],
        "",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m"), (7_199, "1h"), (200_000, "2d")]
)
def test_ages_are_short(seconds: int, text: str) -> None:
    assert age(seconds) == text
