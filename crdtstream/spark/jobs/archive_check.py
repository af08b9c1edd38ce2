"""Checks that what an archive's state names still exists, as it was read back.

    state and ledger   the archive still has them                 before a reading, and a trim
    files              existence, length                          before a reading, and a trim
    files              every byte, by SHA-256                     before a replay, a report, a trim
    unpublished        every row, by count and digest             verify
    a Delta table      every row, by count and digest             before a trim, verify

A file is read from its first byte to its last only if it holds entries that are about to be
replayed, reported or trimmed; ``verify`` reads all files.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame

from crdtstream.spark.jobs.archive_layout import (
    CHECKPOINT,
    FILE_SCHEMA,
    LEDGER,
    SEGMENTS,
    STAGING,
    STATE,
    Partition,
    key_of,
    label_of,
    matching,
)
from crdtstream.spark.jobs.archive_state import Segment, State, load
from crdtstream.spark.jobs.content import Content, content_of
from crdtstream.spark.jobs.delta import content_between
from crdtstream.spark.jobs.failures import SPARK_ERRORS, told
from crdtstream.spark.jobs.folder import ArchiveError, Folder, folder_at
from crdtstream.spark.jobs.ledger import (
    DamagedArchiveError,
    Ledger,
    LedgerGoneError,
    Noted,
    damaged,
    faults,
    missing,
    read_ledger,
)
from crdtstream.spark.vectors import Vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A program that archives may move files while we look.
_LOOKS: Final = 10
_PAUSE_SECONDS: Final = 0.2

Chosen = Callable[[Noted], bool]


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of a full check.

    Attributes:
        entries: in the archive, by its state.
        files, file_bytes: that were read; 0 for a table of Delta Lake, whose rows are read.
        faults: differences from what the state names, file by file; empty: none.
    """

    entries: int
    files: int
    file_bytes: int
    faults: tuple[str, ...]


def verify(spark: "SparkSession", path: str) -> Verified:
    """Read all of an archive, and compare it with what was read back when it was written.

    Raises:
        ArchiveError: there is no archive, or the list of its files is damaged.
    """
    folder = folder_at(spark, path)
    for look in range(_LOOKS):
        state = _state_of(folder)
        try:
            verified = _verify(spark, folder, state)
        except LedgerGoneError:
            if look + 1 == _LOOKS or load(folder) == state:
                raise
            continue
        # Files that a running program merged during the check are not missing.
        if not verified.faults or load(folder) == state:
            return verified
    raise ArchiveError(f"{folder.url()} changes faster than it can be read: try again later")


def _verify(spark: "SparkSession", folder: Folder, state: State) -> Verified:
    if folder.names("_delta_log"):
        found = table_faults(spark, folder, state)
        return Verified(state.entries, 0, 0, found)
    ledger = read_ledger(folder, state.ledger)
    found = (
        *faults(folder, ledger.values(), moving=_moving(state)),
        *_strangers(folder, state, ledger),
        *_unpublished_faults(spark, folder, state),
        *_miscounted(state, ledger),
    )
    file_bytes = sum(one.file_bytes for one in ledger.values())
    return Verified(state.entries, len(ledger), file_bytes, found)


def _state_of(folder: Folder) -> State:
    state = load(folder)
    if state is None:
        refuse_without_state(folder)
        raise ArchiveError(f"{folder.url()} is no archive, or nothing was archived there yet")
    return state


def refuse_without_state(folder: Folder) -> None:
    """
    Raises:
        DamagedArchiveError: the folder has no state, and was an archive.
    """
    left = [name for name in (CHECKPOINT, LEDGER, SEGMENTS, STAGING) if folder.names(name)]
    if left:
        raise DamagedArchiveError(
            f"{folder.url()} has {', '.join(left)} and no state ({folder.url(STATE)} is gone): it "
            "was an archive. Bring its _archive back, or begin in another folder"
        )


# --- Before something is read or trimmed --------------------------------------------------------


def chosen(
    streams: Sequence[bytes] = (), start_ms: int | None = None, end_ms: int | None = None
) -> Chosen:
    """Choose files that may hold entries of streams (none: of all) and of a time.

    The time is that of IDs, from ``start_ms`` on and before ``end_ms``.
    """
    first = 0 if start_ms is None else start_ms
    last = 1 << 64 if end_ms is None else end_ms - 1

    def is_chosen(file: Noted) -> bool:
        key = key_of(Partition.of(file.path).label)
        return (key is None or matching(streams, key)) and file.may_hold(first, last)

    return is_chosen


def holding(spans: Mapping[bytes, tuple[int, int]]) -> Chosen:
    """Choose files that may hold entries of streams, each between two times, both included."""
    by_label = {label_of(key): span for key, span in spans.items()}

    def is_holding(file: Noted) -> bool:
        span = by_label.get(Partition.of(file.path).label)
        return span is not None and file.may_hold(*span)

    return is_holding


