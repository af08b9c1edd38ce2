"""Archives streams to Parquet, by stream and date, each entry once, even if a process is killed.

    region → micro-batch N: the dots between two vectors → segment → state {batch N, vector, …}
                                                                        ↓ at times, and at the end
                                     stream=…/date=…/part-….parquet  ← publishing: merged by day

Spark's checkpoint says which dots are batch N, also after a kill; the archive's state says which
batches it has.  Only these two decide, so a kill has these results:

    killed before the checkpoint has batch N    it is planned again, by the next program
    … while its segment is written              batch N is read again: the same dots; remains are
                                                deleted
    … or what was written is not read back      the same; nothing was committed
    … when the state is committed               Spark repeats batch N, and the state says: done
    … while publishing                          see publishing.py
    … while trimming                            only what an earlier, finished batch has is trimmed
    files damaged after they were read back     nothing is trimmed; see archive_check.py
    the region being read                       the source goes on in another one, at the same dot

So an entry is archived once for its dot, which is its own in the whole database.  A program that
was overtaken by a second one cannot commit, as the state has changed; see archive_state.py.

Two entries can be one message: a producer that retries in another region at the wrong moment gets
two entries, and one of them is removed once the regions know of each other.  It may have been read
and archived by then, as all that can be read is archived; ``each_message_once`` leaves such copies
out.
"""

import json
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from crdtstream.spark.jobs.archive_check import (
    Verified,
    check_content,
    check_table,
    check_there,
    chosen,
    holding,
    refuse_without_state,
    verify,
)
from crdtstream.spark.jobs.archive_layout import CHECKPOINT, HIDDEN, STATE, archived_columns
from crdtstream.spark.jobs.archive_options import (
    FILE_BYTES_DEFAULT,
    ArchiveFormat,
    ArchiveOptions,
    ArchiveOutcome,
    check_options,
    entries_per_batch,
)
from crdtstream.spark.jobs.archive_source import read_stream
from crdtstream.spark.jobs.archive_state import Segment, State, check_database, commit, load
from crdtstream.spark.jobs.content import Content
from crdtstream.spark.jobs.delta import check_delta, write_delta
from crdtstream.spark.jobs.failures import SPARK_ERRORS, told
from crdtstream.spark.jobs.folder import ArchiveError, Folder, folder_at
from crdtstream.spark.jobs.ledger import DamagedArchiveError
from crdtstream.spark.jobs.moves import clear, finish
from crdtstream.spark.jobs.publishing import (
    Merging,
    publish,
    write_segment,
)
from crdtstream.spark.jobs.shared_folder import check_shared
from crdtstream.spark.nodes import Nodes, NodesError
from crdtstream.spark.options import NodesOptions
from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS
from crdtstream.spark.vectors import Ends, Vector, beyond, join, message_of, parse_vector
from crdtstream.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "FILE_BYTES_DEFAULT",
    "ArchiveError",
    "ArchiveFormat",
    "ArchiveOptions",
    "ArchiveOutcome",
    "Verified",
    "archive",
    "verify",
]

# At most as much as fits into this number of files is archived and not yet published, when a long
# backlog is read.  Tests set it.
UNPUBLISHED_FILES_MAX = 16.0
POLL_SECONDS: Final = 1

_LOG: Final = logging.getLogger(__name__)


def archive(
    spark: "SparkSession", options: ArchiveOptions, *, stopping: threading.Event | None = None
) -> ArchiveOutcome:
    """Archive what the streams hold; again and again, if it follows, until ``stopping`` is set.

    Ctrl-C ends it too, as does a kill: the next run goes on where this one was.

    Raises:
        ArchiveError: it cannot go on; what is archived stays, and a next run goes on from there.
    """
    check_options(options)
    if options.format is ArchiveFormat.DELTA:
        check_delta(spark)
    folder = folder_at(spark, options.path)
    try:
        with folder.claimed():
            check_shared(spark, folder, HIDDEN, outcome="Nothing was archived or trimmed")
            return _Run(spark, folder, options, stopping or threading.Event()).run()
    except NodesError as error:
        raise ArchiveError(str(error)) from error
    except OSError as error:
        raise ArchiveError(f"{options.path}: {error}") from error
    except SPARK_ERRORS as error:
        raise ArchiveError(f"Spark failed: {told(error)}") from error


