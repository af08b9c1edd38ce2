"""Random commands, random delivery: the replica against a few lines that say what it means.

The model knows nothing but the effects that were issued, each with its dot and context, and which
of them a region has applied.  It says from that set alone, without any order of applying, what
must be there.
"""

import os
from array import array
from contextlib import suppress
from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import format_vv, meet
from crdtstream.core.effects import (
    Append,
    ChangeMembers,
    IdempotentId,
    Mode,
    Numbered,
    RareEffect,
    SetExpiry,
    SetGroupMode,
    SetStreamConfig,
)
from crdtstream.core.ids import IdMode, Millis, RegionId, StreamId, next_id
from crdtstream.core.producers.numbered import StaleBatchError
from crdtstream.core.uid import DatabaseUid
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.query.append_rows import append_numbered, checked_rows
from crdtstream.region.readiness import Answer, DatabaseIdentity, Readiness
from crdtstream.sim.facts import shown, wrong_retries
from crdtstream.sim.model import READ_AS, Issued, model, skipped, unfold
from tests.conftest import examples
from tests.harness.peers import peers_of
from tests.harness.regions import Node, nodes_of, sync
from tests.harness.replies import list_of, of_type
from tests.harness.sizes import SIZES, SizedMachine


def test_the_model_reads_every_kind_of_effect() -> None:
    """And what it reads is among what it says and what is shown of a region."""
    assert set(READ_AS) == {Append, *get_args(RareEffect)}
    # A kind of which it reads nothing is about no key.
    told = {word for words in READ_AS.values() if words for word in words.split(", ")}
    assert [kind for kind, words in READ_AS.items() if not words] == [ChangeMembers]
    assert told | {"exists"} == set(model([], b"x")) == set(shown(Node(1).replica, b"x"))


def append_rows(node: Node, batch: int, row: int, count: int) -> None:
    """Append rows as a program does; a batch that is over is refused, and so is a string's key."""
    fields = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    first = Numbered(b"q", batch, row)
    # Also what is too large to be taken.
    with suppress(BatchError, StaleBatchError, CommandError):
        rows = checked_rows(first, array("I", [len(fields)] * count), fields * count)
        append_numbered(node.replica, Millis(node.now), b"x", first, rows)


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
        "append once a",
        "append once a",
        "append once b",
        "rows 0 0 3",
        "rows 0 1 4",
        "rows 1 0 2",
        "rows 3 0 1",
        "expire 300",
        "expire 9000",
        "persist",
        "configure 1 None",
        "configure 2 7",
        "configure None 8",
        "mode at-least-once",
        "mode home",
        "mode home",
        "mode partitioned",
        "read",
        "read",
        "read",
        "ack",
        "ack",
        "ack all",
        "claim",
        "XINFO GROUPS x",
        "SET x a PX 300",
        "SET x b",
        "SET y c KEEPTTL",
        "SETNX x d",
        "SET x 7 PX 300",
        "INCR x",
        "INCRBY x 5",
        "DECR y",
        "GETDEL x",
        "PEXPIRE x 500",
        "PERSIST x",
    ]
)
AT = st.integers(0, 2)
UID = DatabaseUid(bytes(range(16)))
# Losing so many records at the end of a log is losing all of it.
WIPED = 12


# What a restart may change: it is not worth a record, or it is how entries are spread over nodes.
NOT_DURABLE = {"seen-time", "radix-tree-keys", "radix-tree-nodes"}


def durable(facts: object) -> object:
    """XINFO without what a restart may change."""
    if isinstance(facts, dict):
        return {name: durable(value) for name, value in facts.items() if name not in NOT_DURABLE}
    return [durable(value) for value in facts] if isinstance(facts, list) else facts


def positions(node: Node) -> object:
    """A region's positions in its groups, which no command shows."""
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


