"""Effects and local changes of every kind leave what the next checkpoint has.

    a history with the kind in it ──> a checkpoint ──> a region that begins with it alone
                │                                              │
                └── the region that goes on ── same commands ──┴──> same replies, same records

A state that an image leaves out need not be in the digest, and need not be missed at once: a
tombstone, say, decides about a create that comes later.  So after the facts, what comes next is
compared as well.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from crdtstream.core.effects import (
    Ack,
    Append,
    Claim,
    CreateConsumer,
    DeleteConsumer,
    Deliver,
    Effect,
    LocalChange,
    Redeliver,
    Release,
    SetPosition,
)
from crdtstream.core.wire.codec import decode_batch
from crdtstream.core.wire.local_codec import decode_local
from tests.conftest import examples
from tests.core.test_every_kind import CHANGES, EFFECTS, FATES, GROUP, READ, facts
from tests.harness.members import decide
from tests.harness.regions import Node
from tests.membership.world import founded, renamed
from tests.rules.test_convergence import append_rows, durable

# The facts are read from the slots of classes, and compiled ones have none.
pytestmark = pytest.mark.pure


class Making(NamedTuple):
    """Lines that make a kind of effect or local change, the last one at their end.

    Attributes:
        before: lines that are run first.
    """

    before: tuple[str, ...]
    line: str


EXPIRES, RENAMES, HEARS = "expire", "rename", "hear"
OF_EFFECTS: Mapping[type[Effect], Making] = {
    kind: Making(fate.before, fate.line) for kind, fate in FATES.items()
}
OF_CHANGES: Mapping[type[LocalChange], Making] = {
    Deliver: Making(GROUP, "XREADGROUP GROUP g c STREAMS x >"),
    Redeliver: Making(READ, "XREADGROUP GROUP g c STREAMS x 0"),
    Ack: Making(READ, "XACK x g 2-1"),
    Claim: Making(READ, "XCLAIM x g d 0 1-1"),
    Release: Making(READ, "XNACK x g FAIL IDS 1 1-1"),
    CreateConsumer: Making(GROUP, "XGROUP CREATECONSUMER x g e"),
    DeleteConsumer: Making(READ, "XGROUP DELCONSUMER x g c"),
    SetPosition: Making(READ, "XGROUP SETID x g 0"),
}
MAKINGS: Mapping[type, Making] = {**OF_EFFECTS, **OF_CHANGES}
KINDS: tuple[type, ...] = (Append, *EFFECTS, *CHANGES)

# Each meets something that one of the kinds has left.
LINES = (
    *("XADD x IDMP p a * f v", "XADD x * f w", "XADD y 5-1 f v", "XDEL x 2-1", "XTRIM x MAXLEN 1"),
    *("XSETID x 12-1", "DEL x", "EXPIRE x 100", "PEXPIRE x 10", "PERSIST x"),
    *("XCFGSET x IDMP-DURATION 9", "XCFGSET x IDMP-MAXSIZE 3"),
    *("XGROUP CREATE x g 0", "XGROUP CREATE x h $", "XGROUP DESTROY x g", "XGROUP SETID x g 0"),
    *("XREADGROUP GROUP g c STREAMS x >", "XREADGROUP GROUP g c STREAMS x 0", "XACK x g 1-1"),
    *("XAUTOCLAIM x g d 0 0", "XNACK x g FAIL IDS 1 2-1", "XGROUP DELCONSUMER x g c"),
    *("CRDT.XGROUP SETMODE x g HOME 1", "CRDT.XGROUP SETMODE x g HOME 2"),
    *(
        "SET x a PX 900",
        "SET x b",
        "SETNX x d",
        "GETDEL x",
        "rows 0 0 3",
        "rows 0 1 4",
        "rows 2 0 1",
    ),
    *(EXPIRES, HEARS),
)
SHOWING = (
    *(
        "KEYS *",
        "XRANGE x - +",
        "XINFO STREAM x FULL",
        "XPENDING x g - + 10",
        "XPENDING x h - + 10",
    ),
    *("CRDT.XGROUP MODE x g", "PTTL x", "GET x", "XLEN y", "CRDT.TOKEN"),
)
# Shrinking would take minutes for each kind, and the histories are short.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
# The region, or a peer of it, and what it does.
STEPS = st.lists(st.tuples(st.sampled_from([1, 1, 2]), st.sampled_from(LINES)), max_size=8)
PROBES = st.lists(st.tuples(st.sampled_from([1, 1, 1, 2]), st.sampled_from(LINES)), max_size=16)


def run(node: Node, line: str, others: Sequence[Node]) -> object:
    """Run a line; returns what a client sees."""
    node.now += 1
    if line == EXPIRES:
        node.now += 1000
        node.expire()
    elif line == HEARS:
        node.pull(*others)
    elif line == RENAMES:
        decide(node, renamed(1, "eu"))
    elif line.startswith("rows "):
        append_rows(node, *map(int, line.split()[1:]))
        node.end_tick()
    else:
        return durable(node.run(line))
    return None


def kinds_in(node: Node) -> set[type]:
    """Kinds that the region has issued, and noted."""
    found: set[type] = set()
    for record in node.log:
        if record.batch is not None and record.origin == node.region:
            batch = decode_batch(record.batch)
            found |= {Append} if batch.appends.ms else set()
            found |= {type(effect) for _, effect in batch.others}
        if record.local is not None:
            found |= {type(change) for _, change in decode_local(record.local).changes}
    return found


def checkpointed(node: Node) -> None:
    node.cut()
    node.checkpoints.finish(node.replica)


def restored(node: Node) -> Node:
    """A region that begins with the newest checkpoint; the log behind it is empty."""
    again = Node(node.region, node.mode, node.now, node.others, node.members)
    again.checkpoints = node.checkpoints
    again.log = list(node.log)
    assert again.checkpoints.records == len(again.log)
    again.restart()
    return again


def shown(node: Node) -> list[object]:
    return [run(node, line, ()) for line in SHOWING]


def test_every_kind_has_a_history() -> None:
    """A kind that is added is checkpointed and restored here, or this fails."""
    assert set(MAKINGS) == set(KINDS)
    for kind, making in MAKINGS.items():
        node = Node(1, others=[2], members=founded(2))
        for line in (*making.before, making.line):
            run(node, line, ())
        assert kind in kinds_in(node), f"{making.line!r} makes no {kind.__name__}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=examples(40), deadline=None, phases=PHASES)
@given(was_checkpointed=st.booleans(), early=STEPS, late=STEPS, probes=PROBES)
def test_each_kind_is_in_the_next_checkpoint(
    kind: type,
    was_checkpointed: bool,
    early: list[tuple[int, str]],
    late: list[tuple[int, str]],
    probes: list[tuple[int, str]],
) -> None:
    node, peer = (Node(one, others=[3 - one], members=founded(2)) for one in (1, 2))
    for at, line in early:
        # The region's own are of another key: the kind is to be made whatever came before.
        if at == 2:
            run(peer, line, ())
        elif " x" in line:
            run(node, line.replace(" x", " z"), ())
    making = MAKINGS[kind]
    for line in making.before:
        run(node, line, [peer])
    if was_checkpointed:
        checkpointed(node)
    run(node, making.line, [peer])
    assert kind in kinds_in(node)
    for at, line in late:
        run(*((node, line, [peer]) if at == 1 else (peer, line, [node])))

    checkpointed(node)
    again = restored(node)
    assert again.digest == node.digest
    assert facts(again.replica) == facts(node.replica)

    logged = len(node.log)
    for at, line in probes:
        if at == 2:
            run(peer, line, [node])
        else:
            assert run(again, line, [peer]) == run(node, line, [peer]), line
        assert again.log[logged:] == node.log[logged:], line
    assert shown(again) == shown(node)
    assert again.digest == node.digest
    assert facts(again.replica) == facts(node.replica)
