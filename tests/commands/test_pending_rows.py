"""Rows of pending entries that are made together are those that are made one by one."""

import random
from functools import partial

import pytest

from crdtstream.commands.pending_rows import bulk, rows
from crdtstream.commands.reply import CommandError
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Alike
from crdtstream.core.ids import (
    ID_MAX,
    ID_MIN,
    IdMode,
    Millis,
    RegionId,
    StreamId,
    format_id,
    make_id,
)
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database, Waiting
from crdtstream.resp.wire.encode import encode
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of

SEEDS = range(20)


class Pending:
    """A group whose entries are pending with several consumers, and some with nobody."""

    def __init__(self, draw: random.Random) -> None:
        self.now = Millis(1_700_000_000_000)
        self.replica = Replica(RegionId(1), id_mode=IdMode.SEMI_STRICT)
        self.database = Database(self.replica)
        self.session = self.database.open_session()
        self.ids: list[StreamId] = []
        self.call("XGROUP CREATE s g 0 MKSTREAM")
        wide = draw.random() < 0.3
        for _ in range(draw.choice((5, 300, 2_500))):
            # IDs of several lengths; those with a high sequence have no key of 64 bits.
            seq = draw.choice((0, 1, 1025, 99_999)) + (1 << 40 if wide else 0)
            self.ids.append(make_id(self.now, seq))
            self.call(f"XADD s {self.now}-{seq} f v")
            self.now = Millis(self.now + draw.choice((1, 7)))
        left = len(self.ids)
        while left > 0:
            count = draw.choice((1, 3, 40, 900))
            consumer = draw.choice("abc")
            self.call(f"XREADGROUP GROUP g {consumer} COUNT {count} STREAMS s >")
            self.now = Millis(self.now + draw.choice((0, 5)))
            left -= count
        for entry_id in draw.sample(self.ids, len(self.ids) // 10):
            text = f"{entry_id >> 64}-{entry_id % (1 << 64)}"
            command = draw.choice(("XACK s g", "XNACK s g FAIL IDS 1", "XCLAIM s g d 0"))
            self.call(f"{command} {text}")

    def call(self, line: str) -> None:
        reply = self.database.call(self.session, self.now, line.encode().split())
        assert not isinstance(reply, Waiting)
        assert not isinstance(reply, CommandError), reply

    def shown(self, line: str) -> bytes:
        reply = self.database.call(self.session, self.now, line.encode().split())
        assert not isinstance(reply, Waiting)
        chunks: list[bytes] = []
        encode(reply, 2, chunks)
        return b"".join(chunks)

    @property
    def group(self) -> Group:
        stream = self.replica.stream(b"s")
        assert stream is not None
        return stream.groups[b"g"]


def facts(now: int, min_idle: int, alike: Alike) -> tuple[int, bytes] | None:
    if now - alike.delivered_ms < min_idle:
        return None
    name = b"" if alike.consumer is None else alike.consumer.name
    return 3, bulk(name) + b":%d\r\n:%d\r\n" % (alike.delivered_ms, alike.delivery_count)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_are_made_together_are_those_of_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    pending = Pending(draw)
    group = pending.group
    for _ in range(20):
        start = draw.choice((ID_MIN, draw.choice(pending.ids)))
        end = draw.choice(
            (ID_MAX, draw.choice(pending.ids), StreamId(draw.choice(pending.ids) + 1))
        )
        count = draw.choice((None, 1, 20, 1_000, 10_000))
        told = partial(facts, pending.now, draw.choice((0, 100, 1_000)))
        consumer = draw.choice([*group.consumers.values(), None])
        if consumer is None:
            spans, merged = group.pending_spans(start), partial(group.pending_from, start)
        else:
            spans, merged = consumer.spans(start), partial(consumer.nacks, start)
        assert spans is not None
        together = rows(spans, merged, told, end=end, count=count)
        assert together == rows(None, merged, told, end=end, count=count)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_are_claimed_as_one_by_one(seed: int) -> None:
    """Replies, owners, times and counts; also of what is gone, is not idle, or never was there."""
    together, alone = Pending(random.Random(seed)), Pending(random.Random(seed))
    draw = random.Random(seed)
    gone = draw.sample(together.ids, len(together.ids) // 20)
    for _ in range(3):
        named = draw.sample(together.ids, min(len(together.ids), draw.choice((3, 60, 800))))
        named += [StreamId(entry_id + 5) for entry_id in named[:2]]
        if draw.random() < 0.4:
            named.sort()
        options = draw.choice(("", " JUSTID", " IDLE 7", " RETRYCOUNT 4 JUSTID", " TIME 50"))
        claim = f"XCLAIM s g {draw.choice('abe')} {draw.choice((0, 30, 2_000))} "
        for pending in (together, alone):
            for entry_id in gone:
                pending.call(f"XDEL s {text(entry_id)}")
            pending.now = Millis(pending.now + 20)
        shown = together.shown(claim + " ".join(map(text, named)) + options)
        one_by_one = [alone.shown(claim + text(entry_id) + options) for entry_id in named]
        assert shown.partition(b"\r\n")[2] == b"".join(
            reply.partition(b"\r\n")[2] for reply in one_by_one
        )
        everything = "XPENDING s g - + 10000"
        assert together.shown(everything) == alone.shown(everything)


def text(entry_id: StreamId) -> str:
    return format_id(entry_id).decode()


def test_rows_of_several_lanes_are_merged_by_id() -> None:
    r1, r2 = Node(1), Node(2)
    for ms in range(100, 140, 2):
        r1.run(f"XADD s {ms} f v")
        r2.run(f"XADD s {ms + 1} f v")
    sync(r1, r2)
    r1.run("XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >")
    shown = [f"{ms}-0" for ms in range(100, 140)]
    assert [row[0] for row in list_of(list, r1("XPENDING s g - + 100"))] == shown
    assert [row[0] for row in list_of(list, r1("XPENDING s g - + 100 c"))] == shown
    assert [row[0] for row in list_of(list, r1("XPENDING s g 110 119 5"))] == shown[10:15]
