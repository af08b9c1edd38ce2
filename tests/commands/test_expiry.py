"""Keys that end: EXPIRE and PERSIST in one region, and in several at once (``rules`` 7)."""

from itertools import permutations

import pytest

from crdtstream.commands.reply import CommandError, Null
from crdtstream.core.effects import DeleteKey, EffectBatch, ExpireKey, SetExpiry
from crdtstream.core.ids import IdMode, Millis, RegionId
from crdtstream.core.keyspace.expiry import EXPIRED_AT_ONCE_MAX
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import WAITING, Database
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of


def own_batches(node: Node) -> list[EffectBatch]:
    node.end_tick()
    batches = [decode_batch(record.batch) for record in node.log if record.batch is not None]
    return [batch for batch in batches if batch.origin == node.region]


def own_deletes(node: Node) -> list[bytes]:
    return [
        effect.key
        for batch in own_batches(node)
        for _, effect in batch.others
        if isinstance(effect, DeleteKey | ExpireKey)
    ]


def three_with_x() -> tuple[Node, Node, Node]:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 1-1 f v")
    sync(r1, r2, r3)
    return r1, r2, r3


# --- One region --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "deadline"),
    [
        ("EXPIRE x 7", 8000),
        ("PEXPIRE x 7", 1007),
        ("EXPIREAT x 7", 7000),
        ("PEXPIREAT x 1001", 1001),
        ("PEXPIREAT x 9223372036854775807", (1 << 63) - 1),
        ("EXPIRE x 9223372036854774", 9223372036854775000),
    ],
)
def test_a_deadline_is_an_instant(line: str, deadline: int) -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v")
    assert node.run(line) == 1
    assert node("PEXPIRETIME x") == deadline
    assert node("EXPIRETIME x") == (deadline + 500) // 1000
    assert node("PTTL x") == deadline - 1000
    assert node("TTL x") == (deadline - 1000 + 500) // 1000


@pytest.mark.parametrize(
    "line", ["EXPIRE x 0", "PEXPIRE x -1", "EXPIREAT x 1", "PEXPIREAT x 1000", "PEXPIREAT x -9"]
)
def test_a_deadline_in_the_past_deletes_at_once(line: str) -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v")
    assert node.run(line) == 1
    assert node("EXISTS x") == 0
    assert own_deletes(node) == [b"x"]
    assert node.replica.keys.expiry.of(b"x") is None


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("EXPIRE x bad", "ERR value is not an integer or out of range"),
        ("EXPIRE x 9223372036854776", "ERR invalid expire time in 'expire' command"),
        ("EXPIRE x 9223372036854775", "ERR invalid expire time in 'expire' command"),
        ("PEXPIRE nokey 9223372036854775807", "ERR invalid expire time in 'pexpire' command"),
        ("EXPIREAT x -9223372036854776", "ERR invalid expire time in 'expireat' command"),
        ("EXPIRE x bad FOO", "ERR Unsupported option FOO"),
        ("EXPIRE x 1 NX LT", "ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("EXPIRE x 1 LT XX GT", "ERR GT and LT options at the same time are not compatible"),
    ],
)
def test_wrong_deadlines_change_nothing(line: str, error: str) -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "EXPIRE x 100")
    before = node.digest
    assert node(line) == error
    assert not node.replica.has_open_record
    assert node.digest == before


@pytest.mark.parametrize(
    ("current", "line", "changes"),
    [
        (None, "PEXPIREAT x 5000 NX", True),
        (None, "PEXPIREAT x 5000 XX", False),
        (None, "PEXPIREAT x 5000 GT", False),
        (None, "PEXPIREAT x 5000 LT", True),
        (None, "PEXPIREAT x 5000 XX LT", False),
        (4000, "PEXPIREAT x 5000 nx", False),
        (4000, "PEXPIREAT x 5000 XX", True),
        (4000, "PEXPIREAT x 5000 GT", True),
        (4000, "PEXPIREAT x 5000 LT", False),
        (5000, "PEXPIREAT x 5000 GT", False),
        (5000, "PEXPIREAT x 5000 LT", False),
        (6000, "PEXPIREAT x 5000 LT xx XX", True),
        (6000, "PEXPIREAT x 5000 GT XX", False),
    ],
)
def test_conditions_look_at_the_deadline_that_counts(
    current: int | None, line: str, changes: bool
) -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v")
    if current is not None:
        node.run(f"PEXPIREAT x {current}")
    assert node(line) == changes
    assert node("PEXPIRETIME x") == (5000 if changes else current or -1)


