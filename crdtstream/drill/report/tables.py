"""The tables of a report, in the order in which a reader needs them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from crdtstream.drill.outcome import Alert, MarkKind, Run, Verdict
from crdtstream.drill.report.figures import (
    NEVER,
    NOTHING,
    Headline,
    began_text,
    counted,
    highest,
    link_name,
    milliseconds,
    most_first,
    seconds,
    size,
)
from crdtstream.drill.report.table import (
    Cell,
    Row,
    Table,
    Tone,
    lists,
    names,
    numbers,
    texts,
    words,
)
from crdtstream.page.plots import short

VERDICT_TONES: Final = {
    Verdict.PASSED: Tone.GOOD,
    Verdict.FAILED: Tone.BAD,
    Verdict.ABORTED: Tone.WARN,
}
MARK_TONES: Final = {
    MarkKind.FAULT: Tone.BAD,
    MarkKind.END: Tone.GOOD,
    MarkKind.NOTE: Tone.PLAIN,
}


def drills(runs: Sequence[Run]) -> Table:
    """A row per drill, with a link to its part of the page."""
    counts = numbers("checks met|checks", "acknowledged|acked", "lost", "again", "never")
    times = numbers("recovery|RTO", "lag ms", "equal after|equal", "seconds|")
    return Table(
        "1 drill" if len(runs) == 1 else f"{len(runs)} drills",
        [*names("drill"), *words(""), *counts, *times],
        [_drill(run, at) for at, run in enumerate(runs)],
    )


def tables_of(run: Run) -> list[Table]:
    """The tables of one drill; checks and timeline are the first two."""
    return [_checks(run), _timeline(run), *_entries(run), *_clients(run), *_regions(run)]


def digests(run: Run) -> Table:
    """The digests at the end, by region."""
    return Table(
        "digests", [*numbers("region"), *texts("digest at the end")], sorted(run.digests.items())
    )


def environment(run: Run, shared: Mapping[str, str]) -> Table:
    """The load that was made, and the part of the environment that is not ``shared``."""
    load = run.load
    return Table(
        "load and environment",
        texts("what", "value"),
        [
            ("load asked for", f"{load.asked_per_s:,.1f} /s"),
            ("load made", f"{load.made_per_s:,.1f} /s"),
            ("p99 of how late the load's loop was", f"{milliseconds(load.late_ms_p99)} ms"),
            ("began", began_text(run)),
            *((name, text) for name, text in run.environment.items() if shared.get(name) != text),
        ],
    )


def _drill(run: Run, at: int) -> Row:
    headline = Headline.of(run)
    met, checks = headline.checks_met, headline.checks
    return [
        Cell(run.drill, link=f"#drill-{at}"),
        Cell(run.verdict.value, VERDICT_TONES[run.verdict]),
        Cell(f"{met} of {checks}", narrow=f"{met}/{checks}"),
        Cell(f"{headline.acknowledged:,}", narrow=short(headline.acknowledged)),
        _zero(headline.lost, Tone.BAD),
        Cell(f"{headline.again:,}", narrow=short(headline.again)),
        _zero(headline.never, Tone.WARN),
        headline.recovery,
        milliseconds(headline.lag_ms_max),
        headline.equal,
        f"{run.seconds:,.0f}",
    ]


def _checks(run: Run) -> Table:
    met, not_met = Cell("met", Tone.GOOD), Cell("not met", Tone.BAD)
    return Table(
        "checks",
        [*names("check"), *words(""), *texts("expected", "found")],
        [(one.name, met if one.is_met else not_met, one.expected, one.found) for one in run.checks],
    )


def _timeline(run: Run) -> Table:
    """The marks; their numbers are those in plots."""
    kinds = {
        kind: Cell("" if kind is MarkKind.NOTE else kind.value, tone)
        for kind, tone in MARK_TONES.items()
    }
    marks = enumerate(sorted(run.marks, key=lambda one: one.at), start=1)
    return Table(
        "timeline",
        [*numbers("#|", "at"), *words(""), *texts("what")],
        [(number, f"{one.at:.1f} s", kinds[one.kind], one.what) for number, one in marks],
    )


def _entries(run: Run) -> Iterator[Table]:
    """Numbers of entries sent, delivered, read."""
    counts = numbers("acknowledged", "no answer", "refused", "lost", "repeated", "after no answer")
    yield Table(
        "produced",
        [*names("producer"), *counts],
        [
            (
                *(one.kind, one.acknowledged, one.unknown, one.refused),
                *(_zero(one.lost, Tone.BAD), one.repeated, one.repeated_after_unknown),
            )
            for one in run.produced
        ],
    )
    counts = numbers("delivered", "acknowledged", "again")
    misses = numbers("out of order", "never")
    yield Table(
        "consumed",
        [*names("group"), *words("mode"), *counts, *lists("why again|"), *misses],
        [
            (
                *(one.group, one.mode, one.delivered, one.acknowledged, sum(one.again.values())),
                *(counted(one.again), one.out_of_order, _zero(one.never, Tone.WARN)),
            )
            for one in run.consumed
        ],
    )
    yield Table(
        "delivered again",
        [*names("group"), *texts("why"), *numbers("times")],
        [(one.group, *pair) for one in run.consumed for pair in most_first(one.again)],
        is_narrow=True,
    )
    yield Table(
        "read",
        [*names("reader"), *numbers("read", "skipped", "again", "out of order")],
        [(one.kind, one.read, one.skipped, one.again, one.out_of_order) for one in run.read],
    )


def _clients(run: Run) -> Iterator[Table]:
    """Waiting times of clients."""
    figures = numbers("clients|", "hit", "slowest recovery|RTO", "longest stall|stall", "moves")
    yield Table(
        "clients",
        [*names("client"), *figures, *lists("errors")],
        [
            (
                *(one.kind, one.clients),
                Cell(f"{one.hit:,}", narrow=f"{one.hit:,}/{one.clients:,}"),
                NOTHING if one.recovery_s is not None and not one.hit else _time(one.recovery_s),
                *(seconds(one.longest_s), one.moves, counted(one.errors)),
            )
            for one in run.stalls
        ],
    )
    figures = numbers("requests", "p50", "p99", "p99.9", "max")
    yield Table(
        "latency as clients saw it, in ms",
        [*names("client"), *words("phase"), *figures],
        [
            (
                *(one.kind, one.phase.value, one.count),
                *map(milliseconds, (one.p50_ms, one.p99_ms, one.p999_ms, one.max_ms)),
            )
            for one in run.latencies
        ],
    )


def _regions(run: Run) -> Iterator[Table]:
    """Regions and the links between them, as they report themselves."""
    yield Table(
        "alerts",
        [*names("alert"), *texts("labels"), *words(""), *numbers("fired at")],
        [
            (
                one.name,
                ", ".join(f"{name}={value}" for name, value in one.labels.items()),
                _fired(one),
                "" if one.fired_at is None else f"{one.fired_at:.1f} s",
            )
            for one in run.alerts
        ],
    )
    figures = numbers("highest lag ms", "most effects behind", "received", "of these again")
    yield Table(
        "links",
        [*words("from → to"), *figures],
        [
            (
                *(link_name(one), milliseconds(highest(one.lag_ms)), _most(one.lag_effects)),
                *(size(one.bytes_received), size(one.bytes_again)),
            )
            for one in sorted(run.links, key=lambda link: (link.peer, link.puller))
        ],
    )
    yield Table(
        "nodes",
        [*words("node"), *numbers("highest memory", "highest CPU")],
        [
            (f"region {one.region}", size(highest(one.rss_bytes)), _most(one.cpu_percent, " %"))
            for one in run.nodes
        ],
    )
    yield Table(
        "equal digests",
        [*texts("after"), *numbers("in")],
        [(one.after, _time(one.seconds)) for one in run.convergences],
    )


def _zero(count: int, otherwise: Tone) -> Cell:
    """A count that ought to be 0."""
    return Cell(f"{count:,}", otherwise if count else Tone.PLAIN)


def _time(value: float | None) -> Cell:
    return Cell(NEVER, Tone.BAD) if value is None else Cell(seconds(value))


def _most(values: Sequence[float | None], unit: str = "") -> str:
    return NOTHING if (most := highest(values)) is None else f"{most:,.0f}{unit}"


def _fired(alert: Alert) -> Cell:
    match alert.is_expected, alert.fired_at:
        case True, None:
            return Cell("should have fired", Tone.BAD)
        case True, _:
            return Cell("fired, as expected", Tone.GOOD)
        case _:
            return Cell("fired", Tone.WARN)
