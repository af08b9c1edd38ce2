"""Percentiles, spreads, ratios and turns."""

import pytest

from benchmarks.measured import Outcome, Sample, in_turns, latencies, percentile, rounded
from benchmarks.parts.large import TIMES, with_times


def outcome(*samples: Sample, reference: str = "Redis") -> Outcome:
    return Outcome("xadd", "XADDs.", reference, "2 cores", 0.5, "abc", samples, {})


def sample(system: str, at: int, rate: float, case: str = "-P 1") -> Sample:
    return Sample(case, system, at, {"rate_per_s": rate})


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (1, 0.5, 1),
        (1, 0.999, 1),
        (2, 0.5, 1),
        (3, 0.5, 2),
        (100, 0.99, 99),
        (100, 0.999, 100),
        (100, 1, 100),
        (1_000, 0.999, 999),
        (1_001, 0.999, 1_000),
    ],
)
def test_percentile_is_the_smallest_value_that_the_share_does_not_exceed(
    count: int, share: float, expected: int
) -> None:
    assert percentile(range(1, count + 1), share) == expected


def test_times_are_put_in_order_first() -> None:
    found = latencies([3.0, 1.0, 2.0])
    assert found == {"p50_ms": 2.0, "p99_ms": 3.0, "p999_ms": 3.0, "max_ms": 3.0}


def test_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # The second round was ten times slower for both; a ratio of medians would say 0.45.
    found = outcome(
        sample("Redis", 0, 100),
        sample("Redis", 1, 10),
        sample("Redis", 2, 120),
        sample("ours", 0, 40),
        sample("ours", 1, 5),
        sample("ours", 2, 60),
    )
    assert found.ratio("-P 1", "ours", "rate_per_s") == 0.5
    spread = found.spread("-P 1", "ours", "rate_per_s")
    assert spread is not None
    assert (spread.low, spread.median, spread.high) == (5, 40, 60)


def test_a_command_is_compared_with_the_reference_in_its_round() -> None:
    samples = [
        Sample(case, system, at, {"cpu_ms": cpu_ms})
        for case, system, at, cpu_ms in (
            ("DEL", "Redis", 0, 2.0),
            ("DEL", "Redis", 1, 4.0),
            ("DEL", "crdtstream", 0, 10.0),
            ("DEL", "crdtstream", 1, 10.0),
            ("DEL", "other", 0, 1.0),
        )
    ]
    times = {(one.system, one.round): one.figures.get(TIMES) for one in with_times(samples)}
    assert times == {
        ("Redis", 0): None,
        ("Redis", 1): None,
        ("crdtstream", 0): 5.0,
        ("crdtstream", 1): 2.5,
        ("other", 0): 0.5,
    }


def test_ratio_wants_both_in_the_same_round() -> None:
    found = outcome(sample("Redis", 0, 100), sample("ours", 1, 40), sample("ours", 0, 0))
    assert found.ratio("-P 1", "ours", "rate_per_s") == 0
    assert found.ratio("-P 1", "ours", "cpu_us") is None
    assert outcome(sample("ours", 0, 40)).ratio("-P 1", "ours", "rate_per_s") is None
    assert found.spread("-P 16", "ours", "rate_per_s") is None


def test_turns_change_places_and_are_told_in_the_order_of_the_part() -> None:
    order: list[str] = []

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        return {"rate_per_s": len(order)}

    found = in_turns(3, [("a", "Redis", lambda: measure("R")), ("a", "ours", lambda: measure("o"))])
    assert order == ["R", "o", "o", "R", "R", "o"]
    assert [(one.system, one.round) for one in found] == [
        *(("Redis", at) for at in range(3)),
        *(("ours", at) for at in range(3)),
    ]


def test_outcome_is_the_same_after_json() -> None:
    before = outcome(sample("Redis", 0, 100), sample("ours", 0, 40))
    again = Outcome.from_json(before.to_json())
    assert again.to_json() == before.to_json()
    assert again.ratio("-P 1", "ours", "rate_per_s") == 0.4


def test_figures_are_kept_with_four_digits() -> None:
    assert rounded(123_456) == 123_500
    assert rounded(0.000123456) == 0.0001235
