"""Keyspace notifications are those of a real redis-server 8, command by command.

Each line is run on both sides, and what subscribers of all channels got by it is compared.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from tests.like_redis.oracles import RealServer
from tests.like_redis.script import command_words
from tests.patience import seconds
from tests.resp.node import running

# All classes of 8.2.3.
CLASSES: Final = "KEAocnm"

SCRIPTS: Final[dict[str, list[str]]] = {
    "entries": [
        "XADD s 1-1 a 1",
        "XADD s 2-1 a 1",
        "XADD s MAXLEN 1 3-1 a 1",
        "XADD s MAXLEN 5 4-1 a 1",
        "XADD s NOMKSTREAM 5-1 a 1",
        "XADD none NOMKSTREAM 5-1 a 1",
        "XADD s 1-1 a 1",
        "XADD zero MAXLEN 0 5-1 a 1",
        "XTRIM s MAXLEN 1",
        "XTRIM s MAXLEN 1",
        "XTRIM s MINID 5-1",
        "XDEL s 5-1 6-1",
        "XDEL s 5-1",
        "XDEL none 5-1",
        "XADD s 6-1 a 1",
        "XADD s 7-1 a 1",
        "XDELEX s KEEPREF IDS 2 6-1 9-1",
        "XDELEX s DELREF IDS 1 9-1",
        "XADD s MAXLEN = 0 DELREF 8-1 a 1",
        "XSETID s 9-1",
        "XSETID none 9-1",
        "XRANGE s - +",
        "DEL s zero none",
    ],
    "groups": [
        "XGROUP CREATE mk g 0",
        "XGROUP CREATE mk g 0 MKSTREAM",
        "XGROUP CREATE mk g 0",
        "XGROUP CREATECONSUMER mk g c",
        "XGROUP CREATECONSUMER mk g c",
        "XGROUP DELCONSUMER mk g c",
        "XGROUP DELCONSUMER mk g c",
        "XGROUP SETID mk g 0",
        "XADD mk 1-1 a 1",
        "XADD mk 2-1 a 1",
        "XREADGROUP GROUP g d STREAMS mk >",
        "XREADGROUP GROUP g d STREAMS mk >",
        "XREADGROUP GROUP g e STREAMS mk >",
        "XREADGROUP GROUP g f STREAMS mk 0",
        "XACK mk g 1-1",
        "XCLAIM mk g h 0 2-1",
        "XCLAIM mk g i 0 99-1",
        "XCLAIM mk g i 0 2-1",
        "XAUTOCLAIM mk g j 0 0",
        "XAUTOCLAIM mk g k 100000 0",
        "XACKDEL mk g KEEPREF IDS 1 2-1",
        "XGROUP DESTROY mk none",
        "XGROUP DESTROY mk g",
        "XGROUP DESTROY mk g",
    ],
    "strings": [
        "SET a 1",
        "SET a 2",
        "SET a 3 EX 100",
        "SET a 3 KEEPTTL",
        "SET a 3 NX",
        "SET a 3 GET",
        "SET none 3 XX",
        "SETEX a 100 v",
        "PSETEX a 100000 v",
        "SETNX a v",
        "SETNX b v",
        "GETSET b w",
        "GETEX b EX 10",
        "GETEX b PERSIST",
        "GETEX b PERSIST",
        "GETEX b",
        "GETEX b PXAT 1",
        "GETEX b",
        "GETDEL b",
        "SET b 1",
        "GETDEL b",
        "MSET a 1 b 2 c 3",
        "MSETNX a 1 d 2",
        "MSETNX d 1 e 2",
        "MGET a none",
        "INCR count",
        "INCR count",
        "INCRBY count 5",
        "DECR count",
        "DECRBY count 5",
        "INCRBY count 0",
        "SET count 3",
        "DECR count",
        "INCR s",
        "INCR count wrong",
        "DEL count",
        "EVAL 'return 1' 0 wrong",
        "XADD s 1-1 a 1",
        "SET s string",
        "XADD t 1-1 a 1",
        "SET t string EX 10",
        "XADD u 1-1 a 1",
        "EXPIRE u 100",
        "SET u string KEEPTTL",
        "XADD v 1-1 a 1",
        "MSET v 1 w 2",
    ],
    "keys": [
        "SET a 1",
        "EXPIRE a 100",
        "EXPIRE a 100 NX",
        "PERSIST a",
        "PERSIST a",
        "EXPIRE a -1",
        "EXPIRE a -1",
        "SET b 1",
        "RENAME b c",
        "SET d 1",
        "RENAME c d",
        "RENAMENX d e",
        "SET f 1",
        "RENAMENX e f",
        "RENAMENX none f",
        "RENAME f f",
        "COPY f g",
        "COPY f g",
        "COPY f g REPLACE",
        "COPY none g",
        "XADD s 1-1 a 1",
        "XADD s 2-1 a 1",
        "EXPIRE s 100",
        "RENAME s s2",
        "COPY s2 s3",
        "PERSIST s3",
        "COPY s2 g REPLACE",
        "RENAME f s2",
        "TOUCH s2",
        "UNLINK s2 none",
        "SET x 1",
        "XADD y 1-1 a 1",
        "FLUSHALL",
        "SET x 1",
        "FLUSHDB",
    ],
    "misses": [
        "GET none",
        "GET",
        "MGET a none",
        "STRLEN none",
        "EXISTS none none",
        "TYPE none",
        "TTL none",
        "PTTL none",
        "EXPIRETIME none",
        "PEXPIRETIME none",
        "TOUCH none",
        "OBJECT ENCODING none",
        "MEMORY USAGE none",
        "DUMP none",
        "COPY none g",
        "GETEX none",
        "GETDEL none",
        "GETSET new1 v",
        "SET new2 v GET",
        "SET new3 v",
        "SETNX new4 v",
        "EXPIRE none 1",
        "PERSIST none",
        "RENAME none n",
        "XLEN none",
        "XLEN new1",
        "XRANGE none - +",
        "XRANGE none bad +",
        "XREVRANGE none + -",
        "XINFO STREAM none",
        "XINFO GROUPS none",
        "XINFO CONSUMERS none g",
        "XREADGROUP GROUP g c STREAMS none >",
        "XREADGROUP GROUP g c STREAMS none bad",
        "XACK none g 1-1",
        "XACKDEL none g IDS 1 1-1",
        "XPENDING none g",
        "XPENDING none g - bad 1",
        "XCLAIM none g c 0 1-1",
        "XAUTOCLAIM none g c 0 0",
        "XDEL none 1-1",
        "XDELEX none IDS 1 1-1",
        "XTRIM none MAXLEN 1",
        "XSETID none 1-1",
        "XGROUP CREATE none g 0",
        "UNLINK none",
        "WATCH none",
    ],
    "transactions": [
        "MULTI",
        "XADD s 1-1 a 1",
        "XADD s 2-1 a 1",
        "XDEL s 1-1",
        "XDEL s 2-1",
        "SET k v",
        "DEL s",
        "XADD s 1-1 a 1",
        "EXEC",
        "MULTI",
        "SET k v",
        "DISCARD",
    ],
}


class Side:
    """A client, and one that listens to everything."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.client, self.listener = connect(), connect()
        self.client.execute_command("FLUSHALL")
        self.client.execute_command("CONFIG", "SET", "notify-keyspace-events", CLASSES)
        self.heard = self.listener.pubsub()
        self.heard.psubscribe("__key*__:*", "end")
        for _ in range(2):
            assert self.heard.get_message(timeout=seconds())["type"] == "psubscribe"

    def run(self, words: tuple[bytes, ...]) -> None:
        with contextlib.suppress(ResponseError):
            self.client.execute_command(*words)

    def told(self) -> list[tuple[bytes, bytes]]:
        """Channels and messages since the last call; both sides sent them before the end."""
        self.listener.publish("end", "")
        told: list[tuple[bytes, bytes]] = []
        while True:
            message = self.heard.get_message(timeout=seconds())
            assert message is not None, "the end never came"
            if message["channel"] == b"end":
                return told
            told.append((message["channel"], message["data"]))

    def wait_for(self, name: bytes) -> bytes:
        """The key of the next notification of that name."""
        deadline = time.monotonic() + seconds()
        while time.monotonic() < deadline:
            message = self.heard.get_message(timeout=seconds())
            if message is not None and message["channel"] == b"__keyevent@0__:" + name:
                data: bytes = message["data"]
                return data
        raise AssertionError(f"never: {name.decode()}")

    def close(self) -> None:
        self.heard.close()
        self.client.close()
        self.listener.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running() as node:
        with contextlib.closing(Redis(port=node.port)) as client:
            client.config_set("crdt_xadd_id_uniqueness_mode", "liberal")
        yield node.port


