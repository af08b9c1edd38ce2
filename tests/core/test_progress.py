"""The places of a lane that a region reads: each move, and a wrong one fails when it is made."""

import ast
from collections.abc import Callable

import pytest

from crdtstream.core.effects import LaneHandover
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.ids import ID_MAX, ID_MIN, StreamId
from tests.conftest import ROOT

# A compiled class has no slots, and this tuple in their place.
FIELDS = {*getattr(LaneProgress, "__mypyc_attrs__", LaneProgress.__dict__.get("__slots__", ()))} - {
    "pel"
}
Move = Callable[[LaneProgress], object]


def at(number: int) -> StreamId:
    return StreamId(number)


def read_upto(number: int, *, start: int = 0) -> LaneProgress:
    """A lane that was read from ``start`` on."""
    progress = LaneProgress(at(start), 0)
    progress.deliver_upto(at(number), None)
    return progress


def handed_over(run_from: int, last_delivered: int, *, ignore_until: int = 0) -> LaneHandover:
    return LaneHandover(at(run_from), at(last_delivered), (), at(ignore_until), (), None)


def places(progress: LaneProgress) -> tuple[int, int, list[tuple[int, int]], int]:
    run = progress.run_from, progress.last_delivered
    return *run, list(progress.handed_out), progress.skip_pending_until


@pytest.mark.parametrize(
    ("move", "after"),
    [
        # A jump within the run keeps it; another one begins a new run.
        (lambda one: one.jump(at(7)), (5, 7, [], 0)),
        (lambda one: one.jump(at(3)), (3, 3, [(5, 10)], 0)),
        (lambda one: one.jump(at(12)), (12, 12, [(5, 10)], 0)),
        (lambda one: one.skip_to(at(12)), (5, 12, [], 0)),
        (lambda one: one.take_back(at(2)), (2, 2, [(5, 10)], 10)),
        (lambda one: one.read_again(at(6), at(8)), (6, 6, [(5, 6), (8, 10)], 10)),
        (lambda one: one.read_again(at(12), at(14)), (5, 10, [], 0)),
        (lambda one: one.give_up(at(8)), (8, 10, [(5, 7)], 0)),
        # SETID: nothing ahead is skipped, whatever was delivered there.
        (
            lambda one: one.set_position(at(3), known_until=at(9), entries_read=None),
            (3, 3, [], 0),
        ),
        (
            lambda one: one.set_position(ID_MAX, known_until=at(9), entries_read=None),
            (ID_MAX, ID_MAX, [(5, 10)], 0),
        ),
        # A handover: both runs are known as delivered, in one stretch if they meet.
        (lambda one: one.take_in(handed_over(8, 15)), (5, 10, [(5, 15)], 10)),
        (
            lambda one: one.take_in(handed_over(0, 6, ignore_until=9)),
            (5, 10, [(0, 6), (9, 10)], 10),
        ),
    ],
)
def test_each_move_puts_the_places_where_the_picture_has_them(
    move: Move, after: tuple[int, int, list[tuple[int, int]], int]
) -> None:
    progress = read_upto(10, start=5)
    move(progress)
    assert places(progress) == after


def test_a_handover_that_was_not_set_back_leaves_stretches_as_they_are() -> None:
    """The old home's place lies in a stretch of this region: the stretch stays one."""
    progress = read_upto(100)
    progress.take_in(handed_over(50, 50, ignore_until=20))
    assert list(progress.handed_out) == [(0, 100)]


def test_lanes_do_not_share_what_they_handed_out() -> None:
    one, other = read_upto(10, start=5), read_upto(10, start=5)
    one.take_back(at(2))
    assert [list(each.handed_out) for each in (one, other)] == [[(5, 10)], []]
    assert not read_upto(10).handed_out


@pytest.mark.parametrize(
    "move",
    [
        lambda one: one.deliver_upto(at(10), None),
        lambda one: one.deliver_upto(at(4), None),
        lambda one: one.skip_to(at(10)),
        lambda one: one.take_back(at(10)),
        lambda one: one.read_again(at(6), at(6)),
        # Its run was not kept before.
        lambda one: one.continue_from(handed_over(0, 3)),
        lambda one: LaneProgress.restored(
            run_from=at(3),
            last_delivered=at(2),
            ignore_until=ID_MIN,
            handed_out=one.handed_out,
            has_left_out=False,
            skip_pending_until=ID_MIN,
            entries_read=None,
        ),
    ],
)
def test_a_wrong_move_fails_when_it_is_made(move: Move) -> None:
    with pytest.raises(AssertionError):
        move(read_upto(10, start=5))


def test_its_fields_change_in_its_module_only() -> None:
    """A place that is moved from elsewhere would not be checked."""
    own = ROOT / "crdtstream" / "core" / "groups" / "progress.py"
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.attr}"
        for path in sorted((ROOT / "crdtstream" / "core").rglob("*.py"))
        # Messages have fields of these names, too.
        if path != own and path.parent.name != "wire"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and _changes_one(node)
    ]
    assert wrong == []


def _changes_one(node: ast.Attribute) -> bool:
    """True for ``one.run_from = …`` and ``one.handed_out.remove``."""
    if isinstance(node.ctx, ast.Store):
        return node.attr in FIELDS
    is_change = node.attr in ("add", "remove")
    return is_change and isinstance(node.value, ast.Attribute) and node.value.attr in FIELDS
