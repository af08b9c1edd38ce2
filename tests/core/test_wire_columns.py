"""Columns of numbers survive as bytes, and take as few as what their numbers do not share."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.wire.columns import ColumnsError, ColumnsReader, write_columns

U32, U64 = (1 << 32) - 1, (1 << 64) - 1


@st.composite
def columns(draw: st.DrawFn) -> "array[int]":
    """Numbers that may share their high bytes, their low ones, all or none."""
    typecode, most = draw(st.sampled_from([("I", U32), ("Q", U64)]))
    base = draw(st.integers(0, most))
    step = draw(st.sampled_from([0, 1, 255, 256, 1 << 16, most]))
    numbers = draw(
        st.lists(st.integers(0, step).map(lambda n: (base + n) & most), min_size=1, max_size=40)
    )
    return array(typecode, numbers)


@given(st.lists(columns(), min_size=1, max_size=4))
def test_columns_survive(written: "list[array[int]]") -> None:
    reader = ColumnsReader(write_columns(written))
    assert [reader.take(column.typecode, len(column)) for column in written] == written
    reader.check_end()


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ([0], 1),
        ([7], 2),
        ([1_790_000_000_000], 1 + 6),
        ([0] * 100, 1),
        ([7] * 100, 2),
        ([7 << 8] * 100, 3),
        (range(100), 2 + 100),
        (range(1_790_000_000_000, 1_790_000_000_100), 2 + 5 + 100),
        (range(3, 100 << 8, 1 << 8), 2 + 1 + 100),
        ([0, U64], 2 + 16),
    ],
)
def test_only_what_differs_is_written_for_each(numbers: list[int], size: int) -> None:
    assert len(write_columns([array("Q", numbers)])) == size


def test_the_example_of_the_module() -> None:
    written = write_columns([array("Q", [0x1A0701, 0x1AFF01, 0x1A1001])])
    assert written == bytes.fromhex("12 02 011a 07ff10")


@pytest.mark.parametrize("typecode", ["I", "Q"])
@pytest.mark.parametrize("head", ["20", "ff 01", "10 00", "0f", "09", "18 01", "17 03", "30 01"])
def test_a_head_that_cannot_be_is_refused(typecode: str, head: str) -> None:
    reader = ColumnsReader(bytes.fromhex(head) + bytes(64))
    with pytest.raises(ColumnsError, match="no head of numbers"):
        reader.take(typecode, 3)


@pytest.mark.parametrize("head", ["05", "14 01", "13 03", "10 10"])
def test_numbers_too_large_for_their_column_are_refused(head: str) -> None:
    reader = ColumnsReader(bytes.fromhex(head) + bytes(64))
    with pytest.raises(ColumnsError, match="no head of numbers of 4 bytes"):
        reader.take("I", 3)
    ColumnsReader(bytes.fromhex(head) + bytes(64)).take("Q", 3)


@given(columns(), st.data())
def test_columns_cut_short_are_refused(column: "array[int]", data: st.DataObject) -> None:
    written = write_columns([column])
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(ColumnsError, match="end too early"):
        ColumnsReader(written[:cut]).take(column.typecode, len(column))


def test_bytes_that_are_left_over_are_refused() -> None:
    reader = ColumnsReader(write_columns([array("Q", [1, 2])]) + b"..")
    reader.take("Q", 2)
    with pytest.raises(ColumnsError, match="2 bytes too many"):
        reader.check_end()
