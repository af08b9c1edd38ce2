"""Outcome of one drill, as reports show it and as its JSON file keeps it.

All times are seconds since the load began, unless a name ends in another unit.  A series is a pair
of lists of one length: times, and the values measured then; None where nothing was heard.
"""

from collections.abc import Sized
from enum import StrEnum
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, model_validator

# Of the JSON file; a reader refuses another one.
FORMAT: Final = 1


class _Value(BaseModel):
    # Infinities and NaN would be null in the file, and so not what was written.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Verdict(StrEnum):
    """End of a drill."""

    PASSED = "passed"
    FAILED = "failed"
    # It could not be judged: it was interrupted; or only times are beyond their bounds, and the
    # load was more than the machine could make.
    ABORTED = "aborted"


class MarkKind(StrEnum):
    FAULT = "fault"
    # A fault is taken back.
    END = "end"
    NOTE = "note"


class Mark(_Value):
    """A moment on the timeline.

    Attributes:
        what: a short sentence: "region 1: kill -9".
    """

    at: float
    kind: MarkKind
    what: str


class Phase(StrEnum):
    """Phase of a drill: before the first fault, while one lasts, after the last was taken back."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


class Latency(_Value):
    """Latencies of well-answered requests that clients of one kind began in one phase.

    They count from the moment at which the request was due, so a stall counts for all that it held
    up.
    """

    kind: str
    phase: Phase
    count: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Produced(_Value):
    """Entries that producers of one kind sent.

    Attributes:
        kind: "plain", "idempotent", "multidb" or "herd".
        acknowledged: entries that a region answered for.
        unknown: sent, without an answer; it may be in the stream or not.
        refused: answered by an error; it is not in the stream.
        lost: acknowledged, and missing in a region after all regions had become equal.
        repeated: entries beyond the first that one row of a producer left in the stream.
        repeated_after_unknown: the part of these that a client sent again because it had no answer.
    """

    kind: str
    acknowledged: int
    unknown: int
    refused: int
    lost: int
    repeated: int
    repeated_after_unknown: int


class Consumed(_Value):
    """Deliveries to the consumers of one group, over all regions and streams.

    Attributes:
        delivered: deliveries, repeated ones included.
        acknowledged: entries whose XACK was answered.
        again: deliveries beyond the first of an entry, by reason; see ``verdict``.
        out_of_order: first deliveries in one region, of one producer, behind a later entry of it.
        never: entries of the final stream that no consumer got.
    """

    group: str
    mode: str
    delivered: int
    acknowledged: int
    again: dict[str, int]
    out_of_order: int
    never: int


class Read(_Value):
    """Entries that plain readers of one kind read.

    Attributes:
        kind: "xread" or "crdt.xread".
        skipped: entries of the final stream that a reader did not get.
        again: entries that a reader got more than once.
        out_of_order: entries that came behind a later one of the same producer.
    """

    kind: str
    read: int
    skipped: int
    again: int
    out_of_order: int


class Stall(_Value):
    """Time that clients of one kind were without an answer.

    Attributes:
        clients: number of clients.
        hit: number that had a failed request, or none answered for a second, once faults had begun.
        may_move: whether some of them move to another region; then only those count for recovery.
        recovery_s: RTO as clients saw it, of the worst client: from a fault, or from its last good
            answer since, to the next good answer to a request that it began after the fault; None:
            one never had a good answer again.
        longest_s: the longest time of one client between two good answers.
        moves: number of times that a client moved to another region.
        deceived: number of times that a client moved home, because home said that it was well, and
            was refused with MISCONF, or with LAGGED twice in a row.
        errors: number of requests that failed, by the first word of the error.
    """

    kind: str
    clients: int
    hit: int
    may_move: bool = True
    recovery_s: float | None
    longest_s: float
    moves: int
    deceived: int = 0
    errors: dict[str, int]


class LinkSeries(_Value):
    """One directed link over time; ``puller`` pulls from ``peer``.

    Attributes:
        lag_ms: age of the oldest effect that the peer has and the puller lacks, or the time for
            which nothing was heard.
        lag_effects: number of such effects.
        bytes_received: over the whole drill, unpacked.
        bytes_again: the part of these in batches that the puller had already.
    """

    puller: int
    peer: int
    at: list[float]
    lag_ms: list[float | None]
    lag_effects: list[float | None]
    bytes_received: int
    bytes_again: int

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        _require_one_length(self.at, self.lag_ms, self.lag_effects)
        return self


class NodeSeries(_Value):
    """A node's process over time; None while it has none."""

    region: int
    at: list[float]
    rss_bytes: list[float | None]
    cpu_percent: list[float | None]

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        _require_one_length(self.at, self.rss_bytes, self.cpu_percent)
        return self


