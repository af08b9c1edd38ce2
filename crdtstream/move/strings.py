"""Strings, and the deadlines of keys.

Strings are read when nothing follows any more: a string is a value, and only the last one counts.
A deadline is a time, so it is the same time at both ends, by the clock of the source.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from crdtstream.move import connection as connections
from crdtstream.move.connection import Connection, TooLargeError, Word, millis
from crdtstream.move.ends import Pair
from crdtstream.move.errors import MoveError
from crdtstream.move.pages import named, shown

KEYS_AT_A_TIME: Final = 200
STRING_BYTES_AT_A_TIME: Final = 8 << 20
# The time and the remaining time are rounded apart.
DEADLINE_MS_APART_MAX: Final = 1_000
# Replies to PTTL.
NO_KEY: Final = -2
NEVER: Final = -1


class Value(NamedTuple):
    """A string and its deadline in Unix milliseconds; None: it never expires."""

    value: bytes
    deadline_ms: int | None

    def equals(self, other: "Value") -> bool:
        return self.value == other.value and same_deadline(self.deadline_ms, other.deadline_ms)


def same_deadline(one: int | None, other: int | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= DEADLINE_MS_APART_MAX


async def deadlines_of(connection: Connection, keys: Sequence[bytes]) -> list[int | None]:
    """Deadlines in Unix milliseconds; None: the key never expires, or does not exist."""
    commands: list[Sequence[Word]] = [("TIME",), *(("PTTL", key) for key in keys)]
    time_reply, *left_ms = await connection.call_all(commands)
    now_ms = millis(time_reply)
    return [now_ms + left if left >= 0 else None for left in left_ms]


async def expiries_of(connection: Connection, keys: Sequence[bytes]) -> dict[bytes, int]:
    """The deadlines of keys that have one; 0: the key does not exist."""
    commands: list[Sequence[Word]] = [("TIME",), *(("PTTL", key) for key in keys)]
    time_reply, *left_ms = await connection.call_all(commands)
    now_ms = millis(time_reply)
    pairs = zip(keys, left_ms, strict=True)
    return {key: 0 if left == NO_KEY else now_ms + left for key, left in pairs if left != NEVER}


async def expired_of(pair: Pair, expiries: Mapping[bytes, int]) -> list[bytes]:
    """The keys that an end has no more since their deadline has passed.

    A key that is gone at the source may be deleted at the target: its deadline may have come before
    it was set there.  The target's clock may be ahead; then it is gone there only.
    """
    now_ms = millis(await pair.source.call("TIME"))
    there_ms = millis(await pair.target.call("TIME"))
    due = [key for key, deadline in expiries.items() if deadline <= max(now_ms, there_ms)]
    if not due:
        return []
    left = await expiries_of(pair.source, due)
    kinds = await pair.target.call_all([("TYPE", key) for key in due])
    expired = []
    for key, kind in zip(due, kinds, strict=True):
        if left.get(key) == 0 and expiries[key] <= now_ms:
            await pair.target.call("DEL", key)
            expired.append(key)
        elif kind == b"none" and left.get(key, there_ms + 1) <= there_ms:
            expired.append(key)
    return expired


async def portions(
    connection: Connection, keys: Sequence[bytes], *, are_strings: bool
) -> AsyncIterator[list[bytes]]:
    """Keys in portions for one pipeline; of strings, those that can be read together."""
    for begin in range(0, len(keys), KEYS_AT_A_TIME):
        some = keys[begin : begin + KEYS_AT_A_TIME]
        sizes = await connection.call_all([("STRLEN", key) for key in some]) if are_strings else ()
        portion: list[bytes] = []
        total = 0
        for key, size in zip_longest(some, sizes, fillvalue=0):
            assert isinstance(key, bytes)
            check_size(connection.name, key, size)
            if portion and total + size > STRING_BYTES_AT_A_TIME:
                yield portion
                portion, total = [], 0
            portion.append(key)
            total += size
        yield portion


def check_size(server: str, key: bytes, size: int) -> None:
    """
    Raises:
        MoveError: a string is too large to move.
    """
    if size >= connections.REPLY_BYTES_MAX:
        raise MoveError(
            f"{server}: the string {shown(key)} has {size} bytes, which is too large to move;"
            " delete it there, or choose others with --strings"
        )


async def values_of(connection: Connection, keys: Sequence[bytes]) -> list[Value | None]:
    """Strings; None: no such key.

    Raises:
        MoveError: they are too large, as an earlier copy at the target may be.
    """
    try:
        values = await connection.call_all([("GET", key) for key in keys])
    except TooLargeError as error:
        raise MoveError(f"{named(keys)}: {error}") from None
    deadlines = await deadlines_of(connection, keys)
    return [
        Value(value, deadline) if isinstance(value, bytes) else None
        for value, deadline in zip(values, deadlines, strict=True)
    ]


async def bring_strings(pair: Pair, keys: Sequence[bytes]) -> None:
    """Make the target's strings what the source's are; a string that is gone is deleted."""
    source, target = await values_of(pair.source, keys), await values_of(pair.target, keys)
    commands: list[Sequence[Word]] = []
    for key, theirs, ours in zip(keys, source, target, strict=True):
        if theirs is None:
            if ours is not None:
                commands.append(("DEL", key))
        elif ours is None or not theirs.equals(ours):
            deadline: tuple[Word, ...] = ()
            if theirs.deadline_ms is not None:
                deadline = ("PXAT", theirs.deadline_ms)
            commands.append(("SET", key, theirs.value, *deadline))
    await pair.target.call_all(commands)


async def differing_strings(pair: Pair, keys: Sequence[bytes]) -> list[bytes]:
    """The keys whose value or deadline is not the same at both ends."""
    source, target = await values_of(pair.source, keys), await values_of(pair.target, keys)
    return [
        key
        for key, theirs, ours in zip(keys, source, target, strict=True)
        if (theirs is None) != (ours is None)
        or (theirs is not None and ours is not None and not theirs.equals(ours))
    ]


async def bring_deadlines(pair: Pair, keys: Sequence[bytes]) -> None:
    """Give streams at the target the deadlines that they have at the source."""
    source, target = await deadlines_of(pair.source, keys), await deadlines_of(pair.target, keys)
    commands: list[Sequence[Word]] = [
        ("PERSIST", key) if theirs is None else ("PEXPIREAT", key, theirs)
        for key, theirs, ours in zip(keys, source, target, strict=True)
        if not same_deadline(theirs, ours)
    ]
    await pair.target.call_all(commands)
