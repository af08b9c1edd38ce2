"""Entries that nobody could wait for and that cannot be read: an error, and nothing half done."""

import pytest

from crdtstream.core.effects import Remove, Trim
from crdtstream.core.ids import make_id
from crdtstream.core.lanes.cold import TRIES_MAX, UnreadableError
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.store.errors import ImageError
from tests.cold_nodes import freeze
from tests.harness.regions import Node, sync
from tests.region.test_cold_entries import ColdDriven, delivered
from tests.rules.test_numbered import append, values

REASON = "log.sqlite: image 3 is damaged (checksum)"


class Damaged(ColdDriven):
    """A region whose disk reads nothing in place."""

    def __init__(self) -> None:
        super().__init__()
        self.region.replica.residency.loader = self._fail
        self.in_place = 0

    def _fail(self, image: int) -> bytes:
        self.in_place += 1
        raise ImageError(REASON)

    def fetch_nothing(self) -> None:
        """Fetched nodes have left memory again before their reader comes to them."""
        asked, self.asked = self.asked, []
        for request in asked:
            self.region.cold.note_fetched(request, {}, self.now)
        self.end_tick()
        self.end_tick()

    def run(self) -> None:
        """Fetch what is asked for, and commit what comes of it, until nothing is."""
        while self.asked or self.queue:
            self.fetch()
            self.end_tick()
            if self.queue:
                self.commit()

    def replayed(self) -> Replica:
        """The region that a restart would make of the log."""
        replica = Replica(self.region.replica.region)
        replica.begin(self.region.replica.members)
        for record in self.log:
            replica.replay(record)
        return replica


@pytest.fixture
def driven() -> Damaged:
    return Damaged()


def digest_of(driven: Damaged) -> bytes:
    """Of what the region has; now the disk is sound."""
    residency = driven.region.replica.residency
    residency.loader = driven.images.__getitem__
    with residency.in_place():
        return driven.region.replica.digest()


def test_a_queued_command_that_cannot_read_fails_by_itself(driven: Damaged) -> None:
    """It reads because of a command before it, so the entries could not be fetched ahead."""
    driven.fill()
    client = driven.client_of()
    client.send(
        "MULTI",
        *("XADD t * f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"),
        *("XADD t * f w", "EXEC", "XLEN t", "XPENDING s g"),
    )
    driven.end_tick()
    driven.run()
    replies, length, pending = client.replies[-3:]
    assert isinstance(replies, list)
    _, created, error, added = replies
    assert created == b"OK"
    assert str(error).startswith(f"IOERR entries cannot be read from disk: {REASON}; this command")
    assert isinstance(added, bytes)
    assert (length, pending) == (2, [0, None, None, None])
    assert driven.in_place == 1
    assert digest_of(driven) == driven.replayed().digest()


def test_a_queued_delete_of_two_keys_that_cannot_read_deletes_none(driven: Damaged) -> None:
    """The XACK before it is what has to be measured."""
    driven.ask("SET", "a", "v")
    driven.fill()
    ids = delivered(driven)
    client = driven.client_of()
    client.send("MULTI", f"XACK s g {' '.join(ids[:-1])}", "DEL a s", "EXEC", "EXISTS a s")
    driven.end_tick()
    driven.run()
    replies, count = client.replies[-2:]
    assert isinstance(replies, list)
    acknowledged, error = replies
    assert acknowledged == 5
    assert str(error).startswith("IOERR")
    assert count == 2
    assert digest_of(driven) == driven.replayed().digest()


def test_a_queued_trim_that_cannot_read_trims_nothing(driven: Damaged) -> None:
    """It ends between two macro nodes, but for what a command before it appends."""
    driven.fill(count=6)
    client = driven.client_of()
    client.send("MULTI", "XADD s * f v", "XTRIM s MAXLEN 2", "EXEC", "XLEN s")
    driven.end_tick()
    driven.run()
    replies, length = client.replies[-2:]
    assert isinstance(replies, list)
    error = replies[1]
    assert "IOERR" in str(error)
    assert length == 7
    assert driven.region.replica.issued == 7
    assert digest_of(driven) == driven.replayed().digest()


