"""Consuming many entries at once costs work per command, not per entry: counted, not timed.

The bounds leave some room above what was counted when they were written.
"""

import random

from crdtstream.core.effects import Deliver, Record
from crdtstream.core.ids import Millis, RegionId, format_id
from crdtstream.core.replica import Replica
from crdtstream.core.wire.local_codec import decode_local
from crdtstream.database.database import Database, Waiting
from crdtstream.resp.wire.encode import encode
from tests.harness.calls import calls_of

ENTRIES = 2_000


class Consumed:
    """A region with a group, and entries that nobody has read; records in a list."""

    def __init__(self) -> None:
        self.now = Millis(1_700_000_000_000)
        self.replica = Replica(RegionId(1))
        self.database = Database(self.replica)
        self.session = self.database.open_session()
        self.call(b"XGROUP CREATE s g 0 MKSTREAM")
        for _ in range(ENTRIES):
            self.now = Millis(self.now + 1)
            self.call(b"XADD s * field value")
        self.end_tick()

    def call(self, line: bytes) -> None:
        """Run a command and make its reply bytes."""
        reply = self.database.call(self.session, self.now, line.split())
        assert not isinstance(reply, Waiting)
        encode(reply, 2, [])

    def end_tick(self) -> list[Record]:
        records = self.replica.take_records(self.now)
        self.database.note_sealed()
        return records

    def read(self, count: int) -> None:
        self.call(b"XREADGROUP GROUP g c COUNT %d STREAMS s >" % count)

    def pending(self) -> list[bytes]:
        stream = self.replica.stream(b"s")
        assert stream is not None
        return [format_id(nack.id) for nack in stream.groups[b"g"].pending()]


def all_pending() -> tuple[Consumed, list[bytes]]:
    """A region whose entries are all pending, and their IDs in any order."""
    region = Consumed()
    region.read(ENTRIES)
    region.end_tick()
    ids = region.pending()
    random.Random(4711).shuffle(ids)
    return region, ids


def test_a_hundred_entries_are_handed_out_and_acknowledged_in_few_calls() -> None:
    """378 calls, the tick included; 1,710 when each entry was cut out and parsed by itself."""
    region = Consumed()
    calls = calls_of(lambda: region.read(100))
    line = b"XACK s g " + b" ".join(region.pending())
    calls += calls_of(lambda: region.call(line)) + calls_of(region.end_tick)
    assert calls < 480


