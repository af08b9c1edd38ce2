"""The order of keys is a sorted list of them, whichever stretches it has."""

from collections.abc import Iterator, Set
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.keyspace import key_order
from crdtstream.core.keyspace.key_order import KeyOrder
from tests.conftest import examples

pytestmark = pytest.mark.pure
KEYS = st.integers(0, 40).map(b"%d".__mod__)


@pytest.fixture(autouse=True, scope="module")
def short_stretches() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_order.STRETCH_KEYS_MAX, "value", 4)
        yield


def order_of(keys: set[bytes]) -> KeyOrder:
    order = KeyOrder()
    for key in keys:
        order.add(key)
    return order


def in_order(keys: set[bytes]) -> list[bytes]:
    return sorted(keys, key=lambda key: (crc32(key), key))


def all_of(order: KeyOrder, count: int, without: Set[bytes] = frozenset()) -> list[bytes]:
    """All keys, by as many scans as it takes."""
    keys: list[bytes] = []
    cursor = -1
    while cursor:
        cursor, found = order.scan(max(cursor, 0), count, without=without)
        keys += found
    return keys


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(KEYS, max_size=60), st.integers(1, 9), st.sets(KEYS, max_size=5))
def test_keys_are_added_removed_and_scanned(
    toggled: list[bytes], count: int, without: set[bytes]
) -> None:
    order, model = KeyOrder(), set[bytes]()
    for key in toggled:
        if key in model:
            order.remove(key)
        else:
            order.add(key)
        model ^= {key}
        assert len(order) == len(model)
        assert all_of(order, count) == in_order(model)
    assert all_of(order, count, without) == in_order(model - without)


@pytest.mark.parametrize("pass_part", [0, 100])
@given(keys=st.sets(KEYS), toggled=st.lists(KEYS, max_size=60))
def test_keys_removed_together_are_gone_at_the_end(
    pass_part: int, keys: set[bytes], toggled: list[bytes]
) -> None:
    """One by one, or by a pass over all keys; one may be added again meanwhile."""
    order = order_of(keys)
    with pytest.MonkeyPatch.context() as patched, order.removing_many():
        patched.setattr(key_order.PASS_PART, "value", pass_part)
        for key in toggled:
            with order.removing_many():
                order.remove(key) if key in keys else order.add(key)
            keys = keys ^ {key}
            assert len(order) == len(keys)
    assert all_of(order, 3) == in_order(keys)


@given(st.sets(KEYS), st.sets(KEYS))
def test_others_are_taken_in(keys: set[bytes], others: set[bytes]) -> None:
    order = order_of(keys)
    order.take_in(order_of(others - keys))
    assert len(order) == len(keys | others)
    assert all_of(order, 3) == in_order(keys | others)


@given(st.sets(KEYS), st.sets(KEYS))
def test_one_that_is_not_left_out_is_drawn(keys: set[bytes], without: set[bytes]) -> None:
    order = order_of(keys)
    drawn = {order.draw(without=without) for _ in range(400)}
    expected: set[bytes | None] = {*(keys - without)} or {None}
    assert drawn == expected
