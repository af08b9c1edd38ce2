"""A region answers the same with all sizes, and reads what it wrote with other ones."""

import random
from collections.abc import Iterator
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.size import Size
from crdtstream.database.database import Waiting
from crdtstream.resp.wire.encode import encode
from crdtstream.sim.sizes import Manner, all_sizes, drawn
from tests.conftest import examples
from tests.harness.regions import Node

SEED = st.none() | st.integers(0, (1 << 32) - 1)


def worked() -> Node:
    """A region with entries, pending ones, a checkpoint, and a log behind it."""
    node = Node(1)
    node.run(*[f"XADD x {ms} f v{ms}" for ms in range(1, 41)], "XGROUP CREATE x g 0")
    node.run("XREADGROUP GROUP g c COUNT 30 STREAMS x >", "XACK x g 1 2 3 9 12")
    node.run(*[f"XDEL x {ms}" for ms in range(5, 25, 3)])
    node.replica.compaction().go_on(bool)
    node.cut()
    node.checkpoints.finish(node.replica)
    node.run("XADD x 41 f v", "XACK x g 14 15", "XREADGROUP GROUP g d COUNT 4 STREAMS x >")
    return node


def answered(node: Node, line: str) -> bytes:
    """A reply as it leaves."""
    reply = node.raw(line)
    assert not isinstance(reply, Waiting)
    chunks: list[bytes] = []
    encode(reply, 2, chunks)
    return b"".join(chunks)


def facts(node: Node) -> list[bytes]:
    """The digest, and replies."""
    lines = ("XRANGE x - +", "XPENDING x g - + 100", "XLEN x")
    return [node.digest, *(answered(node, line) for line in lines)]


def restarts(writes: int | None, reads: int | None) -> None:
    with drawn(writes, clients=False):
        node = worked()
        before = facts(node)
    with drawn(reads, clients=False):
        node.restart()
        after = facts(node)
        # And it goes on.
        node.run("XACK x g " + " ".join(map(str, range(16, 40))))
        node.run("XADD x 50 f v", "XREADGROUP GROUP g c COUNT 100 STREAMS x >")
    assert after == before


@given(writes=SEED, reads=SEED)
@settings(max_examples=examples(40), deadline=None)
def test_a_region_starts_again_with_other_sizes(writes: int | None, reads: int | None) -> None:
    restarts(writes, reads)


def test_a_chunk_of_four_is_read_where_chunks_have_1024_and_the_other_way_round() -> None:
    entries_max = all_sizes()["core.groups.pel_chunk.ENTRIES_MAX"]
    assert isinstance(entries_max, Size)
    for writes, reads in ((4, 1024), (1024, 4)):
        with drawn(None):
            entries_max.value = writes
            node = worked()
            before = facts(node)
            entries_max.value = reads
            node.restart()
            assert facts(node) == before
            node.run("XACK x g " + " ".join(map(str, range(16, 40))))


def test_a_region_starts_again_with_larger_sizes() -> None:
    with drawn(7, clients=False):
        node = worked()
        before = facts(node)
    with drawn(7, Manner.LARGE, clients=False):
        node.restart()
        assert facts(node) == before


# What a script does; "restart" is none of Redis's.
STEPS = (
    *("XADD", "XREADGROUP", "XACK") * 6,
    *("XDEL", "XCLAIM", "XAUTOCLAIM", "XPENDING", "XRANGE", "XREVRANGE", "XTRIM", "COPY", "DEL"),
    "restart",
)


def script(seed: int, most: int) -> Iterator[list[str]]:
    """Ticks of commands, each of up to so many entries; the same ones whatever is answered."""
    chosen = random.Random(seed)
    last = 0
    yield ["XGROUP CREATE x g 0 MKSTREAM"]
    for _ in range(100):
        count = chosen.choice((1, 7, most // 10 + 1, most))
        first = chosen.randint(max(1, last - 2 * most), last + 1)
        ids = chosen.choice((in_order, in_order, all_but_few, in_any_order))(chosen, first, count)
        words = " ".join(map(str, ids))
        consumer = chosen.choice("ab")
        match chosen.choice(STEPS):
            case "XADD":
                yield [f"XADD x {ms} f{ms % 3} {ms}" for ms in range(last + 1, last + count + 1)]
                last += count
            case "XREADGROUP":
                yield [f"XREADGROUP GROUP g {consumer} COUNT {count} STREAMS x >"]
            case "XACK" | "XDEL" as name:
                yield [f"{name} x {'g ' if name == 'XACK' else ''}{words}"]
            case "XCLAIM":
                yield [f"XCLAIM x g {consumer} 0 {words}{chosen.choice((' JUSTID', ''))}"]
            case "XAUTOCLAIM":
                yield [f"XAUTOCLAIM x g {consumer} 0 {first} COUNT {count}"]
            case "XPENDING":
                yield [f"XPENDING x g {first} + {count}", "XPENDING x g"]
            case "XRANGE":
                yield [f"XRANGE x {first} + COUNT {count}"]
            case "XREVRANGE":
                yield [f"XREVRANGE x + {first} COUNT {count}"]
            case "XTRIM":
                yield [f"XTRIM x MAXLEN {most + count}"]
            case "COPY":
                yield ["COPY x y REPLACE", "XPENDING y g", f"XRANGE y {first} + COUNT 3"]
            case "DEL":
                yield ["DEL y", "EXISTS y"]
            case other:
                yield [other]


def in_order(_: random.Random, first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def all_but_few(chosen: random.Random, first: int, count: int) -> list[int]:
    few = max(1, count // 100)
    return [ms for ms in range(first, first + count) if ms % count >= few or chosen.random() < 0.5]


def in_any_order(chosen: random.Random, first: int, count: int) -> list[int]:
    return chosen.sample(range(first, first + 2 * count), count)


def answers(seed: int, most: int) -> Iterator[tuple[str, bytes]]:
    node = Node(1)
    for tick in script(seed, most):
        node.now += 1
        if tick == ["restart"]:
            node.cut()
            node.checkpoints.finish(node.replica)
            node.restart()
            continue
        for line in tick:
            yield line[:200], answered(node, line)
        node.end_tick()
        node.replica.compaction().go_on(lambda: False)
    yield "the digest", node.digest


def check_answers(seed: int, most: int, manner: Manner) -> None:
    """A script's replies with the default sizes, and with others."""
    before = list(answers(seed, most))
    with drawn(seed, manner, clients=False):
        for at, (one, other) in enumerate(zip_longest(before, answers(seed, most))):
            assert one == other, f"the reply {at} of seed {seed}"


@pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 10_000), marks=pytest.mark.soak)]
)
def test_with_tiny_sizes_the_same_is_answered(seeds: range) -> None:
    for seed in seeds:
        check_answers(seed, 40, Manner.TINY)


@pytest.mark.soak
@pytest.mark.parametrize("manner", Manner)
@pytest.mark.parametrize("seed", range(50))
def test_of_many_entries_the_same_is_answered(seed: int, manner: Manner) -> None:
    check_answers(seed, 5_000, manner)
