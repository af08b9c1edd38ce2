"""Intended differences are written down, with their reason, and exist."""

import pytest

from crdtstream.core.ids import IdMode
from tests.harness.regions import Node, sync
from tests.like_redis.intended import ROOT, SHOWN_ELSEWHERE, documented
from tests.like_redis.oracles import RealServer
from tests.like_redis.script import FOLDER, Script, load
from tests.like_redis.test_random import STEERED_AROUND
from tests.like_redis.test_scripts import run

SCRIPTS = load(FOLDER / "intended.txt")
MARKED = {
    step.intended
    for file in FOLDER.rglob("*.txt")
    for script in load(file)
    for step in script.steps
    if step.intended
}


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", [pytest.param(script, id=script.name) for script in SCRIPTS])
def test_intended_differences_exist(
    script: Script, protocol: int, redis: RealServer, other_servers: list[RealServer]
) -> None:
    report = run(script, protocol, redis, other_servers)
    assert not report.missing, f"the same as in Redis: {report.missing}"
    assert not report.unintended, "\n".join(map(str, report.unintended))


def test_nothing_is_left_out_that_is_not_documented() -> None:
    assert MARKED | set(STEERED_AROUND) <= set(documented())


def test_every_documented_difference_is_shown() -> None:
    names = documented()
    assert len(set(names)) == len(names)
    assert {script.name for script in SCRIPTS} == MARKED
    assert set(names) == MARKED | set(SHOWN_ELSEWHERE)
    assert not MARKED & set(SHOWN_ELSEWHERE)
    assert all((ROOT / place).exists() for place in SHOWN_ELSEWHERE.values())


def test_of_several_lanes_the_node_with_the_lowest_first_id_goes() -> None:
    """trimming-by-lane."""
    nodes = [Node(region, IdMode.LIBERAL) for region in (1, 2)]
    for node in nodes:
        node.replica.node_limits.entries_max = 2
    nodes[0].run("XADD s 1 f v", "XADD s 2 f v", "XADD s 5 f v", "XADD s 6 f v")
    nodes[1].run("XADD s 3 f v", "XADD s 4 f v")
    sync(*nodes)
    assert nodes[0].run("XTRIM s MAXLEN ~ 3") == 2
    assert nodes[0].run("XRANGE s - +") == ["3-0", "4-0", "5-0", "6-0"]
    assert nodes[0].run("XTRIM s MAXLEN ~ 2") == 2
    assert nodes[0].run("XRANGE s - +") == ["5-0", "6-0"]