def test_a_key_that_is_not_there_neither_expires_nor_persists() -> None:
    node = Node(1)
    assert [node(f"{word} x 100") for word in ("EXPIRE", "PEXPIREAT")] == [0, 0]
    assert [node(f"{word} x") for word in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME")] == [-2] * 4
    assert node("PERSIST x") == 0
    node.run("XADD x 1-1 f v")
    assert [node(f"{word} x") for word in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME")] == [-1] * 4
    assert node("PERSIST x") == 0
    assert not node.replica.has_open_record
    node.run("EXPIRE x 100")
    assert node.run("PERSIST x") == 1
    assert node("TTL x") == -1


EXPIRED_READS_AS_MISSING = [
    ("EXISTS x", 0),
    ("TYPE x", "none"),
    ("TOUCH x", 0),
    ("KEYS *", ["y"]),
    ("SCAN 0", ["0", ["y"]]),
    ("RANDOMKEY", "y"),
    ("TTL x", -2),
    ("XLEN x", 0),
    ("XRANGE x - +", []),
    ("XREAD STREAMS x 0", Null.ARRAY),
    ("XINFO STREAM x", "ERR no such key"),
    ("XADD x NOMKSTREAM * f v", None),
    ("XDEL x 1-1", 0),
    ("XTRIM x MAXLEN 0", 0),
    ("XACK x g 1-1", 0),
    ("DEL x", 0),
    ("EXPIRE x 100", 0),
    ("PERSIST x", 0),
    ("RENAME x z", "ERR no such key"),
    ("COPY x z", 0),
    ("DUMP x", None),
    ("OBJECT ENCODING x", None),
    ("MEMORY USAGE x", None),
]


@pytest.mark.parametrize(("line", "reply"), EXPIRED_READS_AS_MISSING)
def test_past_its_deadline_a_key_reads_as_missing(line: str, reply: object) -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "XGROUP CREATE x g 0", "PEXPIRE x 50", "XADD y 1-1 f v")
    node.run("XREADGROUP GROUP g c STREAMS x >")
    node.now += 50
    assert node(line) == reply
    assert own_deletes(node) == []


def test_the_region_that_set_the_deadline_deletes_the_key_when_it_comes() -> None:
    r1, r2, r3 = three_with_x()
    r2.run("PEXPIRE x 50")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        node.now += 50
        node.expire()
    assert [own_deletes(node) for node in (r1, r2, r3)] == [[], [b"x"], []]
    sync(r1, r2, r3)
    assert [node.replica.keys.known() for node in (r1, r2, r3)] == [[], [], []]


def test_a_deadline_outlives_a_restart() -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "PEXPIRE x 50")
    node.restart()
    assert node("PEXPIRETIME x") == 1050
    node.now += 50
    node.restart()
    assert node("EXISTS x") == 0
    node.expire()
    assert own_deletes(node) == [b"x"]
    node.restart()
    assert node.replica.keys.known() == []


def test_deadlines_set_over_and_over_are_not_kept() -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "XADD y 1-1 f v", "EXPIRE y 5000")
    for deadline in range(2000, 3000):
        node.run(f"PEXPIREAT x {deadline}")
    assert len(node.replica._expiry.coming) < 200
    node.now = 2998
    assert node("EXISTS x y") == 2
    node.now = 2999
    assert node("EXISTS x y") == 1
    assert node.replica.keys.expiring_count == 2
    assert node.replica.keys.mean_deadline() == 5_001_000


def test_expiring_keys_are_counted_at_every_change() -> None:
    node = Node(1)
    replica = node.replica
    assert (replica.keys.expiring_count, replica.keys.mean_deadline()) == (0, None)
    node.run("XADD x 1-1 f v", "XADD y 1-1 f v", "PEXPIREAT x 2000", "PEXPIREAT y 4000")
    node.run("PEXPIREAT x 3000")
    assert (replica.keys.expiring_count, replica.keys.mean_deadline()) == (2, 3500)
    node.run("PERSIST y")
    assert (replica.keys.expiring_count, replica.keys.mean_deadline()) == (1, 3000)
    # A deadline outlives its key, and is no key's then.
    node.run("XGROUP CREATE z g 0", "PEXPIREAT z 5000", "XGROUP DESTROY z g")
    assert (replica.keys.expiring_count, replica.keys.mean_deadline()) == (1, 4000)
    node.run("DEL x", "XADD z 1-1 f v")
    assert (replica.keys.expiring_count, replica.keys.mean_deadline()) == (0, None)


