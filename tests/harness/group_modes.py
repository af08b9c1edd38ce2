"""The group ``g`` of ``x`` in several regions: who hands it out, and what is pending."""

from crdtstream.commands.reply import Null
from crdtstream.core.effects import Effect
from crdtstream.core.groups.progress import LaneProgress
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type

NOTHING = Null.ARRAY


def regions(count: int = 2) -> list[Node]:
    return [Node(region) for region in range(1, count + 1)]


def set_mode(node: Node, mode: str) -> object:
    return node.run(f"CRDT.XGROUP SETMODE x g {mode}")


def mode_of(node: Node) -> tuple[object, ...]:
    facts = node("CRDT.XGROUP GETMODE x g")
    assert isinstance(facts, dict), facts
    return tuple(facts.values())


def read(node: Node, count: int = 1000) -> list[str]:
    """Entries that ``>`` delivers; none for NOTHOME."""
    reply = node.run(f"XREADGROUP GROUP g c COUNT {count} STREAMS x >")
    if reply is NOTHING or (isinstance(reply, str) and reply.startswith("NOTHOME")):
        return []
    return list_of(str, of_type(dict, reply)["x"])


def pending(node: Node) -> list[str]:
    return [row[0] for row in list_of(list, node("XPENDING x g - + 1000"))]


def owners(node: Node) -> dict[str, str]:
    """Pending entries and who owns them; "" is nobody."""
    return {row[0]: row[1] for row in list_of(list, node("XPENDING x g - + 1000"))}


def claim(node: Node, *ids: str) -> list[str]:
    reply = node.run(f"XCLAIM x g c 0 {' '.join(ids)}")
    assert isinstance(reply, list), reply
    return reply


def issued(node: Node) -> list[Effect]:
    """The effects that the node issued, without appends."""
    return [
        effect
        for batch in node.batches()
        if batch.origin == node.region
        for _, effect in batch.others
    ]


def lanes_of(node: Node) -> dict[int, LaneProgress]:
    stream = node.replica.stream(b"x")
    assert stream is not None
    return {region: stream.groups[b"g"].progress(region) for region in sorted(stream.lanes)}


def positions(node: Node) -> object:
    """A region's positions in its groups, which no command shows."""
    stream = node.replica.stream(b"x")
    if stream is None or b"g" not in stream.groups:
        return None
    group = stream.groups[b"g"]
    return (
        group.mode,
        [
            (
                region,
                progress.last_delivered,
                progress.run_from,
                progress.ignore_until,
                list(progress.handed_out),
                progress.has_left_out,
                progress.skip_pending_until,
                [
                    (nack.id, nack.consumer and nack.consumer.name, nack.delivery_count)
                    for nack in progress.pel.nacks()
                ],
            )
            for region, progress in lanes_of(node).items()
        ],
        [(nack.id, nack.lane) for nack in group.unowned()],
    )


def home_with_pending(*nodes: Node) -> list[str]:
    """Region 1 is the home and has handed out 110, 120 and 130 of its own lane."""
    first = nodes[0]
    first.run("XGROUP CREATE x g 0 MKSTREAM")
    set_mode(first, "home 1")
    first.run("XADD x 110-1 f v", "XADD x 120-1 f v", "XADD x 130-1 f v")
    sync(*nodes)
    return read(first)
