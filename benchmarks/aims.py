"""The aims, and the figures that were reached: a row for each aim, judged by recorded outcomes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.measured import Outcome, rounded
from benchmarks.parts.consume import PART as CONSUME
from benchmarks.parts.part import FSYNCS, OURS

Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Aim:
    """One aim.

    Attributes:
        what: what is measured, as it stands in the table.
        bound: what is aimed at; a ratio or a figure of ours.
        at_least: whether more is better.
        measured: the median of the recorded rounds; None: it was not measured.
        peer: what the peer reached, with its unit.
    """

    what: str
    bound: float
    at_least: bool
    unit: str
    measured: Callable[[Outcomes], float | None]
    peer: Callable[[Outcomes], str]

    def row(self, outcomes: Outcomes) -> tuple[str, str, str, str, str]:
        """The figure's name, the peer's figure, the aim, the figure here, whether it is reached."""
        value = self.measured(outcomes)
        bound = f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}".rstrip()
        if value is None:
            return self.what, self.peer(outcomes), bound, "", ""
        reached = value >= self.bound if self.at_least else value <= self.bound
        told = f"{shown(value)} {self.unit}".rstrip()
        return self.what, self.peer(outcomes), bound, told, "yes" if reached else "no"


def shown(value: float) -> str:
    """A figure as a person reads it: 446 k, 17.3, 0.0042."""
    if value >= 1e6:
        return f"{rounded(value) / 1e6:g} M"
    if value >= 10_000:
        return f"{value / 1e3:.0f} k"
    return f"{value:.3g}" if value < 1_000 else f"{value:,.0f}"


def _ratio(
    part: str, case: str, figure: str, system: str = OURS
) -> Callable[[Outcomes], float | None]:
    def measured(outcomes: Outcomes) -> float | None:
        outcome = outcomes.get(part)
        return None if outcome is None else outcome.ratio(case, system, figure)

    return measured


def _figure(
    part: str, case: str, figure: str, system: str = OURS
) -> Callable[[Outcomes], float | None]:
    def measured(outcomes: Outcomes) -> float | None:
        return _median(outcomes, part, case, figure, system)

    return measured


def _median(outcomes: Outcomes, part: str, case: str, figure: str, system: str) -> float | None:
    outcome = outcomes.get(part)
    found = None if outcome is None else outcome.spread(case, system, figure)
    return None if found is None else found.median


def _peer(
    part: str, case: str, figure: str, unit: str, systems: tuple[str, ...] = ()
) -> Callable[[Outcomes], str]:
    """The reference's figure, or those of several peers."""

    def told(outcomes: Outcomes) -> str:
        outcome = outcomes.get(part)
        if outcome is None:
            return ""
        found = []
        for system in systems or (outcome.reference,):
            spread = outcome.spread(case, system, figure)
            if spread is not None:
                found.append(f"{system} {shown(spread.median)} {unit}")
        return ", ".join(found)

    return told


def _nobody(_: Outcomes) -> str:
    return ""


def _xadd() -> Iterator[Aim]:
    for fsync, bounds in zip(FSYNCS, ((0.6, 0.4, 0.4), (0.7, 0.5, 0.5)), strict=True):
        for pipeline, bound in zip((1, 16, 100), bounds, strict=True):
            case = f"{fsync}, -P {pipeline}"
            yield Aim(
                f"XADD, 50 clients, {case}: ratio to Redis",
                bound,
                True,
                "",
                _ratio("xadd", case, "rate_per_s"),
                _peer("xadd", case, "rate_per_s", "/s"),
            )


def _tls() -> Iterator[Aim]:
    for pipeline, bound in ((1, 0.7), (16, 0.85)):
        yield Aim(
            f"XADD over TLS, 50 clients, everysec, -P {pipeline}: ratio to plain",
            bound,
            True,
            "",
            _ratio("tls", f"{OURS}, -P {pipeline}", "rate_per_s", "TLS"),
            _peer("tls", f"Redis, -P {pipeline}", "rate_per_s", "/s", ("plain", "TLS")),
        )


def _regions() -> Iterator[Aim]:
    for fsync in FSYNCS:
        case, all_write = f"{fsync}, 1 writer", f"{fsync}, 3 writers"
        yield Aim(
            f"three regions, {case}: processor time of all nodes for a message",
            10,
            False,
            "µs",
            _figure("regions", case, "cpu_us"),
            _peer("regions", case, "cpu_us", "µs"),
        )
        yield Aim(
            f"three regions, {case}: rate, ratio to Redis with two replicas",
            0.3,
            True,
            "",
            _ratio("regions", case, "rate_per_s"),
            _peer("regions", case, "rate_per_s", "/s"),
        )
        yield Aim(
            f"three regions, {case}: all equal after the end",
            1,
            False,
            "s",
            _figure("regions", case, "equal_s"),
            _peer("regions", case, "equal_s", "s"),
        )
        yield Aim(
            f"three regions, {fsync}: three writers in sum, ratio to one",
            1,
            True,
            "",
            _quotient(
                _figure("regions", all_write, "rate_per_s"),
                _figure("regions", case, "rate_per_s"),
            ),
            _nobody,
        )


