"""The entries of one lane: those that both states have, and what either has beyond the other.

Dots ascend through a lane, and one of the two states has applied more effects of its origin.  So up
to the smaller of both numbers the lanes are alike, except for what one side removed.  Beyond it one
of them has more:

    here    1 2   4 5 | 7 9               vector here 9, there 5
    there   1   3 4 5 |                   2 was removed there, 3 here: 1 4 5 7 9 is left

    here    1 2   4 5 |                   vector here 5, there 9
    there   1   3 4 5 | 7 9               7 9 is taken over: 1 4 5 7 9

Macro nodes that are taken over as a whole are not read: only their heads are.  Nodes of both sides
with the same entries have the same digest, and are not read either.
"""

from bisect import bisect_right
from collections.abc import Container, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.checkpoint.parts import STAGED
from crdtstream.core.ids import (
    ID_MIN,
    SEQ_BITS,
    U64_MAX,
    Millis,
    RegionId,
    StreamId,
    format_id,
)
from crdtstream.core.lanes.blocks import DIGEST_MASK
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.columns import NodeColumns, part_of
from crdtstream.core.lanes.header import Header
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.macro_node import CLOSED, MacroNode
from crdtstream.core.lanes.packing import unpack
from crdtstream.core.lanes.rax import KEY_BYTES
from crdtstream.core.lanes.residency import Residency
from crdtstream.core.lanes.slices import Within
from crdtstream.core.merge.sent import SentNode
from crdtstream.core.ranges import Ranges


class Stretch(NamedTuple):
    """Neighbouring macro nodes of both sides, with no entry outside them between their ends."""

    here: list[MacroNode]
    there: list[SentNode]


class LanePlan(NamedTuple):
    """The part of a lane's merge for which entries must be read.

    It holds while no effects of the lane's origin are applied, except own ones that the other side
    lacks: what was removed there stays removed, whatever else is removed here.

    Attributes:
        gone: dot numbers of the entries that the other side has removed.
        split: the entries beyond ``here_n`` of the macro node that has entries on both sides of it.
    """

    gone: Ranges[int]
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
) -> Generator[None, None, LanePlan]:
    """Read what merging a lane needs; arguments as of ``merge_lane``.

    It stops behind each macro node that it has read.  Until it goes on clients may change the lane,
    as long as the plan holds.

    Args:
        lane: None: nothing of it is here.

    Raises:
        ContentError: an image says what cannot be.
        UnreadableError: an entry that has to be read cannot be.
    """
    gone: Ranges[int] = Ranges()
    if lane is not None:
        upto_n = min(here_n, there_n)
        for stretch in list(stretches(lane, sent, upto_n)):
            if stretch.here and not are_alike(stretch.here, stretch.there, upto_n):
                yield from _find_gone(lane, stretch, upto_n, residency, gone)
    split = _split(sent, here_n, residency) if there_n > here_n else None
    if split is not None:
        yield
    if lane is not None and there_n > here_n:
        _check_follows(lane, sent, split, gone, here_n)
    return LanePlan(gone, split)


def _check_follows(
    lane: Lane,
    sent: Iterable[SentNode],
    split: NodeColumns | None,
    gone: Ranges[int],
    here_n: int,
) -> None:
    """See that what is new follows the entries that stay here: I5.

    Those that stay are the ones that the other side has as well, so there the new ones follow them.
    New IDs may be below those of entries that were deleted there: these do not stay.  Where they do
    not follow, the other side has other entries under the same dots, and no point of a history says
    so.

    Raises:
        ContentError: they do not.
    """
    if split is not None:
        first_id = split.id_at(0)
    else:
        keys = [head.key for _, head in sent if head.header.first_n > here_n]
        if not keys:
            return
        first_id = StreamId(int.from_bytes(keys[0], "big"))
    last_id = _last_kept(lane, gone)
    if last_id >= first_id:
        raise ContentError(
            f"lane {lane.region} goes on at {format_id(first_id).decode()}, and here it has"
            f" {format_id(last_id).decode()} under the dots before: its effects are others there"
        )


def _last_kept(lane: Lane, gone: Ranges[int]) -> StreamId:
    """The ID of the last entry that stays when others go; 0-0: none does."""
    node = lane.tail
    while node is not None:
        left = gone.missing(node.first_n, node.last_n + 1)
        if left and left[-1][1] > node.last_n:
            return node.last_id
        if left:
            # It was read to find those that go.
            columns = node.columns_once()
            for at in range(len(columns.n) - 1, -1, -1):
                if any(low <= columns.n[at] < high for low, high in left):
                    return columns.id_at(at)
        node = node.prev
    return ID_MIN


