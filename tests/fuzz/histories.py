"""Regions with something of everything: what seeds are made of, and what must hold at the end."""

from collections.abc import Callable, Sequence
from typing import Final

import hiredis

from crdtstream.commands.reply import Reply
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.members import beginning_of
from crdtstream.core.replica import Replica
from crdtstream.database.database import Waiting
from crdtstream.resp.wire.encode import encode
from tests.harness.checkpoints import Checkpoints
from tests.harness.regions import Node
from tests.rules.test_convergence import append_rows

HERE: Final = RegionId(1)
PEER: Final = RegionId(2)
OTHER: Final = RegionId(3)

# One transaction each.  Keys are shared by the regions, so that what they write meets.
OF_PEER: Final = (
    ("XADD x 10 f v", "XADD x 11 f v", "XADD y 10 g w h u"),
    ("XGROUP CREATE x g 0", "XGROUP CREATE x h $"),
    ("XREADGROUP GROUP g c COUNT 1 STREAMS x >", "XACK x g 10-0"),
    ("XADD x IDMP p a 12 f v", "XADD x 13 f v", "XADD x 14 f v", "XADD x 15 f v"),
    ("XDEL x 13-0", "XDELEX x DELREF IDS 1 14-0", "SET s value PX 100000", "SET t value"),
    ("XTRIM x MINID 11", "EXPIRE y 1000", "XSETID x 99-0", "XCFGSET x IDMP-DURATION 30"),
    ("CRDT.XGROUP SETMODE x g HOME 2", "DEL t", "PEXPIRE s 5000"),
    ("XADD z 20 f v", "XGROUP CREATE z g 0", "DEL z", "XADD z 5 f v", "XGROUP DESTROY x h"),
)
OF_HERE: Final = (
    ("XADD x 9 f v", "XADD x 12 f v", "XGROUP CREATE x g 0", "SET s other"),
    ("XREADGROUP GROUP g d COUNT 1 STREAMS x >", "XADD z 21 f v"),
    ("XADD only 1 f v", "SET mine 1"),
)
# What is read in the end: an error in here is one of the state.
LOOKS: Final = (
    "XRANGE {key} - +",
    "XREVRANGE {key} + -",
    "XLEN {key}",
    "XINFO STREAM {key} FULL",
    "XINFO GROUPS {key}",
    "XREADGROUP GROUP g e STREAMS {key} >",
    "XACK {key} g 10-0 11-0 12-0",
    "XDEL {key} 11-0",
    "XADD {key} * f v",
    "XTRIM {key} MAXLEN 1",
    "GET {key}",
)
KEYS: Final = ("x", "y", "z", "s")


def other_with_something() -> Node:
    """Region 3, which has heard of no other one."""
    other = Node(OTHER)
    other.run("XADD x 8 f v", "XADD x 9 f v")
    return other


def peer_with_everything(*others: Node) -> Node:
    """Region 2, which has heard of these, and of no other one."""
    peer = Node(PEER)
    peer.pull(*others)
    peer.limit_nodes(3, 0)
    for lines in OF_PEER:
        peer.run(*lines)
    append_rows(peer, 0, 0, 3)
    peer.end_tick()
    return peer


def node_with_something() -> Node:
    """Region 1, which shares keys with the peer."""
    node = Node(HERE)
    node.limit_nodes(3, 0)
    for lines in OF_HERE:
        node.run(*lines)
    return node


def check_replay(
    replica: Replica,
    log: Sequence[Record],
    *,
    others: Sequence[int] = (),
    prepare: Callable[[Replica], None] = lambda _: None,
) -> Replica:
    """See that a restart reads from its log what a region has.

    Args:
        log: all of its records.
        others: its peers.
        prepare: called with a replica that is to replay the log.
    """
    again = empty_as(replica, others)
    prepare(again)
    with again.residency.in_place():
        for record in log:
            again.replay(record)
        assert again.vv == replica.vv
        assert again.digest() == replica.digest()
    return again


def check_whole(replica: Replica, log: Sequence[Record], *, others: Sequence[int] = ()) -> None:
    """See the same, and that a restart reads it from a checkpoint."""
    replayed = check_replay(replica, log, others=others)
    checkpoints, restored = Checkpoints(), empty_as(replica, others)
    checkpoints.begin(replayed, len(log))
    checkpoints.finish(replayed)
    checkpoints.restore(restored)
    with restored.residency.in_place():
        assert restored.digest() == replayed.digest()


def empty_as(replica: Replica, others: Sequence[int]) -> Replica:
    """A replica of the same region without anything in it."""
    empty = Replica(
        replica.region, peers=map(RegionId, others), id_mode=replica.id_mode, implicit_mkstream=True
    )
    empty.begin(beginning_of(replica.members))
    return empty


def look_at(node: Node) -> None:
    """Read and write all keys."""
    for key in KEYS:
        for line in LOOKS:
            _check_reply(node.raw(line.format(key=key)))
    node.end_tick()
    node.now = Millis(node.now + 10_000)
    node.expire()


def _check_reply(reply: Reply | Waiting) -> None:
    """See that clients can read a reply."""
    if not isinstance(reply, Waiting):
        chunks: list[bytes] = []
        encode(reply, 3, chunks)
        reader = hiredis.Reader()
        reader.feed(b"".join(chunks))
        assert reader.gets() is not False, "a reply that does not end"
        assert not reader.has_data(), "more than one reply"
