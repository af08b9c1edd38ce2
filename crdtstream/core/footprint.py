"""Memory that the state takes, estimated without a look at every entry.

Macro nodes and chunks of pending entries are measured: their columns and fields, with the room that
they hold for more, or what is left in memory of a node that is packed or on disk.  The rest -
consumers, producers - is counted and multiplied by what one of them takes, as measured once in
CPython 3.11 on a 64-bit machine.
"""

from collections.abc import Iterator
from itertools import islice
from sys import getsizeof
from typing import Final

from crdtstream.core.groups.group import Group
from crdtstream.core.ids import U64_MAX
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.residency import memory_of
from crdtstream.core.producers.idempotency import Window
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size

SAMPLES_DEFAULT: Final = 5
# Keys that a walk measures in one step.
KEYS_AT_ONCE: Final = Size(16, least=1)

KEY_BYTES: Final = 600  # the stream's own objects, its places among the keys and in SCAN's order
LANE_BYTES: Final = 300
GROUP_BYTES: Final = 1350
GROUP_LANE_BYTES: Final = 270  # how far a group has come in one lane
CONSUMER_BYTES: Final = 270
PRODUCER_BYTES: Final = 250
# An idempotent id in the window, whose bytes are the macro node's: its place in the producer's
# order (135), the entry's ID (40) and dot (95), when it came (30).
TRACKED_BYTES: Final = 300
REGISTERS_BYTES: Final = 800
STRING_BYTES: Final = 400  # the register, its places among the keys and in SCAN's order
VALUE_BYTES: Final = 250  # a value's dot and expiry register
SHARE_BYTES: Final = 450  # what a region added
DEADLINE_BYTES: Final = 420  # with its places among what ends


class Footprint:
    """Memory that all keys of a replica take together, by the last walk over them.

    Attributes:
        node_bytes: macro nodes.
        rest_bytes: everything else of streams and strings.
    """

    def __init__(self, replica: Replica) -> None:
        self.node_bytes = 0
        self.rest_bytes = 0
        self._replica = replica

    def steps(self) -> Iterator[None]:
        """A walk in steps of a few keys; between two of them anything may change."""
        replica, cursor, nodes, rest = self._replica, 0, 0, 0
        while True:
            cursor, keys = replica.keys.scan(cursor, KEYS_AT_ONCE.value)
            for key in keys:
                rest += rest_of_key(replica, key)
                stream = replica.stream(key)
                if stream is not None:
                    nodes += nodes_of_stream(stream, SAMPLES_DEFAULT)
            yield
            if not cursor:
                break
        self.node_bytes, self.rest_bytes = nodes, rest


def nodes_of_stream(stream: Stream, samples: int | None) -> int:
    """Macro nodes of a stream; the first ``samples`` of each lane are measured."""
    return sum(_nodes_of_lane(lane, samples) for lane in stream.lanes.values())


def rest_of_key(replica: Replica, key: bytes) -> int:
    """Memory that a key takes besides macro nodes; 0 if there is no such key."""
    stream, string = replica.stream(key), replica.keys.string(key)
    if stream is None and string is None:
        return 0
    total = getsizeof(key) + (0 if string is None else _string_bytes(string))
    if stream is None:
        return total
    total += KEY_BYTES + LANE_BYTES * len(stream.lanes)
    total += sum(_group_bytes(group) for group in stream.groups.values())
    if stream.window is not None:
        total += _window_bytes(stream.window)
    if replica.keys.expiry.of(key) is not None or any(replica.keys.idmp_settings_of(key)):
        total += REGISTERS_BYTES
    return total


def _string_bytes(string: StringRegister) -> int:
    return (
        STRING_BYTES
        + sum(
            VALUE_BYTES + getsizeof(value.data) + len(value.expiry.values) * DEADLINE_BYTES
            for _, value in string.values()
        )
        + sum(
            SHARE_BYTES + len(share.expiry.values) * DEADLINE_BYTES for _, share in string.shares()
        )
    )


def _nodes_of_lane(lane: Lane, samples: int | None) -> int:
    if lane.tail is None:
        return 0
    # The last one is filling up: it is not like the others.
    closed = list(islice(lane.macro_nodes(), min(lane.macro_node_count - 1, samples or U64_MAX)))
    entries = sum(map(len, closed))
    # By their entries: what was put together is many times larger than what was just appended.
    others = lane.length - len(lane.tail)
    estimate = sum(map(memory_of, closed)) * others // entries if entries else 0
    return estimate + memory_of(lane.tail)


def _group_bytes(group: Group) -> int:
    return (
        GROUP_BYTES
        + GROUP_LANE_BYTES * len(group.lanes)
        + CONSUMER_BYTES * len(group.consumers)
        + group.pending_bytes
    )


def _window_bytes(window: Window) -> int:
    return PRODUCER_BYTES * window.producer_count + TRACKED_BYTES * window.id_count
