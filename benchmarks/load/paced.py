"""Messages at a fixed rate, and how long each took to reach who waits for it.

Producers send when a message is due, whether or not earlier ones were answered; so a server that
stalls is not spared.  A message carries the moment at which it was sent, by the one clock of this
process, in which the readers wait too.
"""

import itertools
import re
import select
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from benchmarks.load.nats import NatsConnection
from benchmarks.load.wire import Connection, command

Found = dict[str, Any]
# 19 digits of the monotonic clock, in ns, after a letter that no ID has.
STAMP: Final = re.compile(rb"T(\d{19})\r\n")
STAMP_BYTES: Final = 20
# At first connections, caches and allocators get warm.
WARM_SECONDS: Final = 1.0
# So long is waited for messages that are still on their way in the end.
REST_SECONDS: Final = 30.0


class Reader(Protocol):
    """A client that waits for messages."""

    def fileno(self) -> int: ...

    def start(self) -> None:
        """Begin to wait."""

    def stamps(self) -> list[int]:
        """The stamps of what has just come, and whatever it takes to get more."""


class GroupReader:
    """A consumer: XREADGROUP BLOCK, then XACK and the next read in one go."""

    def __init__(self, port: int, *, key: bytes, group: bytes, name: bytes, count: int) -> None:
        self._connection = Connection(port)
        self._ack = (b"XACK", key, group)
        self._read = command(
            *(b"XREADGROUP", b"GROUP", group, name, b"COUNT", b"%d" % count),
            *(b"BLOCK", b"0", b"STREAMS", key, b">"),
        )

    def fileno(self) -> int:
        return self._connection.fileno()

    def start(self) -> None:
        self._connection.send(self._read)

    def stamps(self) -> list[int]:
        found: list[int] = []
        for reply in self._connection.receive():
            if isinstance(reply, list):
                entries = reply[0][1]
                self._connection.send(command(*self._ack, *[e[0] for e in entries]) + self._read)
                found += [int(fields[1][1:]) for _, fields in entries]
        return found


class StreamReader:
    """XREAD BLOCK from the last ID on."""

    def __init__(self, port: int, *, key: bytes, count: int) -> None:
        self._connection = Connection(port)
        self._key = key
        self._count = b"%d" % count

    def fileno(self) -> int:
        return self._connection.fileno()

    def start(self) -> None:
        self._read_after(b"$")

    def _read_after(self, last_id: bytes) -> None:
        words = (b"XREAD", b"COUNT", self._count, b"BLOCK", b"0", b"STREAMS", self._key, last_id)
        self._connection.send(command(*words))

    def stamps(self) -> list[int]:
        found: list[int] = []
        for reply in self._connection.receive():
            entries = reply[0][1]
            self._read_after(entries[-1][0])
            found += [int(fields[1][1:]) for _, fields in entries]
        return found


class NatsReader:
    """A push consumer of a JetStream stream."""

    def __init__(self, port: int, *, stream: str, deliver: str) -> None:
        self._connection = NatsConnection(port)
        self._stream, self._deliver = stream, deliver
        self._rest = b""

    def fileno(self) -> int:
        return self._connection.fileno()

    def start(self) -> None:
        self._connection.subscribe(self._deliver)
        self._connection.make_push_consumer(self._stream, self._deliver)

    def stamps(self) -> list[int]:
        data = self._rest + self._connection.receive()
        found = STAMP.findall(data)
        # What comes next may begin in the middle of a stamp.
        last = data.rfind(found[-1]) + STAMP_BYTES if found else 0
        self._rest = data[max(last, len(data) - STAMP_BYTES - 1) :]
        return [int(one) for one in found]


def through_redis(
    *,
    port: int,
    read_port: int,
    key: str,
    group: str,
    rate: int,
    seconds: float,
    producers: int,
    consumers: int,
    count: int,
) -> Found:
    """XADDs at a rate, and blocked readers in any node; without a group they read with XREAD."""
    name = key.encode()
    readers: list[Reader] = [
        GroupReader(read_port, key=name, group=group.encode(), name=b"c%d" % n, count=count)
        if group
        else StreamReader(read_port, key=name, count=count)
        for n in range(consumers)
    ]
    writers = [Connection(port) for _ in range(producers)]
    template = command(b"XADD", name, b"*", b"t", b"T" + b"0" * (STAMP_BYTES - 1))
    # The stamp is the end of the request, less its line end.
    head = template[: -STAMP_BYTES - 1]
    return _run(
        [one.socket for one in writers],
        lambda stamp: b"%b%019d\r\n" % (head, stamp),
        readers,
        rate=rate,
        seconds=seconds,
        copies=1 if group else consumers,
    )


def through_nats(
    *,
    port: int,
    read_port: int,
    subject: str,
    stream: str,
    rate: int,
    seconds: float,
    producers: int,
) -> Found:
    """Published messages at a rate, each acknowledged by the stream, and one blocked reader."""
    writers = [NatsConnection(port) for _ in range(producers)]
    for n, one in enumerate(writers):
        one.subscribe(f"_INBOX.acks{n}")
    heads = itertools.cycle(
        f"PUB {subject} _INBOX.acks{n} {STAMP_BYTES + 2}\r\n".encode() for n in range(producers)
    )
    reader = NatsReader(read_port, stream=stream, deliver="deliver.here")
    return _run(
        [one.socket for one in writers],
        # The stamp's own line end is part of the message.
        lambda stamp: b"%bT%019d\r\n\r\n" % (next(heads), stamp),
        [reader],
        rate=rate,
        seconds=seconds,
        copies=1,
    )


def _run(
    writers: Sequence[Any],
    request: Callable[[int], bytes],
    readers: Sequence[Reader],
    *,
    rate: int,
    seconds: float,
    copies: int,
) -> Found:
    """Send as the clock says, and take the time of what comes.

    Args:
        request: makes one that carries this stamp.
        copies: how many readers get each message.
    """
    by_fd: dict[int, Reader] = {one.fileno(): one for one in readers}
    answers = {one.fileno(): one for one in writers}
    for one in readers:
        one.start()
    fds = [*by_fd, *answers]
    clock = time.monotonic_ns
    step = 1_000_000_000 // rate
    count = int(rate * (seconds + WARM_SECONDS))
    warm = int(rate * WARM_SECONDS) * copies
    taken, late = array("q"), array("q")
    sent = received = 0
    # Readers have to be waiting when the first message comes.
    first = due = clock() + 200_000_000
    while received < count * copies:
        now = clock()
        while sent < count and due <= now:
            late.append(now - due)
            writers[sent % len(writers)].sendall(request(now))
            sent += 1
            due += step
            now = clock()
        if sent == count and now - due > REST_SECONDS * 1e9:
            break
        wait = (due - now) / 1e9 if sent < count else 0.1
        for fd in select.select(fds, (), (), max(0.0, wait))[0]:
            if (reader := by_fd.get(fd)) is None:
                answers[fd].recv(1 << 16)
                continue
            stamps = reader.stamps()
            now = clock()
            taken.extend([now - stamp for stamp in stamps])
            received += len(stamps)
    lasted = (clock() - first) / 1e9
    return {
        "sent": sent,
        "received": received,
        "expected": count * copies,
        "seconds": lasted,
        "latencies_ms": [one / 1e6 for one in taken[warm:]],
        "late_ms": [one / 1e6 for one in late[int(rate * WARM_SECONDS) :]],
    }
