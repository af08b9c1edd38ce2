"""The streaming source: a query's offset is the version vector up to which it has read.

    offset n          {"1": 500, "2": 40, "database": "5f0c…"}
    latestOffset      the node's durable vector, or less of it (maxEntriesPerTrigger)
    partitions        what lies between two offsets, as ranges of dots in each lane
    offset n + 1      {"1": 620, "2": 44, "database": "5f0c…"}

A late entry with a low ID has a high dot, so none is skipped; new streams and regions are beyond
the old vector, and so are read, too.  An offset is durable in the region that returned it,
and never goes back: a region that is behind adds nothing to it until it has caught up.

A query that begins with the earliest entries has not lost those that were trimmed before.  Until it
has read up to there, its offsets name them, so that they are still known after a restart:

    {"1": 120, "database": "5f0c…", "lostBefore": {"orders/1": 400}}

Dots have a meaning only in their own database, so an offset says which one that is, and nodes of
another are refused.

Effects that a removed region lost exist nowhere, and no node will ever have them.  The same is true
of effects in a folder that its region does not go on with: their numbers are used again, in a later
incarnation.  A checkpoint may name such effects if that region was read before.  That ends the
query; with failOnDataLoss=false its next offset ends where the existing effects end.  Effects that
the region numbers again from there on lie beyond this offset, and are read:

    {"1": "70@1764012345678"}    its folder is put back to a backup, which had 1:65
    {"1": "65@1764012345678"}    the loss is reported
    {"1": "80@1764098765432"}    fifteen effects of the new incarnation

A micro-batch that is run again after a crash is cut in the same way: the offset says where tasks
end, which was decided by the entries at that time; and each reads its lanes by name.  So its tasks
have the same rows in the same order, without those that were removed since.

    {"1": 900, "2": 50, "database": "5f0c…", "cuts": [[1, 300], [1, 700]]}
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from crdtstream.spark.entries import Columns
from crdtstream.spark.nodes import (
    DataLossError,
    Nodes,
    NodesError,
    OtherDatabaseError,
    Scanning,
    UnansweredError,
)
from crdtstream.spark.options import NodesOptions, OptionsError, SourceOptions
from crdtstream.spark.pyspark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from crdtstream.spark.ranges import (
    RANGE_ENTRIES_MIN,
    EntryRange,
    RangesPartition,
    lags,
    lane_name,
    origin_of,
    ranges_of,
    read_ranges,
)
from crdtstream.spark.selection import Selection
from crdtstream.spark.vectors import (
    CUTS,
    DATABASE,
    LAG_ENTRIES,
    LOST_BEFORE,
    LOST_EFFECTS,
    Ends,
    Vector,
    beyond,
    cut_at,
    cut_by_dots,
    cuts_by_entries,
    join,
    offset_of,
    parse_cuts,
    parse_database,
    parse_vector,
    told_lost,
    vector_of,
)
from crdtstream.v1 import query_pb2

# Of one micro-batch, unless minPartitions asks for more.
TASKS_MAX: Final = 64
# A task has about this number of pieces; the first one may be cut in a wrong place.
CUT_PIECES: Final = 4
CATCH_UP_PAUSE_SECONDS: Final = 0.1

_LOG: Final = logging.getLogger(__name__)


class EntriesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads entries as they come, for ``spark.readStream``."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        """
        Raises:
            OptionsError: an option is for ``spark.read`` only.
            SchemaError: a column's type is not supported.
        """
        if options.ending_offsets != "latest":
            raise OptionsError("crdtstream: endingOffsets is for spark.read")
        self._options = options
        self._columns = Columns(schema, options.mode)
        self._selection = Selection.of(options)
        self._nodes: Nodes | None = None
        # Of Trigger.AvailableNow: where this run ends.
        self._target: Vector | None = None
        # Up to where micro-batches are planned; the lag is what lies beyond.
        self._planned = Vector()
        self._newest = Vector()
        # By lane, what was lost before this query began to read it, or was reported: no news.
        self._lost_before: dict[str, int] = {}
        self._behind_since: float | None = None
        self._ends = Ends()
        # Of regions, and their incarnations: how many effects the checkpoint named beyond their
        # end, since this began.
        self._lost_effects: dict[tuple[int, str], int] = {}

    # --- What Spark asks, on the driver ---------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Offset at which a new query begins; Spark asks again if the first batch is run again.

        It must be the same then, so ``latest`` cannot be the vector of now.  It is the empty one,
        and the first batch, which goes from there to the vector of its time, has no entries (see
        :meth:`_is_before_latest`).
        """
        starting = self._options.starting_offsets
        if isinstance(starting, Vector):
            return offset_of(starting, self._connected().database_uid)
        if starting == "earliest" and not self._selection.is_empty:
            self._note_losses_before()
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.entries_per_trigger_max
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """End of the next micro-batch; ``start`` itself while there is nothing to read.

        Effects that are no entries (or of streams that are not asked for) move no offset; otherwise
        each acknowledgement would make an empty micro-batch.
        """
        above = self._resumed(start)
        self._newest = self._durable(above)
        if self._target is not None:
            self._let_nodes_catch_up(above)
        exists = self._existing(above)
        if exists != above:
            # Noted at once, so that it is reported once.
            self._planned = exists
            return self._offset(exists)
        upto = self._newest if self._target is None else self._ends.within(self._target)
        if self._is_before_latest(start):
            self._planned = upto
            return self._named(upto)
        try:
            return self._next(start, above, upto, limit)
        except UnansweredError:
            if self._target is not None:
                raise
            # Perhaps the node that reported the newest effects no longer answers, and no other node
            # has them yet.  What the others have is planned; the rest follows when it is back.
            self._newest = self._durable(above)
            if not beyond(upto, self._newest):
                raise
            return self._next(start, above, self._newest, limit)

    def _next(
        self, start: dict[str, Any], above: Vector, upto: Vector, limit: ReadLimit
    ) -> dict[str, Any]:
        """End of the next micro-batch: at most ``upto``."""
        end = self._end(above, upto, limit)
        if end is None:
            self._planned = above
            return start if not above or DATABASE in start else start | self._database()
        self._planned = join([above, end])
        return self._offset(self._planned) | self._cuts(above, self._planned)

    def existing_of(self, offset: Mapping[str, Any]) -> Vector:
        """The vector that was read up to an offset, without effects that exist nowhere.

        Raises:
            DataLossError: it names some, and that matters.
        """
        vector = self._resumed(offset)
        self._heard(self._connected().position(read=vector), vector)
        return self._existing(vector)

    def all_durable(self) -> dict[str, Any]:
        """End of a query's first micro-batch, if it is to have all that a node has durably.

        Of several nodes it uses one that has what all others have, if there is such a node.  The
        end is never before ``startingOffsets``.  Unlike that of :meth:`latestOffset` it moves even
        if there is no entry to read.

        Raises:
            NodesError: all answer, and for too long none had what ``startingOffsets`` names.
        """
        starting = self._options.starting_offsets
        above = starting if isinstance(starting, Vector) else Vector()
        nodes = self._connected()
        positions = nodes.positions(above)
        vectors = {address: self._heard(one, above) for address, one in positions.items()}
        ahead = [one for one in vectors if not beyond(join(vectors.values()), vectors[one])]
        if ahead:
            nodes.prefer(ahead[0])
        self._durable(above)
        self._let_nodes_catch_up(above)
        durable = self._durable(above)
        above = self._existing(above)
        upto = join([above, durable])
        if starting == "latest":
            return self._named(upto)
        cuts = self._cuts(above, upto) if self._selection.moving(above, upto) else {}
        return offset_of(upto) | self._database() | cuts

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._heard(self._connected().position(), Vector())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest vector, and how many entries of each lane lie beyond what is planned.

        Spark asks behind each ``latestOffset``, a hundred times a second while nothing comes: so
        the vector is the one that was heard then.
        """
        try:
            ranges = self._ranges(self._planned, self._newest)
        except NodesError as error:
            _LOG.warning("it is unknown how much is still to be read: %s", error)
            return None
        lost: dict[str, int] = {}
        for (region, _), n in sorted(self._lost_effects.items()):
            lost[str(region)] = lost.get(str(region), 0) + n
        return (
            offset_of(self._newest)
            | self._database()
            | {LAG_ENTRIES: lags(ranges)}
            | ({LOST_EFFECTS: lost} if lost else {})
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        above, upto = self._resumed(start), self._vector_of(end)
        if self._is_before_latest(start) or self._selection.is_empty:
            return []
        # A batch that is run again may have been planned before a region was removed, or went on
        # in another folder.
        for vector in (above, upto):
            self._heard(self._connected().position(read=vector), vector)
        above, upto = self._existing(above), self._existing(upto)
        slices = self._slices(above, upto, parse_cuts(end))
        return [*self._planned_tasks(above, slices)]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: nodes keep no offsets of queries."""

    def stop(self) -> None:
        if self._nodes is not None:
            self._nodes.close()
            self._nodes = None

    # --- What Spark asks, in a task -------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangesPartition)
        nodes = partition.at(self._options.nodes)
        check = partial(self._check_read, nodes)
        yield from read_ranges(nodes, self._columns, partition, check=check)

    def _check_read(
        self, at: NodesOptions, one: EntryRange, scanning: Scanning, entries: int
    ) -> None:
        """Make sure that no entry was trimmed after it was counted and before it was read.

        XDEL may have removed them, too; that is no loss.
        """
        if entries >= one.entries:
            return
        # The scan may have learned of losses long ago: the last dot is asked for once more.
        with Nodes.of(at) as nodes:
            again = replace(one, above_n=one.upto_n - 1)
            lost_n = max(scanning.lost_n, nodes.scan(again.request).lost_n)
        if lost_n > max(one.above_n, one.lost_n):
            self._lost(f"{one.told()}: entries up to dot {lost_n} were trimmed while being read")

    # --- Where a batch ends ---------------------------------------------------------------------

    def _connected(self) -> Nodes:
        if self._nodes is None:
            self._nodes = Nodes.of(self._options.nodes)
            self._nodes.refuse_strangers()
        return self._nodes

    def _durable(self, above: Vector) -> Vector:
        """The durable vector of a node; of one that has all that was read, if there is one."""
        nodes = self._connected()
        durable = self._heard(nodes.position(read=above), above)
        if not beyond(self._ends.within(above), durable):
            self._behind_since = None
            return durable
        positions = nodes.positions(above)
        vectors = {address: self._heard(p, above) for address, p in positions.items()}
        above = self._ends.within(above)
        for address, vector in vectors.items():
            if not beyond(above, vector):
                nodes.prefer(address)
                self._behind_since = None
                return vector
        self._wait_for_those_behind(above, vectors)
        return durable

    def _heard(self, position: query_pb2.Position, asked: Vector) -> Vector:
        """The durable vector of a node; ends of effects that it reports are noted.

        Of a region whose incarnation in ``asked`` is not known there, it has nothing: its numbers
        may mean other effects.
        """
        self._ends.hear(position, asked)
        durable = vector_of(position.durable_vv, position.token)
        unheard = set(position.unheard)
        return durable.at({region: n for region, n in durable.items() if region not in unheard})

    def _wait_for_those_behind(self, above: Vector, vectors: Mapping[str, Vector]) -> None:
        """No node has all that this query has read: they catch up, or it is not theirs.

        While a node does not answer, it may be the one that has it all.

        Raises:
            NodesError: all answer, and for too long none had it.
        """
        missing = beyond(above, join(vectors.values()))
        now = time.monotonic()
        if self._behind_since is None:
            self._behind_since = now
            _LOG.warning("no node that answers has all that was read: %s is missing", missing)
        waited = now - self._behind_since
        all_answer = len(vectors) == len(self._connected().addresses)
        if missing and all_answer and waited >= self._options.nodes.failover_seconds:
            raise NodesError(
                f"the checkpoint says that {offset_of(above)} was read, but no node has effects of"
                f" regions {sorted(missing)} that far: are these nodes of another database, or"
                " were they set up again? Name in 'nodes' those that were read, or begin with a"
                " new checkpoint"
            )

    def _let_nodes_catch_up(self, above: Vector) -> None:
        """Wait, at most the time for failing over, until a node has all that was read.

        A run that ends at what is there now would else end at once, as if there were nothing.
        """
        deadline = time.monotonic() + self._options.nodes.failover_seconds
        while self._behind_since is not None:
            is_last = time.monotonic() >= deadline
            self._durable(above)
            if is_last:
                return
            time.sleep(CATCH_UP_PAUSE_SECONDS)

    def _end(self, above: Vector, upto: Vector, limit: ReadLimit) -> Vector | None:
        """The vector of the next batch's end; None while there is no entry to read."""
        nodes = self._connected()
        if self._selection.is_empty or not self._selection.moving(above, upto):
            return None
        plan = nodes.plan(self._selection.plan_request(above, upto))
        if self._options.fail_on_data_loss:
            self._look_for_losses(above, plan)
        entries = sum(one.entries for one in plan.ranges)
        if not entries:
            return None
        if isinstance(limit, ReadMaxRows) and entries > limit.max_rows:
            request = self._selection.plan_request(
                above, upto, entries_max=limit.max_rows, only_end=True
            )
            plan = nodes.plan(request)
            return vector_of(plan.end, plan.end_token)
        return self._selection.moving(above, upto)

    def _is_before_latest(self, start: Mapping[str, Any]) -> bool:
        """True if an offset stands for ``latest``, before that vector was known."""
        return self._options.starting_offsets == "latest" and not parse_vector(start)

    def _regions(self) -> list[int]:
        return [self._connected().position().region]

    # --- What a batch reads ---------------------------------------------------------------------

    def _cuts(self, above: Vector, upto: Vector) -> dict[str, Any]:
        """Part of the offset ``upto`` that says where all its tasks except the last one end.

        The ends depend only on the entries of the streams that are read.
        """
        moving = self._selection.moving(above, upto)
        if len(self._slices(above, upto, None)) == 1:
            return {}
        plan = self._connected().plan(self._selection.plan_request(above, upto))
        entries = sum(one.entries for one in plan.ranges)
        tasks = self._tasks(entries)
        if tasks == 1:
            return {CUTS: []}
        fine = self._selection.plan_request(
            above, upto, range_entries=max(1, entries // (CUT_PIECES * tasks))
        )
        pieces = ranges_of(self._connected().plan(fine), self._selection)
        weighed = [(one.origin, one.above_n, one.upto_n, one.entries) for one in pieces]
        cuts = cuts_by_entries([one for one in weighed if one[0] in moving], parts=tasks)
        return {CUTS: [list(cut) for cut in cuts]}

    def _tasks(self, entries: int) -> int:
        wanted = self._options.min_partitions or min(TASKS_MAX, entries // RANGE_ENTRIES_MIN)
        return max(1, min(wanted, entries))

    def _slices(
        self, above: Vector, upto: Vector, cuts: Sequence[tuple[int, int]] | None
    ) -> list[tuple[Vector, Vector]]:
        """For each task from where to where; by dots if the offset does not say where to cut."""
        moving = self._selection.moving(above, upto)
        if cuts is not None:
            parts = cut_at(above, moving, cuts)
        else:
            dots = sum(n - above.get(origin, 0) for origin, n in moving.items())
            parts = cut_by_dots(above, moving, parts=self._tasks(dots))
        return [(upto.between(above, low), upto.at(high)) for low, high in parts]

    def _planned_tasks(
        self, above: Vector, slices: Iterable[tuple[Vector, Vector]]
    ) -> Iterator[RangesPartition]:
        """A task for each slice that has entries.

        Raises:
            DataLossError: entries were lost, and that matters.
        """
        nodes = self._connected()
        for low, high in slices:
            plan = nodes.plan(self._selection.plan_request(low, high))
            self._look_for_losses(above, plan)
            lost = {(loss.key, loss.origin): loss.lost_n for loss in plan.losses}
            ranges = [
                replace(one, lost_n=lost.get((one.key, one.origin), 0))
                for one in ranges_of(plan, self._selection)
            ]
            if ranges:
                yield RangesPartition(tuple(ranges), nodes.database_uid)

    def _ranges(self, above: Vector, upto: Vector) -> list[EntryRange]:
        if self._selection.is_empty or not self._selection.moving(above, upto):
            return []
        plan = self._connected().plan(self._selection.plan_request(above, upto))
        return ranges_of(plan, self._selection)

    # --- Losses ---------------------------------------------------------------------------------

    def _note_losses_before(self) -> None:
        """A query that begins at the earliest entries there are has not lost what was before."""
        nodes = self._connected()
        upto = self._heard(nodes.position(), Vector())
        if self._selection.moving(Vector(), upto):
            request = self._selection.plan_request(Vector(), upto, only_end=True)
            for loss in nodes.plan(request).losses:
                self._lost_before[lane_name(loss.key, loss.origin)] = loss.lost_n

    def _resumed(self, offset: Mapping[str, Any]) -> Vector:
        """The vector of an offset; of what it says beside it note is taken."""
        if LOST_BEFORE in offset:
            self._lost_before = dict(offset[LOST_BEFORE]) | self._lost_before
        return self._vector_of(offset)

    def _vector_of(self, offset: Mapping[str, Any]) -> Vector:
        """The vector of an offset, whose dots are those of the nodes.

        Raises:
            OtherDatabaseError: they are those of another database.
        """
        vector, database_uid = parse_vector(offset), parse_database(offset)
        if not vector and not database_uid:
            return vector
        own = self._connected().database_uid
        if database_uid != own:
            raise OtherDatabaseError(
                f"the checkpoint is of database {database_uid or '(none)'}, the nodes hold {own}, "
                "where its dots mean other entries: name in 'nodes' those that were read, or begin "
                "with a new checkpoint"
            )
        return vector

    def _named(self, vector: Vector) -> dict[str, Any]:
        """The offset of a vector; with a zero if that is empty, lest it is taken for the one
        before all."""
        regions = offset_of(vector) or {str(region): 0 for region in self._regions()}
        return regions | self._database()

    def _database(self) -> dict[str, str]:
        """Part of an offset that names its database, so that no other database takes it."""
        return {DATABASE: self._connected().database_uid}

    def _offset(self, vector: Vector) -> dict[str, Any]:
        """The offset of a vector, with those losses before the query that lie beyond it."""
        ahead = {
            lane: n
            for lane, n in sorted(self._lost_before.items())
            if n > vector.get(origin_of(lane), 0)
        }
        return offset_of(vector) | self._database() | ({LOST_BEFORE: ahead} if ahead else {})

    def _existing(self, vector: Vector) -> Vector:
        """The vector without effects that exist nowhere.

        Raises:
            DataLossError: it names some, and that matters.
        """
        exists = self._ends.within(vector)
        for region, n in beyond(vector, exists).items():
            lost, end = n - exists[region], self._ends.of(region, vector)
            which = (region, vector.mark_at(region, 0))
            if end is not None and lost > self._lost_effects.get(which, 0):
                self._lost_effects[which] = lost
                self._forget_losses_beyond(end)
                self._lost(f"{told_lost(end)}, and the checkpoint names {lost} of them")
        return exists

    def _forget_losses_beyond(self, end: query_pb2.EndOfRegion) -> None:
        """Dots beyond it may be given again, and what is lost of those is news."""
        self._lost_before = {
            lane: min(n, end.last_n) if origin_of(lane) == end.region else n
            for lane, n in self._lost_before.items()
        }

    def _look_for_losses(self, above: Vector, plan: query_pb2.PlanReply) -> None:
        """Report lanes that lost entries that were not read.

        An origin that was not read yet is new as a whole; entries that were removed before it was
        found are no loss.
        """
        for loss in plan.losses:
            read_n = above.get(loss.origin)
            lane = lane_name(loss.key, loss.origin)
            if read_n is not None and loss.lost_n > max(read_n, self._lost_before.get(lane, 0)):
                # Told once.
                self._lost_before[lane] = loss.lost_n
                name = loss.key.decode("utf-8", "replace")
                self._lost(
                    f"stream {name!r}, region {loss.origin}: entries up to dot {loss.lost_n} were"
                    f" trimmed or deleted, and only those up to {read_n} had been read"
                )

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{what}; with failOnDataLoss=false the query goes on without them")
        _LOG.warning("%s; the query goes on without them", what)
