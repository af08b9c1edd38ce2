"""The table of deadlines, against a dict of them."""

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.ids import Millis
from crdtstream.region.deadlines import Deadlines
from tests.harness.driven import Driven, make_region

PARTS = 4
MOVES = st.lists(
    st.tuples(st.integers(0, PARTS - 1), st.one_of(st.none(), st.integers(0, 5).map(Millis))),
    max_size=30,
)


@given(MOVES)
def test_the_earliest_is_the_least_of_all_that_are_set(
    moves: list[tuple[int, Millis | None]],
) -> None:
    deadlines = Deadlines()
    parts = [deadlines.new() for _ in range(PARTS)]
    model: dict[int, Millis | None] = {}
    for part, at in moves:
        parts[part].set(at)
        model[part] = at
        expected = min((one for one in model.values() if one is not None), default=None)
        assert deadlines.earliest == expected
        assert parts[part].at == at


def test_a_deadline_that_two_parts_share_stays_when_one_ends() -> None:
    deadlines = Deadlines()
    one, other = deadlines.new(), deadlines.new()
    one.set(Millis(5))
    other.set(Millis(5))
    one.set(None)
    assert deadlines.earliest == 5
    other.set(None)
    assert deadlines.earliest is None


def test_a_region_that_nothing_depends_on_sets_none() -> None:
    assert make_region(peers=()).deadlines.earliest is None


def test_the_earlier_one_of_parts_and_clients_is_reported() -> None:
    driven = Driven()
    part = driven.region.deadlines.new()
    driven.call("XREAD", "BLOCK", "50", "STREAMS", "s", "$")
    part.set(Millis(driven.clock + 100))
    assert driven.end_tick().deadline == driven.clock + 50
    part.set(Millis(driven.clock + 20))
    assert driven.end_tick().deadline == driven.clock + 20
