"""Programs of the generator, each program a function of its settings."""

import resource
import select
import sys
import time
from itertools import repeat
from random import Random
from typing import Any, Final

from benchmarks.load.wire import Connection, command

Found = dict[str, Any]
FIELD, VALUE = b"field", b"value"
PING_PAUSE_SECONDS: Final = 0.0005


def fill(*, port: int, key: str, count: int) -> Found:
    """Append small entries."""
    request = command(b"XADD", key.encode(), b"*", FIELD, VALUE)
    began = time.perf_counter()
    Connection(port).call_many(repeat(request, count))
    return {"seconds": time.perf_counter() - began}


def fill_random(*, port: int, key: str, count: int, digits: int, seed: int) -> Found:
    """Append entries whose values are random digits, so that nothing makes them small."""
    random, name = Random(seed), key.encode()
    Connection(port).call_many(
        command(b"XADD", name, b"*", FIELD, b"%0*d" % (digits, random.randrange(10**digits)))
        for _ in range(count)
    )
    return {}


def fill_streams(*, port: int, prefix: str, count: int) -> Found:
    """Append a small entry to each of many streams, named as redis-benchmark names them."""
    Connection(port).call_many(
        command(b"XADD", b"%b%012d" % (prefix.encode(), n), b"*", FIELD, VALUE)
        for n in range(count)
    )
    return {}


def groups(*, port: int, key: str, count: int, consumers: int = 0, start: str = "0") -> Found:
    """Make groups g0, g1 …, each with consumers c0, c1 …"""
    connection, name = Connection(port), key.encode()
    connection.call_many(
        command(b"XGROUP", b"CREATE", name, b"g%d" % n, start.encode(), b"MKSTREAM")
        for n in range(count)
    )
    connection.call_many(
        command(b"XGROUP", b"CREATECONSUMER", name, b"g%d" % group, b"c%d" % n)
        for group in range(count)
        for n in range(consumers)
    )
    return {}


def deliver(*, port: int, key: str, group: str, count: int) -> Found:
    """Have all entries pending with one consumer."""
    connection = Connection(port)
    read = (b"XREADGROUP", b"GROUP", group.encode(), b"absent", b"COUNT", b"%d" % count)
    delivered = 0
    while found := connection.call(*read, b"STREAMS", key.encode(), b">"):
        delivered += len(found[0][1])
    return {"delivered": delivered}


def consume(
    *, port: int, key: str, group: str, connections: int, count: int, consumers: int
) -> Found:
    """Read all entries as a group and acknowledge them, COUNT at a time.

    Each connection sends the XACK of what it got and its next XREADGROUP in one go, as a client
    does that keeps its server busy.  Connections take turns as the consumers c0, c1 …
    """
    name, of = key.encode(), group.encode()
    reads = [
        command(
            *(b"XREADGROUP", b"GROUP", of, b"c%d" % n, b"COUNT", b"%d" % count),
            *(b"STREAMS", name, b">"),
        )
        for n in range(consumers)
    ]
    opened = [Connection(port) for _ in range(connections)]
    poller = select.epoll()
    by_fd = {one.fileno(): one for one in opened}
    for fd in by_fd:
        poller.register(fd, select.EPOLLIN)
    at, entries, acknowledged = 0, 0, 0
    began = time.perf_counter()
    for one in opened:
        one.send(reads[at % consumers])
        at += 1
    left = len(opened)
    while left:
        for fd, _ in poller.poll():
            connection = by_fd[fd]
            for reply in connection.receive():
                if reply is None:
                    left -= 1
                elif isinstance(reply, int):
                    acknowledged += reply
                else:
                    ids = [entry[0] for entry in reply[0][1]]
                    entries += len(ids)
                    connection.send(command(b"XACK", name, of, *ids) + reads[at % consumers])
                    at += 1
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "entries": entries, "acknowledged": acknowledged}


def produce_read_acknowledge(*, port: int, key: str, group: str, count: int, read: int) -> Found:
    """One client: some XADDs one by one, XREADGROUP of these, an XACK each; and so on."""
    name, of = key.encode(), group.encode()
    connection = Connection(port)
    append = (b"XADD", name, b"*", FIELD, VALUE)
    take = (b"XREADGROUP", b"GROUP", of, b"c", b"COUNT", b"%d" % read, b"STREAMS", name, b">")
    for _ in range(count // read):
        for _ in range(read):
            connection.call(*append)
        for entry in connection.call(*take)[0][1]:
            connection.call(b"XACK", name, of, entry[0])
    return {"entries": count // read * read}


def acknowledge_at_random(*, port: int, key: str, group: str, count: int, seed: int) -> Found:
    """Read all entries, then acknowledge them one by one in random order."""
    name, of = key.encode(), group.encode()
    connection = Connection(port)
    take = (b"XREADGROUP", b"GROUP", of, b"c", b"COUNT", b"%d" % count, b"STREAMS", name, b">")
    ids = [entry[0] for entry in connection.call(*take)[0][1]]
    Random(seed).shuffle(ids)
    for one in ids:
        connection.call(b"XACK", name, of, one)
    return {"entries": len(ids)}


def read_at_random(*, port: int, key: str, first: int, last: int, count: int, seed: int) -> Found:
    """XRANGEs of ten entries from random places on, one after the other."""
    draw, connection, name = Random(seed), Connection(port), key.encode()
    began = time.perf_counter()
    for _ in range(count):
        start = b"%d" % draw.randint(first, last)
        connection.call(b"XRANGE", name, start, b"+", b"COUNT", b"10")
    return {"seconds": time.perf_counter() - began}


def block(*, port: int, clients: int) -> Found:
    """Clients that wait for keys of their own until the process ends; it says when they do."""
    # Many systems give a process 1,024 files unless it asks for what it may have.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    waiting = [Connection(port) for _ in range(clients)]
    for n, one in enumerate(waiting):
        one.send(command(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"nothing:%d" % n, b"$"))
    # Requests of one connection are served in order; these were sent later than all of them.
    Connection(port).call(b"PING")
    print("waiting", flush=True)
    while True:
        time.sleep(3_600)


def pings(*, port: int) -> Found:
    """PINGs, one after the other, until standard input ends: the longest that one waited."""
    connection = Connection(port)
    connection.call(b"PING")
    print("pinging", flush=True)
    longest = 0.0
    # Not without pause: that would be a load of its own.
    while not select.select([sys.stdin], [], [], PING_PAUSE_SECONDS)[0]:
        began = time.perf_counter()
        connection.call(b"PING")
        longest = max(longest, time.perf_counter() - began)
    return {"max_ms": longest * 1e3}