@pytest.fixture
def sides(port: int, redis: RealServer) -> Iterator[tuple[Side, Side]]:
    ours = Side(lambda: Redis(port=port))
    theirs = Side(lambda: Redis(unix_socket_path=str(redis.path)))
    with contextlib.closing(ours), contextlib.closing(theirs):
        yield ours, theirs


def test_xread_tells_of_a_miss_once(sides: tuple[Side, Side]) -> None:
    """Redis looks twice for each stream, and tells of it twice; docs/differences.md names it."""
    told: list[list[tuple[bytes, bytes]]] = []
    for side in sides:
        side.run((b"XREAD", b"STREAMS", b"none", b"0"))
        told.append([(channel, key) for channel, key in side.told() if b"keyevent" in channel])
    assert told == [[(b"__keyevent@0__:keymiss", b"none")] * times for times in (1, 2)]


# As CONFIG SET takes them; CONFIG GET shows them in an order of its own.
@pytest.mark.parametrize(
    "text",
    [
        *("", "A", "KEA", "AKE", "gK", "Kmn", "AKEn", "Anm", "KE$lshzxet", "Kg$lshzxetd"),
        *("eKE", "oc", "KEAm", "KEoc", "KEAnoc", "Em", "KEg$lshzxetdmn", "Kq", "K E", "ka", "KKgg"),
    ],
)
def test_classes_are_shown_and_refused_as_in_redis(text: str, sides: tuple[Side, Side]) -> None:
    answers = []
    for side in sides:
        try:
            side.client.config_set("notify-keyspace-events", text)
            answers.append(side.client.config_get("notify-keyspace-events"))
        except ResponseError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("classes", ["K", "E", "A", "KE", "KEx", "K$g", "Et", "KEo"])