def test_many_keys_that_end_at_once_go_little_by_little() -> None:
    node = Node(1)
    count = 2 * EXPIRED_AT_ONCE_MAX.value + 1
    for number in range(count):
        node.run(f"XADD k{number} 1-1 f v", f"PEXPIRE k{number} 50")
    node.now += 50
    assert node("KEYS *") == []
    left = []
    while node.replica.keys.next_deadline() == node.replica.keys.now:
        node.expire()
        left.append(len(node.replica.keys.known()))
    assert left == [count - EXPIRED_AT_ONCE_MAX.value, 1, 0]
    assert sorted(own_deletes(node)) == sorted(b"k%d" % number for number in range(count))


def test_keys_that_ended_are_counted_where_they_are_deleted() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD y 1-1 f v", "XADD z 1-1 f v", "XADD deleted 1-1 f v")
    r1.run("PEXPIRE x 50", "PEXPIRE y 50", "PEXPIRE z 500", "PEXPIRE deleted 50", "DEL deleted")
    # A deadline that has outlived its key is no key.
    r1.run("XGROUP CREATE lone g 0", "PEXPIRE lone 50", "XGROUP DESTROY lone g")
    sync(r1, r2)
    for node in (r1, r2):
        node.now += 50
    r2.run("XADD x * f new")
    assert (r1.replica.expired_count, r2.replica.expired_count) == (0, 1)
    sync(r1, r2)
    for node in (r1, r2):
        node.expire()
    assert (r1.replica.expired_count, r2.replica.expired_count) == (1, 1)
    for node in (r1, r2):
        assert [node(f"EXISTS {key}") for key in "xyz"] == [1, 0, 1]
    # Nor does that one expire when a write takes its place.
    r1.run("XGROUP CREATE lone g 0", "PEXPIRE lone 50", "XGROUP DESTROY lone g", "XADD lone * f v")
    assert r1.replica.expired_count == 1


def test_flushall_takes_expired_keys_and_lone_deadlines_too() -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "PEXPIRE x 50")
    node.run("XGROUP CREATE y g 0", "EXPIRE y 100", "XGROUP DESTROY y g")
    node.now += 50
    assert node("EXISTS x y") == 0
    assert node.replica.keys.known() == [b"x", b"y"]
    node.run("FLUSHALL")
    assert node.replica.keys.known() == []


def test_a_new_stream_does_not_inherit_the_deadline_that_a_vanished_one_left() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0", "PEXPIRE x 50", "XGROUP DESTROY x g")
    sync(r1, r2)
    r2.run("XADD x 1-1 f v")
    sync(r1, r2)
    for node in (r1, r2):
        assert node("TTL x") == -1
        node.now += 100
        node.expire()
        assert node("XRANGE x - +") == ["1-1"]


# --- Several regions: what concurrent values come to -------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_keeping_only_the_winner_would_diverge(order: tuple[int, ...]) -> None:
    """R3 had observed 900 and replaced it by 100; 500, which nobody replaced, is what counts."""
    nodes = three_with_x()
    r1, r2, r3 = nodes
    r1.run("PEXPIREAT x 1900")
    r2.run("PEXPIREAT x 1500")
    r3.pull(r1)
    assert r3("PEXPIRETIME x") == 1900
    r3.run("PEXPIREAT x 1100")
    for index in order:
        nodes[index].pull(*nodes)
    sync(*nodes)
    assert [node("PEXPIRETIME x") for node in nodes] == [1500] * 3
    for node in nodes:
        node.now = 1500
        node.expire()
    assert [own_deletes(node) for node in nodes] == [[], [b"x"], []]


def test_the_latest_of_concurrent_deadlines_counts() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIREAT x 1100")
    r2.run("PEXPIREAT x 1300")
    r3.run("PEXPIREAT x 1200")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        node.now = 1200
        node.expire()
        assert node("EXISTS x") == 1
    sync(r1, r2, r3)
    for node in (r3, r1, r2):
        node.now = 1300
        node.expire()
        assert node("EXISTS x") == 0
    assert [own_deletes(node) for node in (r1, r2, r3)] == [[], [b"x"], []]


def test_persist_beats_deadlines() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIREAT x 5000")
    sync(r1, r2, r3)
    r1.run("PEXPIREAT x 9000")
    r2.run("PERSIST x")
    r3.run("PEXPIREAT x 2000")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        assert node("TTL x") == -1
        node.now = 10_000
        node.expire()
        assert node("EXISTS x") == 1
    # Whoever has seen that may set a deadline again.
    r3.run("PEXPIREAT x 12000")
    sync(r1, r2, r3)
    assert [node("PEXPIRETIME x") for node in (r1, r2, r3)] == [12_000] * 3


