"""Two reports side by side: changes for the better, for the worse, and noise.

    before ─┐
            ├─> per drill in both: its figures, each better, worse, or within noise
    after ──┘   drills in one of them; what differs in the environments

A figure is beyond noise if it changed by more than 20 % and by more than a least amount, which
depends on what it is: see ``NOISE``.  Counts that ought to be 0 (entries lost, or never delivered)
have no noise.  Percentiles of few requests are not judged, nor any where the load was not made.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from crdtstream.drill.outcome import Latency, Report, Run, Verdict
from crdtstream.drill.report.figures import highest, link_name

SHARE_MIN: Final = 0.2


class Unit(StrEnum):
    """Unit of a figure; less is better, except of words."""

    MILLISECONDS = "ms"
    LAG_MILLISECONDS = "lag ms"
    SECONDS = "s"
    BYTES = "bytes"
    MEMORY_BYTES = "memory bytes"
    COUNT = "count"
    # A count that ought to be 0.
    EXACT = "exact"
    WORDS = "words"


# Least change besides a fifth.  Two runs of one drill on one machine stay below it.
NOISE: Final = {
    Unit.MILLISECONDS: 5.0,
    Unit.LAG_MILLISECONDS: 100.0,
    Unit.SECONDS: 0.5,
    Unit.BYTES: 64.0 * 2**10,
    Unit.MEMORY_BYTES: 16.0 * 2**20,
    Unit.COUNT: 10.0,
}
RULE: Final = (
    "beyond noise: more than 20 %, and more than 5 ms of latency, 100 ms of lag, 0.5 s, 64 KiB,"
    " 16 MiB of memory or 10 of a count; entries lost or never delivered: any. A p99 of fewer than"
    " 100 requests and a p99.9 of fewer than 1,000 are shown and not judged"
)
# With fewer requests, a percentile is the slowest one, which says nothing of the others.
_REQUESTS_MIN: Final = {"p50": 10, "p99": 100, "p99.9": 1_000}

_Figure: TypeAlias = tuple[Unit, float | str | None]


class Judgement(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    NOISE = "noise"
    # It changed, and that is neither good nor bad; or too little is known.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of one drill in both reports.

    Attributes:
        before, after: None: the figure is missing; a time of what never happened is the word
            "never".
    """

    what: str
    unit: Unit
    before: float | str | None
    after: float | str | None
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class DrillComparison:
    """A drill that is in both reports.

    Attributes:
        note: a note that a reader must know before the figures; empty: none.
    """

    drill: str
    before: Verdict
    after: Verdict
    differences: Sequence[Difference]
    note: str

    def count(self, judgement: Judgement) -> int:
        """Number of figures with this judgement."""
        return sum(one.judgement is judgement for one in self.differences)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Changes from one report to another.

    Attributes:
        environment: (name, before, after) of what differs; with another machine, figures differ.
        only_before, only_after: drills that are in one report.
    """

    environment: Sequence[tuple[str, str, str]]
    drills: Sequence[DrillComparison]
    only_before: Sequence[str]
    only_after: Sequence[str]

    def as_json(self) -> str:
        """JSON for programs: everything, noise included."""
        return json.dumps({"rule": RULE, **asdict(self)}, indent=1, ensure_ascii=False)


def compare(before: Report, after: Report) -> Comparison:
    """Put two reports side by side; a drill that was run twice is compared run by run."""
    old, new = _by_name(before.runs), _by_name(after.runs)
    return Comparison(
        environment=list(_environment(before.runs, after.runs)),
        drills=[_compare_runs(name, old[name], run) for name, run in new.items() if name in old],
        only_before=[name for name in old if name not in new],
        only_after=[name for name in new if name not in old],
    )


def judged(unit: Unit, before: float | str | None, after: float | str | None) -> Judgement:
    """Judgement of a change."""
    if before == after:
        return Judgement.NOISE
    if unit is Unit.WORDS or before is None or after is None:
        return Judgement.CHANGED
    # Words among numbers: a time of what never happened is the longest.
    if isinstance(before, str):
        return Judgement.BETTER
    if isinstance(after, str):
        return Judgement.WORSE
    change = after - before
    if unit is not Unit.EXACT:
        is_small = abs(change) <= NOISE[unit]
        # Of the lower one, so that there and back are judged alike.
        if is_small or abs(change) <= SHARE_MIN * min(abs(before), abs(after)):
            return Judgement.NOISE
    return Judgement.BETTER if change < 0 else Judgement.WORSE


def _compare_runs(name: str, before: Run, after: Run) -> DrillComparison:
    differences = [_verdicts(before, after)]
    notes = [
        f"{which} was not judged: {run.problem or 'it is not said why'}"
        for which, run in (("before", before), ("after", after))
        if run.verdict is Verdict.ABORTED
    ]
    if not notes:
        notes = [
            f"{which} the load was not made, so latencies are not compared: {run.load.problem}"
            for which, run in (("before", before), ("after", after))
            if not run.load.is_made
        ]
        differences += _checks(before, after)
        differences += _figures(before, after, with_latencies=not notes)
    return DrillComparison(name, before.verdict, after.verdict, differences, "; ".join(notes))


def _by_name(runs: Iterable[Run]) -> dict[str, Run]:
    found: dict[str, Run] = {}
    times: Counter[str] = Counter()
    for run in runs:
        times[run.drill] += 1
        count = times[run.drill]
        found[run.drill if count == 1 else f"{run.drill} ({count})"] = run
    return found


def _environment(before: Sequence[Run], after: Sequence[Run]) -> Iterator[tuple[str, str, str]]:
    old, new = (_environment_of(runs) for runs in (before, after))
    for name in old | new:
        if old.get(name) != new.get(name):
            yield name, old.get(name, ""), new.get(name, "")


def _environment_of(runs: Sequence[Run]) -> dict[str, str]:
    """Environment of all runs; what differs among them, with all its values."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, value in run.environment.items():
            found.setdefault(name, {})[value] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _verdicts(before: Run, after: Run) -> Difference:
    order = (Verdict.PASSED, Verdict.ABORTED, Verdict.FAILED)
    change = order.index(after.verdict) - order.index(before.verdict)
    judgement = _sign(change)
    return Difference("verdict", Unit.WORDS, before.verdict, after.verdict, judgement)


