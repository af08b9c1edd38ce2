"""The few figures of a run that every report shows, and the words for them.

They are in one place, so that the terminal, the page and a comparison never disagree on the worst
of something.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from crdtstream.drill.outcome import LinkSeries, Mark, MarkKind, Run, Verdict

# Text in place of a missing figure.
NOTHING: Final = "–"
NEVER: Final = "never"


@dataclass(frozen=True, slots=True)
class Headline:
    """A run in one row.

    Attributes:
        checks_met, checks: number of checks that are met, and of all.
        acknowledged, lost, unknown: of all producers.
        again, never: of all groups.
        recovery_s: of the slowest kind of client; None: no client was hit, or see ``is_recovered``.
        is_recovered: False: a client never had a good answer again.
        lag_ms_max: of all links; None: nothing was measured.
        equal_s: the longest time from a fault's end to equal digests; None: see ``is_equal``.
        is_equal: False: digests did not become equal in time.
    """

    checks_met: int
    checks: int
    acknowledged: int
    unknown: int
    lost: int
    again: int
    never: int
    recovery_s: float | None
    is_recovered: bool
    lag_ms_max: float | None
    equal_s: float | None
    is_equal: bool

    @classmethod
    def of(cls, run: Run) -> "Headline":
        hit = [stall for stall in run.stalls if stall.hit]
        recoveries = [stall.recovery_s for stall in hit if stall.recovery_s is not None]
        equal = [one.seconds for one in run.convergences if one.seconds is not None]
        return cls(
            checks_met=sum(check.is_met for check in run.checks),
            checks=len(run.checks),
            acknowledged=sum(one.acknowledged for one in run.produced),
            unknown=sum(one.unknown for one in run.produced),
            lost=sum(one.lost for one in run.produced),
            again=sum(sum(one.again.values()) for one in run.consumed),
            never=sum(one.never for one in run.consumed),
            recovery_s=max(recoveries, default=None),
            is_recovered=all(stall.recovery_s is not None for stall in hit),
            lag_ms_max=highest(value for link in run.links for value in link.lag_ms),
            equal_s=max(equal, default=None),
            is_equal=all(one.seconds is not None for one in run.convergences),
        )

    @property
    def recovery(self) -> str:
        """Recovery in words."""
        return seconds(self.recovery_s) if self.is_recovered else NEVER

    @property
    def equal(self) -> str:
        """Equality in words."""
        return seconds(self.equal_s) if self.is_equal else NEVER


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a fault lasted, in seconds; ``end`` is None if it was not taken back."""

    begin: float
    end: float | None


def fault_spans(marks: Sequence[Mark]) -> list[Span]:
    """Times in which faults lasted; each fault has a mark of its own for its end.

    fault  fault  end  end      fault  end
    └─────────────────┘         └───────┘
    """
    spans: list[Span] = []
    lasting = 0
    for mark in sorted(marks, key=lambda one: one.at):
        match mark.kind:
            case MarkKind.FAULT:
                if not lasting:
                    spans.append(Span(mark.at, None))
                lasting += 1
            case MarkKind.END if lasting:
                lasting -= 1
                if not lasting:
                    spans[-1] = Span(spans[-1].begin, mark.at)
            case _:
                pass
    return spans


def highest(values: Iterable[float | None]) -> float | None:
    """Highest of the known values."""
    return max((value for value in values if value is not None), default=None)


def link_name(link: LinkSeries) -> str:
    """Name in the direction in which effects go."""
    return f"{link.peer} → {link.puller}"


def began_text(run: Run) -> str:
    """Beginning of a run, in UTC; unchanged if it is no ISO 8601."""
    try:
        moment = datetime.fromisoformat(run.began)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return run.began
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def shared_environment(runs: Sequence[Run]) -> dict[str, str]:
    """The part of the environment that is the same in all runs."""
    return {
        name: value
        for name, value in (runs[0].environment if runs else {}).items()
        if all(run.environment.get(name) == value for run in runs)
    }


def problems(run: Run) -> Iterable[tuple[str, str]]:
    """Problems to know of before any figure: each with its reason."""
    unknown = "it is not said why"
    if run.verdict is Verdict.ABORTED:
        yield "not judged", run.problem or unknown
    elif run.problem:
        yield "problem", run.problem
    if not run.load.is_made:
        yield "the load was not made, so latencies say nothing", run.load.problem or unknown


# --- Words ----------------------------------------------------------------------------------------


def seconds(value: float | None) -> str:
    """A time of clients: 0.42 s, 12.3 s, 2 min 5 s."""
    if value is None:
        return NOTHING
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 119.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def milliseconds(value: float | None) -> str:
    """Text without the unit, which is above the column."""
    if value is None:
        return NOTHING
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes in the largest unit that leaves three digits."""
    if value is None:
        return NOTHING
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= limit:
            return (
                f"{value / limit:.1f} {unit}"
                if value < 100 * limit
                else f"{value / limit:,.0f} {unit}"
            )
    return f"{value:.0f} B"


def counted(found: dict[str, int]) -> str:
    """Counts by name, the most first: "ConnectionError 12, TimeoutError 3"."""
    return ", ".join(f"{name} {count:,}" for name, count in most_first(found))


def most_first(found: dict[str, int]) -> list[tuple[str, int]]:
    """Counts by name; equal ones by name."""
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
