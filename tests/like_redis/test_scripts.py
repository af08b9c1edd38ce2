"""One region in liberal mode answers as a real redis-server 8 does, command by command.

The scripts are in ``scripts/``; a script that needs a whole node is in ``scripts/node/``.  Every
reply is compared as it stands on the wire but for the times in it, in RESP2 and in RESP3;
``comparing.py`` says which.  Where the real servers disagree among themselves the newest counts,
and the test's properties (in a JUnit report) name the lines.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.like_redis.oracles import RealServer
from tests.like_redis.script import FOLDER, Report, Script, compare, load
from tests.like_redis.sides import OurSide, RealSide, Side
from tests.patience import wait_until
from tests.resp.node import Node

FILES = sorted(path for path in FOLDER.glob("*.txt") if path.stem != "intended")
OF_A_NODE = sorted((FOLDER / "node").glob("*.txt"))


def scripts(files: list[Path]) -> list[ParameterSet]:
    return [
        pytest.param(script, id=f"{file.stem}: {script.name}")
        for file in files
        for script in load(file)
    ]


def run(
    script: Script,
    protocol: int,
    redis: RealServer,
    other_servers: list[RealServer],
    ours: Side | None = None,
) -> Report:
    with ExitStack() as stack:
        sides = {
            server.name: stack.enter_context(closing(RealSide(server, protocol)))
            for server in (redis, *other_servers)
        }
        return compare(script, ours or OurSide(protocol), sides.pop(redis.name), sides)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", scripts(FILES))
def test_replies_are_redis_replies(
    script: Script,
    protocol: int,
    redis: RealServer,
    other_servers: list[RealServer],
    record_property: Callable[[str, object], None],
) -> None:
    report = run(script, protocol, redis, other_servers)
    for line in report.disputed:
        record_property("servers disagree", line)
    assert not report.unintended, "\n".join(map(str, report.unintended))
    assert not report.missing, f"the same as in Redis: {report.missing}"


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", scripts(OF_A_NODE))
def test_a_node_answers_as_redis(
    script: Script, protocol: int, redis: RealServer, node: Node
) -> None:
    with closing(RealSide(node, protocol)) as ours:
        report = run(script, protocol, redis, [], ours)
    assert not report.unintended, "\n".join(map(str, report.unintended))
    assert not report.missing, f"the same as in Redis: {report.missing}"
    wait_until(lambda: not node.server.connections, "its clients are gone")