def merge_lane(
    lane: Lane,
    sent: Sequence[SentNode],
    *,
    here_n: int,
    there_n: int,
    arrived: Millis,
    plan: LanePlan | None = None,
) -> None:
    """Merge the macro nodes of another region's lane into this one's.

    Args:
        sent: in the order of their IDs.
        here_n, there_n: how many effects of the lane's origin each side has applied.
        arrived: when what is new here came to this region; 0: its macro nodes are given that later.
        plan: what ``plan_lane`` found; None: nothing of the lane is here, and of each macro node
            that was sent all is new here, or nothing.

    Raises:
        UnreadableError: an entry that has to be read cannot be; nothing has changed.

    Cost: O(macro nodes), and reading those that are cut.
    """
    split = None
    if plan is not None:
        lane.remove_ranges(plan.gone)
        split = plan.split
    else:
        assert lane.head is None, "entries that may be gone there are here"
    if there_n <= here_n:
        return
    if split is not None:
        _append(lane, split, arrived)
    for image, head in sent:
        if head.header.first_n > here_n:
            node = MacroNode.absent(image, head, lane)
            if arrived:
                node.cold = came_at(head.header, arrived)
            lane.take_over(node)
        else:
            assert split is not None or head.header.last_n <= here_n, "a part of it is new here"


# --- What the other side removed ----------------------------------------------------------------


def _find_gone(
    lane: Lane,
    stretch: Stretch,
    upto_n: int,
    residency: Residency,
    gone: Ranges[int],
) -> Iterator[None]:
    """Find the entries of a stretch that the other side has removed, a macro node at a time.

    Where the other side has no macro node, nothing of this side need be read for that.
    """
    last_n = max(stretch.here[-1].last_n, *(head.header.last_n for _, head in stretch.there), 0)
    end = min(upto_n, last_n) + 1
    start = min(stretch.here[0].first_n, end)
    for node in stretch.there:
        header = node[1].header
        _find_all_gone(lane, start, header.first_n, gone)
        start = min(header.last_n + 1, end)
        kept = set(columns_of(node, residency).n)
        within = Within(above_n=header.first_n - 1, upto_n=start - 1)
        for mine in lane.nodes_within(within):
            _find_others(mine, within, kept, gone)
        yield
    _find_all_gone(lane, start, end, gone)


def _find_all_gone(lane: Lane, start: int, stop: int, gone: Ranges[int]) -> None:
    """Note dot numbers that the other side has no entries of; read the nodes that this cuts."""
    if start >= stop:
        return
    gone.add(start, stop)
    for node in lane.nodes_within(Within(above_n=start - 1, upto_n=stop - 1)):
        if node.first_n < start or node.last_n >= stop:
            node.warm()


def _find_others(node: MacroNode, within: Within, kept: Container[int], gone: Ranges[int]) -> None:
    """Find the entries of a macro node that are not kept; if there are any, have it in memory."""
    columns = node.columns_once()
    first = bisect_right(columns.n, within.above_n)
    stop = bisect_right(columns.n, within.upto_n)
    for is_kept, run in groupby(columns.n[first:stop], kept.__contains__):
        if not is_kept:
            found = list(run)
            gone.add(found[0], found[-1] + 1)
            node.have(columns)


def stretches(lane: Lane, sent: Iterable[SentNode], upto_n: int) -> Iterator[Stretch]:
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
    """True if, by their heads, both sides have the same entries, and none beyond a dot number.

    False: they may be alike all the same.
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


def columns_of(node: SentNode, residency: Residency) -> NodeColumns:
    """The entries of a macro node that is in no lane here.

    Raises:
        ContentError: its body is none, or not that of its head.
        UnreadableError: it cannot be read.
    """
    image, head = node
    packed = residency.load(image)
    try:
        return decode_body(unpack(packed, size=head.header.body_bytes), head.header)
    except (ValueError, OverflowError) as error:
        raise ContentError(f"image {image - STAGED}: {error}") from error


# --- What this side has not heard of ------------------------------------------------------------


def _split(sent: Iterable[SentNode], here_n: int, residency: Residency) -> NodeColumns | None:
    """Entries beyond a dot number of the macro node that has entries on both sides of it."""
    for node in sent:
        header = node[1].header
        if header.first_n <= here_n < header.last_n:
            columns = columns_of(node, residency)
            first = next(at for at, n in enumerate(columns.n) if n > here_n)
            assert first > 0, "all of the node is beyond"
            return part_of(columns, first, len(columns.n))
    return None


def _append(lane: Lane, columns: NodeColumns, arrived: Millis) -> None:
    """Put entries behind all others, as one macro node."""
    assert not columns.arrivals, "they came here now"
    first_id = StreamId(columns.ms[0] << SEQ_BITS | columns.seq[0])
    node = MacroNode(first_id.to_bytes(KEY_BYTES, "big"), lane, CLOSED)
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
