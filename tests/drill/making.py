"""Runs as drills leave them, with figures that a formula makes: for tests of reports.

A run is of 60 seconds: three regions, 100 entries a second in each; region 1 is gone from 20 to 35.
"""

import math
from typing import Any

from crdtstream.drill.outcome import (
    Alert,
    Check,
    Consumed,
    Convergence,
    Latency,
    LinkSeries,
    LoadMade,
    Mark,
    MarkKind,
    NodeSeries,
    Phase,
    Produced,
    Read,
    Report,
    Run,
    Stall,
    Throughput,
    Verdict,
)

SECONDS = 60
FAULT, END = 20, 35

# The drills of ``scenarios/drills``.
DRILLS = (
    *("partition-heal", "one-way-partition", "slow-link", "thin-link", "lossy-link"),
    *("flapping-link", "region-loss", "region-frozen", "rolling-restart", "clock-skew"),
    *("disk-full", "group-home-loss", "thundering-herd"),
)


def a_run(drill: str = "region-loss", **changes: Any) -> Run:
    """A run that passed; ``changes`` are fields of its own."""
    return Run.model_validate({**_fields(drill), **changes})


def a_failed_run(drill: str = "partition-heal", **changes: Any) -> Run:
    """A run in which two acknowledged entries were lost."""
    checks = [
        Check(name="lost", expected="0", found="2", is_met=False),
        Check(name="recovery", expected="at most 15 s", found="4.21 s", is_met=True),
    ]
    findings = [
        "lost: orders 1795241607207-1, acknowledged by region 1 at 19.981 s, in no region",
        "lost: orders 1795241607213-1, acknowledged by region 1 at 19.987 s, in no region",
    ]
    produced = [_produced("plain", lost=2), _produced("idempotent")]
    found = {"checks": checks, "findings": findings, "produced": produced}
    return a_run(drill, verdict=Verdict.FAILED, **{**found, **changes})


def an_aborted_run(drill: str = "slow-link") -> Run:
    """A run that ended before it had begun: nothing was measured."""
    return Run(
        drill=drill,
        about="What clients see of a slow link.",
        began="2026-11-22T10:00:00+00:00",
        seconds=0.0,
        environment={},
        verdict=Verdict.ABORTED,
        problem="region 2 does not answer: start it, or leave it out",
        marks=[],
        checks=[],
        findings=[],
        load=LoadMade(
            asked_per_s=300.0, made_per_s=0.0, late_ms_p99=0.0, is_made=False, problem="no load"
        ),
        produced=[],
        consumed=[],
        read=[],
        stalls=[],
        latencies=[],
        convergences=[],
        links=[],
        nodes=[],
        throughput=Throughput(at=[], acknowledged={}, delivered=[]),
        alerts=[],
        digests={},
    )


def all_drills() -> Report:
    """Thirteen runs, one failed and one aborted."""
    failed = {"slow-link": an_aborted_run, "partition-heal": a_failed_run}
    return Report(runs=[failed.get(drill, a_run)(drill) for drill in DRILLS])


