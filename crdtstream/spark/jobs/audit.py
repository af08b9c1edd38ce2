"""Checks that all regions hold the same, while clients go on writing, trimming and deleting.

    cut = join of what the regions have      wait until every region has the cut, durably
    read every region up to the cut          dots that are not alike everywhere are suspects
    later = join of what they have by then   wait until every region has that, too
    look the suspects up again               what is not alike now is a finding

So all writes that were acknowledged before the audit began are compared.

*Why the second look decides.*  Every region had the cut before it was read, so it had applied the
append of every dot up to the cut.  An entry that is absent in a region was therefore removed there,
by an effect that the region had applied when it was read (Remove, Trim, DeleteKey, or a concurrent
append of the same idempotent ID).  ``later`` covers that effect, and at the second look every
region has ``later``, so the entry must be gone everywhere.  An entry never exists again under its
dot.  So if one region holds it then and another does not, no effect explains the difference.

One more thing hides entries: a key whose deadline passed reads as missing by each region's own
clock, a little before the effect that deletes it; hence a third and a fourth look, with pauses.
Content under a dot never changes: where regions hold different contents, the first look decides.

Streams, groups and the progress of groups have no dots: see ``audit_keys``.  Not compared, as no
scan shows them, are last IDs, deadlines and group modes; CRDT.DIGEST covers these, in regions at
rest.

The report is of Parquet tables: ``findings``, a row each; ``lanes``, for every stream, lane and
region the entries and their digest, without what was removed while the audit ran.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from crdtstream.spark.jobs import audit_entries as entries
from crdtstream.spark.jobs.audit_entries import RegionRange
from crdtstream.spark.jobs.audit_findings import (
    ByRegion,
    Finding,
    Kind,
    Subject,
    duplicate_findings,
    entry_findings,
    finding_of,
    key_findings,
)
from crdtstream.spark.jobs.audit_keys import Facts, differences, facts_of, still_differing
from crdtstream.spark.jobs.folder import ArchiveError, Folder, folder_at
from crdtstream.spark.jobs.regions import Regions, told_as
from crdtstream.spark.jobs.shared_folder import check_shared
from crdtstream.spark.jobs.tables import replace_tables
from crdtstream.spark.options import NodesOptions
from crdtstream.spark.patterns import patterns_literal
from crdtstream.spark.vectors import Vector, join, message_of
from crdtstream.v1 import query_pb2

# Looks at suspects after the first.  One would do, were it not for deadlines and clocks.
ENTRY_LOOKS: Final = 3
ENTRY_PAUSE_SECONDS: Final = 1.0
# Keys that are created and deleted may differ by chance in one look of three, but not in all these.
KEY_LOOKS: Final = 20
KEY_PAUSE_SECONDS: Final = 0.1
# With more suspects than this all streams are listed again.
PATTERNS_MAX: Final = 500

UNIQUENESS_MODE: Final = "crdt_xadd_id_uniqueness_mode"


class AuditError(Exception):
    """The audit could not be carried through.  The text says what to do."""


class DuplicateIds(Enum):
    """Meaning of several entries of one stream with the same ID."""

    # A fault if all regions take only region-unique IDs (mode strict), else none.
    BY_MODE = "by-mode"
    # A fault.
    FAIL = "fail"
    # None, but listed: modes semi-strict and liberal, and concurrent RENAMEs, make some.
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit.

    Attributes:
        nodes: at least one region's address; the peers that it names are audited too.
        streams: names or patterns as KEYS takes them; none: every stream.
        output: folder of the report, whose tables are replaced; empty: none is written.
        duplicate_ids: see the class.
        wait_seconds: longest wait until all regions have the same, each time this is needed.
        examples_max: findings in the outcome; the report has all.
    """

    nodes: NodesOptions
    streams: tuple[bytes, ...] = ()
    output: str = ""
    duplicate_ids: DuplicateIds = DuplicateIds.BY_MODE
    wait_seconds: float = 60.0
    examples_max: int = 20


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """Outcome of an audit.

    Attributes:
        clean: all regions agree: nothing was found that makes the audit fail.
        database_uid: identity of the database.
        regions: that were compared.
        cut: at which they were compared.
        streams: how many, in any region.
        entries: alike in all regions.
        removed: entries that were removed, in all regions, while the audit ran.
        findings: how many of each kind.
        failures: how many of them make the audit fail.
        examples: some of them, those that fail first.
        output: where the report is; empty if none was asked for.
    """

    clean: bool
    database_uid: str
    regions: tuple[int, ...]
    cut: Mapping[int, int]
    streams: int
    entries: int
    removed: int
    findings: Mapping[Kind, int]
    failures: int
    examples: tuple[Finding, ...]
    output: str
    seconds: float


