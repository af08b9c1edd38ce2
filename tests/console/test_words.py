"""Figures as people read them."""

import pytest

from crdtstream.console import words

THIN = "\u202f"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (4_200, "4.2 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (7_260_000, "2 h 1 min"),
        (86_399_000, "23 h 59 min"),
        (86_400_000, "24 h"),
        (172_799_000, "47 h"),
        (187_200_000, "2 d"),
        (999 * 86_400_000, "999 d"),
        (1_107 * 86_400_000, "3 y"),
    ],
)
def test_a_duration_has_two_units_at_most_and_one_from_a_day_on(ms: int, text: str) -> None:
    assert words.duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "< 1 min"), (59_999, "< 1 min"), (61_000, "1 min"), (7_299_000, "2 h 1 min")],
)
def test_a_node_runs_for_whole_minutes(ms: int, text: str) -> None:
    assert words.uptime(ms) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (None, "–"),
        (0, "0/s"),
        (0.01, "< 0.1/s"),
        (2.34, "2.3/s"),
        (9.96, "10/s"),
        (1_204, f"1{THIN}204/s"),
    ],
)
def test_a_rate_has_a_digit_behind_the_point_only_below_ten(
    per_second: float | None, text: str
) -> None:
    assert words.rate(per_second) == text


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 60, "3072.0 PiB"),
    ],
)
def test_a_size_has_the_largest_unit_below_it(bytes_: int, text: str) -> None:
    assert words.size(bytes_) == text


@pytest.mark.parametrize("unix_ms", [1 << 62, (1 << 64) - 1])
def test_a_time_that_no_calendar_has_is_its_number(unix_ms: int) -> None:
    assert words.moment(unix_ms) == f"{unix_ms} ms"


def test_a_moment_has_milliseconds() -> None:
    assert words.moment(1_795_241_607_007) == "2026-11-21 06:13:27.007"


def test_a_name_is_cut_and_shows_bytes_that_are_no_text() -> None:
    assert words.name(b"\xffkey") == "\\xffkey"
    assert words.name(b"k" * 500, 10) == "k" * 10 + "…"
    assert len(words.name(b"\xff" * 10_000)) == 129
