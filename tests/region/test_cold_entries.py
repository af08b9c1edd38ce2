"""Entries that are on disk only: who needs them waits, and all is as if they had been in memory."""

from threading import Event

import pytest

from crdtstream.core.ids import RegionId, format_id
from crdtstream.core.lanes import residency
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.clients import Stop
from crdtstream.region.cold_reads import REST_MS
from crdtstream.region.fetching import Fetching
from crdtstream.region.ready import Ready
from tests.cold_nodes import freeze
from tests.harness.driven import Driven, Told
from tests.harness.regions import Node


class ColdDriven(Driven):
    """A region whose entries leave memory when the test says so, and whose disk reads them.

    Attributes:
        images: what the disk has.
        asked: requests that were not read yet.
        read: the images that were read, in order.
    """

    def __init__(self) -> None:
        self.images: dict[int, bytes] = {}
        self.asked: list[tuple[int, ...]] = []
        self.read: list[int] = []
        super().__init__()
        self.region.replica.node_limits.entries_max = 2
        self.region.replica.residency.loader = self.images.__getitem__

    def end_tick(self) -> Ready:
        ready = super().end_tick()
        self.asked += ready.fetch
        return ready

    def freeze(self) -> None:
        """Have all entries on disk only."""
        self.images |= freeze(self.region.replica.node_limits)

    def fill(self, key: str = "s", count: int = 6) -> list[str]:
        """Append entries that are on disk then; their IDs."""
        ids = [str(self.ask("XADD", key, "*", "f", str(at))) for at in range(count)]
        self.freeze()
        return [one.removeprefix("b'").removesuffix("'") for one in ids]

    def fetch(self) -> Ready:
        """Read what was asked for."""
        asked, self.asked = self.asked, []
        for request in asked:
            self.read += request
            bodies = {number: self.images[number] for number in request}
            self.region.cold.note_fetched(request, bodies, self.now)
        return self.end_tick()

    def fail(self, reason: str = "input/output error") -> Ready:
        asked, self.asked = self.asked, []
        for request in asked:
            self.region.cold.note_failed(request, reason, self.now)
        return self.end_tick()

    def first_id(self, key: str) -> str:
        stream = self.region.replica.stream(key.encode())
        assert stream is not None
        return format_id(stream.first_entry_id).decode()

    def client_of(self) -> "Retrying":
        return Retrying(self)

    @property
    def inline(self) -> int:
        return self.region.replica.residency.loaded_inline


class Retrying(Told):
    """A client that goes on with what it was held back from, as a connection does."""

    def __init__(self, driven: ColdDriven) -> None:
        super().__init__(driven.region)
        self._driven = driven
        self._held: list[list[bytes]] = []

    def send(self, *lines: str) -> None:
        self._held += [line.encode().split() for line in lines]
        self.resume()

    def resume(self) -> None:
        client = self.client
        while self._held and not (client.is_blocked or client.is_postponed or client.is_cold):
            argv = self._held.pop(0)
            stop = client.run(iter([argv]), self._driven.now, bytes_max=1 << 20)
            if stop in (Stop.COLD, Stop.POSTPONED):
                assert client.postponed is argv
                self._held.insert(0, argv)


@pytest.fixture
def driven() -> ColdDriven:
    return ColdDriven()


def test_a_command_waits_for_its_entries_and_those_behind_it_too(driven: ColdDriven) -> None:
    driven.fill()
    client, other = driven.client_of(), driven.client_of()
    client.send("XLEN s", "XRANGE s - + COUNT 2", "XLEN none")
    other.send("XLEN none")
    driven.end_tick()
    assert client.replies == [6]
    assert other.replies == [0]
    driven.fetch()
    driven.end_tick()
    entries, behind = client.replies
    assert isinstance(entries, list)
    assert len(entries) == 2
    assert behind == 0
    assert driven.inline == 0


def test_an_image_is_read_once_however_many_wait_for_it(driven: ColdDriven) -> None:
    driven.fill()
    clients = [driven.client_of() for _ in range(5)]
    for client in clients:
        client.send("XRANGE s - +")
    driven.end_tick()
    driven.fetch()
    driven.end_tick()
    assert len(driven.read) == len(set(driven.read)) == 3
    assert [len(client.replies) for client in clients] == [1] * 5


