"""Keys and entries that only the target has: the source deleted them, or it lost them.

A source without persistence that restarts is empty, and looks as if everything had been deleted.
The target may then have the only copy.  Signs of it are another run of the server (``run_id``), and
that many keys are gone at once.  Then nothing is deleted unless the user asks for it.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from crdtstream.move.connection import Connection
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError
from crdtstream.move.pages import named
from crdtstream.move.streams import StreamFacts

# Above this number, or half of all, keys are gone in bulk.
GONE_MAX: Final = 100
_INFO: Final = ("INFO", "server")
ADVICE: Final = "--delete-gone deletes what only the target has"


class Gone(NamedTuple):
    """Keys that the target has and the source has no more.

    Attributes:
        run_id: the run of the source that does not have them; empty: it does not say.
    """

    run_id: bytes
    keys: list[bytes]


async def run_id_of(connection: Connection) -> bytes:
    """The run of a server, which is another one after each start; empty if it does not say."""
    return _run_id(await connection.call(*_INFO))


def _run_id(info: bytes) -> bytes:
    lines = (line.partition(b":") for line in info.splitlines())
    return next((value for name, _, value in lines if name == b"run_id"), b"")


async def gone_at_source(pair: Pair, keys: Sequence[bytes]) -> Gone:
    """The keys among these that only the target has."""
    types = [("TYPE", key) for key in keys]
    info, *theirs = await pair.source.call_all([_INFO, *types])
    ours = await pair.target.call_all(types)
    pairs = zip(keys, theirs, ours, strict=True)
    return Gone(
        _run_id(info),
        [key for key, their, our in pairs if their == b"none" and our != b"none"],
    )


async def delete_gone(pair: Pair, keys: Sequence[bytes], *, run_id: bytes) -> int:
    """Delete keys at the target that the source still lacks; returns how many.

    Raises:
        MoveError: the source has restarted since it was looked at.
    """
    gone = await gone_at_source(pair, keys)
    if gone.run_id != run_id:
        raise MoveError(f"{pair.source.name} has restarted; run the same command again")
    await pair.target.call_all([("DEL", key) for key in gone.keys])
    return len(gone.keys)


def has_restarted(recorded: bytes, run_id: bytes) -> bool:
    """True if the source has been started again since the move began, as far as it says so."""
    return bool(recorded) and bool(run_id) and recorded != run_id


def check_gone(ends: Ends, gone: Gone, *, recorded: bytes, of: int, are_earlier: bool) -> None:
    """See that the source has deleted the keys, and not lost them.

    Args:
        recorded: the run of the source in the record.
        of: number of keys in the record.
        are_earlier: some were at the target before the move, which may have what no source had.

    Raises:
        MoveError: it may have lost them.
    """
    count = len(gone.keys)
    restarted = has_restarted(recorded, gone.run_id)
    if not (restarted or are_earlier or count > GONE_MAX or 2 * count > of):
        return
    why = " has restarted since the move began, and" if restarted else ""
    raise MoveError(
        f"{ends.source.name}{why} lacks {count} of {of} keys that the move has brought:"
        f" {named(gone.keys)}. If it lost them, the target has the only copy, so nothing was"
        f" deleted. Restore the source; or, if they were deleted there, {ADVICE}"
    )


def may_have_lost_entries(source: StreamFacts, target: StreamFacts) -> bool:
    """True if a source that restarted may have begun the stream again, or from an older copy.

    Entries that were added are counted at both ends, those that were deleted too.  So a source has
    counted as many as its copy, or more.
    """
    if source.entries_added is None or target.entries_added is None:
        return True
    return source.entries_added < target.entries_added
