"""PUBLISH and SUBSCRIBE at one region: subscribers that leave, and what listening costs others."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import redis
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import Push, Reply
from crdtstream.database import listening as listening_module
from crdtstream.database.channels import Channels
from crdtstream.database.listening import Kind, Patterns
from crdtstream.resp.clients import pubsub
from crdtstream.resp.clients.output_limits import PUBSUB_LIMIT
from crdtstream.resp.wire.encode import encode
from tests.patience import seconds, wait_until
from tests.resp.node import Node, request, running, settings


def words(line: str) -> bytes:
    """A request of the words of a line; ``""`` is an empty one."""
    return request(*(b"" if word == '""' else word.encode() for word in line.split()))


class Client:
    """A connection that reads all answers to what it sends at once."""

    def __init__(self, connection: socket.socket, protocol: int) -> None:
        self.socket = connection
        self._sentinels = 0
        # What HELLO tells differs, and is not looked at.
        self.run([f"HELLO {protocol}"])

    def run(self, lines: list[str]) -> bytes:
        """Send all at once; everything that comes until the answer to a last, unknown, command."""
        self._sentinels += 1
        sentinel = f"sentinel-{self._sentinels}"
        self.socket.sendall(b"".join(map(words, lines)) + words(sentinel))
        end = f"-ERR unknown command '{sentinel}', with args beginning with: \r\n".encode()
        data = b""
        while not data.endswith(end):
            more = self.socket.recv(1 << 16)
            assert more, data
            data += more
        return data.removesuffix(end)


# --- CLIENT LIST ----------------------------------------------------------------------------------


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    wait_until(lambda: not node.server.connections, "clients of the last test are gone")
    with contextlib.closing(
        redis.Redis(port=node.port, protocol=2, decode_responses=True)
    ) as client:
        yield client


def test_client_list_counts_subscriptions(node: Node, r: Any) -> None:
    with node.client() as client:
        subscriber = Client(client.socket, 3)
        subscriber.run(["SUBSCRIBE a b", "PSUBSCRIBE a* b* c*", "SSUBSCRIBE s", "MULTI"])
        (row,) = r.client_list(_type="pubsub")
        assert (row["flags"], row["sub"], row["psub"], row["ssub"]) == ("Px", "2", "3", "1")
        assert row["resp"] == "3"
        (me,) = r.client_list(_type="normal")
        assert int(me["id"]) == r.client_id()
        subscriber.run(["RESET"])
        assert r.client_list(_type="pubsub") == []


def test_subscribers_can_be_killed_by_type(node: Node, r: Any) -> None:
    with node.client() as client:
        Client(client.socket, 2).run(["SUBSCRIBE a"])
        assert r.execute_command("CLIENT", "KILL", "TYPE", "pubsub") == 1
        client.expect_closed()
    assert r.pubsub_numsub("a") == [("a", 0)]


# --- Coming and going -----------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
def test_unsubscribing_from_everything_names_each_once(node: Node, protocol: int) -> None:
    names = [f"channel-{index}" for index in range(500)]
    with node.client() as raw:
        client = Client(raw.socket, protocol)
        client.run([f"SUBSCRIBE {' '.join(names)}"])
        told = client.run(["UNSUBSCRIBE"])
    marker = b">" if protocol == 3 else b"*"
    assert told == b"".join(
        b"%b3\r\n$11\r\nunsubscribe\r\n$%d\r\n%b\r\n:%d\r\n"
        % (marker, len(name), name.encode(), len(names) - 1 - index)
        for index, name in enumerate(names)
    )


@pytest.mark.parametrize("way", ["quit", "half-close", "close", "kill"])
def test_a_disconnected_subscriber_is_removed(node: Node, r: Any, way: str) -> None:
    with node.client() as client:
        Client(client.socket, 2).run(["SUBSCRIBE a", "PSUBSCRIBE a*", "SSUBSCRIBE a"])
        assert r.publish("a", "x") == 2
        match way:
            case "quit":
                client.send(words("QUIT"))
            case "half-close":
                client.socket.shutdown(1)
            case "close":
                client.socket.close()
            case "kill":
                r.client_kill_filter(_type="pubsub")
        wait_until(lambda: len(node.server.connections) == 1, "the subscriber is gone")
    assert r.publish("a", "x") == 0
    channels = node.database.channels
    assert not any(channels.active(kind) for kind in Kind)
    assert channels.session_count == 0


def test_listening_wants_authentication() -> None:
    with running(settings(requirepass="secret")) as node, node.client() as client:
        for line in ("SUBSCRIBE a", "PSUBSCRIBE a", "PUBLISH a b", "PUBSUB CHANNELS"):
            client.ask(words(line), b"-NOAUTH Authentication required.\r\n")
        assert node.database.channels.session_count == 0


def test_a_blocked_resp3_client_hears_messages(node: Node, r: Any) -> None:
    with node.client() as raw:
        client = Client(raw.socket, 3)
        client.run(["SUBSCRIBE a"])
        raw.send(words("XREAD BLOCK 0 STREAMS awaited $"))
        wait_until(lambda: r.info("clients")["blocked_clients"] == 1, "it is blocked")
        assert r.publish("a", "hello") == 1
        raw.expect(b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\nhello\r\n")
        r.xadd("awaited", {"f": "v"})
        raw.expect(b"%1\r\n$7\r\nawaited\r\n")


def test_large_messages_pass_whole(node: Node) -> None:
    payload = bytes(range(256)) * 20_000
    with node.client() as raw, node.client() as publisher:
        Client(raw.socket, 3).run(["SUBSCRIBE a"])
        publisher.ask(request(b"PUBLISH", b"a", payload), b":1\r\n")
        raw.expect(b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$%d\r\n%b\r\n" % (len(payload), payload))


def test_messages_of_one_publisher_keep_their_order(node: Node) -> None:
    count = 5_000
    with node.client() as raw, node.client() as publisher:
        Client(raw.socket, 2).run(["SUBSCRIBE a"])
        publisher.send(b"".join(words(f"PUBLISH a {index:05}") for index in range(count)))
        raw.expect(
            b"".join(
                b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$5\r\n%05d\r\n" % index
                for index in range(count)
            )
        )
        publisher.expect(b":1\r\n" * count)


# --- The disk -------------------------------------------------------------------------------------

ONE: Final = b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\none\r\n"


def test_a_message_does_not_tell_of_what_may_still_be_lost() -> None:
    with running() as node, node.client() as raw, node.client() as publisher:
        Client(raw.socket, 2).run(["SUBSCRIBE a"])
        node.call(node.log.gate.clear)
        lines = ("MULTI", "XADD s * f v", "PUBLISH a one", "EXEC")
        publisher.send(b"".join(map(words, lines)))
        wait_until(lambda: node.call(lambda: node.replica.stream(b"s")), "EXEC has run")
        raw.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.socket.recv(1)
        raw.socket.settimeout(seconds())
        node.call(node.log.gate.set)
        raw.expect(ONE)


def test_a_disk_that_refuses_stops_no_messages() -> None:
    with running() as node, node.client() as raw, node.client() as publisher:
        client = Client(raw.socket, 2)
        node.log.refusal = "the disk is full"
        publisher.send(words("XADD s * f v") + words("PUBLISH a nobody"))
        publisher.read_line()
        # Replies of the failed tick say that their outcome is unknown; a push is no reply.
        assert client.run(["SUBSCRIBE a"]) == b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
        publisher.send(words("PUBLISH a one"))
        raw.expect(ONE)
        node.log.refusal = None
        wait_until(lambda: node.region.fault is None, "the disk takes more")


# --- What listening costs others ------------------------------------------------------------------


class CountingChannels:
    """A registry, and the sessions and messages it told."""

    def __init__(self) -> None:
        self.channels = Channels()
        self.told: list[tuple[int, Push]] = []
        self.channels.deliver = lambda listeners, push: self.told.extend(
            (session.id, push) for session in listeners
        )


@pytest.mark.pure
def test_patterns_that_cannot_match_are_not_tried(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def counting(pattern: bytes) -> Callable[[bytes], bool]:
        matches = compile_glob(pattern)

        def fits(channel: bytes) -> bool:
            tried.append(pattern)
            return matches(channel)

        return fits

    monkeypatch.setattr(listening_module, "compile_glob", counting)
    counted = CountingChannels()
    session = node.call(node.database.open_session)
    for index in range(10_000):
        counted.channels.subscribe(session, Kind.PATTERN, b"user:%d:*" % index)
        counted.channels.subscribe(session, Kind.CHANNEL, b"room:%d" % index)
    assert counted.channels.hand_out(b"user:77:news", b"x", sharded=False) == 1
    assert counted.channels.hand_out(b"room:77", b"x", sharded=False) == 1
    assert tried == [b"*"]
    assert [push.items[:2] for _, push in counted.told] == [
        [b"pmessage", b"user:77:*"],
        [b"message", b"room:77"],
    ]
    counted.channels.forget(session)
    assert session.subscriptions == 0
    assert counted.channels.session_count == 0
    assert not any(counted.channels.active(kind) for kind in Kind)


globs = st.text("ab*?[]\\-^", max_size=6).map(str.encode)


@given(st.lists(globs, unique=True, max_size=8), st.text("ab[*\\", max_size=5).map(str.encode))
def test_the_index_finds_just_what_matches(patterns: list[bytes], channel: bytes) -> None:
    index = Patterns()
    for pattern in patterns:
        index.add(pattern)
    expected = {pattern for pattern in patterns if compile_glob(pattern)(channel)}
    assert len(index.matching(channel)) == len(expected)
    assert set(index.matching(channel)) == expected
    for pattern in patterns[::2]:
        index.remove(pattern)
    assert set(index.matching(channel)) == expected - set(patterns[::2])


@pytest.mark.pure
def test_a_message_is_encoded_once_per_protocol(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = []

    def counting(reply: Reply, protocol: int, chunks: list[bytes]) -> None:
        encoded.append(protocol)
        encode(reply, protocol, chunks)

    monkeypatch.setattr(pubsub, "encode", counting)
    with contextlib.ExitStack() as stack:
        raws = [stack.enter_context(node.client()) for _ in range(20)]
        for index, raw in enumerate(raws):
            Client(raw.socket, 2 + index % 2).run(["SUBSCRIBE a"])
        publisher = stack.enter_context(node.client())
        publisher.ask(words("PUBLISH a one"), b":20\r\n")
        for index, raw in enumerate(raws):
            raw.expect(ONE.replace(b"*3", b">3") if index % 2 else ONE)
    assert sorted(encoded) == [2, 3]


# --- Slow subscribers -----------------------------------------------------------------------------


def test_a_subscriber_that_does_not_read_is_cut_off_and_others_are_not() -> None:
    payload = b"x" * (1 << 20)
    with running() as node, node.client() as slow, node.client() as quick:
        publisher = node.client()
        for raw in (slow, quick):
            Client(raw.socket, 2).run(["SUBSCRIBE a"])
        count = 0
        while True:
            publisher.send(request(b"PUBLISH", b"a", payload))
            reply = publisher.read(4)
            quick.expect(b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$%d\r\n" % len(payload))
            quick.expect(payload + b"\r\n")
            if reply == b":1\r\n":
                break
            assert reply == b":2\r\n"
            count += 1
            unsent = node.call(lambda: [c.unsent_bytes for c in node.server.connections.values()])
            assert max(unsent) <= PUBSUB_LIMIT.hard
            assert count < 200, "it is never cut off"
        publisher.socket.close()
        assert count > PUBSUB_LIMIT.hard >> 20


def test_no_limit_on_replies_is_a_smaller_limit_for_messages() -> None:
    """CONFIG GET tells each class's bounds in Redis's form."""
    with (
        running(settings(output_buffer_bytes_max=0)) as node,
        contextlib.closing(redis.Redis(port=node.port)) as client,
    ):
        found = client.config_get("client-output-buffer-limit")
    assert found == {
        "client-output-buffer-limit": (
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
        )
    }


def test_a_subscriber_that_floods_itself_gets_everything() -> None:
    payload = "x" * 1_000
    count = 3_000
    with running(settings(output_pause_bytes=1 << 16)) as node, node.client() as raw:
        Client(raw.socket, 3).run(["SUBSCRIBE a"])
        raw.send(words(f"PUBLISH a {payload}") * count)
        raw.expect(
            (b":1\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1000\r\n%b\r\n" % payload.encode()) * count
        )


# --- redis-py -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_subscribes(node: Node, protocol: int) -> None:
    with contextlib.closing(
        redis.Redis(port=node.port, protocol=protocol, decode_responses=True)
    ) as client:
        with client.pubsub() as listening:
            listening.subscribe("news")
            listening.psubscribe("n*")
            confirmed = [listening.get_message(timeout=seconds()) for _ in range(2)]
            assert [message["type"] for message in confirmed] == ["subscribe", "psubscribe"]
            assert client.publish("news", "hello") == 2
            heard = [listening.get_message(timeout=seconds()) for _ in range(2)]
            assert [(message["type"], message["data"]) for message in heard] == [
                ("message", "hello"),
                ("pmessage", "hello"),
            ]
            if protocol == 2:
                listening.ping("still there")
                assert listening.get_message(timeout=seconds())["data"] == "still there"
            assert client.pubsub_channels() == ["news"]
            assert client.pubsub_numpat() == 1
        wait_until(lambda: not client.pubsub_channels(), "it listens no more")


@pytest.mark.parametrize("protocol", [2, 3])
async def test_redis_py_asyncio_subscribes(node: Node, protocol: int) -> None:
    async with (
        redis.asyncio.Redis(port=node.port, protocol=protocol) as client,
        client.pubsub(ignore_subscribe_messages=True) as listening,
        asyncio.timeout(seconds()),
    ):
        await listening.subscribe("news")
        while not (await client.pubsub_numsub("news"))[0][1]:
            await listening.get_message(timeout=0.01)
        for index in range(100):
            assert await client.publish("news", index) == 1
        heard = []
        async for message in listening.listen():
            heard.append(int(message["data"]))
            if len(heard) == 100:
                break
        assert heard == list(range(100))
