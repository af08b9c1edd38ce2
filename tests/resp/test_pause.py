"""CLIENT PAUSE: what it stops, what it lets pass, and that everything goes on afterwards."""

import time
from collections.abc import Iterator

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import Database
from crdtstream.region.ready import Parcel
from tests.patience import seconds
from tests.resp.node import Node, RawClient, request, running
from tests.resp.test_protocol import wait_until

OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"
LONG = b"1000000"


@pytest.fixture
def operator(node: Node) -> Iterator[RawClient]:
    """A client that pauses others; the pause ends with the test."""
    with node.client() as client:
        yield client
    node.call(node.server.pause.end)
    wait_until(node, "database.pause is None and not any("
               "c.is_postponed for c in server.connections.values())")  # fmt: skip


def words(line: bytes) -> bytes:
    return request(*line.split())


def wait_until_postponed(node: Node, count: int = 1) -> None:
    wait_until(node, f"sum(c.is_postponed for c in server.connections.values()) == {count}")


def run_out(node: Node) -> None:
    """Let the time of the pause be over, for its timer to find."""
    pause = node.server.pause

    def bring_forward() -> None:
        pause._until_s = node.loop.time()
        pause._arm()

    node.call(bring_forward)


def expect_id(client: RawClient) -> None:
    """The reply to XADD."""
    client.expect(b"$15\r\n")
    client.read(17)


def expect_nothing(client: RawClient) -> None:
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(seconds())


def test_paused_writes_wait_and_reads_do_not(
    node: Node, operator: RawClient, client: RawClient
) -> None:
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    client.ask(words(b"XLEN paused"), b":0\r\n")
    client.send(words(b"XADD paused * f v") + words(b"XLEN paused"))
    wait_until_postponed(node)
    expect_nothing(client)
    operator.ask(words(b"XLEN paused"), b":0\r\n")
    operator.ask(words(b"CLIENT UNPAUSE"), OK)
    expect_id(client)
    client.expect(b":1\r\n")


def test_a_pause_of_all_stops_every_command_and_ends_by_itself(
    node: Node, operator: RawClient, client: RawClient
) -> None:
    operator.ask(words(b"CLIENT PAUSE %b" % LONG), OK)
    client.send(words(b"PING") + words(b"ECHO x"))
    operator.send(words(b"CLIENT UNPAUSE"))
    wait_until_postponed(node, 2)
    expect_nothing(client)
    run_out(node)
    client.expect(b"+PONG\r\n$1\r\nx\r\n")
    operator.expect(OK)


def test_wrong_requests_are_answered_all_the_same(operator: RawClient, client: RawClient) -> None:
    operator.ask(words(b"CLIENT PAUSE %b" % LONG), OK)
    client.send(words(b"NOSUCH") + words(b"XADD"))
    client.expect(b"-ERR unknown command 'NOSUCH', with args beginning with: \r\n")
    client.expect(b"-ERR wrong number of arguments for 'xadd' command\r\n")


def test_a_pause_only_grows(node: Node, operator: RawClient, client: RawClient) -> None:
    began = time.monotonic()
    operator.ask(words(b"CLIENT PAUSE 300 WRITE"), OK)
    operator.ask(words(b"CLIENT PAUSE 1 WRITE"), OK)
    client.send(words(b"DEL none"))
    client.expect(b":0\r\n")
    assert time.monotonic() - began >= 0.25
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    operator.ask(words(b"CLIENT PAUSE 1 ALL"), OK)
    client.send(words(b"CLIENT PAUSE 1 WRITE") + words(b"PING"))
    wait_until_postponed(node)
    expect_nothing(client)
    run_out(node)
    client.expect(OK + b"+PONG\r\n")


@pytest.mark.parametrize(
    ("queued", "is_stopped"), [(b"XADD in-multi * f v", True), (b"XLEN in-multi", False)]
)
def test_a_transaction_is_stopped_if_it_writes(
    node: Node, operator: RawClient, client: RawClient, queued: bytes, is_stopped: bool
) -> None:
    client.ask(words(b"MULTI") + words(queued), OK + QUEUED)
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    client.send(words(b"EXEC"))
    if is_stopped:
        wait_until_postponed(node)
        operator.ask(words(b"CLIENT UNPAUSE"), OK)
    client.expect(b"*1\r\n")
    client.read_reply()


def test_publications_are_writes(node: Node, operator: RawClient, client: RawClient) -> None:
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    client.send(words(b"PUBLISH news x"))
    wait_until_postponed(node)
    operator.ask(words(b"CLIENT UNPAUSE"), OK)
    client.expect(b":0\r\n")