def audit(spark: SparkSession, options: AuditOptions) -> AuditOutcome:
    """Compare all regions at one cut.

    Raises:
        AuditError: a region does not answer, or lacks for too long what others have; the regions
            are neither said to agree nor to differ then.  Or the report cannot be written.
    """
    with told_as(AuditError), Regions(options.nodes) as regions, ExitStack() as held:
        try:
            return _Audit(spark, options, regions, held).run()
        except ArchiveError as error:
            raise AuditError(str(error)) from error


class _Kept(NamedTuple):
    """A frame that was computed and is kept, and how many rows it has."""

    frame: DataFrame
    rows: int


class _Compared(NamedTuple):
    """Entries compared.

    Attributes:
        dots: all but those that were removed during the audit.
        alike: how many are alike in all regions.
        removed: how many were removed during the audit.
        unlike: those that are not alike; None: there are none.
    """

    dots: DataFrame
    alike: int
    removed: int
    unlike: DataFrame | None


class _Audit:
    """One audit; ``held`` lets go of what Spark keeps for it."""

    def __init__(
        self, spark: SparkSession, options: AuditOptions, regions: Regions, held: ExitStack
    ) -> None:
        self._spark = spark
        self._options = options
        self._regions = regions
        self._held = held

    def run(self) -> AuditOutcome:
        began = time.monotonic()
        regions, numbers = self._regions, self._regions.numbers
        if self._options.output:
            check_shared(
                self._spark, self._folder(), "_draft", outcome="Nothing was audited or written"
            )
        cut = join(regions.applied().values())
        regions.wait_until_durable(cut, seconds_max=self._options.wait_seconds)
        looks = self._look(self._options.streams)
        compared = self._compare_entries(cut)
        found = self._findings(compared, self._differing_keys(looks))
        if self._options.output:
            lanes = entries.lanes(compared.dots, numbers)
            replace_tables(self._folder(), {"findings": found, "lanes": lanes})
        counts = found.groupBy("kind", "fails").count().collect()
        examples = found.orderBy(found.fails.desc(), "kind", "key", "origin", "n", "id")
        failures = sum(row["count"] for row in counts if row["fails"])
        return AuditOutcome(
            clean=not failures,
            database_uid=regions.database_uid,
            regions=numbers,
            cut=cut,
            streams=len({subject.key for facts in looks.values() for subject in facts}),
            entries=compared.alike,
            removed=compared.removed,
            findings=_added_up((row["kind"], row["count"]) for row in counts),
            failures=failures,
            examples=tuple(map(finding_of, examples.limit(self._options.examples_max).collect())),
            output=self._options.output,
            seconds=time.monotonic() - began,
        )

    def _folder(self) -> Folder:
        return folder_at(self._spark, self._options.output)

    def _findings(self, compared: _Compared, keys: Mapping[Subject, ByRegion]) -> DataFrame:
        """All findings; kinds without findings cost no work."""
        numbers = self._regions.numbers
        found = key_findings(self._spark, keys)
        if compared.unlike is not None:
            found = found.unionByName(entry_findings(compared.unlike, numbers))
        twice = self._kept(entries.ids_given_twice(compared.dots))
        if twice.rows:
            duplicates = entries.duplicate_ids(compared.dots, twice.frame)
            fails = self._duplicates_fail()
            found = found.unionByName(duplicate_findings(duplicates, numbers, fails=fails))
        return self._kept(found).frame

    # --- Entries ------------------------------------------------------------------------------

    def _compare_entries(self, cut: Vector) -> _Compared:
        numbers = self._regions.numbers
        read = self._read_upto(cut)
        # Read once: read again, the regions would show something else.
        dots = self._kept(entries.side_by_side(read, numbers))
        alike = dots.frame.where(entries.agreed(numbers)).count()
        if alike == dots.rows:
            return _Compared(dots.frame, alike, 0, None)
        suspects = dots.frame.where(~entries.agreed(numbers))
        later = self._look_up(suspects, cut)
        certain = suspects.where(entries.differing(numbers))
        unlike = self._kept(later.unionByName(certain.join(later, list(entries.DOT), "left_anti")))
        steady = dots.frame.where(entries.agreed(numbers))
        return _Compared(
            dots=steady.unionByName(unlike.frame),
            alike=alike,
            removed=dots.rows - alike - unlike.rows,
            unlike=unlike.frame if unlike.rows else None,
        )

    def _look_up(self, suspects: DataFrame, cut: Vector) -> DataFrame:
        """Those of the suspects that are not alike when all regions have what any had before."""
        numbers, nodes = self._regions.numbers, self._regions.nodes
        for look in range(ENTRY_LOOKS):
            if look:
                time.sleep(ENTRY_PAUSE_SECONDS)
            self._come_together()
            wanted = entries.lookup_ranges(
                self._spark, suspects, self._regions.addresses, cut.at(dict.fromkeys(cut, 0)).marks
            )
            read = entries.read_ranges(wanted, nodes, entries_count=0)
            found = entries.side_by_side(read, numbers)
            unlike = self._kept(
                found.join(suspects, list(entries.DOT), "left_semi").where(~entries.agreed(numbers))
            )
            suspects = unlike.frame
            if not unlike.rows:
                break
        return suspects

    def _read_upto(self, cut: Vector) -> DataFrame:
        """The entries of all regions, each as it has them."""
        request = query_pb2.PlanRequest(
            patterns=self._options.streams,
            upto=message_of(cut),
            upto_token=cut.token,
            range_entries=entries.TASK_ENTRIES,
        )
        plans = self._regions.each(lambda node: node.plan(request))
        ranges = [
            RegionRange(
                one.region,
                one.address,
                part.key,
                part.origin,
                part.above_n,
                part.upto_n,
                cut.mark_at(part.origin, part.upto_n),
            )
            for one in self._regions.addresses
            for part in plans[one.region].ranges
        ]
        return entries.read_ranges(
            self._spark.createDataFrame(ranges, entries.RANGES_SCHEMA),
            self._regions.nodes,
            entries_count=sum(part.entries for plan in plans.values() for part in plan.ranges),
        )

    # --- Streams and groups -------------------------------------------------------------------

    def _differing_keys(self, before: Mapping[int, Facts]) -> Mapping[Subject, ByRegion]:
        suspects = differences(before)
        for _ in range(KEY_LOOKS):
            if not suspects:
                break
            time.sleep(KEY_PAUSE_SECONDS)
            self._come_together()
            keys = {subject.key for subject in suspects}
            few = patterns_literal(sorted(keys)) if len(keys) <= PATTERNS_MAX else ()
            now = self._look(few or self._options.streams)
            suspects = still_differing(before, now, suspects)
            before = now
        return suspects

    def _look(self, patterns: Iterable[bytes]) -> dict[int, Facts]:
        """The streams and groups of every region, now."""
        wanted = tuple(patterns)
        return self._regions.each(lambda node: facts_of(node.streams(wanted, with_groups=True)))

    # --- Both ---------------------------------------------------------------------------------

    def _come_together(self) -> None:
        """Return when every region has applied what any has by now, and so all it has shown."""
        later = join(self._regions.applied().values())
        self._regions.wait_until_applied(later, seconds_max=self._options.wait_seconds)

    def _duplicates_fail(self) -> bool:
        match self._options.duplicate_ids:
            case DuplicateIds.FAIL:
                return True
            case DuplicateIds.ALLOW:
                return False
            case DuplicateIds.BY_MODE:
                modes = {
                    tunable.value
                    for status in self._regions.statuses().values()
                    for tunable in status.tunables
                    if tunable.name == UNIQUENESS_MODE
                }
                return modes == {"strict"}

    def _kept(self, frame: DataFrame) -> _Kept:
        """The frame, computed now and kept on disk until the audit ends."""
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self._held.callback(kept.unpersist)
        return _Kept(kept, kept.count())


def _added_up(counts: Iterable[tuple[str, int]]) -> dict[Kind, int]:
    total: dict[Kind, int] = {}
    for kind, count in counts:
        total[Kind(kind)] = total.get(Kind(kind), 0) + count
    return total
