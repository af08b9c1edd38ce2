"""Options and outcome of a replay's job."""

from dataclasses import dataclass

from crdtstream.spark.jobs.folder import ArchiveError
from crdtstream.spark.options import NodesOptions


class ReplayError(ArchiveError):
    """The replay cannot be done, or not go on.  The text says what to do."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay: what to replay, and where to.

    Attributes:
        nodes: where to append.
        path: the archive's folder.
        streams: names, or patterns as KEYS takes them; none: every stream of the archive.
        start_ms: of IDs, included; None: no bound.
        end_ms: of IDs, not included; None: no bound.
        where: a condition in SQL on the archive's columns, as ``fields['dest'] = 'LAX'``.
        target: the stream to which all entries are appended; empty: to streams of their own names.
        prefix: added before those names.
        id_field: the field that keeps the entry's old ID; empty: no field does.
        rate: entries per second, at most; None: as fast as possible.
        speedup: how many times as fast as they were written; None: as `rate` says.
        replay_id: the name by which this replay is known when it is run again; empty: made from
            what is replayed and where to, the database included.  Then the same command continues
            the same replay, and does nothing once that is done.
        each_message_once: leave out the second copy of a message that was written in two regions
            at once; see ``archive_reader.each_message_once``.
        partitions: how many tasks append at a time, without a rate; 0: as many as there are cores,
            up to eight.
    """

    nodes: NodesOptions
    path: str
    streams: tuple[bytes, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    where: str = ""
    target: bytes = b""
    prefix: bytes = b""
    id_field: str = ""
    rate: float | None = None
    speedup: float | None = None
    replay_id: str = ""
    each_message_once: bool = True
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """Outcome of a run.

    Attributes:
        replay_id: the name by which to run it again.
        database_uid: identity of the database that it appends to.
        entries: appended by this run.
        entries_known: that an earlier run, which was killed, had appended already.
        entries_total: of the replay.
        chunks: that this run did.
        chunks_total: of the replay.
    """

    replay_id: str
    database_uid: str
    entries: int
    entries_known: int
    entries_total: int
    chunks: int
    chunks_total: int


def check_options(options: ReplayOptions) -> None:
    """
    Raises:
        ReplayError: with all that cannot be meant.
    """
    problems = []
    if options.rate is not None and options.speedup is not None:
        problems.append("give a rate or a speedup, not both")
    for name, value in (("rate", options.rate), ("speedup", options.speedup)):
        if value is not None and not value > 0:
            problems.append(f"{name} must be above 0")
    if options.target and options.prefix:
        problems.append("give a target or a prefix, not both")
    if options.partitions < 0:
        problems.append("partitions must not be negative")
    if options.replay_id and not _is_name(options.replay_id):
        problems.append("replay_id: letters, digits, _, - and . only, at most 100 of them")
    if problems:
        raise ReplayError("; ".join(problems))


def _is_name(text: str) -> bool:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    return len(text) <= 100 and set(text) <= allowed and not text.startswith(".")
