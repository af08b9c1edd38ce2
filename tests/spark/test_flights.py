"""The pipeline on real input: flights of a year, three producers, a cut, Spark at the end."""

from crdtstream.demo import flights
from crdtstream.demo.flights import Delays, Flights


def test_whole_year_is_loaded() -> None:
    year = flights.load()
    assert year.count == 336_776
    assert {region: len(rows) for region, rows in year.rows.items()} == {
        1: 120_835,
        2: 111_279,
        3: 104_662,
    }
    key = [year.fields.index(name) for name in flights.KEY]
    assert len({tuple(row[at] for at in key) for row in year.all()}) == year.count

    table = flights.delays(year)
    assert len(table) == 19_486
    assert sum(row.flights for row in table.values()) == year.count
    assert sum(row.departed for row in table.values()) == year.count - 8_255
    # The first hour of the file, at EWR: 515 and 558, two minutes late and four early; as anyone
    # can count there.
    assert table["EWR", "2013-01-01T10:00:00Z"] == Delays(2, 2, -2, -1.0)


def test_subset_is_even() -> None:
    some = flights.load(300)
    assert {region: len(rows) for region, rows in some.rows.items()} == {1: 100, 2: 100, 3: 100}


def test_hour_in_which_nothing_left_has_no_average() -> None:
    fields = ("origin", "time_hour", "dep_delay")
    rows = [("EWR", "h1", "NA"), ("EWR", "h1", "NA"), ("EWR", "h2", "-3"), ("EWR", "h2", "NA")]
    assert flights.delays(Flights(fields, {1: rows})) == {
        ("EWR", "h1"): Delays(2, 0, None, None),
        ("EWR", "h2"): Delays(2, 1, -3, -3.0),
    }


def test_every_row_that_differs_is_told() -> None:
    late = Delays(1, 1, 5, 5.0)
    expected = {("EWR", "h1"): late, ("EWR", "h2"): late}
    assert flights.differing(expected, expected) == []
    found = {("EWR", "h1"): late._replace(flights=2), ("JFK", "h1"): late}
    told = flights.differing(found, expected)
    assert [line.split(":")[0] for line in told] == ["EWR h1", "EWR h2", "JFK h1"]