def _quotient(
    over: Callable[[Outcomes], float | None], under: Callable[[Outcomes], float | None]
) -> Callable[[Outcomes], float | None]:
    def measured(outcomes: Outcomes) -> float | None:
        above, below = over(outcomes), under(outcomes)
        return above / below if above is not None and below else None

    return measured


def _links() -> Iterator[Aim]:
    case, by_tls = "3 nodes, -P 16", "mutual TLS"
    yield Aim(
        "three regions whose links speak mutual TLS: processor time for a message, ratio to plain",
        1.1,
        False,
        "",
        _ratio("links", case, "cpu_us", by_tls),
        _peer("links", case, "cpu_us", "µs", ("plain links", by_tls)),
    )


def _consume() -> Iterator[Aim]:
    for fsync in FSYNCS:
        yield Aim(
            f"consume, COUNT 100 and XACK, {fsync}: ratio to Redis",
            1,
            True,
            "",
            _ratio(CONSUME.name, fsync, "rate_per_s"),
            _peer(CONSUME.name, fsync, "rate_per_s", "/s"),
        )


def _latency() -> Iterator[Aim]:
    for fsync, bound in zip(FSYNCS, (3, 6), strict=True):
        yield Aim(
            f"latency, 10,000/s, {fsync}: 99.9 %",
            bound,
            False,
            "ms",
            _figure("latency", fsync, "p999_ms"),
            _peer("latency", fsync, "p999_ms", "ms"),
        )
        yield Aim(
            f"the same with two million pending, {fsync}: ratio to without",
            1.2,
            False,
            "",
            _quotient(
                _figure("latency", f"{fsync}, 2,000,000 pending", "p999_ms"),
                _figure("latency", fsync, "p999_ms"),
            ),
            _nobody,
        )


def _visibility() -> Iterator[Aim]:
    case = "10,000 messages a second"
    for name, figure, bound in (
        ("50 %", "p50_ms", 2),
        ("99 %", "p99_ms", 8),
        ("99.9 %", "p999_ms", 20),
    ):
        for fsync in FSYNCS:
            yield Aim(
                f"remote visibility, {fsync}: {name}",
                bound,
                False,
                "ms",
                _figure("visibility", case, figure, f"{OURS}, {fsync}"),
                _peer("visibility", case, figure, "ms", ("Redis replica", "NATS mirror")),
            )


def _wire() -> Iterator[Aim]:
    case = "10,000 messages a second"
    for words, figure, bound in (
        ("before compression", "sent_bytes", 45),
        ("after compression", "compressed_bytes", 25),
    ):
        yield Aim(
            f"bytes between regions for a message produced, read, acknowledged; {words}",
            bound,
            False,
            "B",
            _figure("wire", case, figure),
            _peer("wire", case, "sent_bytes", "B"),
        )
    yield Aim(
        "acknowledgement effects for 100 XACKs in random order",
        1,
        False,
        "",
        _figure("wire", "acknowledged in random order", "effects_per_100_xacks"),
        _nobody,
    )


def _others() -> Iterator[Aim]:
    case = "500,000 entries"
    yield Aim(
        "catch-up of a region that was away, a link",
        250_000,
        True,
        "/s",
        _figure("catch-up", case, "rate_per_s"),
        _peer("catch-up", case, "rate_per_s", "/s", ("Redis replica", "NATS mirror")),
    )
    yield Aim(
        "its memory: the peak, over what it has in the end",
        1.1,
        False,
        "",
        _quotient(
            _figure("catch-up", case, "memory_peak_mib"), _figure("catch-up", case, "memory_mib")
        ),
        _nobody,
    )
    # A tenth of what each took at first, in seconds.
    for workload, bound in (
        ("XREADGROUP of all", 0.85),
        ("XDEL one by one", 1.9),
        ("XACK of all", 0.45),
        ("XTRIM DELREF of all", 0.27),
    ):
        yield Aim(
            f"100,000 entries in process: {workload}",
            bound,
            False,
            "s",
            _figure("bulk", workload, "cpu_s"),
            _peer("bulk", workload, "cpu_s", "s"),
        )
    yield Aim(
        "idle, three connected nodes: of a core, each",
        0.5,
        False,
        "%",
        _figure("idle", "3 nodes", "core_percent"),
        _peer("idle", "3 nodes", "core_percent", "%"),
    )


AIMS: Final = (
    *_xadd(),
    *_tls(),
    *_regions(),
    *_links(),
    *_consume(),
    *_latency(),
    *_visibility(),
    *_wire(),
    *_others(),
)