@pytest.mark.parametrize("kind", [Trim, Remove])
def test_an_effect_that_cannot_read_changes_nothing(kind: type[Trim | Remove]) -> None:
    """It needs the last of three macro nodes: the two before it must not go first."""
    node = Node(1)
    node.replica.node_limits.entries_max = 2
    node.run(*(f"XADD s {at}-1 f v" for at in range(1, 7)))
    freeze(node.replica.node_limits)
    loaded: list[int] = []

    def fail(image: int) -> bytes:
        loaded.append(image)
        raise ImageError(REASON)

    node.replica.residency.loader = fail
    ids = tuple(make_id(at, 1) for at in (1, 5))
    region = node.replica.region
    effect = Trim(b"s", {region: ids[-1]}) if kind is Trim else Remove(b"s", {region: ids})
    with pytest.raises(UnreadableError):
        node.replica.issue(effect)
    assert loaded
    assert (node.replica.issued, node.replica.has_unsettled_changes) == (6, False)
    assert node("XLEN s") == 6


@pytest.mark.parametrize("line", ["XRANGE s - +", "XTRIM s MAXLEN 3", "XDEL s {0}"])
def test_a_command_that_was_fetched_for_too_often_gets_a_read_error(
    driven: Damaged, line: str
) -> None:
    ids = driven.fill()
    client = driven.client_of()
    client.send(line.format(*ids), "XLEN s")
    driven.end_tick()
    for _ in range(TRIES_MAX.value):
        driven.fetch_nothing()
    assert driven.in_place == 1
    error, length = client.replies
    assert str(error).startswith("IOERR entries cannot be read from disk")
    assert length == 6


def test_a_transaction_that_was_fetched_for_too_often_is_discarded(driven: Damaged) -> None:
    driven.fill()
    client = driven.client_of()
    client.send("MULTI", "XADD t * f v", "XRANGE s - +", "EXEC", "XLEN t", "XLEN s")
    driven.end_tick()
    for _ in range(TRIES_MAX.value):
        driven.fetch_nothing()
    error, length, behind = client.replies[-3:]
    assert str(error).startswith("EXECABORT Transaction discarded because of: IOERR")
    assert (length, behind) == (0, 6)


def test_keys_that_expire_together_are_each_read_for(driven: Damaged) -> None:
    """The first one's end is a change; the second one waits for its entries all the same."""
    for key in ("s", "t"):
        driven.fill(key)
        driven.ask("PEXPIREAT", key, "2000")
        driven.ask("XGROUP", "CREATE", key, "g", "0")
        client = driven.client_of()
        client.send(f"XREADGROUP GROUP g c STREAMS {key} >")
        driven.end_tick()
        driven.run()
        stream = driven.region.replica.stream(key.encode())
        assert stream is not None
        ids = [f"{one >> 64}-{one & (1 << 64) - 1}" for one, *_ in stream.scan()]
        driven.freeze()
        driven.call("XACK", key, "g", *ids[:-1])
        driven.end_tick()
        driven.commit()
        assert driven.client.replies == [5]
    driven.clock = 2000
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert driven.in_place == 0
    for _ in range(3):
        driven.run()
        driven.region.pass_time(driven.now)
        driven.end_tick()
    assert driven.region.replica.expired_count == 2
    assert driven.in_place == 0


def test_rows_that_rivals_of_a_batch_have_are_looked_for() -> None:
    """Region 1 brings rows that region 2 has: those of region 2 go, and are on disk only."""
    first, second = Node(1), Node(2)
    for node in (first, second):
        append(node, *range(6))
    second.reading.close()
    images = freeze(second.replica.node_limits)
    (record,) = first.log
    assert record.batch is not None
    batch = decode_batch(record.batch)
    needed = second.replica.needs_of(batch)
    assert needed
    assert set(needed) <= set(images)
    for image in needed:
        second.replica.residency.arrive(image, images[image])
    assert second.replica.needs_of(batch) == []
    # The bodies are in memory: nothing is read while the batch is applied.
    second.replica.residency.loader = None
    second.replica.receive(batch, record.batch, second.replica.keys.now)
    assert values(second) == [f"0.{row}" for row in range(6)]
    sync(first, second)
    assert values(first) == values(second)
