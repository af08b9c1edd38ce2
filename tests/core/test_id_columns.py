"""IDs in columns are what a list of the same IDs is."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.id_columns import IdColumns
from crdtstream.core.ids import ID_MAX, StreamId, id_ms, make_id

IDS = st.lists(
    st.builds(make_id, st.sampled_from([0, 7, 1 << 40, (1 << 64) - 1]), st.integers(0, 3)),
    max_size=8,
)
BOUND = st.integers(-9, 9)


@given(ids=IDS, others=IDS, start=BOUND, stop=BOUND)
def test_columns_are_as_a_list_of_their_ids(
    ids: list[int], others: list[int], start: int, stop: int
) -> None:
    columns = IdColumns.of(ids)  # type: ignore[arg-type]
    assert len(columns) == len(ids)
    assert list(columns) == ids
    assert [columns[at] for at in range(-len(ids), len(ids))] == ids * 2
    assert columns[start:stop] == ids[start:stop]
    assert (columns == tuple(others)) is (ids == others)
    assert (columns == IdColumns.of(others)) is (ids == others)  # type: ignore[arg-type]
    assert columns.ascend() is (ids == sorted(set(ids)))


@given(st.lists(st.builds(make_id, st.sampled_from([7, 8]), st.integers(0, 3)), max_size=8))
def test_within_a_millisecond_sequences_must_rise(ids: list[StreamId]) -> None:
    by_time = sorted(ids, key=id_ms)
    assert IdColumns.of(by_time).ascend() is (by_time == sorted(set(ids)))


@given(
    st.lists(
        st.builds(
            make_id,
            st.integers(5, 9) | st.sampled_from([0, 1 << 31, 1 << 33, (1 << 64) - 1]),
            st.integers(0, 3) | st.sampled_from([(1 << 32) - 1, 1 << 32, (1 << 64) - 1]),
        ),
        min_size=1,
    )
)
def test_ids_in_any_order_are_brought_into_theirs(ids: list[StreamId]) -> None:
    columns = IdColumns.of(ids).ascending()
    assert list(columns) == sorted(set(ids))
    for entry_id in ids:
        for near in (entry_id, StreamId(max(0, entry_id - 1)), StreamId(min(ID_MAX, entry_id + 1))):
            assert columns.index_from(near) == bisect_left(list(columns), near)