def _checks(before: Run, after: Run) -> Iterator[Difference]:
    """Differences of the checks; what a check found is a figure of its own."""
    old, new = ({one.name: one for one in run.checks} for run in (before, after))
    for name in old | new:
        one, other = old.get(name), new.get(name)
        if one is None or other is None:
            judgement = Judgement.CHANGED
        else:
            judgement = _sign(one.is_met - other.is_met)
        words = ["no such check" if each is None else _met(each.is_met) for each in (one, other)]
        yield Difference(f"check {name}", Unit.WORDS, words[0], words[1], judgement)


def _figures(before: Run, after: Run, *, with_latencies: bool) -> Iterator[Difference]:
    reasons = sorted({why for run in (before, after) for one in run.consumed for why in one.again})
    old, new = dict(_figures_of(before, reasons)), dict(_figures_of(after, reasons))
    for what in old | new:
        yield _difference(what, old.get(what), new.get(what))
    if with_latencies:
        yield from _latencies(before, after)


def _latencies(before: Run, after: Run) -> Iterator[Difference]:
    old, new = ({(one.kind, one.phase): one for one in run.latencies} for run in (before, after))
    for key in old | new:
        one, other = old.get(key), new.get(key)
        requests = min(0 if each is None else each.count for each in (one, other))
        for percentile, least in _REQUESTS_MIN.items():
            found = _difference(
                f"{key[0]}, {key[1]}: {percentile}",
                None if one is None else (Unit.MILLISECONDS, _percentile(one, percentile)),
                None if other is None else (Unit.MILLISECONDS, _percentile(other, percentile)),
            )
            if requests < least and found.judgement is not Judgement.NOISE:
                found = replace(found, judgement=Judgement.CHANGED)
            yield found


def _difference(what: str, before: _Figure | None, after: _Figure | None) -> Difference:
    """Difference of a figure; one of the two may be None, as it is in one report only then."""
    unit = (before or after or (Unit.WORDS, None))[0]
    one, other = (None if each is None else each[1] for each in (before, after))
    return Difference(what, unit, one, other, judged(unit, one, other))


def _figures_of(run: Run, reasons: Sequence[str]) -> Iterator[tuple[str, _Figure]]:
    """All compared figures except latencies, by name.

    Args:
        reasons: for which either run delivered again; where one has no count, that is 0.
    """
    for made in run.produced:
        yield f"{made.kind}: lost", (Unit.EXACT, made.lost)
        yield f"{made.kind}: no answer", (Unit.COUNT, made.unknown)
        yield f"{made.kind}: refused", (Unit.COUNT, made.refused)
        yield f"{made.kind}: repeated", (Unit.COUNT, made.repeated)
    for taken in run.consumed:
        yield f"{taken.group}: never delivered", (Unit.EXACT, taken.never)
        yield f"{taken.group}: again", (Unit.COUNT, sum(taken.again.values()))
        for reason in reasons:
            yield f"{taken.group}: again, {reason}", (Unit.COUNT, taken.again.get(reason, 0))
        yield f"{taken.group}: out of order", (Unit.COUNT, taken.out_of_order)
    for read in run.read:
        yield f"{read.kind}: skipped", (Unit.COUNT, read.skipped)
        yield f"{read.kind}: again", (Unit.COUNT, read.again)
        yield f"{read.kind}: out of order", (Unit.COUNT, read.out_of_order)
    for stall in run.stalls:
        recovery = "never" if stall.recovery_s is None else stall.recovery_s
        yield f"{stall.kind}: recovery", (Unit.SECONDS, recovery)
        yield f"{stall.kind}: longest stall", (Unit.SECONDS, stall.longest_s)
        yield f"{stall.kind}: errors", (Unit.COUNT, sum(stall.errors.values()))
    for one in run.convergences:
        equal = "never" if one.seconds is None else one.seconds
        yield f"equal digests ({one.after})", (Unit.SECONDS, equal)
    for link in run.links:
        name = link_name(link)
        yield f"link {name}: highest lag", (Unit.LAG_MILLISECONDS, highest(link.lag_ms))
        yield f"link {name}: received", (Unit.BYTES, link.bytes_received)
        yield f"link {name}: received again", (Unit.BYTES, link.bytes_again)
    for node in run.nodes:
        yield f"region {node.region}: most memory", (Unit.MEMORY_BYTES, highest(node.rss_bytes))
    # By name alone: labels have addresses, whose ports differ in each run, and an alert that is
    # missing has none.
    fired = {one.name: False for one in run.alerts if one.is_expected}
    fired |= {one.name: True for one in run.alerts if one.is_expected and one.fired_at is not None}
    for name, has_fired in fired.items():
        yield f"alert {name}: missing", (Unit.EXACT, int(not has_fired))


def _percentile(latency: Latency, percentile: str) -> float:
    values = {"p50": latency.p50_ms, "p99": latency.p99_ms, "p99.9": latency.p999_ms}
    return values[percentile]


def _sign(change: int) -> Judgement:
    if not change:
        return Judgement.NOISE
    return Judgement.WORSE if change > 0 else Judgement.BETTER


def _met(is_met: bool) -> str:
    return "met" if is_met else "not met"
