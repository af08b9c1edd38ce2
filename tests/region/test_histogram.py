"""Counts of values between bounds."""

from crdtstream.region.histogram import Histogram


def test_a_value_counts_within_the_first_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram((1, 10, 100))
    for value in (0, 1, 2, 10, 11, 1_000):
        histogram.note(value)
    assert histogram.cumulated() == [2, 4, 5, 6]
    assert (histogram.count, histogram.total) == (6, 1_024)