class Regions(SizedMachine):
    """Three regions; every step is a transaction, a delivery, a crash, or a restored folder."""

    @initialize(mode=st.sampled_from(list(IdMode)), sizes=SIZES)
    def start(self, mode: IdMode, sizes: int | None) -> None:
        self.draw_sizes(sizes)
        self.nodes = nodes_of(1, 2, 3, mode=mode)
        for node in self.nodes:
            node.limit_nodes(*self.node_limits())
        self.digests: dict[tuple[tuple[int, int], ...], bytes] = {}
        self.issued: dict[tuple[RegionId, int], Issued] = {}

    def check(self, node: Node) -> None:
        """Equal version vectors, equal digests; and what the model says of the effects applied."""
        vv = tuple(sorted(node.replica.vv.items()))
        assert self.digests.setdefault(vv, node.digest) == node.digest
        applied = [
            one for (origin, n), one in self.issued.items() if n <= node.replica.vv.get(origin, 0)
        ]
        for key in (b"x", b"y"):
            assert shown(node.replica, key) == model(applied, key)
            assert skipped(applied, key) == []
            assert wrong_retries(node.replica, applied, key) == []

    @rule(at=AT, lines=st.lists(LINES, min_size=1, max_size=5), data=st.data())
    def transaction(self, at: int, lines: list[str], data: st.DataObject) -> None:
        node = self.nodes[at]
        for line in lines:
            self._run(node, line, data)
        node.end_tick()
        self.note_issued(node)
        self.check(node)

    def note_issued(self, node: Node) -> None:
        for record in node.log:
            if record.batch is not None and record.origin == node.region:
                batch = decode_batch(record.batch)
                if (batch.origin, batch.first_n) not in self.issued:
                    for one in unfold(batch):
                        self.issued[one.origin, one.n] = one

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
            case _ if line.split()[0] == "rows":
                append_rows(node, *map(int, line.split()[1:]))
            case _ if line.split()[0] in ("append", "expire", "persist", "configure", "mode"):
                self._issue(node, *line.split(), data=data)
            case _:
                node(line)

    def _issue(self, node: Node, what: str, *words: str, data: st.DataObject) -> None:
        """Call the replica as commands do, without the choices that they make before."""
        replica = node.replica
        stream = replica.stream(b"x")
        if what == "append":
            last = max(replica.floor_of(b"x"), 0 if stream is None else stream.last_id)
            entry_id = next_id(replica.region, now=Millis(node.now), last=StreamId(last))
            once = IdempotentId(b"p", words[1].encode())
            replica.append(b"x", entry_id, b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n", once)
        elif stream is None:
            return
        elif what == "expire":
            replica.issue(SetExpiry(b"x", Millis(node.now + int(words[0]))))
        elif what == "persist":
            replica.issue(SetExpiry(b"x", None))
        elif what == "configure":
            seconds, size = [None if word == "None" else int(word) for word in words]
            replica.issue(SetStreamConfig(b"x", seconds, size))
        elif (group := stream.groups.get(b"g")) is not None:
            mode = Mode(words[0])
            home = RegionId(data.draw(st.integers(1, 3))) if mode is Mode.HOME else None
            is_home = group.mode.home == replica.region
            handover = group.handover(stream.lanes) if is_home else {}
            forced = group.mode.mode is not Mode.AT_LEAST_ONCE and not is_home
            replica.issue(
                SetGroupMode(b"x", b"g", group.mode.epoch + 1, mode, home, forced, handover)
            )

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

    @rule(at=AT, ms=st.sampled_from([10, 400, 10_000, -400, -10_000]))
    def let_time_pass(self, at: int, ms: int) -> None:
        """A clock may be set back, too."""
        node = self.nodes[at]
        node.now = max(1, node.now + ms)
        node.expire()
        self.note_issued(node)
        self.check(node)

    @rule(at=AT)
    def forget_stable(self, at: int) -> None:
        """Forget what all regions have, once nothing from before is on its way (``rules`` 3)."""
        node = self.nodes[at]
        vv = node.replica.vv
        for other in self.nodes:
            other.end_tick()
            if vv.get(other.replica.region, 0) < other.replica.issued:
                return
        node.replica.forget_stable(meet(other.replica.vv for other in self.nodes))

    @rule(at=AT, ids=st.integers(1, 3))
    def acknowledge_and_ask(self, at: int, ids: int) -> None:
        """CRDT.TOKEN and WAIT speak of what an XACK tells, before and after it was issued."""
        node = self.nodes[at]
        pending = node("XPENDING x g - + 10") if node.replica.stream(b"x") is not None else None
        if not isinstance(pending, list) or not pending:
            return
        node(f"XACK x g {' '.join(row[0] for row in pending[:ids])}")
        token, waits_for = str(node("CRDT.TOKEN")), node.waits_for()
        node.end_tick()
        self.note_issued(node)
        assert token == format_vv(node.replica.vv)
        assert waits_for == node.waits_for() == node.replica.issued

    @rule(at=AT, lost=st.tuples(st.integers(1, WIPED), st.sampled_from([0, 0, 3, WIPED])))
    def restore(self, at: int, lost: tuple[int, int]) -> None:
        """Earlier states of one or two folders are put back, or wiped; then the regions recover.

        What they had issued and nobody has is gone, and its numbers are used again.
        """
        for node in self.nodes:
            node.end_tick()
            self.note_issued(node)
        both = [self.nodes[at], self.nodes[(at + 1) % 3]]
        restored = [node for node, count in zip(both, lost, strict=True) if count]
        for node, count in zip(both, lost, strict=True):
            if count:
                del node.log[-count if count < WIPED else 0 :]
                node.restart()
        recovering = [(node, self.asked(node)) for node in restored]
        while not all(ready.has_recovered(node.replica.vv) for node, ready in recovering):
            assert any(
                self.take_next(node, other)
                for node in restored
                for other in self.nodes
                if other is not node
            ), "nothing more to be had"
        for node in restored:
            region, issued = RegionId(node.region), node.replica.issued
            self.issued = {
                dot: one for dot, one in self.issued.items() if dot[0] != region or dot[1] <= issued
            }
            self.digests = {
                vv: digest
                for vv, digest in self.digests.items()
                if dict(vv).get(region, 0) <= issued
            }
            self.check(node)

    def asked(self, node: Node) -> Readiness:
        """Readiness of a recovering region once all others have answered it."""
        region = RegionId(node.region)
        others = [other for other in self.nodes if other is not node]
        readiness = Readiness(
            peers_of(region, *(RegionId(other.region) for other in others)),
            database=DatabaseIdentity(UID),
            is_proven=False,
            has_effects=bool(node.log),
            make_uid=lambda: UID,
        )
        for other in others:
            vv = dict(other.replica.vv)
            readiness.note_answer(RegionId(other.region), Answer(vv.get(region, 0), vv))
        return readiness

    def take_next(self, node: Node, source: Node) -> bool:
        """Take the first batch of the source that can be applied."""
        for record in source.log:
            if record.batch is not None and node.replica.ready(decode_batch(record.batch)):
                node.take(record)
                return True
        return False

    @rule(at=AT)
    def crash(self, at: int) -> None:
        node = self.nodes[at]
        before = [[durable(node(f"XINFO STREAM {key} FULL")), positions(node)] for key in "xy"]
        self.redraw_sizes()
        node.restart()
        node.limit_nodes(*self.node_limits())
        assert [
            [durable(node(f"XINFO STREAM {key} FULL")), positions(node)] for key in "xy"
        ] == before
        self.check(node)

    def teardown(self) -> None:
        try:
            if getattr(self, "nodes", []):
                sync(*self.nodes)
                self.check(self.nodes[0])
        finally:
            super().teardown()


# Seconds on a quiet machine; the bound is for a busy one.
TestConvergence = pytest.mark.timeout(900)(Regions.TestCase)
TestConvergence.settings = settings(
    max_examples=examples(250), stateful_step_count=25, deadline=None
)


class Endings(Regions):
    """Three regions that begin, read and end one key, in few steps each.

    What a delete had not observed of an expiry, or of an append that was made again, takes five
    steps and three deliveries in one order; among all that Regions does it hardly ever comes.
    """

    transaction = deliver = let_time_pass = acknowledge_and_ask = None  # type: ignore[assignment]

    def done(self, node: Node) -> None:
        node.end_tick()
        self.note_issued(node)
        self.check(node)

    @rule(at=AT, words=st.sampled_from(["1", "5", "9", "IDMP p a *"]))
    def add(self, at: int, words: str) -> None:
        self.nodes[at].now += 1
        self.nodes[at](f"XADD x {words} f v")
        self.done(self.nodes[at])

    @rule(at=AT)
    def delete(self, at: int) -> None:
        """Also of a key that others have and this region has not heard of."""
        node = self.nodes[at]
        if not node("EXISTS x"):
            node("XADD x 1 f v")
        node("DEL x")
        self.done(node)

    @rule(at=AT)
    def expire(self, at: int) -> None:
        node = self.nodes[at]
        node("PEXPIRE x 1")
        node.now += 1
        node.expire()
        self.done(node)

    @rule(at=AT)
    def read_and_acknowledge(self, at: int) -> None:
        node = self.nodes[at]
        if not node("EXISTS x"):
            return
        node("XGROUP CREATE x g 0")
        reply = node("XREADGROUP GROUP g c STREAMS x >")
        if isinstance(reply, dict):
            node(f"XACK x g {' '.join(reply['x'])}")
        self.done(node)

    @rule(to=AT, source=AT)
    def pull(self, to: int, source: int) -> None:
        self.nodes[to].pull(self.nodes[source])
        self.done(self.nodes[to])


TestEndings = pytest.mark.timeout(900)(Endings.TestCase)
TestEndings.settings = settings(max_examples=examples(250), stateful_step_count=40, deadline=None)


class Readers(SizedMachine):
    """Two regions write and read through one group, which begins in both at different places.

    Never-skip: at the end each region has handed out, or some region has acknowledged, every
    entry behind the lowest start - whatever came late, was set back, claimed or given up.
    """

    @initialize(starts=st.tuples(*[st.sampled_from(["0", "$", "3"])] * 2), sizes=SIZES)
    def start(self, starts: tuple[str, str], sizes: int | None) -> None:
        # With sizes that clients notice the first entries might be refused.
        self.draw_sizes(sizes, clients=False)
        self.nodes = nodes_of(1, 2)
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
        rows = list_of(list, self.nodes[at]("XPENDING x g - + 20"))
        pending = [of_type(str, row[0]) for row in rows]
        if pending:
            ids = data.draw(st.lists(st.sampled_from(pending), min_size=1))
            self.nodes[at].run(f"XACK x g {' '.join(ids)}")
            self.acknowledged.update(ids)

    @rule(at=st.integers(0, 1), ms=st.integers(0, 30))
    def set_back(self, at: int, ms: int) -> None:
        node = self.nodes[at]
        stream = node.replica.stream(b"x")
        assert stream is not None
        group = stream.groups[b"g"]
        if all(group.progress(lane).last_delivered >= ms << 64 for lane in stream.lanes):
            node.run(f"XGROUP SETID x g {ms}")

    @rule(at=st.integers(0, 1), count=st.integers(1, 4))
    def give_up(self, at: int, count: int) -> None:
        """Entries of a deleted consumer were handed out here; elsewhere they must still come."""
        self.nodes[at].run(f"XGROUP DELCONSUMER x g c{count}")

    @rule(at=st.integers(0, 1), data=st.data())
    def claim(self, at: int, data: st.DataObject) -> None:
        entries = list_of(str, self.nodes[at]("XRANGE x - +"))
        chosen = data.draw(st.sampled_from(entries))
        self.nodes[at].run(f"XCLAIM x g c1 0 {chosen} FORCE")

    @rule(to=st.integers(0, 1))
    def pull(self, to: int) -> None:
        self.nodes[to].pull(self.nodes[1 - to])

    def teardown(self) -> None:
        try:
            if getattr(self, "nodes", []):
                self.look_at_end()
        finally:
            super().teardown()

    def look_at_end(self) -> None:
        sync(*self.nodes)
        for at, node in enumerate(self.nodes):
            self.read(at, 10_000)
            behind = {
                entry_id
                for entry_id in list_of(str, node("XRANGE x - +"))
                if int(entry_id.split("-")[0]) > self.lowest
            }
            skipped = behind - self.handed_out[at] - self.acknowledged
            assert not skipped, f"region {node.region} never handed out {sorted(skipped)}"


TestNeverSkip = pytest.mark.timeout(900)(Readers.TestCase)
TestNeverSkip.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)


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
