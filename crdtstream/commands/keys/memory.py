"""MEMORY USAGE: how much memory a key takes, estimated without a look at every entry.

Macro nodes are measured: their columns and fields, with the room that they hold for more.  The
rest - branches of the rax, pending entries, consumers, producers - is counted and multiplied by
what one of them takes, as measured once in CPython 3.11 on a 64-bit machine.
"""

from collections.abc import Iterable
from itertools import islice
from sys import getsizeof
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, integer
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.lane import Lane, MacroNode
from crdtstream.core.producers.idempotency import Window
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

SAMPLES_DEFAULT: Final = 5

KEY_BYTES: Final = 600  # the stream's own objects, its places among the keys and in SCAN's order
LANE_BYTES: Final = 300
RAX_BYTES: Final = 250  # a leaf and its share of the branches, per macro node
GROUP_BYTES: Final = 2400
GROUP_LANE_BYTES: Final = 2600  # how far a group has come in one lane
CONSUMER_BYTES: Final = 1800
NACK_BYTES: Final = 240
PRODUCER_BYTES: Final = 250
# An idempotent id in the window, whose bytes are the macro node's: its place in the producer's
# order (135), the entry's ID (40) and dot (95), when it came (30).
TRACKED_BYTES: Final = 300
REGISTERS_BYTES: Final = 800
STRING_BYTES: Final = 400  # the register, its places among the keys and in SCAN's order
VALUE_BYTES: Final = 250  # a value's dot and expiry register
DEADLINE_BYTES: Final = 420  # with its places among what ends


def usage(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """MEMORY USAGE key [SAMPLES n]: bytes; null without a key.

    In each lane the first n macro nodes (5 by default, 0: all) and the last one are measured; the
    others are taken to be like the first ones.

    Cost: O(n + macro nodes + producers).
    """
    samples = _samples(argv)
    key = argv[2]
    stream, string = replica.stream(key), replica.string(key)
    if stream is None and string is None:
        return None
    total = getsizeof(key) + (0 if string is None else _string_bytes(string))
    if stream is None:
        return total
    has_registers = replica.deadline_of(key) is not None or any(replica.idmp_settings_of(key))
    return total + _stream_bytes(stream, samples) + has_registers * REGISTERS_BYTES


def _string_bytes(string: StringRegister) -> int:
    return STRING_BYTES + sum(
        VALUE_BYTES + getsizeof(value.data) + len(value.expiry.values) * DEADLINE_BYTES
        for _, value in string.values()
    )


def _samples(argv: list[bytes]) -> int | None:
    """How many macro nodes to measure, None for all."""
    samples = SAMPLES_DEFAULT
    for at in range(3, len(argv), 2):
        if argv[at].lower() != b"samples" or at + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        samples = integer(argv[at + 1])
        if samples < 0:
            raise CommandError(SYNTAX_ERROR)
    return samples or None


def _stream_bytes(stream: Stream, samples: int | None) -> int:
    total = KEY_BYTES + sum(_lane_bytes(lane, samples) for lane in stream.lanes.values())
    total += sum(_group_bytes(group) for group in stream.groups.values())
    if stream.window is not None:
        total += _window_bytes(stream.window)
    return total


def _lane_bytes(lane: Lane, samples: int | None) -> int:
    if lane.tail is None:
        return LANE_BYTES
    count = lane.macro_node_count
    # The last one is filling up: it is not like the others.
    closed = islice(lane.macro_nodes(), count - 1)
    measured = [_node_bytes(node) for node in islice(closed, samples)]
    estimate = sum(measured) * (count - 1) // len(measured) if measured else 0
    return LANE_BYTES + RAX_BYTES * count + estimate + _node_bytes(lane.tail)


def _node_bytes(node: MacroNode) -> int:
    columns = (node.ms, node.seq, node.n, node.starts, node.lengths, node.arrivals, node.fields)
    total = getsizeof(node) + getsizeof(node.key) + _bytes_of(columns)
    if node.idempotent is not None:
        total += getsizeof(node.idempotent)
        for names in node.idempotent.values():
            total += getsizeof(names) + _bytes_of(names)
    return total


def _bytes_of(values: Iterable[object]) -> int:
    return sum(map(getsizeof, values))


def _group_bytes(group: Group) -> int:
    return (
        GROUP_BYTES
        + GROUP_LANE_BYTES * len(group.lanes)
        + CONSUMER_BYTES * len(group.consumers)
        + NACK_BYTES * group.pending_count
    )


def _window_bytes(window: Window) -> int:
    return PRODUCER_BYTES * window.producer_count + TRACKED_BYTES * window.id_count
