"""The state that a folder holds: from a checkpoint and the log behind it, or from the whole log."""

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from crdtstream.core.checkpoint.parts import STAGED
from crdtstream.core.clock import format_vv
from crdtstream.core.effects import Record
from crdtstream.core.membership.members import beginning_of
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import BatchError
from crdtstream.store.errors import DAMAGED, StoreError
from crdtstream.store.layout import StoredCheckpoint
from crdtstream.store.sqlite_staging import StagedFolder
from crdtstream.store.staging import StagedState, is_staged, load_staged, staged_state
from crdtstream.upkeep.check_report import Progress, Report, Verdict, verdict_on
from crdtstream.upkeep.effects import Effects
from crdtstream.upkeep.folder_reading import (
    Identity,
    UpkeepError,
    connect,
    identity_of,
    last_seq,
    locked,
    log_file,
    read_meta,
    rows,
)
from crdtstream.upkeep.image_check import ImagesFound
from crdtstream.upkeep.image_rows import checkpoints, images
from crdtstream.upkeep.membership import members_in
from crdtstream.upkeep.state_check import StateCounts, wrong_groups, wrong_lanes

CHECKPOINTS: Final = "checkpoints"
WRONG_MAX: Final = 20
PROGRESS_ROWS: Final = 1_000


class StateError(Exception):
    """A state cannot be built; the text says why."""


class Base(NamedTuple):
    """Point from which a state is built.

    Attributes:
        stored: the checkpoint; None: the state is built from nothing and the first row.
    """

    stored: StoredCheckpoint | None

    @property
    def generation(self) -> int:
        return 0 if self.stored is None else self.stored.row.generation

    @property
    def seq(self) -> int:
        return 0 if self.stored is None else self.stored.row.seq

    def __str__(self) -> str:
        return "the whole log" if self.stored is None else f"checkpoint {self.generation}"


def check_state(
    connection: sqlite3.Connection,
    identity: Identity,
    effects: Effects,
    found: ImagesFound | None,
    report: Report,
    progress: Progress,
    *,
    staged: StagedState,
) -> Base | None:
    """Build the state from the newest sound checkpoint, and look at all of it.

    From every other place where it can begin, it must have the same digest.

    Args:
        staged: the cut that the folder has staged; a row may say that it was merged.

    Returns:
        Where it began; None: it cannot be built.
    """
    first_seq, last_seq = identity.first_seq, identity.first_seq + effects.rows - 1
    sound = [] if found is None else [Base(one.stored) for one in found.sound]
    # A state that was merged and is no longer staged can only be read from a checkpoint.
    least_seq = max(
        [first_seq - 1, *(seq for seq, merged in effects.merged if not is_staged(staged, merged))]
    )
    bases = [one for one in sound if least_seq <= one.seq <= last_seq]
    if least_seq == 0:
        bases.append(Base(None))
    if not bases:
        what = (
            f"no sound checkpoint reaches to row {first_seq}, where the log begins"
            if least_seq < first_seq
            else f"no sound checkpoint has the state that row {least_seq} says was merged, and "
            "it is not staged any more"
        )
        report.note("state", Verdict.DAMAGE, what)
        return None
    wrong: list[str] = []
    taken: Base | None = None
    for base in bases:
        try:
            replica = _state_of(connection, identity, base, last_seq, progress, staged)
        except StateError as error:
            wrong.append(f"{base}: {error}")
            continue
        with replica.residency.in_place():
            digest = replica.digest().decode()
        if taken is None:
            taken = base
            report.digest, report.vv = digest, dict(replica.vv)
            _check(replica, effects, report)
        elif digest != report.digest:
            wrong.append(f"{base} gives digest {digest}, {taken} {report.digest}")
    if taken is None:
        report.note("state", Verdict.DAMAGE, "\n".join(wrong))
    elif wrong or taken.stored is not None:
        report.note(CHECKPOINTS, *verdict_on(wrong, f"the same state from {_listed(bases)}"))
    return taken