def test_only_wanted_classes_are_sent_where_they_are_wanted(
    classes: str, sides: tuple[Side, Side]
) -> None:
    for side in sides:
        side.client.config_set("notify-keyspace-events", classes)
        for line in ("XADD s 1-1 a 1", "SET k 1", "SET k 2 EX 9", "DEL s k"):
            side.run(command_words(line))
    assert sides[0].told() == sides[1].told()


def test_the_end_of_a_key_is_told_as_in_redis(sides: tuple[Side, Side]) -> None:
    for side in sides:
        for line in ("XADD s 1-1 a 1", "PEXPIRE s 30", "SET k v PX 30"):
            side.run(command_words(line))
        assert {side.wait_for(b"expired"), side.wait_for(b"expired")} == {b"s", b"k"}


def test_a_write_to_an_expired_key_tells_its_end_first(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.run((b"SET", b"k", b"v", b"PXAT", b"1"))
        side.wait_for(b"expire")
        side.run((b"SETEX", b"k", b"100", b"v"))
        side.wait_for(b"expired")
        assert side.wait_for(b"set") == b"k"


def test_a_dump_that_is_restored_is_told_as_in_redis(sides: tuple[Side, Side]) -> None:
    told: list[list[tuple[bytes, bytes]]] = []
    for side in sides:
        for line in ("SET k v", "XADD s 1-1 a 1"):
            side.run(command_words(line))
        string, stream = side.client.dump("k"), side.client.dump("s")
        for key, ttl, dump, *options in (
            (b"r", b"0", string),
            (b"r", b"0", string),
            (b"r", b"9000", string, b"REPLACE"),
            (b"r", b"0", stream, b"REPLACE"),
            (b"r", b"1", string, b"REPLACE", b"ABSTTL"),
            (b"r", b"1", string, b"ABSTTL"),
        ):
            side.run((b"RESTORE", key, ttl, dump, *options))
        told.append(side.told())
    assert told[0] == told[1]


@pytest.mark.parametrize("name", SCRIPTS)
def test_notifications_are_redis_notifications(name: str, sides: tuple[Side, Side]) -> None:
    ours, theirs = sides
    for line in SCRIPTS[name]:
        for side in sides:
            side.run(command_words(line))
        assert ours.told() == theirs.told(), line
