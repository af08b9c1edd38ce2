"""One region in liberal mode answers as a real redis-server 8 does, command by command.

The scripts are in ``scripts/``.  Every reply is compared as it stands on the wire but for the times
in it, in RESP2 and in RESP3; ``comparing.py`` says which.  Where the real servers disagree among
themselves the newest counts, and the test's properties (in a JUnit report) name the lines.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from tests.like_redis.oracles import RealServer
from tests.like_redis.script import FOLDER, Report, Script, compare, load
from tests.like_redis.sides import OurSide, RealSide

FILES = sorted(path for path in FOLDER.glob("*.txt") if path.stem != "intended")
SCRIPTS = [
    pytest.param(script, id=f"{file.stem}: {script.name}")
    for file in FILES
    for script in load(file)
]


def run(
    script: Script, protocol: int, redis: RealServer, other_servers: list[RealServer]
) -> Report:
    with ExitStack() as stack:
        sides = {
            server.name: stack.enter_context(closing(RealSide(server, protocol)))
            for server in (redis, *other_servers)
        }
        ours = OurSide(protocol)
        return compare(script, ours, sides.pop(redis.name), sides)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("script", SCRIPTS)
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
