"""The moves that publish files: decided in one step, done one after the other, each once or twice.

The segments and the merged small files, which the new files replace, are removed only when the new
files stand in their places.
"""

from dataclasses import replace

from crdtstream.spark.jobs.archive_layout import LEDGER, OLD, SEGMENTS, STAGING
from crdtstream.spark.jobs.archive_state import Move, Publication, State, commit
from crdtstream.spark.jobs.folder import ArchiveError, Folder


def finish(folder: Folder, state: State) -> State:
    """Do what is left of the moves that were decided; nothing if there are none.

    Raises:
        ArchiveError: new files are missing; the files that they are to replace still exist.
    """
    publication = state.publication
    if publication is None:
        return state
    for move in publication.moves:
        do_move(folder, publication, move)
    _check_moved(folder, publication)
    done = frozenset(publication.segments)
    left = tuple(segment for segment in state.segments if segment.path not in done)
    state = commit(folder, replace(state, publication=None, segments=left))
    folder.delete(publication.staging)
    folder.delete(f"{OLD}/{publication.number}")
    for path in publication.segments:
        folder.delete(path)
    _clear_ledgers(folder, state)
    return state


def do_move(folder: Folder, publication: Publication, move: Move) -> None:
    """Do those of one partition's moves that are not done yet."""
    for path in move.hide:
        if folder.exists(path):
            folder.replace(path, f"{OLD}/{publication.number}/{path}")
    for source, target in move.show:
        if folder.exists(source):
            folder.replace(source, target)


def _check_moved(folder: Folder, publication: Publication) -> None:
    """
    Raises:
        ArchiveError: not all entries are where readers look for them.
    """
    targets = [target for move in publication.moves for _, target in move.show]
    lost = [target for target in targets if not folder.exists(target)]
    count = sum(folder.parquet_footer(target).rows for target in targets if target not in lost)
    if not lost and publication.entries in (None, count):
        return
    what = f"without {', '.join(lost)}" if lost else f"with {count} entries in the new files"
    raise ArchiveError(
        f"publication {publication.number} of {publication.entries or 'some'} entries in "
        f"{folder.url()} ended {what}. Bring the files back, then run again. Nothing was removed: "
        f"new entries are in {SEGMENTS}, merged files in {OLD}/{publication.number}"
    )


def clear(folder: Folder, state: State) -> None:
    """Remove remains of killed programs; only for a program that has committed a state itself."""
    named = {segment.path for segment in state.segments}
    for name in folder.names(SEGMENTS):
        if f"{SEGMENTS}/{name}" not in named:
            folder.delete(f"{SEGMENTS}/{name}")
    _clear_ledgers(folder, state)
    if state.publication is None:
        folder.delete(STAGING)
        folder.delete(OLD)


def _clear_ledgers(folder: Folder, state: State) -> None:
    """Those that no state names, or only an older one."""
    for name in folder.names(LEDGER):
        if state.ledger is None or f"{LEDGER}/{name}" != state.ledger.path:
            folder.delete(f"{LEDGER}/{name}")