def check_there(folder: Folder, which: Chosen, *, outcome: str) -> State | None:
    """The archive's state, whose files of a choice exist, and are as long as it says.

    Args:
        outcome: sentence that says what is not done if they are not.

    Returns:
        None if the folder holds published files alone, as a copy does.

    Raises:
        DamagedArchiveError: they do not.
    """
    for look in range(_LOOKS):
        state = load(folder)
        if state is None:
            refuse_without_state(folder)
            return None
        is_last = look + 1 == _LOOKS
        try:
            found = _missing(folder, state, which)
        except LedgerGoneError:
            if is_last or load(folder) == state:
                raise
            continue
        if not found:
            return state
        # A program may just move files: those of a publication, or of a newer state.
        is_moving = state.publication is not None or load(folder) != state
        if is_last or not is_moving:
            raise damaged(folder, found, outcome=outcome)
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError("the last look returns or raises")


def check_content(folder: Folder, which: Chosen, *, outcome: str) -> State | None:
    """As ``check_there``; every byte of these files is read, too."""
    for look in range(_LOOKS):
        state = check_there(folder, which, outcome=outcome)
        if state is None:
            return None
        try:
            files = [one for one in read_ledger(folder, state.ledger).values() if which(one)]
        except LedgerGoneError:
            if look + 1 == _LOOKS or load(folder) == state:
                raise
            continue
        found = faults(folder, files, moving=_moving(state))
        if not found:
            return state
        if look + 1 == _LOOKS or load(folder) == state:
            raise damaged(folder, found, outcome=outcome)
    raise AssertionError("the last look returns or raises")


def check_table(spark: "SparkSession", folder: Folder, state: State, *, outcome: str) -> None:
    """
    Raises:
        DamagedArchiveError: a table of Delta Lake does not hold what was written to it.
    """
    if found := table_faults(spark, folder, state):
        raise damaged(folder, found, outcome=outcome)


def table_faults(spark: "SparkSession", folder: Folder, state: State) -> tuple[str, ...]:
    """Differences of a table of Delta Lake from what was written to it; every row is read."""
    try:
        content = content_between(_table(spark, folder), Vector(), state.vector)
    except SPARK_ERRORS as error:
        return (f"the table cannot be read: {told(error)}",)
    if content == Content(state.entries, state.table_digest):
        return ()
    return (f"the table holds {content.rows:,} entries, or others, not the {state.entries:,}",)


def _table(spark: "SparkSession", folder: Folder) -> DataFrame:
    return spark.read.format("delta").load(folder.url())


def _missing(folder: Folder, state: State, which: Chosen) -> list[str]:
    files = [one for one in read_ledger(folder, state.ledger).values() if which(one)]
    found = missing(folder, files, moving=_moving(state))
    if state.ledger is None and _published_entries(state) and not _stream_folders(folder):
        return [f"all {_published_entries(state):,} published entries are gone"]
    return found


def _moving(state: State) -> dict[str, str]:
    """From where files come that are not in their places yet."""
    if state.publication is None:
        return {}
    return {target: source for move in state.publication.moves for source, target in move.show}


def _published_entries(state: State) -> int:
    return state.entries - sum(segment.entries for segment in _unpublished(state))


def _unpublished(state: State) -> list[Segment]:
    decided = () if state.publication is None else state.publication.segments
    return [segment for segment in state.segments if segment.path not in decided]


def _stream_folders(folder: Folder) -> list[str]:
    return [name for name in folder.names("") if name.startswith("stream=")]


# --- What only a full check looks for -----------------------------------------------------------


def _strangers(folder: Folder, state: State, ledger: Ledger) -> list[str]:
    """Files that readers see, and that the archive did not write."""
    hidden = (
        {path for move in state.publication.moves for path in move.hide}
        if state.publication is not None
        else set()
    )
    return [
        f"{file.path} is no file of the archive, and readers see it"
        for name in _stream_folders(folder)
        for file in folder.files(name)
        if file.path.endswith(".parquet") and file.path not in hidden and file.path not in ledger
    ]


def _unpublished_faults(spark: "SparkSession", folder: Folder, state: State) -> list[str]:
    found = []
    for segment in _unpublished(state):
        try:
            content = content_of(spark.read.schema(FILE_SCHEMA).parquet(folder.url(segment.path)))
        except SPARK_ERRORS as error:
            found.append(f"{segment.path} cannot be read: {told(error)}")
            continue
        if content != segment.content:
            found.append(
                f"{segment.path} holds {content.rows:,} entries, or others, not the "
                f"{segment.entries:,}"
            )
    return found


def _miscounted(state: State, ledger: Ledger) -> list[str]:
    entries = sum(one.entries for one in ledger.values())
    if entries == _published_entries(state):
        return []
    return [f"the ledger names {entries:,} entries, the state {_published_entries(state):,}"]
