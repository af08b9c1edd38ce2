"""The last events of logs, by name and time: no detail of them is taken over.

Lines for people and lines of JSON are read alike.  What is no line of a node, as a traceback, is
counted only.
"""

import json
import os
import re
from collections import Counter, deque
from pathlib import Path
from typing import Any, Final, NamedTuple

from crdtstream.node.log_names import NAMES, UNNAMED

EVENTS_MAX: Final = 200
# Of a large log, its end.
BYTES_MAX: Final = 8 << 20

_LEVELS: Final = frozenset({"debug", "info", "warning", "error"})
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_FOR_PEOPLE: Final = re.compile(rf"(?P<time>{_TIME.pattern}) \[(?P<level>\w+) *\] (?P<rest>.*)")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
# The longest sentence that a line begins with is the one that it says.
_SENTENCES: Final = sorted(
    (
        (re.compile(".*?".join(map(re.escape, text.split("{}"))) + r"(?=\s|$)"), len(text), name)
        for name, texts in NAMES.items()
        for text in texts
    ),
    key=lambda one: -one[1],
)


class LoggedEvent(NamedTuple):
    """One line of a log."""

    time: str
    level: str
    event: str


def read_log(path: Path) -> dict[str, Any]:
    """The events of a log: how many of each, and the last ones.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - BYTES_MAX))
        lines = log.read().decode("utf-8", "replace").splitlines()
    if size > BYTES_MAX:
        # It begins in the middle of a line.
        del lines[:1]
    counts: Counter[str] = Counter()
    last: deque[LoggedEvent] = deque(maxlen=EVENTS_MAX)
    others = 0
    for line in lines:
        event = event_of(line)
        if event is None:
            others += bool(line.strip())
            continue
        counts[f"{event.level} {event.event}"] += 1
        last.append(event)
    return {
        "file": str(path),
        "bytes": size,
        "bytes_read": min(size, BYTES_MAX),
        "counts": dict(sorted(counts.items())),
        "other_lines": others,
        "last": [event._asdict() for event in last],
    }


def event_of(line: str) -> LoggedEvent | None:
    """The event of a line; None: it is no line of a node's log."""
    if line.startswith("{"):
        return _of_json(line)
    found = _FOR_PEOPLE.match(_COLOURS.sub("", line))
    if found is None:
        return None
    rest = found["rest"]
    name = next((name for text, _, name in _SENTENCES if text.match(rest)), UNNAMED)
    return _checked(found["time"], found["level"], name)


def _of_json(line: str) -> LoggedEvent | None:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _checked(read.get("time"), read.get("level"), read.get("event"))


def _checked(time: object, level: object, name: object) -> LoggedEvent | None:
    """An event, if these are what a node writes: anything else could be data."""
    if not isinstance(time, str) or not _TIME.fullmatch(time):
        return None
    if not isinstance(level, str) or level not in _LEVELS:
        return None
    known = name if isinstance(name, str) and name in NAMES else UNNAMED
    return LoggedEvent(time, level, known)
