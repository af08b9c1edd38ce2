"""``crdb salvage`` waits while the members agree on how many effects of a region count."""

from collections.abc import Iterator

import pytest

from crdtstream.access.basic import Login
from crdtstream.cli import crdb_salvage
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Incarnations
from crdtstream.core.membership.members import apply
from crdtstream.upkeep.counting import NotCountedError, Running
from crdtstream.upkeep.folder_reading import Identity
from tests.harness.regions import Node
from tests.membership.world import founded, removal

R3 = RegionId(3)
MEMBERS = apply(founded(3), removal(3, 1))
WRITTEN, COUNT = 5, 2


def told(cut: int | None) -> Running:
    """A region that has removed region 3, and knows its cut, or does not know it yet."""
    regions = frozenset(one.region for one in MEMBERS.regions)
    return Running({R3: COUNT}, {}, {}, {R3: cut}, MEMBERS.epoch, MEMBERS.hash, regions)


def origins(monkeypatch: pytest.MonkeyPatch, answers: Iterator[Running]) -> list[tuple[int, int]]:
    """Count and number of effects in the folder of region 3, by origin."""
    node = Node(3)
    for _ in range(WRITTEN):
        node.run("XADD x * f v")
    monkeypatch.setattr(crdb_salvage, "_running", lambda *_: next(answers))
    identity = Identity(R3, "crdb", "", 1, {}, Incarnations())
    found = crdb_salvage._counted(identity, node.replica, MEMBERS, "127.0.0.1:1", Login())
    return [(one.count, one.n) for one in found]


def test_a_number_that_is_not_known_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([told(None), told(None), told(COUNT)])
    assert origins(monkeypatch, answers) == [(COUNT, WRITTEN)]


def test_a_number_that_does_not_become_known_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crdb_salvage, "COUNTED_SECONDS_MAX", 0.0)
    with pytest.raises(NotCountedError, match="how many effects of region 3 count"):
        origins(monkeypatch, iter([told(None)]))
