"""Which worker of pytest-xdist runs which tests, and in which order.

A file of tests goes to one worker, so that what its tests share is made once.  All files that want
Spark go to the same worker: they share one session, whose start takes long.  What takes longest
begins first, so that no worker is left with it at the end.
"""

from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent
# How a test asks for the session of a run (tests/spark/conftest.py).
SESSION = 'spark: "SparkSession"'
# Folders and files, what takes longest first; all others come behind them.
FIRST = (
    "tests/spark/test_kills.py",
    "tests/spark/test_cluster.py",
    "tests/live",
    "tests/cli",
    "tests/scenario",
    "tests/spark",
    "tests/query",
    "tests/rules",
)


class _Dealing(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "spark" if wants_spark(Path(file)) else file


def scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Deals out files, if that is asked for (``--dist loadfile``); else xdist's own scheduler."""
    return _Dealing(config, log) if config.getoption("dist") == "loadfile" else None


@cache
def wants_spark(file: Path) -> bool:
    """Whether tests of a file, whose path begins at the root, share the session."""
    return file.parts[:2] == ("tests", "spark") and SESSION in (ROOT / file).read_text()


@cache
def rank(file: Path) -> int:
    """Where a file stands in the order; the session's files are one group, and the first."""
    if wants_spark(file):
        return -1
    name = file.as_posix()
    places = (at for at, first in enumerate(FIRST) if name == first or name.startswith(f"{first}/"))
    return min(places, default=len(FIRST))