@contextlib.contextmanager
def folder_state(folder: Path, progress: Progress) -> Iterator[tuple[Identity, Replica]]:
    """The state of a folder that no node has open, from its newest checkpoint; it stays open.

    It is not checked as ``fsck`` checks it: rows and images must have the right checksums.

    Raises:
        UpkeepError: it is no folder of a region, a node has it open, or it is damaged.
    """
    path = log_file(folder)
    with locked(folder), contextlib.closing(connect(path, is_locked=True)) as connection:
        try:
            identity = identity_of(read_meta(connection))
            found = [stored for stored, is_sound in checkpoints(connection) if stored and is_sound]
            last = last_seq(connection)
            staged = StagedFolder(folder)
            base = Base(max(found, key=lambda one: one.row.generation, default=None))
            if base.stored is None and identity.first_seq > 1:
                raise StateError("its checkpoint is damaged or not there")
            yield identity, _state_of(connection, identity, base, last, progress, staged)
        except (*DAMAGED, StateError, StoreError) as error:
            raise UpkeepError(f"{folder}: {error}; `crdtstream fsck` shows what is damaged") from (
                error
            )


def _listed(bases: list[Base]) -> str:
    return ", ".join(map(str, bases))


def _check(replica: Replica, effects: Effects, report: Report) -> None:
    counts = StateCounts()
    with replica.residency.in_place():
        wrong = list(islice(wrong_lanes(replica, counts), WRONG_MAX))
        report.note(
            "lanes",
            *verdict_on(
                wrong, f"{counts.keys} keys, {counts.lanes} lanes, {counts.entries} entries"
            ),
        )
        wrong = list(islice(wrong_groups(replica, counts), WRONG_MAX))
    report.note(
        "groups", *verdict_on(wrong, f"{counts.groups} groups, {counts.pending} pending entries")
    )
    if dict(replica.vv) != effects.vv:
        report.note("version vector", Verdict.DAMAGE, "the state has other effects than the rows")


def _state_of(
    connection: sqlite3.Connection,
    identity: Identity,
    base: Base,
    last_seq: int,
    progress: Progress,
    staged: StagedState,
) -> Replica:
    """
    Raises:
        StateError: checkpoint and rows do not fit together.
    """
    replica = Replica(identity.region)
    with contextlib.suppress(ValueError):
        # Damage of the meta table is reported elsewhere.
        replica.begin(beginning_of(members_in(read_meta(connection))))
    replica.staged = partial(staged_state, staged)
    replica.residency.loader = partial(_load, connection, staged)
    if base.stored is not None:
        _restore(connection, replica, base.stored)
    first_seq, seq = base.seq + 1, base.seq
    progress("state", 0, last_seq - base.seq)
    try:
        for seq, record in enumerate(_sound(connection, first_seq, last_seq), first_seq):
            replica.replay(record)
            if seq % PROGRESS_ROWS == 0:
                progress("state", seq - base.seq, last_seq - base.seq)
    except (BatchError, StoreError, AssertionError, LookupError, ValueError) as error:
        # Nothing that a node wrote does this, so each kind of surprise is one of the same fault.
        raise StateError(f"row {seq} does not follow: {error}") from error
    progress("state", last_seq - base.seq, last_seq - base.seq)
    return replica


def _load(connection: sqlite3.Connection, staged: StagedState, number: int) -> bytes:
    """The packed body of an image, of the checkpoints or of what is staged."""
    if number >= STAGED:
        return load_staged(staged, number)
    query = "SELECT packed FROM body WHERE number = ?"
    (packed,) = connection.execute(query, (number,)).fetchone()
    assert isinstance(packed, bytes)
    return packed


def _restore(connection: sqlite3.Connection, replica: Replica, stored: StoredCheckpoint) -> None:
    generation = stored.row.generation
    try:
        replica.restore(one.image() for one in images(connection, generation, with_bodies=False))
    except (*DAMAGED, ValueError, LookupError, AssertionError) as error:
        raise StateError(str(error)) from error
    if replica.vv != stored.row.vv:
        raise StateError(
            f"its images are of {format_vv(replica.vv)}, its row of {format_vv(stored.row.vv)}"
        )


def _sound(connection: sqlite3.Connection, first: int, last: int) -> Iterator[Record]:
    """The rows once more; they were found to be sound."""
    for row in rows(connection, first=first, last=last):
        if row.logged is None:
            raise BatchError(f"row {row.seq} {row.damage}")
        yield row.logged.record
