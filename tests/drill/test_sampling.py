"""Lag and convergence are computed from what each node had when, by our own clock."""

import os

import pytest

from crdtstream.drill.sampling import Sample, Versions, link_series, node_series, usage


def had(region: int, at: float, **vv: int) -> Sample:
    """A region's version vector: r1=5 is region 1's first five effects."""
    return Sample(at, region, {int(name[1:]): n for name, n in vv.items()})


def silent(region: int, at: float) -> Sample:
    return Sample(at, region, None)


def test_lag_is_the_age_of_the_oldest_effect_that_is_lacking() -> None:
    versions = Versions(
        [had(1, 1.0, r1=5), had(2, 1.0, r1=5), had(1, 2.0, r1=6), had(1, 3.0, r1=9)]
    )
    assert versions.lag(2, 1, 2.5) == (500.0, 1)
    assert versions.lag(2, 1, 4.0) == (2000.0, 4)
    # The other direction lacks nothing.
    assert versions.lag(1, 2, 4.0) == (0.0, 0)


def test_lag_grows_while_the_puller_is_silent() -> None:
    samples = [had(1, 1.0, r1=1), had(2, 1.0, r1=0), silent(2, 2.0), silent(2, 3.0)]
    versions = Versions(samples)
    assert [versions.lag(2, 1, at)[0] for at in (1.0, 2.0, 3.0)] == [0.0, 1000.0, 2000.0]


def test_effects_that_arrived_by_another_link_are_no_lag() -> None:
    versions = Versions([had(1, 1.0, r1=5), had(2, 2.0, r1=5), had(2, 1.0, r1=0)][::-1])
    assert versions.lag(2, 1, 1.5)[1] == 5
    assert versions.lag(2, 1, 2.0) == (0.0, 0)


def test_regions_have_caught_up_when_the_last_one_has() -> None:
    versions = Versions(
        [
            had(1, 1.0, r1=5, r2=0),
            had(2, 1.0, r1=1, r2=7),
            had(1, 2.0, r1=5, r2=7),
            had(2, 3.0, r1=5, r2=7),
        ]
    )
    target = versions.everything([1, 2], 1.0)
    assert target == {1: 5, 2: 7}
    assert versions.caught_up([1, 2], target, 1.0) == 3.0


def test_a_region_that_never_answers_again_has_not_caught_up() -> None:
    versions = Versions([had(1, 1.0, r1=5), had(2, 1.0, r1=5), silent(2, 2.0), had(1, 2.0, r1=5)])
    assert versions.caught_up([1, 2], {1: 5}, 1.5) is None


def test_a_link_is_unknown_until_both_ends_have_answered() -> None:
    samples = [had(1, 1.0, r1=1), had(1, 1.2, r1=1), had(2, 1.3, r1=1), had(1, 1.4, r1=1)]
    [series] = link_series(Versions(samples), samples, [(2, 1)], 1.0)
    assert series.lag_ms[0] is None
    assert series.lag_ms[-1] == 0.0


def test_bytes_go_on_over_restarts_and_begin_with_the_drill() -> None:
    def received(at: float, total: int, again: int) -> Sample:
        return Sample(at, 2, {1: 1}, {1: (total, again)})

    samples = [received(1.0, 1000, 10), received(2.0, 1500, 30), received(3.0, 200, 5)]
    [series] = link_series(Versions(samples), samples, [(2, 1)], 1.0)
    # 500 in the first life, 200 in the second; the 1000 were there before.
    assert (series.bytes_received, series.bytes_again) == (700, 25)


def test_processor_time_is_a_share_of_one_core() -> None:
    samples = [
        Sample(1.0, 1, {}, {}, 100, 5.0),
        Sample(2.0, 1, {}, {}, 200, 5.5),
        Sample(3.0, 1, None, {}, None, None),
        Sample(4.0, 1, {}, {}, 50, 0.1),
        Sample(5.0, 1, {}, {}, 50, 0.2),
    ]
    [series] = node_series(samples, [1], 1.0)
    assert series.cpu_percent == [None, 50.0, None, None, pytest.approx(10.0)]
    assert series.rss_bytes == [100, 200, None, 50, 50]


def test_a_process_has_memory_and_one_that_is_gone_has_none() -> None:
    rss, cpu = usage(os.getpid())
    assert rss is not None
    assert rss > 1 << 20
    assert cpu is not None
    assert usage(2**22 + 1) == (None, None)