def test_equal_deadlines_are_fired_once() -> None:
    r1, r2, r3 = three_with_x()
    r3.run("PEXPIREAT x 1500")
    r2.run("PEXPIREAT x 1500")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        node.now = 1500
        node.expire()
        assert node("EXISTS x") == 0
    assert [own_deletes(node) for node in (r1, r2, r3)] == [[], [b"x"], []]
    sync(r1, r2, r3)


def test_an_orphan_deadline_does_not_delete_a_new_stream() -> None:
    """DEL here, EXPIRE there, then XADD here: the deadline was of the stream that went."""
    for others_first in (False, True):
        r1, r2, r3 = three_with_x()
        r1.run("DEL x")
        r2.run("PEXPIRE x 50")
        if others_first:
            r3.pull(r2)
            assert r3("PTTL x") == 50
        r1.run("XADD x 2-1 f v")
        sync(r1, r2, r3)
        for node in (r1, r2, r3):
            assert node("TTL x") == -1
            node.now += 100
            node.expire()
        sync(r1, r2, r3)
        assert [node("XRANGE x - +") for node in (r1, r2, r3)] == [["2-1"]] * 3


def test_a_delete_drops_the_deadlines_it_had_not_observed() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIREAT x 1500")
    r2.run("DEL x", "XADD x 2-1 f v", "PEXPIREAT x 1200")
    sync(r1, r2, r3)
    assert [node("PEXPIRETIME x") for node in (r1, r2, r3)] == [1200] * 3


def test_a_deadline_that_was_prolonged_elsewhere_brings_the_key_back() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIREAT x 1100")
    r3.pull(r1)
    r2.run("PEXPIREAT x 1900")
    r3.now = 1200
    assert r3("EXISTS x") == 0
    r3.pull(r2)
    assert r3("EXISTS x") == 1
    assert r3("PEXPIRETIME x") == 1900


# --- Several regions: who deletes, and when ----------------------------------------------------


def test_while_the_region_that_set_it_is_away_the_key_reads_as_missing_elsewhere() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIRE x 50")
    r2.pull(r1)
    r3.pull(r1)
    for node in (r2, r3):
        node.now += 60
        node.expire()
        assert node("EXISTS x") == 0
        assert own_deletes(node) == []
    sync(r2, r3)
    # It comes back, with a clock that stood still.
    assert r1("EXISTS x") == 1
    r1.now += 60
    r1.expire()
    sync(r1, r2, r3)
    assert r1.replica.keys.known() == r2.replica.keys.known() == []


def test_a_write_to_an_expired_key_deletes_it_first_in_any_region() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIRE x 50")
    sync(r1, r2, r3)
    r2.now += 50
    assert r2.run("XADD x 1-1 f new") == "1-1"
    batch = own_batches(r2)[-1]
    assert batch.others == [(0, ExpireKey(b"x"))]
    assert batch.count == 2
    assert batch.appends.keys == [b"x"]
    for node in (r1, r3):
        node.now += 50
        node.expire()
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        assert node("XRANGE x - +") == ["1-1"]
        assert node("TTL x") == -1


@pytest.mark.parametrize(
    "line",
    [
        "XADD x * f v",
        "XGROUP CREATE x g $ MKSTREAM",
        "RENAME other x",
        "RENAMENX other x",
        "COPY other x",
    ],
)
def test_commands_that_create_an_expired_key_again_delete_its_entries(line: str) -> None:
    r1, r2, r3 = three_with_x()
    r1.run("XADD other 5-1 f v", "PEXPIRE x 50")
    sync(r1, r2, r3)
    r2.now += 50
    r2.run(line)
    assert b"x" in own_deletes(r2)
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        assert node("EXISTS x") == 1
        assert node("TTL x") == -1
        assert "1-1" not in list_of(str, node("XRANGE x - +"))


def test_clocks_apart_the_fast_one_writes_anew_and_the_slow_one_follows() -> None:
    """The key is over in R2 long before it is in R1, which still writes to it."""
    r1, r2, r3 = three_with_x()
    r2.now += 3_600_000
    r1.run("PEXPIRE x 60000")
    sync(r1, r2, r3)
    assert [node("EXISTS x") for node in (r1, r2, r3)] == [1, 0, 1]
    r1.run("XADD x 2-1 f late")
    assert r2.run("XADD x 3-1 f new") == "3-1"
    sync(r1, r2, r3)
    # R2 had not seen 2-1 when it deleted: observed-remove.
    for node in (r1, r2, r3):
        assert node("XRANGE x - +") == ["2-1", "3-1"]
        assert node("TTL x") == -1


