"""Runs of XACKs, and of XDELs, among requests that are already parsed.

hiredis parses them about as fast as anything here could read their bytes; the costly part is
calling each of them.  So requests are compared, with loops in C, if there is any XACK or XDEL.
"""

from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from crdtstream.commands.arguments import plain_ids
from crdtstream.commands.groups.xack_run import XackRun
from crdtstream.commands.streams.mixed_run import MixedRun
from crdtstream.commands.streams.xadd_run import XaddRun
from crdtstream.commands.streams.xdel_run import XdelRun
from crdtstream.core.size import Size

Request: TypeAlias = list[bytes] | XaddRun | MixedRun | XackRun | XdelRun

# A run is not interrupted, and IDs in any order cost some microseconds each.
COMMANDS_MAX: Final = Size(512, least=2)
# An XDEL of an ID in a macro node of its own costs some 30, so these take up to 4 ms.
XDELS_MAX: Final = Size(128, least=2)
# Clients' spellings of them, and the number of words before the ID: name, key and, of XACK, group.
# Any other spelling is called one by one.
_HEAD_WORDS: Final = {b"XACK": 3, b"xack": 3, b"XDEL": 2, b"xdel": 2}
_NAMES: Final = frozenset(_HEAD_WORDS)
_XDELS: Final = frozenset({b"XDEL", b"xdel"})

_NAME_OF: Final = itemgetter(0)
_ALL_BUT_LAST: Final = itemgetter(slice(0, -1))
_LAST_OF: Final = itemgetter(-1)


def with_id_runs(requests: list[list[bytes]]) -> list[Request]:
    """The same requests, in the same order; XACKs, and XDELs, that make a run are one.

    Args:
        requests: none is empty.
    """
    if len(requests) < 2 or _NAMES.isdisjoint(map(_NAME_OF, requests)):
        return list(requests)
    result: list[Request] = []
    # Neighbours with the same words except the last one.
    for head, neighbours in groupby(requests, _ALL_BUT_LAST):
        same = list(neighbours)
        most = (XDELS_MAX if head and head[0] in _XDELS else COMMANDS_MAX).value
        for at in range(0, len(same), most):
            some = same[at : at + most]
            run = _run_of(head, some)
            if run is None:
                result += some
            else:
                result.append(run)
    return result


def _run_of(head: list[bytes], same: list[list[bytes]]) -> XackRun | XdelRun | None:
    """The run of requests that begin with the same words, if they make one."""
    if len(same) < 2 or not head or len(head) != _HEAD_WORDS.get(head[0]):
        return None
    texts = list(map(_LAST_OF, same))
    ids = plain_ids(texts)
    if ids is None:
        return None
    name, key, *group = head
    return XackRun(name, key, group[0], texts, ids) if group else XdelRun(name, key, texts, ids)
