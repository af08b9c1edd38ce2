"""Both ends compared: every entry with its ID, fields and values, in order.

A check reads both streams side by side, and notes for each end its number of entries, first and
last ID, and a digest of all bytes.  Entries are joined by ID:

    source   1-0  2-0       4-0  5-0         3-0: at the target only, deleted at the source
    target   1-0  2-0  3-0  4-0              5-0: at the source only
"""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.ids import format_id
from crdtstream.move.connection import Connection, pack
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.groups import compare_group, differ, groups_of, source_groups
from crdtstream.move.pages import Entry, Pages, id_of, shown
from crdtstream.move.streams import facts_of
from crdtstream.move.strings import deadlines_of, same_deadline

# Deleted entries that are collected for a repair; a stream with more is compared again after it.
DELETED_MAX: Final = 100_000


@dataclass(slots=True)
class EntrySum:
    """All entries of one end, in short.

    Attributes:
        digest: of IDs, fields and values in order; hexadecimal.
    """

    entries: int = 0
    first: str = ""
    last: str = ""
    digest: str = ""
    _hash: "hashlib.blake2b" = field(default_factory=lambda: hashlib.blake2b(digest_size=20))

    def add(self, entry: Entry) -> None:
        # RESP puts its length before each part, so no two entries have the same bytes.
        self._hash.update(pack((entry[0], *entry[1])))
        self.entries += 1
        if self.entries == 1:
            self.first = entry[0].decode()
        self.last = entry[0].decode()

    def end(self) -> None:
        self.digest = self._hash.hexdigest()


@dataclass(slots=True)
class StreamCheck:
    """Outcome of the check of one stream.

    Attributes:
        only_at_target: IDs of the first entries that only the target has.
        only_at_target_count: how many these are in all.
        first_missing: ID of the first entry that only the source has; None: none.
        first_changed: the same of an ID with other fields.
        groups: number of groups at the source.
        pending: entries that are pending at both ends.
        dangling: pending at the source without being in the stream; they stay behind.
        differences: sentences; empty if the ends are equal.
    """

    key: bytes
    source: EntrySum = field(default_factory=EntrySum)
    target: EntrySum = field(default_factory=EntrySum)
    only_at_target: list[bytes] = field(default_factory=list)
    only_at_target_count: int = 0
    first_missing: bytes | None = None
    first_changed: bytes | None = None
    groups: int = 0
    pending: int = 0
    dangling: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def has_same_entries(self) -> bool:
        return (self.source.entries, self.source.digest) == (
            self.target.entries,
            self.target.digest,
        )


async def check_stream(ends: Ends, pair: Pair, key: bytes) -> StreamCheck:
    """Compare one stream in full.

    Cost: reads all entries at both ends; memory for a page of each.
    """
    check = await compared_entries(pair, key)
    if not check.has_same_entries:
        check.differences.append(_entries_differ(check))
    return await check_rest(ends, pair, check)


async def check_rest(ends: Ends, pair: Pair, check: StreamCheck) -> StreamCheck:
    """Compare all but the entries: counters, deadline, groups, pending entries."""
    await _check_facts(pair, check)
    await _check_groups(ends, pair, check)
    ends.progressed()
    return check


async def compared_entries(pair: Pair, key: bytes) -> StreamCheck:
    """The same of the entries alone: both streams are read side by side."""
    check = StreamCheck(key)
    theirs, ours = _entries(pair.source, key), _entries(pair.target, key)
    source, target = await anext(theirs, None), await anext(ours, None)
    while source is not None or target is not None:
        if source is not None and target is not None and source[0] == target[0]:
            if source[1] != target[1]:
                check.first_changed = check.first_changed or source[0]
            takes_source = takes_target = True
        else:
            takes_source = target is None or (
                source is not None and id_of(source[0]) < id_of(target[0])
            )
            takes_target = not takes_source
        if takes_source:
            assert source is not None
            check.source.add(source)
            if not takes_target:
                check.first_missing = check.first_missing or source[0]
            source = await anext(theirs, None)
        if takes_target:
            assert target is not None
            check.target.add(target)
            if not takes_source:
                check.only_at_target_count += 1
                if len(check.only_at_target) < DELETED_MAX:
                    check.only_at_target.append(target[0])
            target = await anext(ours, None)
    check.source.end()
    check.target.end()
    return check


async def _entries(connection: Connection, key: bytes) -> AsyncIterator[Entry]:
    async for page in Pages(connection, key):
        for entry in page:
            yield entry


def _entries_differ(check: StreamCheck) -> str:
    if check.first_missing is not None:
        return f"{check.first_missing.decode()} is at the source only"
    if check.first_changed is not None:
        return f"{check.first_changed.decode()} has other fields at the target"
    first = check.only_at_target[0].decode()
    return f"{first} is at the target only ({check.only_at_target_count} such entries)"


async def _check_facts(pair: Pair, check: StreamCheck) -> None:
    source, target = await facts_of(pair.source, check.key), await facts_of(pair.target, check.key)
    if source is None or target is None:
        if source is not target and (source is None or source.last_id):
            missing = "source" if source is None else "target"
            check.differences.append(f"the {missing} does not have the key")
        return
    if source.last_id != target.last_id:
        check.differences.append(
            f"last-generated ID {format_id(source.last_id).decode()} at the source,"
            f" {format_id(target.last_id).decode()} at the target"
        )
    if differ(source.entries_added, target.entries_added):
        check.differences.append(f"entries-added {source.entries_added} and {target.entries_added}")
    (theirs,), (ours,) = (
        await deadlines_of(pair.source, [check.key]),
        await deadlines_of(pair.target, [check.key]),
    )
    if not same_deadline(theirs, ours):
        check.differences.append("it expires at another time")


async def _check_groups(ends: Ends, pair: Pair, check: StreamCheck) -> None:
    source = await source_groups(ends, pair, check.key)
    target = await groups_of(pair.target, check.key)
    check.groups = len(source)
    for name in sorted(target.keys() - source.keys()):
        check.differences.append(f"group {shown(name)} is at the target only")
    for name, group in source.items():
        found = await compare_group(pair, check.key, group, target.get(name))
        check.differences += found.texts
        check.pending += found.pending
        check.dangling += found.dangling
