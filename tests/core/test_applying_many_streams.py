"""A batch with entries of many streams is applied as one of few, for little more work each."""

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.calls import calls_of
from tests.harness.regions import Node

STREAMS = 500


def written(*, per_stream: int = 1) -> Node:
    """A region that appended to many streams in each of two ticks."""
    node = Node(1)
    for _ in range(2):
        for number in range(STREAMS):
            for _ in range(per_stream):
                node(f"XADD s:{number} * field value-{number}")
        node.end_tick()
        node.now += 1
    return node


def test_an_entry_of_a_known_stream_is_applied_in_few_calls() -> None:
    """Five: the end of its lane is looked at, and the entry is put there.  22 before."""
    first, second = written().log
    reader = Node(2)
    reader.take(first)
    calls = calls_of(lambda: reader.take(second))
    assert calls < 6 * STREAMS


def test_a_last_id_of_another_region_stays_when_a_lower_one_arrives() -> None:
    reader, writer = Node(2), Node(1)
    reader("XADD s 9-0 f v")
    writer("XADD s 5-0 f v")
    writer("XADD t 5-0 f v")
    writer("XADD s 6-0 f v")
    reader.pull(writer)
    reader("XADD s 9-* f v")
    assert reader("XRANGE s - +") == ["5-0", "6-0", "9-0", "9-1"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.sampled_from([0, 7]))
def test_runs_of_any_length_make_the_same_streams(streams: list[int], delete_at: int) -> None:
    writer, reader, one_by_one = Node(1), Node(2), Node(3)
    for at, stream in enumerate(streams):
        if delete_at and at % delete_at == 0:
            writer(f"DEL s:{stream}")
        writer(f"XADD s:{stream} * field value-{at}")
    reader.pull(writer)
    for batch in writer.batches():
        columns = batch.appends
        assert len(columns.ms) == len(streams)
    assert reader.replica.digest() == writer.replica.digest()
    # Notifications are asked for: then each run is looked at by itself.
    one_by_one.replica.begin_noting()
    one_by_one.pull(writer)
    assert one_by_one.replica.digest() == writer.replica.digest()
    for node in (reader, one_by_one):
        for stream in set(streams):
            line = f"XRANGE s:{stream} - +"
            assert node(line) == writer(line)


def test_streams_do_not_share_what_they_hold() -> None:
    node = Node(1)
    node("XADD s * f v")
    node("XADD t * f v")
    node("XGROUP CREATE s g 0")
    node("XTRIM s MAXLEN 0")
    assert node("XINFO GROUPS t") == []
    assert node.replica.keys.lost(b"s") == {1: 1}
    assert node.replica.keys.lost(b"t") == {}
    node("XADD u * f v")
    assert node("XINFO GROUPS u") == []
    assert node.replica.keys.lost(b"u") == {}
