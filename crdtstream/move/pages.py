"""The entries of a stream in pages, bounded by bytes.

XRANGE counts entries, and knows no bytes.  So the first page is small, and each next one has as
many entries as would fit if they were as large as those of the last.  Small entries may be followed
by large ones; then a page exceeds the bound of a reply.  The work begins again with a new
connection, and with smaller pages of this stream from then on.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias

from crdtstream.core.ids import ID_MIN, StreamId, format_id, parse_id
from crdtstream.move.connection import Connection, TooLargeError
from crdtstream.move.errors import MoveError, SmallerError

# ID and fields, as XRANGE returns them.
Entry: TypeAlias = "tuple[bytes, list[bytes]]"

PAGE_BYTES: Final = 1 << 20
PAGE_ENTRIES_FIRST: Final = 16
PAGE_ENTRIES_MAX: Final = 2_000
NAMED_MAX: Final = 3


def id_of(text: bytes) -> StreamId:
    """
    Raises:
        MoveError: a server sent something else.
    """
    found = parse_id(text, missing_seq=0)
    if found is None:
        raise MoveError(f"the server sent {text[:40]!r} where an ID belongs")
    return found


def next_count(count: int, *, entries: int, page_bytes: int) -> int:
    """Number of entries to ask for next, after a page for which ``count`` were asked."""
    fitting = PAGE_BYTES * max(1, entries) // max(1, page_bytes)
    return max(1, min(fitting, 2 * count, PAGE_ENTRIES_MAX))


class Pages:
    """Pages of a stream from ``after`` on, up to ``end``; none is empty."""

    def __init__(
        self,
        connection: Connection,
        key: bytes,
        *,
        after: StreamId = ID_MIN,
        end: bytes = b"+",
    ) -> None:
        self._connection = connection
        self._key = key
        self._after = after
        self._end = end
        self._count = PAGE_ENTRIES_FIRST
        self._has_begun = False

    async def next(self) -> list[Entry]:
        """The next page; empty at the end."""
        start = format_id(StreamId(self._after + 1)) if self._after else b"-"
        bounds = self._connection.page_entries_max
        count = min(self._count, bounds.get(self._key, PAGE_ENTRIES_MAX))
        before = self._connection.bytes_read
        words = (b"XRANGE", self._key, start, self._end, b"COUNT", count)
        try:
            page: list[Entry] = await self._connection.call(*words)
        except TooLargeError as error:
            if count == 1:
                raise MoveError(
                    f"{self._connection.name}: an entry of {shown(self._key)} after"
                    f" {format_id(self._after).decode()} is too large to move"
                ) from None
            bounds[self._key] = max(1, count // 16)
            raise SmallerError(f"{error}; smaller pages may do") from None
        page_bytes = self._connection.bytes_read - before
        self._count = next_count(count, entries=len(page), page_bytes=page_bytes)
        if page:
            if len({entry[0] for entry in page}) < len(page):
                raise MoveError(
                    f"{shown(self._key)} has an ID more than once, which lanes of several regions"
                    " may have and one stream cannot; delete one of them (XDEL deletes all of an"
                    " ID), or leave the stream out with --streams"
                )
            # Not after the first page: an end may answer that again and again, and the other not.
            if self._has_begun:
                self._connection.progressed()
            self._has_begun = True
            self._after = id_of(page[-1][0])
        return page

    async def __aiter__(self) -> AsyncIterator[list[Entry]]:
        while page := await self.next():
            yield page


def shown(key: bytes) -> str:
    """A key for people."""
    return key.decode(errors="backslashreplace")


def named(names: Sequence[bytes], *, total: int | None = None) -> str:
    """The first keys or IDs for people, and how many more there are."""
    more = (len(names) if total is None else total) - NAMED_MAX
    return ", ".join(map(shown, names[:NAMED_MAX])) + (f" and {more} more" if more > 0 else "")
