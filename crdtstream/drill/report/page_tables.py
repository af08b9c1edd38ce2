"""The tables of one drill; None where there is nothing to show."""

from collections.abc import Mapping, Sequence
from typing import Final

from crdtstream.drill.outcome import MarkKind, Run
from crdtstream.drill.report.figures import (
    NEVER,
    began_text,
    counted,
    highest,
    link_name,
    milliseconds,
    seconds,
    size,
)
from crdtstream.page.markup import Child, Markup, element
from crdtstream.page.parts import (
    Heading,
    folded,
    long_texts,
    name_of,
    numbers,
    table,
    texts,
    times,
    whole,
)

# More marks than this are shown when asked for.
MARKS_SHOWN_MAX: Final = 12

_MARK_WORDS: Final = {MarkKind.FAULT: "fault", MarkKind.END: "end", MarkKind.NOTE: ""}


def checks_table(run: Run) -> Markup | None:
    """What must hold, and what was found."""
    rows = [
        [
            name_of(check.name),
            _mark(check.is_met, "met", "not met"),
            element("bdi", check.expected),
            element("bdi", check.found),
        ]
        for check in run.checks
    ]
    found = _table([*times("check", ""), *texts("expected", "found")], rows)
    # One that is not met must not be below an edge.
    return None if found is None else whole(found)


def marks_table(run: Run) -> Markup | None:
    """The marks, with the numbers that plots show."""
    rows: list[Sequence[Child]] = [
        [number, f"{mark.at:.1f} s", _MARK_WORDS[mark.kind], element("bdi", mark.what)]
        for number, mark in enumerate(sorted(run.marks, key=lambda one: one.at), start=1)
    ]
    found = _table([*numbers("", "at"), *times(""), *texts("what")], rows)
    if found is None or len(rows) <= MARKS_SHOWN_MAX:
        return found
    return folded(f"all {len(rows)} moments", found)


def latency_table(run: Run) -> Markup | None:
    """Percentiles by kind of client, before, during and after faults."""
    rows = [
        [
            name_of(one.kind),
            one.phase.value,
            f"{one.count:,}",
            *(milliseconds(ms) for ms in (one.p50_ms, one.p99_ms, one.p999_ms, one.max_ms)),
        ]
        for one in run.latencies
    ]
    columns = [
        *times("client", "phase"),
        *numbers("requests", "p50 ms", "p99 ms", "p99.9 ms", "max ms"),
    ]
    return _table(columns, rows)


def clients_table(run: Run) -> Markup | None:
    """How long clients were without an answer."""
    rows = [
        [
            name_of(one.kind),
            f"{one.clients:,}",
            f"{one.hit:,}",
            _recovery(one.hit, one.recovery_s),
            seconds(one.longest_s),
            f"{one.moves:,}",
            counted(one.errors),
        ]
        for one in run.stalls
    ]
    columns = [
        *times("client"),
        *numbers("clients", "hit", "slowest recovery", "longest stall", "moves"),
        *long_texts("errors"),
    ]
    return _table(columns, rows)


def produced_table(run: Run) -> Markup | None:
    """What producers sent and what became of it."""
    rows = [
        [
            name_of(one.kind),
            *(
                f"{count:,}"
                for count in (
                    one.acknowledged,
                    one.unknown,
                    one.refused,
                    one.lost,
                    one.repeated,
                    one.repeated_after_unknown,
                )
            ),
        ]
        for one in run.produced
    ]
    columns = [
        *times("producer"),
        *numbers("acknowledged", "no answer", "refused", "lost", "repeated"),
        *numbers("of these after no answer"),
    ]
    return _table(columns, rows)


def consumed_table(run: Run) -> Markup | None:
    """What consumer groups were given."""
    rows = [
        [
            name_of(one.group),
            one.mode,
            *(f"{count:,}" for count in (one.delivered, one.acknowledged, sum(one.again.values()))),
            counted(one.again),
            *(f"{count:,}" for count in (one.out_of_order, one.never)),
        ]
        for one in run.consumed
    ]
    columns = [
        *times("group", "mode"),
        *numbers("delivered", "acknowledged", "again"),
        *long_texts("why again"),
        *numbers("out of order", "never"),
    ]
    return _table(columns, rows)


