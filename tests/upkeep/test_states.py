"""Findings of a check never occur in a sound state: whole regions, with faults."""

from collections import Counter

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.sim.history import History
from crdtstream.sim.making import Maker
from crdtstream.sim.sizes import drawn
from crdtstream.store.log import Logged
from crdtstream.upkeep.effects import Effects
from crdtstream.upkeep.state_check import StateCounts, wrong_groups, wrong_lanes

STEPS = 150


def look_at(history: History, seen: Counter[str]) -> None:
    """The rows on every disk, and the state that they give."""
    for number, node in history.world.nodes.items():
        if node.disk.begins:
            # It was cut, or a state was merged: the checkpoint is needed, too, or what is staged.
            continue
        effects = Effects()
        replica = Replica(RegionId(number))
        for seq, record in enumerate(node.disk.records, 1):
            effects.take(Logged(seq, record))
            replica.replay(record)
        assert effects.is_whole, effects
        assert effects.vv == replica.vv
        counts = StateCounts()
        assert [*wrong_lanes(replica, counts), *wrong_groups(replica, counts)] == []
        seen["entries"] += counts.entries
        seen["groups"] += counts.groups
        seen["pending"] += counts.pending


@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 40), marks=pytest.mark.long)], ids=str
)
def test_simulated_regions_keep_every_rule(seeds: range) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        maker = Maker(seed)
        steps, failure = maker.run(STEPS)
        assert failure is None
        with drawn(maker.plan.sizes):
            history = History(maker.plan)
            for step in steps:
                history.do(step)
            look_at(history, seen)
    # Else this test says nothing.
    assert all(seen[what] for what in ("entries", "groups", "pending")), seen
