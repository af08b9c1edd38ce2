"""The version of Redis that this server says it is.

Clients switch features by it, and some refuse a reply with a field that they do not know.  So INFO
and HELLO say one version, and replies have the fields of that version and no newer ones.
"""

import re
from typing import Final, NamedTuple

_VERSION: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{1,3})", re.ASCII)


class RedisVersion(NamedTuple):
    """Three numbers; versions compare as they do."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


# Below 7.4 clients do without commands that are here; above 8.10 it is unknown what a client wants.
LEAST: Final = RedisVersion(7, 4, 0)
MOST: Final = RedisVersion(8, 10, 999)
# The Redis with which replies are compared (tests/like_redis).
DEFAULT: Final = RedisVersion(8, 2, 3)
WANTED: Final = (
    f"a version of Redis from {LEAST} to {MOST.major}.{MOST.minor}.x, in three parts, as {DEFAULT}"
)


def parse_redis_version(text: str) -> RedisVersion | None:
    """The version that a text names; None if there is none within the bounds."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    version = RedisVersion(*map(int, match.groups()))
    return version if LEAST <= version <= MOST else None
