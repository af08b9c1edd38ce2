"""Keyspace notifications are those of a real redis-server 8, where no script can show it.

The others are in ``scripts/node/notifications.txt``.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.like_redis.oracles import RealServer
from tests.like_redis.script import command_words
from tests.like_redis.sides import RealSide, Server
from tests.patience import wait_until
from tests.resp.node import Node


class Side(RealSide):
    """A server with a client that listens to everything."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, 2)
        self.run("CONFIG SET notify-keyspace-events KEAocnm")
        self.call("L", command_words("PSUBSCRIBE __key*__:*"))

    def run(self, *lines: str) -> None:
        for line in lines:
            self.call("A", command_words(line))

    def told(self) -> list[tuple[Any, Any]]:
        """Channels and messages since the last call."""
        pushes = self.woken().get("L", [])
        assert isinstance(pushes, list)
        return [(push[2], push[3]) for push in pushes if isinstance(push, list)]

    def wait_for(self, name: bytes, *keys: bytes) -> None:
        """Wait until a notification of that name has come for each key."""
        missing = set(keys)

        def came() -> bool:
            for channel, key in self.told():
                if channel == b"__keyevent@0__:" + name:
                    missing.discard(key)
            return not missing

        wait_until(came, name.decode())


@pytest.fixture
def sides(node: Node, redis: RealServer) -> Iterator[tuple[Side, Side]]:
    with closing(Side(node)) as ours, closing(Side(redis)) as theirs:
        yield ours, theirs


def test_xread_tells_of_a_miss_once(sides: tuple[Side, Side]) -> None:
    """Redis looks twice for each stream, and tells of it twice; docs/differences.md names it."""
    told = []
    for side in sides:
        side.run("XREAD STREAMS none 0")
        told.append([one for one in side.told() if one[0] == b"__keyevent@0__:keymiss"])
    assert told == [[(b"__keyevent@0__:keymiss", b"none")] * times for times in (1, 2)]


@pytest.mark.parametrize("classes", ["K", "E", "A", "KE", "KEx", "K$g", "Et", "KEo"])
def test_only_wanted_classes_are_sent_where_they_are_wanted(
    classes: str, sides: tuple[Side, Side]
) -> None:
    for side in sides:
        side.run(f"CONFIG SET notify-keyspace-events {classes}")
        side.run("XADD s 1-1 a 1", "SET k 1", "SET k 2 EX 9", "DEL s k")
    assert sides[0].told() == sides[1].told()


def test_the_end_of_a_key_is_told_as_in_redis(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.run("XADD s 1-1 a 1", "PEXPIRE s 30", "SET k v PX 30")
        side.wait_for(b"expired", b"s", b"k")


def test_a_write_to_an_expired_key_tells_its_end_first(sides: tuple[Side, Side]) -> None:
    told = []
    for side in sides:
        side.run("SET k v PXAT 1", "SETEX k 100 v")
        told.append([channel for channel, _ in side.told() if b"keyevent" in channel])
    names = b"new set expire expired new set expire".split()
    assert told[0] == told[1] == [b"__keyevent@0__:" + name for name in names]


def test_a_dump_that_is_restored_is_told_as_in_redis(sides: tuple[Side, Side]) -> None:
    told = []
    for side in sides:
        side.run("SET k v", "XADD s 1-1 a 1")
        string, stream = (side.call("A", [b"DUMP", key]) for key in (b"k", b"s"))
        assert isinstance(string, bytes)
        assert isinstance(stream, bytes)
        for ttl, dump, *options in (
            (b"0", string),
            (b"0", string),
            (b"9000", string, b"REPLACE"),
            (b"0", stream, b"REPLACE"),
            (b"1", string, b"REPLACE", b"ABSTTL"),
            (b"1", string, b"ABSTTL"),
        ):
            side.call("A", [b"RESTORE", b"r", ttl, dump, *options])
        told.append(side.told())
    assert told[0] == told[1]