def _fields(drill: str) -> dict[str, Any]:
    return {
        "drill": drill,
        "about": "A region is killed; its clients move to another one, and later back.",
        "began": "2026-11-22T10:00:00+00:00",
        "seconds": SECONDS + 2.5,
        "environment": {
            "crdtstream": "0.1.0",
            "python": "3.11.7",
            "redis-py": "8.1.0",
            "cores": "2",
            "memory": "24 GiB",
        },
        "verdict": Verdict.PASSED,
        "marks": [
            Mark(at=5.0, kind=MarkKind.NOTE, what="warm: figures count from here"),
            Mark(at=FAULT, kind=MarkKind.FAULT, what="region 1: kill -9"),
            Mark(at=END, kind=MarkKind.END, what="region 1: started again"),
        ],
        "checks": [
            Check(name="lost", expected="0", found="0", is_met=True),
            Check(name="recovery", expected="at most 15 s", found="4.21 s", is_met=True),
            Check(name="equal", expected="within 20 s", found="1.87 s", is_met=True),
        ],
        "findings": [],
        "load": LoadMade(
            asked_per_s=300.0, made_per_s=299.4, late_ms_p99=1.7, is_made=True, problem=""
        ),
        "produced": [_produced("plain"), _produced("idempotent")],
        "consumed": [
            Consumed(
                group="workers",
                mode="partitioned",
                delivered=17_642,
                acknowledged=17_455,
                again={"moved to another region": 112, "not acknowledged in time": 75},
                out_of_order=3,
                never=0,
            )
        ],
        "read": [
            Read(kind="xread", read=17_400, skipped=55, again=0, out_of_order=0),
            Read(kind="crdt.xread", read=17_455, skipped=0, again=0, out_of_order=0),
        ],
        "stalls": [
            Stall(
                kind=kind,
                clients=6,
                hit=hit,
                recovery_s=recovery_s,
                longest_s=4.5,
                moves=2 * hit,
                errors={"ConnectionError": 14 * hit, "TimeoutError": hit} if hit else {},
            )
            for kind, hit, recovery_s in (
                ("plain producer", 2, 3.9),
                ("idempotent producer", 2, 4.21),
                ("consumer", 1, 2.75),
                ("crdt.xread", 0, 0.0),
            )
        ],
        "latencies": [
            Latency(
                kind=kind,
                phase=phase,
                count=4_000,
                p50_ms=1.2 * factor,
                p99_ms=6.5 * factor,
                p999_ms=14.0 * factor,
                max_ms=31.0 * factor,
            )
            for kind in ("plain", "idempotent")
            for phase, factor in ((Phase.BEFORE, 1), (Phase.DURING, 7), (Phase.AFTER, 1.1))
        ],
        "convergences": [Convergence(after="region 1: started again", seconds=1.87)],
        "links": [
            _link(puller, peer) for puller in (1, 2, 3) for peer in (1, 2, 3) if puller != peer
        ],
        "nodes": [_node(region) for region in (1, 2, 3)],
        "throughput": _throughput(),
        "alerts": [
            Alert(
                name="CrdtstreamRegionDown",
                labels={"region": "1"},
                is_expected=True,
                fired_at=23.0,
            ),
            Alert(
                name="CrdtstreamLagHigh",
                labels={"region": "2", "peer": "1"},
                is_expected=True,
                fired_at=25.5,
            ),
        ],
        "digests": dict.fromkeys((1, 2, 3), "77d98c7fb5eba7d2980ec020b8402720ddb26031"),
    }


def _produced(kind: str, *, lost: int = 0) -> Produced:
    return Produced(
        kind=kind,
        acknowledged=8_731,
        unknown=9,
        refused=0,
        lost=lost,
        repeated=4 if kind == "plain" else 0,
        repeated_after_unknown=4 if kind == "plain" else 0,
    )


def _is_gone(region: int, second: float) -> bool:
    return region == 1 and FAULT <= second < END


def _link(puller: int, peer: int) -> LinkSeries:
    at = [half / 2 for half in range(2 * SECONDS)]
    lag: list[float | None] = []
    for second in at:
        if _is_gone(puller, second):
            lag.append(None)
        elif _is_gone(peer, second):
            lag.append(1_000.0 * (second - FAULT))
        else:
            lag.append(8 + 3 * math.sin(second + puller) + peer)
    effects = [None if one is None else round(one / 10) for one in lag]
    return LinkSeries(
        puller=puller,
        peer=peer,
        at=at,
        lag_ms=lag,
        lag_effects=effects,
        bytes_received=1_234_567 + 1_000 * peer,
        bytes_again=4_096 if puller == 1 else 0,
    )


def _node(region: int) -> NodeSeries:
    at = [float(second) for second in range(SECONDS)]
    is_gone = [_is_gone(region, second) for second in at]
    return NodeSeries(
        region=region,
        at=at,
        rss_bytes=[
            None if gone else (60 + region + second / 5) * 2**20
            for second, gone in zip(at, is_gone, strict=True)
        ],
        cpu_percent=[
            None if gone else 22 + region + 5 * math.sin(second / 3)
            for second, gone in zip(at, is_gone, strict=True)
        ],
    )


def _throughput() -> Throughput:
    at = [float(second) for second in range(1, SECONDS + 1)]
    gone = [_is_gone(1, second) for second in at]
    return Throughput(
        at=at,
        acknowledged={
            1: [0.0 if one else 100.0 for one in gone],
            2: [150.0 if one else 99.0 for one in gone],
            3: [148.0 if one else 101.0 for one in gone],
        },
        delivered=[
            280 + 20 * math.sin(second) - (150 if FAULT <= second < FAULT + 3 else 0)
            for second in at
        ],
    )