@pytest.mark.parametrize("line", ["XRANGE s - +", "XREVRANGE s + -"])
def test_a_scan_reads_the_first_node_of_every_lane_in_one_request(
    driven: ColdDriven, line: str
) -> None:
    driven.fill(count=2)
    from_peer(driven, "XADD s 5000-2 f v", "XADD s 5001-2 f v")
    driven.commit()
    driven.freeze()
    client = driven.client_of()
    client.send(line)
    driven.end_tick()
    assert [len(request) for request in driven.asked] == [2]
    driven.fetch()
    driven.end_tick()
    (entries,) = client.replies
    assert isinstance(entries, list)
    assert len(entries) == 4
    assert not driven.asked


def test_clients_go_on_in_the_order_in_which_they_began_to_wait(driven: ColdDriven) -> None:
    driven.fill()
    driven.call("XGROUP", "CREATE", "s", "g", "0")
    clients = [driven.client_of() for _ in range(3)]
    for client in clients:
        client.send("XREADGROUP GROUP g c COUNT 1 STREAMS s >")
    driven.end_tick()
    driven.fetch()
    driven.end_tick()
    driven.commit()
    # [[key, [[id, [f, n]]]]]: the first one to ask has the first entry.
    told = [client.replies[0] for client in clients]
    assert [str(one).count(f"b'{at}'") for at, one in enumerate(told)] == [1, 1, 1]


@pytest.mark.parametrize(
    "line", ["XRANGE s - +", "XDEL s {0}", "XTRIM s MAXLEN 3", "XREAD STREAMS s 0"]
)
def test_a_read_failure_is_an_error_and_the_next_command_reads_again(
    driven: ColdDriven, line: str
) -> None:
    ids = driven.fill()
    vv = dict(driven.region.replica.vv)
    client = driven.client_of()
    client.send(line.format(*ids), "XLEN none")
    driven.end_tick()
    driven.fail()
    driven.end_tick()
    error, behind = client.replies
    assert str(error).startswith("IOERR entries cannot be read from disk: input/output error;")
    assert behind == 0
    assert driven.region.replica.vv == vv
    assert driven.region.fetching.fault == "input/output error"
    client.send(line.format(*ids))
    driven.end_tick()
    driven.fetch()
    driven.end_tick()
    if driven.queue:
        driven.commit()
    (reply,) = client.replies
    assert not isinstance(reply, Exception)
    stats = driven.region.fetching.stats
    assert (stats.failures, stats.waited, stats.images) == (1, 2, len(driven.read))
    assert driven.region.fetching.fault is None


def test_a_command_is_counted_and_shown_once(driven: ColdDriven) -> None:
    driven.fill()
    shown: list[list[bytes]] = []
    database = driven.region.database
    database.on_call = lambda _session, argv: shown.append(argv)
    client = driven.client_of()
    client.send("XRANGE s - +")
    driven.end_tick()
    driven.fetch()
    driven.end_tick()
    assert shown == [[b"XRANGE", b"s", b"-", b"+"]]
    assert database.statistics.of(b"xrange").calls == 1
    assert client.client.commands == 1


def test_a_transaction_waits_before_its_first_command(driven: ColdDriven) -> None:
    ids = driven.fill()
    client, watcher = driven.client_of(), driven.client_of()
    watcher.send("WATCH s")
    client.send(
        "MULTI", "XADD t * f v", "XDEL s " + ids[0], "XRANGE s - +", "XTRIM s MAXLEN 2", "EXEC"
    )
    driven.end_tick()
    length = driven.region.replica.stream(b"t")
    assert length is None
    assert not driven.region.replica.has_open_record
    while not driven.queue:
        driven.fetch()
        driven.end_tick()
    driven.commit()
    *_, replies = client.replies
    assert isinstance(replies, list)
    _, deleted, entries, trimmed = replies
    assert (deleted, len(entries), trimmed) == (1, 5, 3)
    assert driven.inline == 0


def test_a_transaction_that_cannot_read_is_discarded(driven: ColdDriven) -> None:
    driven.fill()
    client = driven.client_of()
    client.send("MULTI", "XADD t * f v", "XRANGE s - +", "EXEC", "XLEN t")
    driven.end_tick()
    driven.fail()
    driven.end_tick()
    *_, error, length = client.replies
    assert str(error).startswith("EXECABORT Transaction discarded because of: IOERR")
    assert length == 0


def test_a_watch_is_tripped_while_the_transaction_waits(driven: ColdDriven) -> None:
    driven.fill()
    client = driven.client_of()
    client.send("WATCH w", "MULTI", "XRANGE s - +", "EXEC")
    driven.end_tick()
    driven.call("XADD", "w", "*", "f", "v")
    driven.end_tick()
    driven.fetch()
    driven.end_tick()
    driven.commit()
    assert client.replies[-1] is None


