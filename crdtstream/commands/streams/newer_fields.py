"""The fields of replies that are younger than some version of Redis that a server may announce.

A client that knows the announced version may refuse a field that it does not know: go-redis, and
with it KEDA's scaling by lag, ends in an error.  Commands are another matter.  A client meets only
those that it calls, so all of them work whatever version is announced.
"""

from collections.abc import Mapping
from typing import Final

from crdtstream.commands.reply import Reply
from crdtstream.core.redis_version import RedisVersion

SINCE: Final[Mapping[bytes, RedisVersion]] = {
    # XINFO STREAM
    b"idmp-duration": RedisVersion(8, 6, 0),
    b"idmp-maxsize": RedisVersion(8, 6, 0),
    b"pids-tracked": RedisVersion(8, 6, 0),
    b"iids-tracked": RedisVersion(8, 6, 0),
    b"iids-added": RedisVersion(8, 6, 0),
    b"iids-duplicates": RedisVersion(8, 6, 0),
    # XINFO STREAM FULL, of each group
    b"nacked-count": RedisVersion(8, 8, 0),
}


def known_to(
    announced: RedisVersion, pairs: list[tuple[bytes, Reply]]
) -> "list[tuple[Reply, Reply]]":
    """The pairs whose names the announced version has, in order."""
    return [(name, value) for name, value in pairs if SINCE.get(name, announced) <= announced]
