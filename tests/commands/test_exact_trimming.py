"""XTRIM MAXLEN takes the first entries of all lanes, without reading those in whole nodes."""

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.streams.trimming import _plan_exactly
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.whole.state import State
from tests.cold_nodes import freeze

FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def stream_of(lanes: list[set[int]], limits: NodeLimits) -> Stream:
    stream = State(RegionId(1), (), limits).keys.stream_or_new(b"s")
    for region, ids in enumerate(lanes, 1):
        for n, entry_id in enumerate(sorted(ids), 1):
            lane = stream.lane(RegionId(region))
            lane.append(StreamId(entry_id), n, FIELDS, Millis(0))
    return stream


@given(
    lanes=st.lists(st.sets(st.integers(1, 60), min_size=1), min_size=1, max_size=3),
    entries_max=st.integers(1, 7),
    share=st.floats(0, 1),
)
def test_the_first_entries_go_whichever_lane_they_are_in(
    lanes: list[set[int]], entries_max: int, share: float
) -> None:
    stream = stream_of(lanes, NodeLimits(entries_max=entries_max))
    excess = max(1, int(stream.length * share))
    expected: dict[RegionId, StreamId] = {}
    for entry_id, region, _, _ in list(stream.scan())[:excess]:
        expected[region] = entry_id
    assert _plan_exactly(stream, excess) == expected


def test_whole_nodes_are_not_read() -> None:
    limits = NodeLimits(entries_max=10)
    stream = stream_of([set(range(1, 1_001)), set(range(1, 2_001, 2))], limits)
    images = freeze(limits)
    limits.residency.loader = images.__getitem__
    with limits.residency.in_place():
        assert _plan_exactly(stream, 1_200) == {1: 800, 2: 799}
        assert limits.residency.loaded_inline == 0, "all of it whole nodes"
        assert _plan_exactly(stream, 1_204) == {1: 803, 2: 801}
    assert 0 < limits.residency.loaded_inline <= 4
