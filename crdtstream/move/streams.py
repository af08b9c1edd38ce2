"""One stream: its facts, and copying its entries.

Copying goes on behind the target's last ID:

    source   1-0  2-0  3-0  4-0  5-0        XRANGE (3-0 ...    a page: 4-0 5-0
    target   1-0  2-0  3-0                  XADD 4-0, XADD 5-0

A page is read while the page before it is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crdtstream.core.ids import ID_MAX, ID_MIN, StreamId, format_id
from crdtstream.move.connection import (
    Connection,
    Reply,
    ReplyError,
    TooLargeError,
    Word,
    together,
)
from crdtstream.move.ends import Pair
from crdtstream.move.errors import MoveError, OvertakenError
from crdtstream.move.pages import Entry, Pages, id_of, shown

DELETED_AT_A_TIME: Final = 500
# Words of Redis and of a region.
NO_SUCH_KEY: Final = "no such key"
_NOT_ABOVE: Final = "equal or smaller than the target stream top item"
_NO_FULL_IDS: Final = "not allowed in strict mode"

STRICT_ADVICE: Final = (
    "it takes no IDs of others (strict mode). Run `redis-cli -h HOST -p PORT CONFIG SET"
    " crdt_xadd_id_uniqueness_mode semi-strict` there, and set it back after the cut-over"
)


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream, as XINFO STREAM shows it.

    Attributes:
        last_id: the last-generated ID.
        first: ID of the first entry; None: the stream is empty.
        last: the same of the last entry.
        entries_added: None: the server does not count (before Redis 7).
        max_deleted_id: the same.
    """

    length: int
    last_id: StreamId
    first: StreamId | None
    last: StreamId | None
    entries_added: int | None
    max_deleted_id: StreamId | None


async def facts_of(connection: Connection, key: bytes) -> StreamFacts | None:
    """The facts of a stream; None if the key does not exist.

    Cost: the reply has the first and the last entry, so it is large if they are.

    Raises:
        MoveError: the reply is too large, or an error.
    """
    try:
        return (await _all_facts(connection, [key]))[0]
    except TooLargeError as error:
        raise MoveError(f"{shown(key)}: its first and last entry are too large: {error}") from None


async def _all_facts(connection: Connection, keys: Sequence[bytes]) -> list[StreamFacts | None]:
    commands = [("XINFO", "STREAM", key) for key in keys]
    replies = await connection.run(commands)
    return [
        _facts(connection, words, reply) for words, reply in zip(commands, replies, strict=True)
    ]


def _facts(connection: Connection, words: Sequence[Word], reply: Reply) -> StreamFacts | None:
    if isinstance(reply, ReplyError) and NO_SUCH_KEY in str(reply):
        return None
    facts = pairs_of(connection.checked(reply, words))
    first, last = facts[b"first-entry"], facts[b"last-entry"]
    deleted = facts.get(b"max-deleted-entry-id")
    return StreamFacts(
        facts[b"length"],
        id_of(facts[b"last-generated-id"]),
        id_of(first[0]) if first else None,
        id_of(last[0]) if last else None,
        facts.get(b"entries-added"),
        None if deleted is None else id_of(deleted),
    )


class Lag(NamedTuple):
    """Distance of the target's stream to that of the source.

    Attributes:
        entries: about so many are to be brought.
        is_trimmed: the source has trimmed entries that the target has.
    """

    entries: int
    is_trimmed: bool


LEVEL: Final = Lag(0, is_trimmed=False)


async def lags_of(pair: Pair, keys: Sequence[bytes], added: dict[bytes, int]) -> dict[bytes, Lag]:
    """The distances of streams, by IDs and counters: a capped stream keeps its length.

    Args:
        added: by stream the source's entries-added when the target was last level; kept up to date.

    Raises:
        TooLargeError: the first and last entries of these streams are too large for one pipeline.
    """
    source, target = await together(_all_facts(pair.source, keys), _all_facts(pair.target, keys))
    return {
        key: _lag(theirs, ours, key, added)
        for key, theirs, ours in zip(keys, source, target, strict=True)
    }


