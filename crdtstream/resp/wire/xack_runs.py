"""Runs of XACKs among requests, which are parsed already.

hiredis parses an XACK about as fast as anything here could look at its bytes; what costs is calling
each of them.  So requests are compared, with loops in C, where there is an XACK at all.
"""

from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from crdtstream.commands.arguments import plain_ids
from crdtstream.commands.groups.xack_run import XackRun
from crdtstream.commands.streams.xadd_run import XaddRun

Request: TypeAlias = list[bytes] | XaddRun | XackRun

# How clients spell it; any other spelling is called one by one.
_NAMES: Final = frozenset({b"XACK", b"xack"})
# Name, key and group stand before the ID.
_HEAD_WORDS: Final = 3

_NAME_OF: Final = itemgetter(0)
_ALL_BUT_LAST: Final = itemgetter(slice(0, -1))
_LAST_OF: Final = itemgetter(-1)


def with_xack_runs(requests: list[list[bytes]]) -> list[Request]:
    """The same requests, in the same order; XACKs that make a run are one.

    Args:
        requests: none is empty.
    """
    if len(requests) < 2 or _NAMES.isdisjoint(map(_NAME_OF, requests)):
        return list(requests)
    result: list[Request] = []
    # Neighbours with the same words but for the last one.
    for head, neighbours in groupby(requests, _ALL_BUT_LAST):
        same = list(neighbours)
        if len(same) > 1 and len(head) == _HEAD_WORDS and head[0] in _NAMES:
            texts = list(map(_LAST_OF, same))
            ids = plain_ids(texts)
            if ids is not None:
                name, key, group = head
                result.append(XackRun(name, key, group, texts, ids))
                continue
        result += same
    return result
