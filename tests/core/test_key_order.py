"""The order of keys is a sorted list of them, whichever buckets it has."""

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


# Checksums that differ; five that many keys share.
@pytest.fixture(autouse=True, scope="module", params=[1 << 32, 5])
def small_buckets(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_order.BUCKET_KEYS, "value", 2)
        patched.setattr(key_order, "crc32", lambda key: crc32(key) % request.param)
        yield


def order_of(keys: set[bytes]) -> KeyOrder:
    order = KeyOrder()
    for key in keys:
        order.add(key)
    return order


def in_order(keys: set[bytes]) -> list[bytes]:
    return sorted(keys, key=lambda key: (vars(key_order)["crc32"](key), key))


def all_of(order: KeyOrder, count: int, without: Set[bytes] = frozenset()) -> list[bytes]:
    """All keys, by as many scans as it takes."""
    keys: list[bytes] = []
    cursor = 0
    for _ in range(len(order) + 1):
        cursor, found = order.scan(cursor, count, without=without)
        keys += found
        if not cursor:
            return keys
    raise AssertionError("it has no end")


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


@given(st.sets(KEYS))
def test_buckets_are_few_again_when_keys_are_gone(keys: set[bytes]) -> None:
    order = order_of(keys)
    assert sorted(order) == sorted(keys)
    assert len(order._buckets) >= len(keys) // 2
    for key in keys:
        order.remove(key)
    assert order._buckets == [set()]
    assert (order._bits, order._parted) == (0, 0)


@given(st.sets(KEYS), st.sets(KEYS))
def test_one_that_is_not_left_out_is_drawn(keys: set[bytes], without: set[bytes]) -> None:
    order = order_of(keys)
    drawn = {order.draw(without=without) for _ in range(400)}
    expected: set[bytes | None] = {*(keys - without)} or {None}
    assert drawn == expected
