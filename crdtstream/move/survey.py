"""The keys of the source, and the reasons not to begin.

Always so: a survey changes nothing.  The reasons that it looks for are found before the first key
is written.  Others show only on the way: no memory left at the target, a right that is missing, an
entry that is too large.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from crdtstream.move.connection import Connection
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError
from crdtstream.move.pages import named, shown
from crdtstream.move.records import FINISHED_PREFIX, PREFIX, STREAM, STRING, Record
from crdtstream.move.streams import STRICT_ADVICE
from crdtstream.move.strings import check_size

SCANNED_AT_A_TIME: Final = 1_000


@dataclass(frozen=True, slots=True)
class Selection:
    """The keys to move.

    Attributes:
        streams: patterns as of KEYS, for streams.
        strings: the same for strings.  Without any of both, all streams and strings are moved; with
            patterns for one of them, only that.
        skip_other_types: leave keys of other types; else they are a reason not to begin.
        go_on: the target may have keys already, which are continued: the way back.
        delete_gone: delete what only the target has, even if the source may have lost it.
    """

    streams: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    skip_other_types: bool = False
    go_on: bool = False
    delete_gone: bool = False

    @property
    def is_all(self) -> bool:
        return not self.streams and not self.strings

    def patterns(self, kind: bytes) -> tuple[str, ...]:
        if self.is_all:
            return ("*",)
        return self.streams if kind == STREAM else self.strings


@dataclass(slots=True)
class Survey:
    """Keys of the source.

    Attributes:
        kinds: by key ``STREAM`` or ``STRING``, of those to move.
        others: by type how many keys of other types there are, if all keys are to be moved.
        examples: by type one of those keys.
    """

    kinds: dict[bytes, bytes] = field(default_factory=dict)
    others: Counter[bytes] = field(default_factory=Counter)
    examples: dict[bytes, bytes] = field(default_factory=dict)

    def of(self, kind: bytes) -> list[bytes]:
        return sorted(key for key, own in self.kinds.items() if own == kind)


async def survey(ends: Ends, selection: Selection) -> Survey:
    """Look at all keys of the source."""
    return await ends.work(lambda pair: _survey(pair, selection))


async def _survey(pair: Pair, selection: Selection) -> Survey:
    found = Survey()
    for kind in (STREAM, STRING):
        for pattern in selection.patterns(kind):
            await _scan(pair, found, kind, pattern, counts_others=selection.is_all)
        if selection.is_all:
            # One pass saw all types.
            break
    return found


async def _scan(
    pair: Pair, found: Survey, kind: bytes, pattern: str, *, counts_others: bool
) -> None:
    wanted = (STREAM, STRING) if counts_others else (kind,)
    others: dict[bytes, bytes] = {}
    cursor = b"0"
    while True:
        words = ("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED_AT_A_TIME)
        cursor, keys = await pair.source.call(*words)
        keys = [key for key in keys if not key.startswith((PREFIX, FINISHED_PREFIX))]
        types = await pair.source.call_all([("TYPE", key) for key in keys])
        for key, own in zip(keys, types, strict=True):
            if own in wanted:
                found.kinds[key] = own
            elif own != b"none":
                others[key] = own
        if cursor == b"0":
            break
        pair.source.progressed()
    if counts_others:
        found.others = Counter(others.values())
        found.examples = {own: key for key, own in others.items()}


async def check_ends(ends: Ends) -> None:
    """
    Raises:
        MoveError: these servers cannot be the ends of a move.
    """
    target = ends.target.name
    if ends.source == ends.target:
        raise MoveError("source and target are the same server")
    if ends.of_target.is_cluster:
        raise MoveError(
            f"{target} belongs to a Redis Cluster, which cannot be a target; name a server without"
            " cluster mode"
        )
    if ends.of_target.is_replica:
        raise MoveError(f"{target} is a replica and takes no writes; name its master")
    if ends.of_target.is_region:
        await ends.work(lambda pair: _check_id_mode(target, pair))


async def check_may_begin(
    ends: Ends, found: Survey, selection: Selection, record: Record
) -> list[bytes]:
    """The keys that the target has already, as earlier copies; none without ``go_on``.

    Raises:
        MoveError: there is a reason not to move these keys.
    """
    if found.others and not selection.skip_other_types:
        kinds = ", ".join(
            f"{count} {kind.decode(errors='replace')} (such as {shown(found.examples[kind])})"
            for kind, count in sorted(found.others.items())
        )
        raise MoveError(
            f"{ends.source.name} also has keys that are neither streams nor strings: {kinds}."
            " Leave them with --skip-other-types, or choose with --streams and --strings"
        )
    new = sorted(found.kinds.keys() - record.kinds.keys())
    strings = [key for key in new if found.kinds[key] == STRING]
    await ends.work(lambda pair: _check_sizes(pair.source, strings))
    taken = await ends.work(lambda pair: _existing(pair, new))
    if selection.go_on:
        _check_kinds(ends, found, taken)
    elif taken and record.finished:
        raise MoveError(
            f"{ends.target.name} already has {named(list(taken))}: this move was finished at"
            f" {record.finished}, and applications may have written there since. If the source has"
            " got more, --continue brings it, and names what only the target has. Only if the keys"
            " at the target are of no use, delete them there to move everything again"
        )
    elif taken:
        raise MoveError(
            f"{ends.target.name} already has {named(list(taken))}, which this move has not brought:"
            " choose others with --streams and --strings, or go on in them with --continue if they"
            " are an earlier copy. Only if they are of no use, delete them there"
        )
    return list(taken)


def _check_kinds(ends: Ends, found: Survey, taken: Mapping[bytes, bytes]) -> None:
    """
    Raises:
        MoveError: a key at the target is no earlier copy.
    """
    for key, kind in taken.items():
        if kind != found.kinds[key]:
            raise MoveError(
                f"{shown(key)} is a {shown(found.kinds[key])} at {ends.source.name} and a"
                f" {shown(kind)} at {ends.target.name}, so it is no earlier copy: rename one of"
                " them, or choose others with --streams and --strings"
            )


async def _check_id_mode(name: str, pair: Pair) -> None:
    # A user without the right finds out at the first entry.
    mode = await pair.target.call_or_none("CONFIG", "GET", "crdt_xadd_id_uniqueness_mode")
    if mode and mode[1] == b"strict":
        raise MoveError(f"{name}: {STRICT_ADVICE}")


async def _check_sizes(source: Connection, strings: Sequence[bytes]) -> None:
    for begin in range(0, len(strings), SCANNED_AT_A_TIME):
        some = strings[begin : begin + SCANNED_AT_A_TIME]
        sizes = await source.call_all([("STRLEN", key) for key in some])
        for key, size in zip(some, sizes, strict=True):
            check_size(source.name, key, size)


async def _existing(pair: Pair, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """The keys among these that the target has, with their types."""
    found: dict[bytes, bytes] = {}
    for begin in range(0, len(keys), SCANNED_AT_A_TIME):
        some = keys[begin : begin + SCANNED_AT_A_TIME]
        kinds = await pair.target.call_all([("TYPE", key) for key in some])
        found.update((key, kind) for key, kind in zip(some, kinds, strict=True) if kind != b"none")
    return found