def test_a_blocked_write_is_served_when_the_pause_is_over() -> None:
    """Batches of other regions go on arriving, and what they bring waits with the readers."""
    with running() as node, node.client() as operator:
        operator.ask(words(b"XGROUP CREATE s g $ MKSTREAM"), OK)
        with node.client() as reader, node.client() as plain:
            reader.send(words(b"XREADGROUP GROUP g c BLOCK 0 STREAMS s >"))
            plain.send(words(b"XREAD BLOCK 0 STREAMS s $"))
            wait_until(node, "database.waiting_count == 2")
            operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
            bring_entry(node)
            plain.expect(b"*1\r\n*2\r\n$1\r\ns\r\n")
            expect_nothing(reader)
            operator.ask(words(b"CLIENT UNPAUSE"), OK)
            reader.expect(b"*1\r\n*2\r\n$1\r\ns\r\n")


class Nobody:
    """Receives what nobody asked for."""

    def receive(self, parcel: Parcel) -> None:
        pass

    def resume(self) -> None:
        pass


def bring_entry(node: Node) -> None:
    """An entry that another region appended."""
    replica = Replica(RegionId(2))
    database = Database(replica)
    session = database.open_session()
    now = node.engine.now()
    database.call(session, now, [b"XADD", b"s", b"*", b"f", b"v"])
    (record,) = replica.take_records(now)
    encoded = record.batch
    assert encoded is not None

    def apply(replica: Replica, now: Millis) -> None:
        replica.receive(decode_batch(encoded), encoded, now)

    node.call(lambda: node.region.change(node.engine.now(), apply, Nobody()))


def test_a_blocked_command_s_time_passes_during_a_pause(
    node: Node, operator: RawClient, client: RawClient
) -> None:
    client.send(words(b"XREAD BLOCK 50 STREAMS never $"))
    wait_until(node, "database.waiting_count == 1")
    operator.ask(words(b"CLIENT PAUSE %b" % LONG), OK)
    client.expect(b"*-1\r\n")


def test_wait_is_answered_during_a_pause() -> None:
    with running(peers=(2, 3)) as node, node.client() as operator, node.client() as client:
        expect_after(client, words(b"XADD s * f v"))
        client.send(words(b"WAIT 1 0"))
        wait_until(node, "database.waiting_count == 1")
        operator.ask(words(b"CLIENT PAUSE %b" % LONG), OK)
        node.call(lambda: node.region.stability.learn(RegionId(2), {RegionId(1): 1}))
        client.expect(b":1\r\n")
        node.call(node.server.pause.end)


def expect_after(client: RawClient, sent: bytes) -> None:
    client.send(sent)
    expect_id(client)


def test_the_postponed_are_listed_as_blocked(
    node: Node, operator: RawClient, client: RawClient
) -> None:
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    client.send(words(b"XADD listed * f v"))
    wait_until_postponed(node)
    operator.send(words(b"CLIENT LIST"))
    listed = operator.read_reply()
    (line,) = (line for line in listed.split(b"\n") if b" flags=b " in line)
    assert b" cmd=xadd " in line
    operator.send(words(b"INFO clients"))
    assert b"blocked_clients:1\r\n" in operator.read_reply()
    client_id = line.split()[0].removeprefix(b"id=")
    operator.ask(words(b"CLIENT UNBLOCK %b" % client_id), b":0\r\n")


def test_a_postponed_client_that_leaves_runs_nothing(node: Node, operator: RawClient) -> None:
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    with node.client() as client:
        client.send(words(b"XADD left-behind * f v"))
        wait_until_postponed(node)
    wait_until(node, "len(server.connections) == 1")
    operator.ask(words(b"CLIENT UNPAUSE"), OK)
    operator.ask(words(b"XLEN left-behind"), b":0\r\n")


def test_a_pipeline_behind_a_postponed_command_keeps_its_order(
    node: Node, operator: RawClient, client: RawClient
) -> None:
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    client.send(words(b"ECHO 0") + words(b"DEL x") + words(b"ECHO 1"))
    client.expect(b"$1\r\n0\r\n")
    wait_until_postponed(node)
    client.send(words(b"ECHO 2") * 1000 + b"*x\r\n")
    operator.ask(words(b"CLIENT UNPAUSE"), OK)
    client.expect(b":0\r\n$1\r\n1\r\n" + b"$1\r\n2\r\n" * 1000 + b"-ERR Protocol error")


def test_a_paused_node_does_nothing_until_it_goes_on(
    node: Node, operator: RawClient, client: RawClient
) -> None:
    """Nobody asks again and again: the event loop sleeps."""
    operator.ask(words(b"CLIENT PAUSE %b WRITE" % LONG), OK)
    client.send(words(b"DEL x"))
    wait_until_postponed(node)
    calls = node.call(lambda: node.database.statistics.calls)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1

    node.loop.call_soon_threadsafe(turn)
    expect_nothing(client)
    assert node.call(lambda: node.database.statistics.calls) == calls
    assert turns == 1


def test_a_paused_node_stops_at_once() -> None:
    with running() as node, node.client() as operator, node.client() as client:
        operator.ask(words(b"CLIENT PAUSE %b" % LONG), OK)
        client.send(words(b"XADD s * f v"))
        wait_until_postponed(node)
        node.run(node.server.stop(patience_ms=5000))
        client.expect_closed()
        assert node.call(lambda: node.replica.stream(b"s")) is None
