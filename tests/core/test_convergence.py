"""Random commands, random delivery: the replica against a few lines that say what it means.

The model knows nothing but the effects that were issued, each with its dot and context, and which
of them a region has applied.  It says from that set alone, without any order of applying, what
must be there.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from crdtstream.core.codec import decode_batch
from crdtstream.core.effects import (
    AckFrontier,
    Append,
    CreateGroup,
    DeleteKey,
    DestroyGroup,
    Effect,
    EffectBatch,
    Remove,
    SetLastId,
    Trim,
)
from crdtstream.core.ids import IdMode, StreamId, make_id

from .regions import Node, sync


class Issued:
    """An effect with its dot, and what its issuer had observed."""

    def __init__(self, batch: EffectBatch, offset: int, effect: Effect) -> None:
        self.origin, self.n = batch.origin, batch.first_n + offset
        self.effect = effect
        self.context = {**batch.context, batch.origin: self.n - 1}

    def observed(self, other: "Issued") -> bool:
        return other.n <= self.context.get(other.origin, 0)


def unfold(batch: EffectBatch) -> Iterator[Issued]:
    others = dict(batch.others)
    append_at = fields_at = 0
    columns = batch.appends
    for offset in range(batch.count):
        if offset in others:
            yield Issued(batch, offset, others[offset])
            continue
        fields = columns.fields[fields_at : fields_at + columns.lengths[append_at]]
        key = columns.keys[columns.key_index[append_at]]
        entry_id = make_id(columns.ms[append_at], columns.seq[append_at])
        yield Issued(batch, offset, Append(key, entry_id, bytes(fields)))
        fields_at += columns.lengths[append_at]
        append_at += 1


def removes(issued: Issued, entry: Issued) -> bool:
    """Whether an effect takes an entry: it names it, and had observed it."""
    if not issued.observed(entry) or issued.effect.key != entry.effect.key:
        return False
    assert isinstance(entry.effect, Append)
    match issued.effect:
        case DeleteKey():
            return True
        case Remove(_, ids):
            return entry.effect.id in ids.get(entry.origin, ())
        case Trim(_, up_to):
            return entry.effect.id <= up_to.get(entry.origin, -1)
    return False


def model(applied: list[Issued], key: bytes) -> dict[str, object]:
    """What a region that applied exactly these effects must show for a key."""
    mine = [one for one in applied if one.effect.key == key]
    deletes = [one for one in mine if isinstance(one.effect, DeleteKey)]
    entries = [
        one
        for one in mine
        if isinstance(one.effect, Append) and not any(removes(other, one) for other in mine)
    ]
    creates: dict[bytes, list[Issued]] = {}
    for one in mine:
        if isinstance(one.effect, CreateGroup):
            name = one.effect.group
            destroys = deletes + [
                other
                for other in mine
                if isinstance(other.effect, DestroyGroup) and other.effect.group == name
            ]
            if all(one.observed(destroy) for destroy in destroys):
                creates.setdefault(name, []).append(one)
    acked: dict[bytes, dict[int, list[tuple[StreamId, StreamId]]]] = {name: {} for name in creates}
    for one in mine:
        if isinstance(one.effect, AckFrontier):
            for create in creates.get(one.effect.group, []):
                if one.observed(create):
                    for lane, interval in one.effect.intervals.items():
                        acked[one.effect.group].setdefault(lane, []).append(interval)
                    break
    last_ids = {}
    for one in sorted(mine, key=lambda one: one.n):
        if isinstance(one.effect, Append | SetLastId):
            last_ids[one.origin] = one
    last_ids = {
        origin: (one.effect.id, one.n)
        for origin, one in last_ids.items()
        if not any(delete.observed(one) for delete in deletes)
    }
    return {
        "entries": sorted((one.origin, one.n, one.effect.id, one.effect.fields) for one in entries),
        "groups": {
            name: sorted((one.origin, one.n) for one in alive) for name, alive in creates.items()
        },
        "acked": {
            name: {lane: union(intervals) for lane, intervals in lanes.items()}
            for name, lanes in acked.items()
        },
        "last_ids": last_ids,
        "exists": bool(entries or creates or last_ids),
    }


def union(intervals: list[tuple[StreamId, StreamId]]) -> list[tuple[StreamId, StreamId]]:
    joined: list[tuple[StreamId, StreamId]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def shown(node: Node, key: bytes) -> dict[str, object]:
    """The same facts as the replica holds them."""
    stream = node.replica.stream(key)
    if stream is None:
        return {"entries": [], "groups": {}, "acked": {}, "last_ids": {}, "exists": False}
    return {
        "entries": sorted(
            (lane.region, macro.n[index], entry_id, bytes(macro.fields_at(index)))
            for lane in stream.lanes.values()
            for entry_id, macro, index in lane.scan(StreamId(0), StreamId((1 << 128) - 1))
        ),
        "groups": {name: sorted(group.creates) for name, group in stream.groups.items()},
        "acked": {
            name: {lane: list(one) for lane, one in group.intervals.items()}
            for name, group in stream.groups.items()
        },
        "last_ids": {region: (one.id, one.n) for region, one in stream.last_ids.items()},
        "exists": stream.exists,
    }


# One key, one group, a handful of IDs: things must meet to conflict.  ``y`` is where RENAME goes.
LINES = st.sampled_from(
    [
        *[f"XADD x {ms} f v{ms}" for ms in (1, 2, 3, 4)],
        *[f"XDEL x {ms}" for ms in (1, 2, 3, 4)],
        "XADD x * f v",
        "XADD y 2 f w",
        "XTRIM x MAXLEN 1",
        "XTRIM x MAXLEN 0",
        "XSETID x 5",
        "XSETID x 9",
        "DEL x",
        "DEL x",
        "XGROUP CREATE x g 0",
        "XGROUP CREATE x g 0",
        "XGROUP CREATE x g 2",
        "XGROUP CREATE x g $",
        "XGROUP DESTROY x g",
        "XGROUP SETID x g 0",
        "XGROUP SETID x g $",
        "XGROUP DELCONSUMER x g c",
        "RENAME x y",
        "RENAME y x",
        "read",
        "read",
        "read",
        "ack",
        "ack",
        "ack all",
        "claim",
        "XINFO GROUPS x",
    ]
)
AT = st.integers(0, 2)


def durable(facts: object) -> object:
    """XINFO without seen-time, which is not worth a record and may be lost."""
    if isinstance(facts, dict):
        return {name: durable(value) for name, value in facts.items() if name != "seen-time"}
    return [durable(value) for value in facts] if isinstance(facts, list) else facts


def positions(node: Node) -> object:
    """What a region knows of its reading and no command shows."""
    stream = node.replica.stream(b"x")
    return stream and [
        (
            lane,
            progress.last_delivered,
            progress.run_from,
            progress.ignore_until,
            list(progress.pel),
        )
        for name in sorted(stream.groups)
        for lane in sorted(stream.lanes)
        for progress in [stream.groups[name].progress(lane)]
    ]


class Regions(RuleBasedStateMachine):
    """Three regions; every step is a transaction, a delivery, or a crash."""

    @initialize(mode=st.sampled_from(list(IdMode)))
    def start(self, mode: IdMode) -> None:
        self.nodes = [Node(region, mode) for region in (1, 2, 3)]
        self.digests: dict[tuple[tuple[int, int], ...], bytes] = {}
        self.issued: dict[tuple[int, int], Issued] = {}

    def check(self, node: Node) -> None:
        """Equal version vectors, equal digests; and what the model says of the effects applied."""
        vv = tuple(sorted(node.replica.vv.items()))
        assert self.digests.setdefault(vv, node.digest) == node.digest
        applied = [
            one for (origin, n), one in self.issued.items() if n <= node.replica.vv.get(origin, 0)
        ]
        for key in (b"x", b"y"):
            assert shown(node, key) == model(applied, key)

    @rule(at=AT, lines=st.lists(LINES, min_size=1, max_size=5), data=st.data())
    def transaction(self, at: int, lines: list[str], data: st.DataObject) -> None:
        node = self.nodes[at]
        for line in lines:
            self._run(node, line, data)
        node.end_tick()
        for record in node.log:
            if record.batch is not None and record.origin == node.region:
                batch = decode_batch(record.batch)
                if (batch.origin, batch.first_n) not in self.issued:
                    for one in unfold(batch):
                        self.issued[one.origin, one.n] = one
        self.check(node)

    def _run(self, node: Node, line: str, data: st.DataObject) -> None:
        node.now += 1
        pending = node("XPENDING x g - + 10") if node.replica.stream(b"x") is not None else None
        ids = [row[0] for row in pending] if isinstance(pending, list) else []
        match line:
            case "read":
                node("XREADGROUP GROUP g c COUNT 2 STREAMS x >")
            case "ack" if ids:
                node(f"XACK x g {data.draw(st.sampled_from(ids))}")
            case "ack all" if ids:
                node(f"XACK x g {' '.join(ids)}")
            case "claim":
                entries = node("XRANGE x - +")
                if isinstance(entries, list) and entries:
                    node(f"XCLAIM x g d 0 {data.draw(st.sampled_from(entries))} FORCE")
            case "ack" | "ack all":
                pass
            case _:
                node(line)

    @rule(to=AT, source=AT, count=st.integers(1, 9))
    def deliver(self, to: int, source: int, count: int) -> None:
        """Some of what the source has and the target can apply; known batches come again too."""
        node = self.nodes[to]
        for record in list(self.nodes[source].log):
            if record.batch is None or count == 0:
                continue
            batch = decode_batch(record.batch)
            if node.replica.is_known(batch):
                node.take(record)
            elif node.replica.ready(batch):
                node.take(record)
                count -= 1
        self.check(node)

    @rule(at=AT)
    def crash(self, at: int) -> None:
        node = self.nodes[at]
        before = [[durable(node(f"XINFO STREAM {key} FULL")), positions(node)] for key in "xy"]
        node.restart()
        assert [
            [durable(node(f"XINFO STREAM {key} FULL")), positions(node)] for key in "xy"
        ] == before
        self.check(node)

    def teardown(self) -> None:
        if getattr(self, "nodes", []):
            sync(*self.nodes)
            self.check(self.nodes[0])


# Seconds on a quiet machine; the bound is for a busy one.
TestConvergence = pytest.mark.timeout(900)(Regions.TestCase)
TestConvergence.settings = settings(max_examples=250, stateful_step_count=25, deadline=None)


class Readers(RuleBasedStateMachine):
    """Two regions write and read through one group, which begins in both at different places.

    Never-skip: at the end each region has handed out, or some region has acknowledged, every
    entry behind the lowest start - whatever came late, was set back, claimed or given up.
    """

    @initialize(starts=st.tuples(*[st.sampled_from(["0", "$", "3"])] * 2))
    def start(self, starts: tuple[str, str]) -> None:
        self.nodes = [Node(1), Node(2)]
        self.ms = 1
        self.handed_out: list[set[str]] = [set(), set()]
        self.acknowledged: set[str] = set()
        for node, start in zip(self.nodes, starts, strict=True):
            node.run("XADD x 1 f v", "XADD x 2 f v", "XADD x 3 f v", f"XGROUP CREATE x g {start}")
        self.lowest = 0 if "0" in starts else 3
        # Both lanes are known from here on: XGROUP SETID says where lanes to come begin, too.
        sync(*self.nodes)

    @rule(at=st.integers(0, 1), gap=st.integers(1, 9))
    def xadd(self, at: int, gap: int) -> None:
        self.ms += gap
        # Below what the other region may have read by now: its sequence tells the two apart.
        self.nodes[at].run(f"XADD x {self.ms + at * 5}-{at} f v")

    @rule(at=st.integers(0, 1), count=st.integers(1, 4))
    def read(self, at: int, count: int) -> None:
        reply = self.nodes[at].run(f"XREADGROUP GROUP g c{count} COUNT {count} STREAMS x >")
        if isinstance(reply, dict):
            self.handed_out[at].update(reply["x"])

    @rule(at=st.integers(0, 1), data=st.data())
    def acknowledge(self, at: int, data: st.DataObject) -> None:
        pending = [row[0] for row in self.nodes[at]("XPENDING x g - + 20")]
        if pending:
            ids = data.draw(st.lists(st.sampled_from(pending), min_size=1))
            self.nodes[at].run(f"XACK x g {' '.join(ids)}")
            self.acknowledged.update(ids)

    @rule(at=st.integers(0, 1), ms=st.integers(0, 30))
    def set_back(self, at: int, ms: int) -> None:
        node = self.nodes[at]
        stream = node.replica.stream(b"x")
        group = stream.groups[b"g"]
        if all(group.progress(lane).last_delivered >= ms << 64 for lane in stream.lanes):
            node.run(f"XGROUP SETID x g {ms}")

    @rule(at=st.integers(0, 1), count=st.integers(1, 4))
    def give_up(self, at: int, count: int) -> None:
        """Entries of a deleted consumer were handed out here; elsewhere they must still come."""
        self.nodes[at].run(f"XGROUP DELCONSUMER x g c{count}")

    @rule(at=st.integers(0, 1), data=st.data())
    def claim(self, at: int, data: st.DataObject) -> None:
        entries = self.nodes[at]("XRANGE x - +")
        chosen = data.draw(st.sampled_from(entries))
        self.nodes[at].run(f"XCLAIM x g c1 0 {chosen} FORCE")

    @rule(to=st.integers(0, 1))
    def pull(self, to: int) -> None:
        self.nodes[to].pull(self.nodes[1 - to])

    def teardown(self) -> None:
        if not getattr(self, "nodes", []):
            return
        sync(*self.nodes)
        for at, node in enumerate(self.nodes):
            self.read(at, 10_000)
            behind = {
                entry_id
                for entry_id in node("XRANGE x - +")
                if int(entry_id.split("-")[0]) > self.lowest
            }
            skipped = behind - self.handed_out[at] - self.acknowledged
            assert not skipped, f"region {node.region} never handed out {sorted(skipped)}"


TestNeverSkip = pytest.mark.timeout(900)(Readers.TestCase)
TestNeverSkip.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


class LongRegions(Regions):
    """As Regions, for as many examples as ``make soak`` asks for."""


class LongReaders(Readers):
    """As Readers, for as many examples as ``make soak`` asks for."""


LONG = settings(
    max_examples=int(os.environ.get("CRDTSTREAM_SEEDS", "1000")),
    stateful_step_count=40,
    deadline=None,
)
TestLongConvergence = pytest.mark.soak(LongRegions.TestCase)
TestLongConvergence.settings = LONG
TestLongNeverSkip = pytest.mark.soak(LongReaders.TestCase)
TestLongNeverSkip.settings = LONG