def test_commands_that_consume_many_entries_make_no_call_per_entry() -> None:
    region = Consumed()
    calls = {"read": calls_of(lambda: region.read(ENTRIES // 2))}
    ids = b" ".join(region.pending())
    calls["delete"] = calls_of(lambda: region.call(b"XDEL s " + ids))
    calls["acknowledge"] = calls_of(lambda: region.call(b"XACK s g " + ids))
    region.read(ENTRIES // 2)
    calls["trim"] = calls_of(lambda: region.call(b"XTRIM s MAXLEN 0 DELREF"))
    calls["tick"] = calls_of(region.end_tick)
    assert not region.pending()
    # A macro node has up to a hundred entries.
    assert all(count < ENTRIES / 4 for count in calls.values()), calls


def test_commands_that_show_many_entries_make_no_call_per_entry() -> None:
    region = Consumed()
    region.read(ENTRIES)
    calls = {
        line: calls_of(lambda line=line: region.call(line))  # type: ignore[misc]
        for line in (
            b"XRANGE s - +",
            b"XRANGE s - + COUNT 1500",
            b"XPENDING s g - + 2000",
            b"XPENDING s g - + 2000 c",
            b"XINFO STREAM s FULL COUNT 0",
        )
    }
    # A macro node has up to a hundred entries, a chunk of pending ones a thousand.
    assert all(count < ENTRIES / 4 for count in calls.values()), calls


def test_entries_in_any_order_cost_no_call_each() -> None:
    region, ids = all_pending()
    some = b" ".join(ids[: ENTRIES // 2])
    calls = {
        line[:4]: calls_of(lambda line=line: region.call(line))  # type: ignore[misc]
        for line in (b"XACK s g " + some, b"XDEL s " + some)
    }
    assert len(region.pending()) == ENTRIES // 2
    # A macro node has up to a hundred entries, and for an XDEL each is gone through twice.
    assert calls[b"XACK"] < ENTRIES / 4, calls
    assert calls[b"XDEL"] < ENTRIES * 3 / 4, calls


def test_entries_that_are_claimed_in_any_order_cost_few_calls_each() -> None:
    """Five: the record names each ID with its time and count.  55 when each was sought alone."""
    region, ids = all_pending()
    claim = b"XCLAIM s g d 0 " + b" ".join(ids[: ENTRIES // 2])
    calls = calls_of(lambda: region.call(claim))
    assert calls < 6 * ENTRIES / 2, calls


def test_a_stream_is_copied_by_macro_nodes() -> None:
    region = Consumed()
    copied = calls_of(lambda: region.call(b"COPY s t"))
    dumped = calls_of(lambda: region.call(b"DUMP t"))
    assert copied < ENTRIES, copied
    assert dumped < ENTRIES / 2, dumped


def test_acknowledging_in_random_order_issues_one_effect_in_a_hundred_xacks() -> None:
    region, ids = all_pending()
    for entry_id in ids:
        region.call(b"XACK s g " + entry_id)
        # The worst case: a tick for each.
        region.end_tick()
    assert region.replica.acknowledged_count == ENTRIES
    assert region.replica.frontier_count <= ENTRIES / 100


def test_an_acknowledged_entry_takes_two_ids_in_the_log() -> None:
    """One of its delivery and one of its XACK, of 16 bytes each."""
    region = Consumed()
    region.read(ENTRIES)
    region.call(b"XACK s g " + b" ".join(region.pending()))
    (record,) = region.end_tick()
    assert record.local is not None
    assert record.batch is not None
    assert len(record.local) + len(record.batch) < 33 * ENTRIES


def test_consumers_and_groups_are_shown_in_few_calls_each() -> None:
    """0.1, 3 and 0.4 calls of each; 12, 82 and 19 when each was a map."""
    region = Consumed()
    for number in range(500):
        region.call(b"XGROUP CREATECONSUMER s g c%d" % number)
        region.call(b"XGROUP CREATE t g%d 0 MKSTREAM" % number)
    region.call(b"XADD t * f v")
    calls = {
        line: calls_of(lambda line=line: region.call(line)) / 500  # type: ignore[misc]
        for line in (b"XINFO CONSUMERS s g", b"XINFO GROUPS t", b"XINFO STREAM s FULL")
    }
    assert calls[b"XINFO CONSUMERS s g"] < 1, calls
    assert calls[b"XINFO GROUPS t"] < 6, calls
    assert calls[b"XINFO STREAM s FULL"] < 1, calls


def test_a_read_of_many_streams_makes_few_calls_each() -> None:
    """26 calls; 73 when each entry went through three generators, and its ID was made."""
    region = Consumed()
    keys = [b"s:%d" % n for n in range(500)]
    for key in keys:
        region.call(b"XADD %b * field value" % key)
    words = b" ".join([*keys, *[b"0"] * 500])
    assert calls_of(lambda: region.call(b"XREAD STREAMS " + words)) < 35 * 500


def test_a_new_consumer_of_many_groups_costs_few_calls_and_one_change_in_each() -> None:
    """115 calls, the end of the tick included; 158 when each group made the consumer first."""
    region = Consumed()
    keys = [b"s:%d" % n for n in range(500)]
    for key in keys:
        region.call(b"XADD %b * field value" % key)
        region.call(b"XGROUP CREATE %b g 0" % key)
    region.end_tick()
    words = b" ".join([*keys, *[b">"] * 500])
    calls = calls_of(lambda: region.call(b"XREADGROUP GROUP g new STREAMS " + words))
    records: list[Record] = []
    calls += calls_of(lambda: records.extend(region.end_tick()))
    assert calls < 130 * 500
    (record,) = records
    assert record.local is not None
    changes = [change for _, change in decode_local(record.local).changes]
    assert [type(change) for change in changes] == [Deliver] * 500
