"""XADDs in a transaction are runs: its replies and effects are those of its commands one by one."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.reply import CommandError, Replies
from crdtstream.core.effects import EffectBatch
from tests.conftest import examples
from tests.harness.calls import calls_of
from tests.harness.regions import Node

APPENDS = ("XADD s * f a", "XADD s * f b", "XADD s * f a g b", "XADD t * f a", "XADD u * f a")
OTHERS = (
    "XADD s 5000-7 f v",
    "XADD s NOMKSTREAM * f v",
    "XADD t MAXLEN 2 * f v",
    "XADD s 1-1 f v",
    "XLEN s",
    "DEL s",
    "DEL t u",
    "SET u v",
    "XTRIM s MAXLEN 1",
    "PEXPIRE t 1000",
    "XREAD STREAMS s 0",
    "XGROUP CREATE s g $",
)


def in_one(lines: Sequence[str]) -> tuple[object, Node]:
    """The replies of a transaction, and its region."""
    node = Node(1)
    node("MULTI")
    assert all(node(line) == "QUEUED" for line in lines)
    replies = node("EXEC")
    assert isinstance(replies, list)
    return [one.text if isinstance(one, CommandError) else one for one in replies], node


def one_by_one(lines: Sequence[str]) -> tuple[object, Node]:
    node = Node(1)
    return [node(line) for line in lines], node


def check(lines: Sequence[str]) -> list[EffectBatch]:
    replies, node = in_one(lines)
    expected, other = one_by_one(lines)
    assert replies == expected
    batches = node.batches()
    assert batches == other.batches()
    assert node.digest == other.digest
    return batches


LINES = st.one_of(
    st.sampled_from(APPENDS).map(lambda line: [line]),
    st.tuples(st.sampled_from(APPENDS), st.integers(2, 12)).map(lambda one: [one[0]] * one[1]),
    st.lists(st.sampled_from(APPENDS), min_size=2, max_size=9),
    st.sampled_from(OTHERS).map(lambda line: [line]),
)


@settings(max_examples=examples(400))
@given(st.lists(LINES, min_size=1, max_size=8))
def test_a_transaction_is_its_commands_one_by_one(parts: list[list[str]]) -> None:
    check([line for part in parts for line in part])


def test_a_pipeline_of_xadds_in_a_transaction_is_one_run() -> None:
    replies, node = in_one(["XADD s * f v"] * 500)
    assert isinstance(replies, list)
    assert len(replies) == 500
    assert node("XLEN s") == 500


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        # The first one makes the stream.
        (["XADD s * f v"] * 9, 2),
        (["XADD s * f v"] * 9 + ["XLEN s"] + ["XADD s * f v"] * 9, 4),
        (["XADD s * f v", "XADD t * f v"] * 9, 3),
        (["XADD s * f v"] * 5 + ["XADD t * f v"] * 5, 4),
        (["XADD s * f v", "XADD s * f v", "XADD s 9000-1 f v", "XADD s * f v"], 4),
    ],
)
def test_xadds_that_stand_together_are_called_together(lines: list[str], parts: int) -> None:
    check(lines)
    node = Node(1)
    node("MULTI")
    for line in lines:
        node(line)
    reply = node.raw("EXEC")
    found = reply.parts if isinstance(reply, Replies) else reply
    assert isinstance(found, list)
    assert len(found) == parts


@pytest.mark.parametrize("name", ["s", "s:%d"])
def test_an_xadd_of_a_transaction_costs_few_calls(name: str) -> None:
    """1.4 calls each for one stream, 5 for many.  27 when EXEC called each by itself."""
    lines = [f"XADD {name.replace('%d', str(at))} * f v" for at in range(400)]
    node = Node(1)
    node.run(*lines)
    node("MULTI")
    for line in lines:
        node(line)
    assert calls_of(lambda: node.raw("EXEC")) < (6 if "%" in name else 2) * len(lines)