class Throughput(_Value):
    """Entries per second: acknowledged by the regions, and delivered to consumers.

    Attributes:
        at: the end of each interval.
        acknowledged: by the region that answered.
    """

    at: list[float]
    acknowledged: dict[int, list[float]]
    delivered: list[float]

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        _require_one_length(self.at, self.delivered, *self.acknowledged.values())
        return self


class Convergence(_Value):
    """Time from a fault's end to equal digests; None: they did not become equal in time."""

    after: str
    seconds: float | None


class Alert(_Value):
    """An alert that fired, or should have.

    Attributes:
        is_expected: the drill names it.
        fired_at: None: it did not fire.
    """

    name: str
    labels: dict[str, str]
    is_expected: bool
    fired_at: float | None


class Check(_Value):
    """One bound that must hold.

    Attributes:
        name: as in the drill file, e.g. "lost".
        expected, found: words, with units.
    """

    name: str
    expected: str
    found: str
    is_met: bool


class LoadMade(_Value):
    """Comparison of the load that this machine made with the one that was asked for.

    Attributes:
        asked_per_s: requests of producers due per second.
        made_per_s: the part of them that was sent.
        late_ms_p99: lateness of the load's own loop, which is no fault of any node.
        is_made: if not, latencies say nothing, and times are longer than they should be.
        problem: reason why not; empty if it was made.
    """

    asked_per_s: float
    made_per_s: float
    late_ms_p99: float
    is_made: bool
    problem: str


class Run(_Value):
    """One run of one drill.

    Attributes:
        about: what the drill shows, from its file.
        began: of the load, ISO 8601 in UTC.
        seconds: of the load and the waiting for equal digests.
        environment: versions, cores, memory; a reader needs it to judge the figures.
        digests: by region, at the end.
        findings: sentences on the failed checks, as which entries were lost and where they were
            acknowledged; and on what was not watched; some dozen at most.
        problem: reason why it was aborted; empty otherwise.
    """

    format: int = FORMAT
    drill: str
    about: str
    began: str
    seconds: float
    environment: dict[str, str]
    verdict: Verdict
    problem: str = ""
    marks: list[Mark]
    checks: list[Check]
    findings: list[str]
    load: LoadMade
    produced: list[Produced]
    consumed: list[Consumed]
    read: list[Read]
    stalls: list[Stall]
    latencies: list[Latency]
    convergences: list[Convergence]
    links: list[LinkSeries]
    nodes: list[NodeSeries]
    throughput: Throughput
    alerts: list[Alert]
    digests: dict[int, str]


class Report(_Value):
    """Runs of one call of ``crdtstream drill run``, in their order."""

    format: int = FORMAT
    runs: list[Run]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all runs; passed if it has no runs."""
        found = {run.verdict for run in self.runs}
        for verdict in (Verdict.FAILED, Verdict.ABORTED):
            if verdict in found:
                return verdict
        return Verdict.PASSED


def _require_one_length(at: Sized, *series: Sized) -> None:
    for values in series:
        if len(values) != len(at):
            raise ValueError(f"{len(at)} times, but {len(values)} values")