def _lag(
    source: StreamFacts | None, target: StreamFacts | None, key: bytes, added: dict[bytes, int]
) -> Lag:
    if source is None:
        return LEVEL
    first = None if target is None else target.first
    is_trimmed = first is not None and source.first is not None and first < source.first
    if source.last is None or (target is not None and target.last_id >= source.last):
        if source.entries_added is not None:
            added[key] = source.entries_added
        return Lag(0, is_trimmed=is_trimmed)
    entries = source.length - (0 if target is None else target.length)
    if source.entries_added is not None and key in added:
        entries = source.entries_added - added[key]
    return Lag(max(1, entries), is_trimmed=is_trimmed)


def pairs_of(reply: Sequence[Reply]) -> dict[bytes, Reply]:
    """A map of RESP2: names and values in turns."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


async def copy_entries(
    pair: Pair,
    key: bytes,
    *,
    brought: Callable[[int], None],
    end: bytes = b"+",
) -> None:
    """Add the source's entries that follow the target's last ID.

    Args:
        brought: called after each page with the number of its entries.
        end: the highest ID, as of XRANGE.

    Raises:
        OvertakenError: an ID is there already.  A pipeline of a broken connection was still on its
            way, and did the same work; or another program writes to the stream.
        LostError, MoveError: see ``Connection.call``.
    """
    found = await facts_of(pair.target, key)
    pages = Pages(pair.source, key, after=ID_MIN if found is None else found.last_id, end=end)
    page = await pages.next()
    while page:
        _, following = await together(_add(pair.target, key, page), pages.next())
        brought(len(page))
        page = following


async def _add(target: Connection, key: bytes, page: Sequence[Entry]) -> None:
    commands = [(b"XADD", key, entry[0], *entry[1]) for entry in page]
    for command, reply in zip(commands, await target.run(commands), strict=True):
        if reply == command[2]:
            continue
        text = str(reply)
        if _NOT_ABOVE in text:
            raise OvertakenError
        if _NO_FULL_IDS in text:
            raise MoveError(f"{target.name}: {STRICT_ADVICE}")
        target.checked(reply, command)


async def trim_to_source(pair: Pair, key: bytes) -> None:
    """Delete the target's entries below the source's first: what MAXLEN and MINID trimmed."""
    source, target = await facts_of(pair.source, key), await facts_of(pair.target, key)
    if source is None or target is None or target.first is None:
        return
    lowest = source.first or StreamId(source.last_id + 1)
    if target.first < lowest <= ID_MAX:
        await pair.target.call("XTRIM", key, "MINID", format_id(lowest))


async def delete_entries(target: Connection, key: bytes, ids: Sequence[bytes]) -> None:
    for begin in range(0, len(ids), DELETED_AT_A_TIME):
        await target.call("XDEL", key, *ids[begin : begin + DELETED_AT_A_TIME])


async def set_last_id(pair: Pair, key: bytes, *, with_counters: bool) -> None:
    """Give the target's stream the source's last-generated ID and counters.

    A stream that is empty at the source gets an entry that is deleted at once.  Nothing changes if
    the source has got entries since they were copied: the next copying begins behind the last ID.
    """
    source, target = await facts_of(pair.source, key), await facts_of(pair.target, key)
    if source is None or not source.last_id:
        return
    if target is None:
        await pair.target.call("XADD", key, "MAXLEN", 0, format_id(source.last_id), "f", "v")
        target = await facts_of(pair.target, key)
    counters: list[bytes | str | int] = []
    if with_counters and source.entries_added is not None and source.max_deleted_id is not None:
        counters += ["ENTRIESADDED", source.entries_added]
        counters += ["MAXDELETEDID", format_id(source.max_deleted_id)]
    assert target is not None, "it has just been made"
    if source.last != target.last:
        return
    if target.last_id != source.last_id or (counters and _counted(target) != _counted(source)):
        await pair.target.call("XSETID", key, format_id(source.last_id), *counters)


def _counted(facts: StreamFacts) -> tuple[int | None, StreamId | None]:
    return facts.entries_added, facts.max_deleted_id
