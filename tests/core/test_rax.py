"""The radix tree equals a sorted dict, and counts its nodes as Redis does."""

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.lanes.rax import Rax

# Few distinct bytes in few places: keys that share prefixes of every length.
KEYS = st.lists(st.sampled_from([0, 1, 255]), min_size=3, max_size=3).map(
    lambda few: bytes([few[0]]) + bytes(6) + bytes([few[1]]) + bytes(7) + bytes([few[2]])
) | st.binary(min_size=16, max_size=16)
STEPS = st.lists(st.tuples(st.sampled_from(["insert", "remove", "floor"]), KEYS), max_size=60)


@given(STEPS)
def test_rax_equals_a_sorted_dict(steps: list[tuple[str, bytes]]) -> None:
    rax: Rax[bytes] = Rax()
    model: dict[bytes, bytes] = {}
    for step, key in steps:
        if step == "insert":
            rax.insert(key, key)
            model[key] = key
        elif step == "remove" and model:
            key = sorted(model)[bisect_right(sorted(model), key) - 1]
            rax.remove(key)
            del model[key]
        below = [known for known in model if known <= key]
        assert rax.floor(key) == max(below, default=None)
        assert list(rax) == sorted(model.items())
        assert len(rax) == len(model)
        assert rax.node_count == count_nodes(sorted(model))


def count_nodes(keys: list[bytes], *, at_branch: bool = False) -> int:
    """Redis's count from the keys alone: a node per branch and leaf, one per compressed run."""
    if not keys:
        return 1
    first, last = keys[0], keys[-1]
    common = next((i for i in range(len(first)) if first[i] != last[i]), len(first))
    nodes = 1 + (common > at_branch)
    if common == len(first):
        return nodes
    heads = {key[common] for key in keys}
    return nodes + sum(
        count_nodes([key[common:] for key in keys if key[common] == head], at_branch=True)
        for head in heads
    )


def test_removing_an_unknown_key_is_a_programming_error() -> None:
    rax: Rax[int] = Rax()
    rax.insert(bytes(16), 1)
    with pytest.raises(AssertionError):
        rax.remove(bytes(15) + b"\1")
