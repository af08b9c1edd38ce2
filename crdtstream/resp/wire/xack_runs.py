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

# A run is not interrupted, and IDs in any order cost some microseconds each.
COMMANDS_MAX: Final = 512
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
        for at in range(0, len(same), COMMANDS_MAX):
            some = same[at : at + COMMANDS_MAX]
            run = _run_of(head, some)
            if run is None:
                result += some
            else:
                result.append(run)
    return result


def _run_of(head: list[bytes], same: list[list[bytes]]) -> XackRun | None:
    """The run of requests that begin with the same words, if they make one."""
    if len(same) < 2 or len(head) != _HEAD_WORDS or head[0] not in _NAMES:
        return None
    texts = list(map(_LAST_OF, same))
    ids = plain_ids(texts)
    if ids is None:
        return None
    name, key, group = head
    return XackRun(name, key, group, texts, ids)