def leave_pending(driven: ColdDriven, count: int) -> None:
    """Entries that somebody left pending, on disk."""
    driven.fill(count=count)
    driven.ask("XGROUP", "CREATE", "s", "g", "0")
    client = driven.client_of()
    client.send("XREADGROUP GROUP g gone STREAMS s >")
    driven.end_tick()
    driven.fetch()
    driven.commit()
    driven.freeze()


def run_on(driven: ColdDriven) -> None:
    """Read what is asked for, and commit what comes of it."""
    while driven.asked or driven.queue:
        driven.fetch()
        driven.end_tick()
        if driven.queue:
            driven.commit()


CLAIM = "XREADGROUP GROUP g {} COUNT 1 BLOCK 5000 CLAIM 100 STREAMS s >"


def test_blocked_readers_keep_their_place_while_entries_are_read(driven: ColdDriven) -> None:
    leave_pending(driven, 2)
    readers = [driven.client_of() for _ in range(3)]
    for number, reader in enumerate(readers):
        line = CLAIM.format(f"c{number}")
        reader.send(line if number < 2 else line.replace("CLAIM 100 ", ""))
        driven.end_tick()
        run_on(driven)
    assert driven.region.database.waiting_count == 3
    driven.freeze()
    # Both become old enough, and have to be read; what comes meanwhile is in memory.
    driven.clock += 100
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert driven.asked
    driven.call("XADD", "s", "*", "f", "2")
    driven.end_tick()
    driven.commit()
    assert [reader.replies for reader in readers] == [[], [], []]
    run_on(driven)
    told = [str(reader.replies) for reader in readers]
    assert [f"[b'f', b'{at}']" in one for at, one in enumerate(told)] == [True] * 3
    assert driven.inline == 0


def test_a_blocked_reader_whose_time_is_over_meanwhile_gets_its_entries(driven: ColdDriven) -> None:
    leave_pending(driven, 1)
    reader = driven.client_of()
    reader.send(CLAIM.format("c").replace("CLAIM 100", "CLAIM 8000"), "XLEN none")
    driven.end_tick()
    run_on(driven)
    driven.freeze()
    # The key changes, and it is tried again: what is pending is looked for on disk.
    driven.call("XNACK", "s", "g", "FAIL", "IDS", "1", driven.first_id("s"))
    driven.end_tick()
    driven.commit()
    assert driven.asked
    driven.clock += 5_000
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert reader.replies == []
    run_on(driven)
    entries, behind = reader.replies
    assert isinstance(entries, list)
    assert behind == 0


def test_a_blocked_reader_who_finds_nothing_on_disk_is_told_in_the_end(driven: ColdDriven) -> None:
    leave_pending(driven, 1)
    reader = driven.client_of()
    reader.send(CLAIM.format("c").replace("CLAIM 100", "CLAIM 8000"))
    driven.end_tick()
    run_on(driven)
    driven.freeze()
    driven.call("XGROUP", "CREATE", "s", "h", "$")
    driven.end_tick()
    driven.commit()
    assert driven.asked
    driven.clock += 5_000
    driven.region.pass_time(driven.now)
    run_on(driven)
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert reader.replies == [None]


def test_a_blocked_reader_hears_that_entries_cannot_be_read(driven: ColdDriven) -> None:
    leave_pending(driven, 1)
    reader = driven.client_of()
    reader.send(CLAIM.format("c"), "XLEN none")
    driven.end_tick()
    run_on(driven)
    driven.freeze()
    driven.clock += 100
    driven.region.pass_time(driven.now)
    driven.end_tick()
    driven.fail()
    driven.end_tick()
    error, behind = reader.replies
    assert str(error).startswith("IOERR")
    assert behind == 0
    assert driven.region.database.waiting_count == 0


def acknowledge_all_but_last(driven: ColdDriven) -> None:
    """Then only the entries tell how far the acknowledged run reaches."""
    driven.call("XACK", "s", "g", *delivered(driven)[:-1])


def delivered(driven: ColdDriven) -> list[str]:
    """Deliver the entries of ``s``, which are on disk only again; their IDs."""
    driven.ask("XGROUP", "CREATE", "s", "g", "0")
    client = driven.client_of()
    client.send("XREADGROUP GROUP g c STREAMS s >")
    driven.end_tick()
    while driven.asked:
        driven.fetch()
        driven.end_tick()
    driven.commit()
    stream = driven.region.replica.stream(b"s")
    assert stream is not None
    ids = [entry_id for entry_id, *_ in stream.scan()]
    driven.freeze()
    return [format_id(entry_id).decode() for entry_id in ids]


