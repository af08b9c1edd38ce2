"""A region that takes over a state, and its twin that has applied the same by effects."""

from collections.abc import Iterable

from crdtstream.core.groups.pel_chunk import Nack
from crdtstream.core.ids import Millis, StreamId
from tests.harness.regions import Node


def twin_of(node: Node) -> Node:
    """Another region of the same number, with the same log: it has lived through the same."""
    node.end_tick()
    twin = Node(node.region, node.mode, now=node.now, others=node.others)
    twin.checkpoints = node.checkpoints
    twin.log = list(node.log)
    twin.restart()
    assert twin.digest == node.digest
    return twin


def merge_as_by_links(node: Node, *sources: Node) -> None:
    """Take over states; replicated and local facts must be those that the effects would leave."""
    twin = twin_of(node)
    twin.pull(*sources)
    for source in sources:
        node.merge(source)
    assert node.replica.vv == twin.replica.vv
    assert node.digest == twin.digest
    assert local_facts(node) == local_facts(twin)


def _by_time(nacks: Iterable[Nack]) -> list[tuple[Millis, StreamId]]:
    """In their order; those of one millisecond by ID, as a region has them that begins again."""
    found = [(nack.delivered_ms, nack.id) for nack in nacks]
    assert [ms for ms, _ in found] == sorted(ms for ms, _ in found)
    return sorted(found)


def local_facts(node: Node) -> dict[tuple[bytes, bytes], object]:
    """By key and group all that a region knows of its reading, the order of claims included.

    Lanes without entries that were never read are left out: where they would begin follows from
    the creates.
    """
    return {
        (key, name): (
            group.mode,
            sorted(group.creates),
            {
                region: (
                    progress.last_delivered,
                    progress.run_from,
                    progress.ignore_until,
                    list(progress.handed_out),
                    progress.has_left_out,
                    progress.skip_pending_until,
                    [
                        (
                            nack.id,
                            nack.consumer and nack.consumer.name,
                            nack.delivered_ms,
                            nack.delivery_count,
                        )
                        for nack in progress.pel.nacks()
                    ],
                )
                for region in sorted({*group.lanes, *(one.region for one in stream.filled_lanes())})
                for progress in [group.progress(region)]
            },
            [(nack.id, nack.lane) for nack in group.unowned()],
            _by_time(group.longest_idle()),
            sorted(group.pel.consumers),
        )
        for key, stream in sorted(node.replica._streams.items())
        for name, group in sorted(stream.groups.items())
    }
