"""The entries of one lane: those that both states have, and what either has beyond the other.

Dots ascend through a lane, and of its origin one of the two states has applied more.  So the lanes
are alike up to the smaller of both numbers, but for what one side removed, and beyond it one of
them has more:

    here    1 2   4 5 | 7 9               vector here 9, there 5
    there   1   3 4 5 |                   2 was removed there, 3 here: 1 4 5 7 9 is left

    here    1 2   4 5 |                   vector here 5, there 9
    there   1   3 4 5 | 7 9               7 9 is taken over: 1 4 5 7 9

Macro nodes that are taken over as a whole are not read: only their heads are.  Nodes of both sides
with the same entries have the same digest, and are not read either.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from crdtstream.core.ids import SEQ_BITS, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.lanes.blocks import DIGEST_MASK
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.columns import NodeColumns, part_of
from crdtstream.core.lanes.header import Head, Header
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.node import NO_EPOCH, MacroNode
from crdtstream.core.lanes.packing import unpack
from crdtstream.core.lanes.rax import KEY_BYTES
from crdtstream.core.lanes.residency import Residency
from crdtstream.core.merge.sent import SentNode


class Stretch(NamedTuple):
    """Neighbouring macro nodes of both sides, with no entry outside them between their ends."""

    here: list[MacroNode]
    there: list[SentNode]


class LanePlan(NamedTuple):
    """What merging a lane needs to read entries for.

    It holds while no effects of the lane's origin are applied, but for own ones that the other side
    has not: what was removed there stays so, whatever else is removed here.

    Attributes:
        gone: stretches of dot numbers, first and last, whose entries the other side has removed.
        split: of the macro node that has entries on both sides of ``here_n`` those beyond it.
    """

    gone: list[tuple[int, int]]
    split: NodeColumns | None


# By origin.
LanePlans = Mapping[RegionId, LanePlan]
NO_PLANS: Final[LanePlans] = {}


def plan_lane(
    lane: Lane | None,
    sent: Sequence[SentNode],
    *,
    here_n: int,
    there_n: int,
    residency: Residency,
) -> LanePlan:
    """Read what merging a lane needs; arguments as of ``merge_lane``.

    Args:
        lane: None: nothing of it is here.

    Raises:
        UnreadableError: an entry that has to be read cannot be.
    """
    gone = [] if lane is None else list(_gone(lane, sent, min(here_n, there_n), residency))
    return LanePlan(gone, _split(sent, here_n, residency) if there_n > here_n else None)


def merge_lane(
    lane: Lane,
    sent: Sequence[SentNode],
    *,
    here_n: int,
    there_n: int,
    arrived: Millis,
    plan: LanePlan | None = None,
) -> bool:
    """Merge the macro nodes of another region's lane into this one's.

    Args:
        sent: in the order of their IDs.
        here_n, there_n: how many effects of the lane's origin each side has applied.
        arrived: when what is new here came to this region.
        plan: what ``plan_lane`` found; None: it is found out now.

    Returns:
        Whether anything changed.

    Raises:
        UnreadableError: an entry that has to be read cannot be; nothing has changed.

    Cost: O(macro nodes), and reading those that differ, and one in which ``here_n`` lies.
    """
    gone, split = plan or plan_lane(
        lane, sent, here_n=here_n, there_n=there_n, residency=lane.limits.residency
    )
    for first_n, last_n in gone:
        lane.remove_dots(first_n, last_n - first_n + 1)
    if there_n <= here_n:
        return bool(gone)
    if split is not None:
        _append(lane, split, arrived)
    new = [node for node in sent if node[1].header.first_n > here_n]
    for image, (key, added, highest_removed_id, header) in new:
        head = Head(key, added, highest_removed_id, came_at(header, arrived))
        lane.take_over(MacroNode.absent(image, head, lane))
    return bool(gone or split or new)


# --- What the other side removed ----------------------------------------------------------------


def _gone(
    lane: Lane, sent: Sequence[SentNode], upto_n: int, residency: Residency
) -> Iterator[tuple[int, int]]:
    """Stretches of dot numbers, first and last, whose entries the other side has removed."""
    for here, there in _stretches(lane, sent, upto_n):
        if not here or are_alike(here, there, upto_n):
            continue
        left = {n for node in there for n in _columns_of(node, residency).n if n <= upto_n}
        mine = [n for node in here for n in node.columns.n if n <= upto_n]
        for is_left, run in groupby(mine, left.__contains__):
            if not is_left:
                ns = list(run)
                yield ns[0], ns[-1]


def _stretches(lane: Lane, sent: Iterable[SentNode], upto_n: int) -> Iterator[Stretch]:
    """The macro nodes of both sides up to a dot number, as short stretches as can be."""
    mine = lane.macro_nodes()
    theirs = iter(sent)
    here, there = next(mine, None), next(theirs, None)
    stretch, end = Stretch([], []), 0
    while True:
        here_n = here.first_n if here is not None else upto_n + 1
        there_n = there[1].header.first_n if there is not None else upto_n + 1
        first_n = min(here_n, there_n)
        is_last = first_n > upto_n
        # The last one may have a macro node that reaches beyond the dot number.
        if (is_last or first_n > end) and (stretch.here or stretch.there):
            yield stretch
            stretch = Stretch([], [])
        if is_last:
            return
        if here is not None and here_n == first_n:
            stretch.here.append(here)
            end = max(end, here.last_n)
            here = next(mine, None)
        elif there is not None:
            stretch.there.append(there)
            end = max(end, there[1].header.last_n)
            there = next(theirs, None)


def are_alike(here: Sequence[MacroNode], there: Sequence[SentNode], upto_n: int = U64_MAX) -> bool:
    """Whether both sides have the same entries, and none beyond a dot number, as far as heads tell.

    False: they may.
    """
    if not here or not there:
        return not here and not there
    headers = [head.header for _, head in there]
    return (
        max(here[-1].last_n, headers[-1].last_n) <= upto_n
        and sum(map(len, here)) == sum(header.entries for header in headers)
        and sum(node.own_digest() for node in here) & DIGEST_MASK
        == sum(header.digest for header in headers) & DIGEST_MASK
    )


def _columns_of(node: SentNode, residency: Residency) -> NodeColumns:
    """The entries of a macro node that is in no lane here."""
    image, head = node
    return decode_body(unpack(residency.load(image), size=head.header.body_bytes), head.header)


# --- What this side has not heard of ------------------------------------------------------------


def _split(sent: Iterable[SentNode], here_n: int, residency: Residency) -> NodeColumns | None:
    """Of the macro node that has entries on both sides of a dot number those beyond it."""
    for node in sent:
        header = node[1].header
        if header.first_n <= here_n < header.last_n:
            columns = _columns_of(node, residency)
            first = next(at for at, n in enumerate(columns.n) if n > here_n)
            return part_of(columns, first, len(columns.n))
    return None


def _append(lane: Lane, columns: NodeColumns, arrived: Millis) -> None:
    """Put entries behind all others, as one macro node."""
    first_id = StreamId(columns.ms[0] << SEQ_BITS | columns.seq[0])
    node = MacroNode(first_id.to_bytes(KEY_BYTES, "big"), lane, NO_EPOCH)
    columns.arrivals.append(columns.n[0])
    columns.arrivals.append(arrived)
    node.added = len(columns.n)
    node.put_columns(columns)
    lane.take_over(node)
    lane.limits.small[node] = None


def came_at(header: Header, arrived: Millis) -> Header:
    """The header of a macro node all of whose entries come here at once."""
    # Not by ``_replace``: it is called for each macro node that is taken over.
    return Header._make((*header[:6], arrived, arrived, *header[8:-1], True))