class _Run:
    """One program's work on an archive; of several, only the last one to begin can commit."""

    def __init__(
        self,
        spark: "SparkSession",
        folder: Folder,
        options: ArchiveOptions,
        stopping: threading.Event,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._options = options
        self._stopping = stopping
        self._merging = Merging(
            options.file_bytes, 1 if options.compact else options.small_files_max
        )
        self._entries = self._batches = self._trimmed = 0
        self._files = self._merged = 0
        self._problem: Exception | None = None
        # Spark calls us in a thread of its own.
        self._turn = threading.Lock()
        self._is_over = False
        self._state = self._begin()
        self._published_at = time.monotonic()

    def run(self) -> ArchiveOutcome:
        # PySpark 4.1 ends a run behind the batch that the last run left, whatever else is there.
        again = not HAS_READ_LIMITS and not self._options.follow and _is_unfinished(self._folder)
        try:
            for _ in range(1 + again):
                self._run_query()
        except KeyboardInterrupt:
            if not self._options.follow:
                raise
        finally:
            with self._turn:
                self._is_over = True
        self._publish(everywhere=self._options.compact)
        self._trim()
        if self._options.format is ArchiveFormat.PARQUET:
            check_there(self._folder, chosen(), outcome="What is new was archived.")
        return ArchiveOutcome(
            entries=self._entries,
            entries_total=self._state.entries,
            batches=self._batches,
            files=self._files,
            files_merged=self._merged,
            trimmed=self._trimmed,
            vector=dict(self._state.vector),
            database_uid=self._state.database_uid,
        )

    def _run_query(self) -> None:
        query = self._start()
        try:
            self._wait(query)
        finally:
            query.stop()

    # --- Beginning ----------------------------------------------------------------------------

    def _begin(self) -> State:
        """Take the archive over: work of an earlier program is finished, or removed."""
        streams = tuple(key.decode("utf-8", "surrogateescape") for key in self._options.streams)
        with Nodes.of(self._options.nodes) as nodes:
            nodes.refuse_strangers()
            database, uid = nodes.position().database_id, nodes.database_uid
        state = load(self._folder)
        if state is None:
            refuse_without_state(self._folder)
            if any(name.startswith("stream=") for name in self._folder.names("")):
                raise ArchiveError(
                    f"{self._folder.url()} has files of an archive and no _archive: bring it back, "
                    "or begin in another folder"
                )
            state = State(database=database, database_uid=uid, streams=streams)
        check_database(
            self._folder.url(), state, database=database, uid=uid, advice="choose another folder"
        )
        if state.streams != streams:
            was = ", ".join(map(repr, state.streams)) or "all streams"
            raise ArchiveError(
                f"{self._folder.url()} is an archive of {was}: earlier entries of others would be "
                "missing in it. Choose another folder"
            )
        state = finish(self._folder, commit(self._folder, state))
        clear(self._folder, state)
        return state

    @property
    def _nodes(self) -> NodesOptions:
        """Nodes to read and trim: those of the archive's database."""
        return replace(self._options.nodes, database_uid=self._state.database_uid)

    def _start(self) -> "StreamingQuery":
        entries = read_stream(
            self._spark,
            self._nodes,
            self._options.streams,
            # Heeded only where there is no checkpoint: a lost one is made again from here.
            starting=self._state.vector,
            entries_per_batch_max=entries_per_batch(self._options),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        writer = entries.writeStream.foreachBatch(self._archive_batch).option(
            "checkpointLocation", self._folder.url(CHECKPOINT)
        )
        if self._options.follow:
            seconds = self._options.batch_seconds
            return writer.trigger(processingTime=f"{round(seconds * 1_000)} milliseconds").start()
        return writer.trigger(availableNow=True).start()

    def _wait(self, query: "StreamingQuery") -> None:
        """Wait until the query ends, or is to end; publish from time to time what was read."""
        try:
            while not query.awaitTermination(POLL_SECONDS):
                if self._stopping.is_set():
                    return
                with self._turn:
                    if self._state.segments and self._is_time_to_publish():
                        self._publish()
                        self._trim()
        except PySparkException as error:
            # Java returns an error that was raised below as text; this is the error itself.
            problem = self._problem or error
            ours = isinstance(problem, ArchiveError | NodesError)
            raise ArchiveError(str(problem) if ours else told(problem)) from error

    # --- Micro-batches ------------------------------------------------------------------------

    def _archive_batch(self, entries: DataFrame, batch: int) -> None:
        """Called by Spark, for each batch at least once, and when all before it are done."""
        try:
            with self._turn:
                if not self._is_over:
                    self._archive_once(entries, batch)
        except Exception as error:
            self._problem = error
            raise

    def _archive_once(self, entries: DataFrame, batch: int) -> None:
        archived, end = self._state.vector, _offset(self._folder, batch)
        exists = self._existing(archived, end)
        tells_loss = exists != archived and not beyond(exists, end)
        if not beyond(end, archived) and not tells_loss:
            _LOG.info("batch %d is archived", batch)
            return
        # A query that has no batch yet begins where the archive ends, see _start.
        before = _offset(self._folder, batch - 1) if batch else archived
        if before != archived:
            raise ArchiveError(self._unfitting(batch, before))
        if tells_loss and self._options.format is ArchiveFormat.DELTA:
            raise ArchiveError(
                f"the table {self._folder.url()} has entries beyond {exists.token}, where effects"
                " end that exist: later ones with the same numbers could not be told from them."
                " Archive into another folder"
            )
        segment = write_segment(self._folder, archived_columns(entries))
        self._commit_batch(segment, batch, lost=beyond(archived, exists))
        self._batches += 1
        unpublished = sum(one.file_bytes for one in self._state.segments)
        if unpublished >= UNPUBLISHED_FILES_MAX * self._options.file_bytes:
            self._publish()
            self._trim()

    def _existing(self, archived: Vector, end: Vector) -> Vector:
        """The part of the archive's vector that still exists; nodes are asked if need be."""
        if all(
            end.get(one, 0) >= n and end.marks.get(one, "") == archived.marks.get(one, "")
            for one, n in archived.items()
        ):
            return archived
        ends = Ends()
        with Nodes.of(self._nodes) as nodes:
            # Of all, as one node may not yet have heard what another one told the query.
            for position in nodes.positions(archived).values():
                ends.hear(position, archived)
        return ends.within(archived)

    def _unfitting(self, batch: int, before: Vector) -> str:
        """Text that says what to do about a checkpoint that does not go on at the archive's end."""
        where = f"batch {batch} begins at {before}, and the archive ends at {self._state.vector}"
        if beyond(before, self._state.vector):
            return (
                f"{where}: the archive's state is older than its checkpoint. Bring back the newer "
                f"one in {self._folder.url(STATE)}, or begin in another folder"
            )
        return (
            f"{where}: the checkpoint is older than the archive. Remove "
            f"{self._folder.url(CHECKPOINT)}, and it is made again from the archive's end"
        )

    def _commit_batch(self, segment: Segment | None, batch: int, *, lost: Vector) -> None:
        """From here on the batch is archived.

        Args:
            lost: up to where the archive has entries of regions whose effects end before.
        """
        state, vector = self._state, _offset(self._folder, batch)
        query = _query_id(self._folder)
        digest = state.table_digest
        segments = () if segment is None else (segment,)
        count = sum(one.entries for one in segments)
        published = state.published
        if self._options.format is ArchiveFormat.DELTA:
            for one in segments:
                write_delta(
                    self._spark,
                    self._folder,
                    one,
                    query=query,
                    batch=batch,
                    above=state.vector,
                    upto=vector,
                )
                digest = (Content(0, digest) + one.content).digest
            segments, published = (), vector
        self._state = commit(
            self._folder,
            replace(
                state,
                query=query,
                batch=batch,
                vector=vector,
                beyond=join([state.beyond, lost]),
                entries=state.entries + count,
                published=published,
                segments=(*state.segments, *segments),
                table_digest=digest,
            ),
        )
        self._entries += count

    def _is_time_to_publish(self) -> bool:
        waited = time.monotonic() - self._published_at
        return self._options.follow and waited >= self._options.publish_seconds

    def _publish(self, *, everywhere: bool = False) -> None:
        if self._options.format is ArchiveFormat.DELTA:
            return
        self._state, done = publish(
            self._spark, self._folder, self._state, self._merging, everywhere=everywhere
        )
        self._files += done.files
        self._merged += done.merged
        self._published_at = time.monotonic()

    # --- Trimming -----------------------------------------------------------------------------

    def _trim(self) -> None:
        """Remove what is archived from the database, as far as all groups are done with it.

        Nothing is removed before all files that hold it were read again; and nothing else is
        removed, whatever groups acknowledge in the meantime.
        """
        older, archived = self._options.trim_older_than_seconds, self._finished()
        if older is None or not archived:
            return
        assert not self._state.segments, "segments that are not published are not checked"
        with Nodes.of(self._nodes) as nodes:
            before_ms = max(0, nodes.position().now_ms - round(older * 1_000))
            plans: dict[bytes, query_pb2.TrimPlan] = {}
            for stream in nodes.streams(self._options.streams):
                plan = nodes.plan_trim(
                    query_pb2.TrimReadRequest(
                        key=stream.key,
                        read=message_of(archived),
                        read_token=archived.token,
                        before_ms=before_ms,
                    )
                )
                if plan.origins:
                    plans[stream.key] = plan
            if not plans:
                return
            self._check_before_trimming(plans)
            for key, plan in plans.items():
                read = archived.at({origin: archived[origin] for origin in plan.origins})
                reply = nodes.trim_read(
                    query_pb2.TrimReadRequest(
                        key=key,
                        read=message_of(read),
                        read_token=read.token,
                        before_ms=min(before_ms, plan.last_ms + 1),
                    )
                )
                self._trimmed += reply.removed

    def _check_before_trimming(self, plans: "Mapping[bytes, query_pb2.TrimPlan]") -> None:
        """
        Raises:
            DamagedArchiveError: the archive does not hold all that it must.
        """
        folder, outcome = self._folder, "Nothing was trimmed."
        if load(folder) != self._state:
            raise DamagedArchiveError(
                f"{folder.url(STATE)} is not as this program left it. {outcome} Bring it back, and "
                "let no other program change it; then run again"
            )
        if self._options.format is ArchiveFormat.DELTA:
            check_table(self._spark, folder, self._state, outcome=outcome)
            return
        check_there(folder, chosen(), outcome=outcome)
        spans = {key: (plan.first_ms, plan.last_ms) for key, plan in plans.items()}
        check_content(folder, holding(spans), outcome=outcome)

    def _finished(self) -> Vector:
        """Up to where both the archive and Spark's checkpoint are, for good.

        A batch that only the archive has comes again, and the source would miss what was trimmed
        of it.
        """
        folder, state = self._folder, self._state
        if state.batch < 0 or state.query != _query_id(folder):
            return Vector()
        if folder.exists(f"{CHECKPOINT}/commits/{state.batch}"):
            return state.vector
        return _offset(folder, state.batch - 1) if state.batch else Vector()


# --- Spark's checkpoint -----------------------------------------------------------------------


def _query_id(folder: Folder) -> str:
    """By what name Spark knows the query of this checkpoint."""
    return str(json.loads(folder.read(f"{CHECKPOINT}/metadata"))["id"])


def _is_unfinished(folder: Folder) -> bool:
    """True if a micro-batch was begun and not committed."""
    begun, committed = (
        {name for name in folder.names(f"{CHECKPOINT}/{log}") if name.isdigit()}
        for log in ("offsets", "commits")
    )
    return bool(begun) and max(begun, key=int) not in committed


def _offset(folder: Folder, batch: int) -> Vector:
    """End of a micro-batch, as Spark wrote it before the batch began."""
    lines = folder.read(f"{CHECKPOINT}/offsets/{batch}").decode().splitlines()
    return parse_vector(json.loads(lines[-1]))