@pytest.mark.parametrize("line", ["DEL a s", "MSET a v s v", "RENAME a s", "FLUSHALL"])
def test_a_command_on_several_keys_reads_for_all_before_it_changes_one(
    driven: ColdDriven, line: str
) -> None:
    """A delete of ``s`` issues what was acknowledged there, and needs entries to measure it."""
    driven.ask("SET", "a", "v")
    driven.fill()
    acknowledge_all_but_last(driven)
    client = driven.client_of()
    client.send(line)
    assert client.client.is_cold
    assert driven.region.replica.keys.string(b"a") is not None
    driven.end_tick()
    run_on(driven)
    assert len(client.replies) == 1
    assert driven.region.replica.stream(b"s") is None
    assert driven.inline == 0


@pytest.mark.parametrize("line", ["s >", "t s > >"])
def test_a_delivery_reads_what_it_skips_before_it_makes_its_consumer(
    driven: ColdDriven, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the first entry stand four that region 2 acknowledged; they are counted."""
    monkeypatch.setattr(residency.AHEAD_BYTES, "value", 2)
    monkeypatch.setattr(residency.AHEAD_BYTES_MAX, "value", 2)
    for key in ("t", "s"):
        driven.ask("XGROUP", "CREATE", key, "g", "0", "MKSTREAM")
        ids = driven.fill(key)
    read, acknowledge = "XREADGROUP GROUP g c COUNT 4 STREAMS s >", f"XACK s g {' '.join(ids[1:5])}"
    from_peer(driven, f"XGROUP SETID s g {ids[0]}", read, acknowledge)
    while driven.asked:
        driven.fetch()
        driven.region.apply_arrivals(driven.now)
        driven.end_tick()
    driven.commit()
    driven.freeze()
    client = driven.client_of()
    client.send(f"XREADGROUP GROUP g c COUNT 1 STREAMS {line}")
    driven.end_tick()
    run_on(driven)
    assert len(client.replies) == 1
    assert driven.inline == 0


def test_a_stream_that_is_named_twice_is_read_for_as_far_as_both_deliver(
    driven: ColdDriven, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency.AHEAD_BYTES, "value", 2)
    monkeypatch.setattr(residency.AHEAD_BYTES_MAX, "value", 2)
    driven.fill()
    driven.ask("XGROUP", "CREATE", "s", "g", "0")
    client = driven.client_of()
    client.send("XREADGROUP GROUP g c COUNT 2 STREAMS s s > >")
    driven.end_tick()
    run_on(driven)
    (streams,) = client.replies
    assert isinstance(streams, list)
    assert [len(entries) for _, entries in streams] == [2, 2]
    assert driven.inline == 0


def test_acknowledgements_are_told_once_their_entries_were_read(driven: ColdDriven) -> None:
    driven.fill(count=6)
    acknowledge_all_but_last(driven)
    driven.client.client.run(iter([[b"WAIT", b"0", b"0"]]), driven.now, bytes_max=1 << 20)
    driven.end_tick()
    issued = driven.region.replica.frontier_count
    while driven.asked:
        driven.fetch()
        driven.end_tick()
    driven.commit()
    assert driven.region.replica.frontier_count == issued + (issued == 0)
    assert driven.region.replica.frontier_count == 1
    assert driven.inline == 0


def test_a_failed_read_that_no_client_waits_for_is_retried_after_a_rest(driven: ColdDriven) -> None:
    driven.fill(count=6)
    acknowledge_all_but_last(driven)
    driven.end_tick()
    tries = 0
    while driven.asked:
        tries += 1
        driven.fail()
        driven.end_tick()
    assert tries == 1
    driven.clock += REST_MS.value
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert driven.asked
    driven.fetch()
    assert driven.region.replica.frontier_count == 1


def test_the_fetch_of_a_disconnected_client_is_forgotten(driven: ColdDriven) -> None:
    driven.fill()
    client = driven.client_of()
    client.send("XRANGE s - +")
    driven.end_tick()
    driven.region.clients.disconnect(client.client)
    driven.fetch()
    assert client.replies == []
    assert not len(driven.region.fetching)


def test_fetched_nodes_may_be_evicted_once_their_readers_have_run(driven: ColdDriven) -> None:
    driven.fill()
    client = driven.client_of()
    client.send("XRANGE s - +")
    driven.end_tick()
    driven.fetch()
    for _ in range(3):
        driven.region.tick.open()
        driven.end_tick()
    residency = driven.region.replica.residency
    for _ in range(9):
        if residency.absent_count < 3:
            residency.evict(1)
    assert residency.absent_count == 3


def from_peer(driven: ColdDriven, *lines: str) -> None:
    """A batch of region 2, which has all that this region has, comes over its link."""
    peer = Node(2, now=driven.clock)
    for record in driven.log:
        if record.batch is not None:
            peer.take(record)
    before = len(peer.log)
    peer.run(*lines)
    pull = driven.region.links.pulls[RegionId(2)]
    for record in peer.log[before:]:
        if record.batch is not None:
            pull.inbox.offer(decode_batch(record.batch), record.batch)
    driven.region.tick.may_apply = True
    driven.region.apply_arrivals(driven.now)
    driven.end_tick()


@pytest.mark.parametrize(
    ("line", "left"), [("XDEL s {1}", 5), ("XTRIM s MAXLEN 3", 3), ("XTRIM s MINID {5}", 1)]
)
def test_a_peers_batch_waits_until_its_entries_were_read(
    driven: ColdDriven, line: str, left: int
) -> None:
    ids = driven.fill()
    from_peer(driven, line.format(*ids))
    stream = driven.region.replica.stream(b"s")
    assert stream is not None
    assert (stream.length, RegionId(2) in driven.region.replica.vv) == (6, False)
    assert driven.last.applies is False
    assert driven.fetch().applies
    driven.region.apply_arrivals(driven.now)
    driven.end_tick()
    assert (stream.length, driven.inline) == (left, 0)


def test_a_peers_batch_is_tried_again_after_a_failure(driven: ColdDriven) -> None:
    ids = driven.fill()
    from_peer(driven, "XDEL s " + ids[1])
    driven.fail()
    driven.region.apply_arrivals(driven.now)
    driven.end_tick()
    assert not driven.asked
    assert driven.last.deadline == driven.clock + REST_MS.value
    driven.clock += REST_MS.value
    driven.region.pass_time(driven.now)
    driven.region.apply_arrivals(driven.now)
    driven.end_tick()
    assert driven.region.cold.rests_until.at is None, "it would be looked at without end"
    driven.fetch()
    driven.region.apply_arrivals(driven.now)
    assert driven.region.replica.vv[RegionId(2)] == 1
    assert driven.inline == 0


def test_whole_macro_nodes_are_trimmed_by_peers_without_being_read(driven: ColdDriven) -> None:
    driven.fill()
    from_peer(driven, "XTRIM s MAXLEN 2")
    stream = driven.region.replica.stream(b"s")
    assert stream is not None
    assert (stream.length, driven.asked, driven.inline) == (2, [], 0)


def test_a_key_expires_once_its_acknowledgements_can_be_told(driven: ColdDriven) -> None:
    driven.fill()
    driven.ask("PEXPIREAT", "s", "2000")
    acknowledge_all_but_last(driven)
    driven.clock = 2000
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert driven.region.replica.stream(b"s") is None
    assert len(driven.region.replica) == 1
    assert driven.last.deadline != driven.clock, "it would be asked for without end"
    driven.fetch()
    driven.region.pass_time(driven.now)
    driven.end_tick()
    assert driven.region.replica.expired_count == 1
    assert driven.inline == 0


def test_nobody_goes_on_who_has_ended_waiting() -> None:
    fetching = Fetching()
    clients = [Event(), Event()]
    for client in clients:
        fetching.ask([7], client.set)
    assert fetching.end(clients[0].set) is None
    assert fetching.note_fetched([7], 1) == [clients[1].set]


def test_a_client_that_asks_again_while_it_waits_causes_no_second_read() -> None:
    fetching = Fetching()
    client = Event()
    assert fetching.ask([7], client.set) is None
    assert fetching.take() == [(7,)]
    assert fetching.ask([7, 8], client.set) is None
    assert fetching.take() == []
    assert fetching.note_fetched([7], 1) == [client.set]
    assert fetching.ask([8], client.set) is None
    assert fetching.take() == [(8,)]


def test_nothing_is_asked_for_twice() -> None:
    fetching = Fetching()
    fetching.ask([7, 8], lambda: None)
    fetching.ask([8, 7], lambda: None)
    assert fetching.take() == [(7, 8)]


def test_a_waiter_of_a_failed_read_gets_the_reason_once() -> None:
    fetching = Fetching()

    def go_on() -> None:
        raise AssertionError("it is only asked for")

    fetching.ask([7], go_on)
    assert fetching.note_failed([7], "the disk is gone") == [go_on]
    assert fetching.end(go_on) == "the disk is gone"
    assert fetching.end(go_on) is None