def test_clocks_apart_the_fast_one_ends_the_key_for_all() -> None:
    r1, r2, r3 = three_with_x()
    r1.now += 3_600_000
    r2.run(f"PEXPIREAT x {1000 + 60_000}")
    sync(r1, r2, r3)
    assert [node("EXISTS x") for node in (r1, r2, r3)] == [0, 1, 1]
    # It set no deadline, so it leaves the delete to R2: the slow regions go on with the key.
    r1.expire()
    sync(r1, r2, r3)
    assert [node("EXISTS x") for node in (r1, r2, r3)] == [0, 1, 1]
    r2.now += 60_000
    r2.expire()
    sync(r1, r2, r3)
    assert r3.replica.keys.known() == []


def test_an_expired_key_that_was_set_concurrently_in_two_regions_converges() -> None:
    r1, r2, r3 = three_with_x()
    r1.run("PEXPIRE x 50")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        node.now += 50
    r1.expire()
    r2.run("XADD x 7-1 f v")
    r3.run("XADD x 8-1 f v", "PEXPIRE x 900")
    sync(r1, r2, r3)
    # Nobody who ended the key had observed R3's new deadline.
    assert [node("XRANGE x - +") for node in (r1, r2, r3)] == [["7-1", "8-1"]] * 3
    assert [node("PTTL x") for node in (r1, r2, r3)] == [900] * 3


def test_in_a_transaction_time_stands_still() -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v")
    for line in ("MULTI", "PEXPIRE x 1", "XADD x 2-1 f v", "PERSIST x"):
        node(line)
    assert node("EXEC") == [1, "2-1", 1]
    (batch,) = own_batches(node)[1:]
    assert [effect for _, effect in batch.others] == [
        SetExpiry(b"x", Millis(1001)),
        SetExpiry(b"x", None),
    ]


# --- Who waits and who watches -----------------------------------------------------------------


def new_database() -> Database:
    return Database(Replica(RegionId(1), id_mode=IdMode.LIBERAL))


def test_expiry_wakes_those_who_read_with_a_group() -> None:
    database = new_database()
    reader, plain, writer = (database.open_session() for _ in range(3))

    def run(line: str, now: int) -> None:
        database.call(writer, Millis(now), line.encode().split())
        assert database.settle(Millis(now)) == []

    run("XADD x 1 f v", 1000)
    run("XGROUP CREATE x g $", 1000)
    blocked = b"XREADGROUP GROUP g c BLOCK 0 STREAMS x >".split()
    assert database.call(reader, Millis(1000), blocked) is WAITING
    assert database.call(plain, Millis(1000), b"XREAD BLOCK 0 STREAMS x $".split()) is WAITING
    run("PEXPIRE x 50", 1000)
    assert database.next_deadline() == 1050
    assert database.expire(Millis(1049)) == []
    ((served, reply),) = database.expire(Millis(1050))
    assert served is reader
    assert isinstance(reply, CommandError)
    assert reply.text.startswith("NOGROUP")
    assert database.is_waiting(plain)
    assert [*database.replica.keys.known()] == []


@pytest.mark.parametrize("how", ["by the clock", "by a command"])
def test_expiry_trips_watch(how: str) -> None:
    database = new_database()
    session, other = database.open_session(), database.open_session()

    def run(line: str, now: int) -> object:
        reply = database.call(session, Millis(now), line.encode().split())
        database.settle(Millis(now))
        return reply

    run("XADD x 1 f v", 1000)
    run("PEXPIRE x 50", 1000)
    run("WATCH x", 1001)
    run("MULTI", 1002)
    run("XLEN x", 1003)
    if how == "by the clock":
        database.expire(Millis(1060))
    else:
        database.call(other, Millis(1060), [b"EXISTS", b"x"])
        database.settle(Millis(1060))
    assert run("EXEC", 1061) is Null.ARRAY


def test_nobody_is_deleted_while_the_disk_refuses_writes() -> None:
    database = new_database()
    session = database.open_session()
    database.call(session, Millis(1000), b"XADD x 1 f v".split())
    database.call(session, Millis(1000), b"PEXPIRE x 50".split())
    database.replica.take_records(Millis(1000))
    database.fault = "the disk is full"
    database.expire(Millis(1050))
    assert not database.replica.has_open_record
    assert database.call(session, Millis(1050), b"EXISTS x".split()) == 0
    database.fault = None
    database.expire(Millis(1051))
    assert database.replica.keys.known() == []
