"""Invariants of what one region shows of its streams, each as a function."""

from collections.abc import Iterable
from dataclasses import dataclass

from crdtstream.core.clock import Dot
from crdtstream.core.groups.pel_chunk import PelChunk
from crdtstream.core.ids import ID_MAX, ID_MIN, SEQ_BITS, RegionId
from crdtstream.core.replica import Replica
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.streams import GROUP, HOME_KEY, READ_KEY
from crdtstream.sim.violation import ViolationError


def check_order(replica: Replica) -> None:
    """I5, I6, I11: lanes ascend by ID and by dot, and no macro node is empty."""
    for key in replica.keys.known():
        stream = replica.keys.held_stream(key)
        for lane in () if stream is None else stream.lanes.values():
            last_id, last_n = -1, 0
            for node in lane.macro_nodes():
                columns = node.columns
                for ms, seq, n in zip(columns.ms, columns.seq, columns.n, strict=True):
                    entry_id = ms << SEQ_BITS | seq
                    if not (last_id < entry_id and last_n < n):
                        raise ViolationError(
                            f"I5: lane {lane.region} of {key!r} in region {replica.region} has "
                            f"dot {n} with ID {entry_id} after {last_n}, {last_id}"
                        )
                    last_id, last_n = entry_id, n
            if lane.length and not last_n:
                raise ViolationError(f"I6: a lane of {key!r} counts what it does not have")


def check_reading(node: SimNode, acknowledged: set[bytes]) -> None:
    """I9: an entry behind the reader is pending, acknowledged in some region, or was
    deleted."""
    stream = node.region.replica.keys.held_stream(READ_KEY)
    group = None if stream is None else stream.groups.get(GROUP)
    if stream is None or group is None:
        return
    for origin, lane in stream.lanes.items():
        progress = group.progress(origin)
        for entry_id, _, _ in lane.scan(ID_MIN, progress.last_delivered):
            text = b"%d-%d" % (entry_id >> 64, entry_id & (1 << 64) - 1)
            if entry_id not in progress.pel and text not in acknowledged:
                raise ViolationError(
                    f"I9: region {node.number} reads on at {progress.last_delivered} of lane "
                    f"{origin} and never handed out {text.decode()}"
                )


def check_home(node: SimNode, ever: set[RegionId]) -> None:
    """I12: if a group has a home, no other region delivers, except its heir.

    A region that is sealed hands its groups over, and keeps what is pending in it.

    Args:
        ever: every region that was the home at some time.
    """
    replica = node.region.replica
    stream = replica.keys.held_stream(HOME_KEY)
    group = None if stream is None else stream.groups.get(GROUP)
    homes = {*ever, *map(replica.acting_for, ever)}
    if group is not None and node.number not in homes and group.pending_count:
        raise ViolationError(
            f"I12: region {node.number} delivered entries of {HOME_KEY!r}, whose homes "
            f"are {sorted(homes)}"
        )


def check_rows(replica: Replica, keys: set[bytes]) -> None:
    """I13: each row of a numbered producer is in the stream once."""
    for key in sorted(keys):
        stream = replica.keys.held_stream(key)
        rows = [
            row
            for lane in ({} if stream is None else stream.lanes).values()
            for _, macro, index in lane.scan(ID_MIN, ID_MAX)
            if (row := macro.columns.numbered_at(index)) is not None
        ]
        if len(rows) != len(set(rows)):
            raise ViolationError(f"I13: region {replica.region} has a row of {key!r} twice: {rows}")


def check_delivery(kept: Iterable[SimNode]) -> None:
    """I9, I12: all entries are delivered where they must be, those of a removed region too."""
    for node in kept:
        for key in (READ_KEY, HOME_KEY):
            stream = node.region.replica.keys.held_stream(key)
            group = None if stream is None else stream.groups.get(GROUP)
            if stream is None or group is None:
                continue
            if group.home not in (None, node.number):
                continue
            for origin, lane in stream.lanes.items():
                position = group.progress(origin).last_delivered
                runs = list(group.intervals.get(origin, ()))
                left = [
                    entry_id
                    for entry_id, _, _ in lane.scan(ID_MIN, ID_MAX)
                    if entry_id > position
                    and not any(start < entry_id <= end for start, end in runs)
                ]
                if left:
                    raise ViolationError(
                        f"I9: region {node.number} hands nothing out of {key!r} any more, and"
                        f" {len(left)} entries of lane {origin} were handed out nowhere"
                    )


def check_deadlines(kept: Iterable[SimNode]) -> None:
    """Rule 7: a key whose deadline has passed everywhere is deleted, whichever region had set
    it."""
    for node in kept:
        for key, held in node.region.replica._registers.items():
            deadlines = list(held.expiry.values.values())
            if deadlines and None not in deadlines:
                raise ViolationError(
                    f"rule 7: in region {node.number} the time of {key!r} is over, and nobody"
                    f" deletes it: {held.expiry.values}"
                )


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A group of one region: which incarnation it is, and the chunks of its PEL."""

    creates: frozenset[Dot]
    pending: list[PelChunk]


class Incarnations:
    """Groups of one region, as they were seen last, and those that ended."""

    def __init__(self) -> None:
        self._groups: dict[tuple[bytes, bytes], SeenGroup] = {}
        self._ended: dict[tuple[bytes, bytes], SeenGroup] = {}

    def check(self, node: SimNode) -> None:
        """I9, rule 12: pending entries end with their group, and its successor does not have
        them."""
        before, ended = self._groups, self._ended
        found = {}
        replica = node.region.replica
        for key in replica.keys.known():
            stream = replica.keys.held_stream(key)
            for name, group in ({} if stream is None else stream.groups).items():
                seen = found[key, name] = SeenGroup(frozenset(group.creates), [*group.chunks()])
                earlier = before.get((key, name), ended.get((key, name)))
                if earlier is None or seen.creates & earlier.creates:
                    continue
                known = {id(chunk) for chunk in earlier.pending}
                kept = sum(len(chunk) for chunk in seen.pending if id(chunk) in known)
                if kept:
                    raise ViolationError(
                        f"I9: region {node.number} made {name!r} of {key!r} again, and {kept} "
                        "entries are still pending from before"
                    )
        # A group that ended is remembered: the next one of its name is another one.
        ended |= before
        for at in found:
            ended.pop(at, None)
        self._groups = found
