"""Lines over time are where their values are."""

import re
from itertools import pairwise

import pytest

from crdtstream.page.markup import Markup
from crdtstream.page.plots import (
    MARK_CHAR_WIDTH,
    MARK_GAP,
    MarkStyle,
    Moments,
    PlotMark,
    Series,
    line_plot,
    round_step,
    short,
    since_text,
    strip,
    time_text,
)

START_MS = 1_700_000_040_000


def lines_of(plot: Markup) -> list[list[tuple[float, float]]]:
    paths = re.findall(r'<path d="([^"]+)" class="line', plot)
    return [[point(text) for text in re.split("[ML ]+", path) if text] for path in paths]


def point(text: str) -> tuple[float, float]:
    x, y = map(float, text.split(","))
    return x, y


def test_a_line_is_where_its_values_are() -> None:
    plot = line_plot("t", [0, 50, 100], [Series("a", [0.0, 10.0, 5.0])], unit="")

    ((first, second, third),) = lines_of(plot)
    assert first[0] < second[0] < third[0]
    assert second[0] - first[0] == pytest.approx(third[0] - second[0])
    # Upwards is less.
    assert second[1] < third[1] < first[1]
    assert first[1] - third[1] == pytest.approx(third[1] - second[1], abs=0.11)


def test_a_line_is_interrupted_where_there_is_no_value() -> None:
    series = Series("a", [1.0, 2.0, None, 3.0, None, 4.0, 5.0])

    plot = line_plot("t", list(range(7)), [series], unit="")

    (path,) = re.findall(r'<path d="([^"]+)" class="line', plot)
    assert path.count("M") == 2
    assert plot.count("<circle") == 1


@pytest.mark.parametrize("values", [[0.0], [-5.0, -5.0], [1e-9, 2e-9], [1e300, 0.0], [-1e12, 1e12]])
def test_any_values_can_be_drawn(values: list[float]) -> None:
    plot = line_plot("t", list(range(len(values))), [Series("a", values)], unit="ms")

    coordinates = [float(number) for number in re.findall(r'\b[xy][12]?="([^"]+)"', plot)]
    assert all(0 <= number <= 720 for number in coordinates)


@pytest.mark.parametrize(
    ("rough", "step"), [(0.9, 1), (1, 1), (1.1, 2), (2.1, 5), (7, 10), (0.03, 0.05), (1234, 2000)]
)
def test_steps_are_round(rough: float, step: float) -> None:
    assert round_step(rough) == pytest.approx(step)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (0.001, "1.0e-03"),
        (7, "7"),
        (1234, "1,234"),
        (12_345, "12.3k"),
        (1_234_000, "1.23M"),
        (-5e9, "-5G"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("step_ms", "text"),
    [
        (86_400_000, "2023-11-14"),
        (3_600_000, "11-14 22:14"),
        (60_000, "22:14"),
        (1_000, "22:14:00"),
        (1, "22:14:00.000"),
    ],
)
def test_times_are_as_exact_as_needed(step_ms: float, text: str) -> None:
    assert time_text(START_MS, step_ms) == text


# --- Moments --------------------------------------------------------------------------------------


def mark(at_ms: float, number: int = 1, words: str = "region 1: kill -9") -> PlotMark:
    return PlotMark(at_ms, number, words, MarkStyle.BAD)


def plot_with(marks: list[PlotMark], spans: list[tuple[float, float]] | None = None) -> Markup:
    times = [0.0, 50.0, 100.0]
    moments = Moments(marks, spans or [])
    return line_plot("t", times, [Series("a", [0.0, 10.0, 5.0])], unit="", moments=moments)


def test_a_mark_is_where_its_time_is() -> None:
    plot = plot_with([mark(50.0)])

    ((_, (x, _), _),) = lines_of(plot)
    (line,) = re.findall(r'<line x1="([^"]+)" x2="([^"]+)"[^>]*class="mark bad"', plot)
    assert line == (f"{x:g}", f"{x:g}")
    assert ">1</tspan>" in plot
    assert "region 1: kill -9</tspan>" in plot


def test_a_span_is_shaded_from_its_begin_to_its_end() -> None:
    plot = plot_with([], [(0.0, 50.0), (50.0, 50.0)])

    ((first, second, _),) = lines_of(plot)
    found = re.findall(r'<rect x="([^"]+)"[^>]*width="([^"]+)"[^>]*class="span"', plot)
    (begin, width), (at, least) = [tuple(map(float, pair)) for pair in found]
    assert (begin, begin + width) == (first[0], second[0])
    assert at == second[0]
    assert least > 0, "a short one is seen, too"


def test_marks_and_values_outside_of_the_plot_are_at_its_edge() -> None:
    plot = plot_with([mark(-10.0), mark(10_000.0, 2)], [(-5.0, 1e9)])

    coordinates = [float(number) for number in re.findall(r'\b[xy][12]?="([^"]+)"', plot)]
    assert all(0 <= number <= 720 for number in coordinates)


def test_numbers_of_marks_never_overlap_and_words_are_cut_to_their_room() -> None:
    plot = plot_with([mark(at, at, "x" * 300) for at in range(0, 100, 2)])

    xs = [
        float(x) for x in re.findall(r'<text x="([^"]+)"[^>]*class="label mark-number bad"', plot)
    ]
    assert 2 < len(xs) < 50
    assert all(after - before >= MARK_GAP for before, after in pairwise(xs))
    assert plot.count('class="mark bad"') == 50, "each has its line"
    words = re.findall(r'class="words"> ([^<]+)<', plot)
    for x, text in zip(xs, words, strict=False):
        assert x + len(text) * MARK_CHAR_WIDTH <= 720


def test_series_may_have_times_of_their_own() -> None:
    series = [Series("a", [1.0, 1.0, 1.0]), Series("b", [1.0, 1.0], times_ms=[50.0, 100.0])]
    whole, half = lines_of(line_plot("t", [0.0, 50.0, 100.0], series, unit=""))
    assert half == whole[1:]


def test_a_strip_shows_only_what_is_marked() -> None:
    drawn = strip("t", 0, 60_000, Moments([mark(20_000.0)], [(20_000.0, 35_000.0)]), since_text)
    assert lines_of(drawn) == []
    assert drawn.count('class="mark bad"') == drawn.count('class="span"') == 1
    assert ">15 s</text>" in drawn


@pytest.mark.parametrize(
    ("time_ms", "step_ms", "text"),
    [
        (1_500, 500, "1.5 s"),
        (20_000, 10_000, "20 s"),
        (90_000, 30_000, "90 s"),
        (180_000, 60_000, "3 min"),
    ],
)
def test_times_since_the_first_one_are_short(time_ms: float, step_ms: float, text: str) -> None:
    assert since_text(time_ms, step_ms) == text
