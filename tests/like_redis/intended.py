"""The differences that are meant, by the names under which ``docs/differences.md`` gives reasons.

A script marks the line at which one shows (``  #! name``); the random test steers around some.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "differences.md"
_ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)

# Those that one region in liberal mode cannot show, and where they are shown.
SHOWN_ELSEWHERE = {
    "full-ids": "scenarios/aa/strict-mode.yaml",
    "dollar-by-lane": "scenarios/rules/dollar-and-zero-at-once.yaml",
    "duplicate-ids": "scenarios/aa/duplicate-ids-go-together.yaml",
    "xread-skips": "scenarios/aa/xread-may-skip.yaml",
    "trimming-by-lane": "tests/like_redis/test_intended.py",
}


def documented() -> list[str]:
    """The names in the document's table, in its order."""
    return _ROW.findall(DOCUMENT.read_text())