def read_table(run: Run) -> Markup | None:
    """What readers without a group were given."""
    rows = [
        [
            name_of(one.kind),
            *(f"{count:,}" for count in (one.read, one.skipped, one.again, one.out_of_order)),
        ]
        for one in run.read
    ]
    return _table([*times("reader"), *numbers("read", "skipped", "again", "out of order")], rows)


def convergence_table(run: Run) -> Markup | None:
    """How long after a fault's end all digests were equal."""
    rows = [
        [element("bdi", one.after), NEVER if one.seconds is None else seconds(one.seconds)]
        for one in run.convergences
    ]
    return _table([*texts("after"), *numbers("equal digests after")], rows)


def digests_table(run: Run) -> Markup | None:
    """The digests at the end; one row if they are equal."""
    if not run.digests:
        return None
    if len(set(run.digests.values())) == 1:
        (digest,) = set(run.digests.values())
        count = len(run.digests)
        return element("p", f"Digest of all {count} regions at the end: {digest}", class_="note")
    rows: list[Sequence[Child]] = [
        [region, element("bdi", digest)] for region, digest in sorted(run.digests.items())
    ]
    return _table([*numbers("region"), *texts("digest at the end")], rows)


def alerts_table(run: Run) -> Markup | None:
    """Alerts that fired, and those that should have."""
    rows = [
        [
            name_of(one.name),
            element("bdi", ", ".join(f"{name}={value}" for name, value in one.labels.items())),
            _alert(is_expected=one.is_expected, fired_at=one.fired_at),
            "" if one.fired_at is None else f"{one.fired_at:.1f} s",
        ]
        for one in run.alerts
    ]
    return _table([*times("alert"), *texts("labels"), *times(""), *numbers("fired at")], rows)


def links_table(run: Run) -> Markup | None:
    """What each link was behind at most, and what it carried."""
    rows = [
        [
            link_name(link),
            milliseconds(highest(link.lag_ms)),
            "" if (most := highest(link.lag_effects)) is None else f"{most:,.0f}",
            size(link.bytes_received),
            size(link.bytes_again),
        ]
        for link in sorted(run.links, key=lambda one: (one.peer, one.puller))
    ]
    columns = [
        *times("from → to"),
        *numbers("highest lag ms", "most effects behind", "received", "of these again"),
    ]
    return _table(columns, rows)


def environment_table(run: Run, shared: Mapping[str, str]) -> Markup | None:
    """The load that was made, and what of the environment is this run's own."""
    load = run.load
    rows: list[Sequence[Child]] = [
        ["load asked for", f"{load.asked_per_s:,.1f} /s"],
        ["load made", f"{load.made_per_s:,.1f} /s"],
        ["p99 of how late the load's loop was", f"{milliseconds(load.late_ms_p99)} ms"],
        ["began", element("bdi", began_text(run))],
    ]
    rows += [
        [name_of(name), element("bdi", value)]
        for name, value in run.environment.items()
        if shared.get(name) != value
    ]
    return _table(texts("what", "value"), rows)


def _table(columns: Sequence[Heading], rows: Sequence[Sequence[Child]]) -> Markup | None:
    return table(columns, rows) if rows else None


def _mark(is_good: object, good: str, bad: str) -> Markup:
    if is_good:
        return element("span", good, class_="verdict passed")
    return element("span", bad, class_="verdict failed")


def _recovery(hit: int, recovery_s: float | None) -> str:
    if recovery_s is None:
        return NEVER
    return seconds(recovery_s) if hit else seconds(None)


def _alert(*, is_expected: bool, fired_at: float | None) -> Markup:
    match is_expected, fired_at:
        case True, None:
            return element("span", "should have fired", class_="verdict failed")
        case True, _:
            return element("span", "fired, as expected", class_="verdict passed")
        case _:
            return element("span", "fired", class_="verdict aborted")
