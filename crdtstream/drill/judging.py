"""Judging makes a Run of records and samples: the figures of ``verdict``, checks, series."""

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from crdtstream.drill import verdict
from crdtstream.drill.checks import checks, is_of_clients_times, unwell
from crdtstream.drill.drill import Drill
from crdtstream.drill.outcome import Alert, Check, Convergence, Mark, MarkKind, Run, Verdict
from crdtstream.drill.records import read
from crdtstream.drill.sampling import Sample, Versions, link_series, node_series


@dataclass(frozen=True, slots=True)
class Course:
    """Events beside the clients' records.

    Attributes:
        began_at: beginning of the load, ISO 8601 in UTC.
        began: the same by the monotonic clock.
        marks, samples: ascending by time.
        convergences: from the load's end on.
        digests: by region, at the end.
        taken_over: number of times that nodes which run in the end took over another region's
            state.
        fired: alerts, with labels and moment (monotonic); None: they were not watched.
        problem: reason why it was aborted; empty: it was not.
        unwell: regions that did not return, so that streams could not be read; empty: none.
    """

    began_at: str
    began: float
    seconds: float
    marks: list[Mark]
    samples: list[Sample]
    links: list[tuple[int, int]]
    regions: tuple[int, ...]
    convergences: list[Convergence]
    digests: dict[int, str]
    taken_over: int
    fired: list[tuple[str, dict[str, str], float]] | None
    problem: str
    unwell: str = ""


def judge(name: str, drill: Drill, files: Sequence[Path], course: Course) -> Run:
    """Run that results from records and course."""
    records = verdict.Records.of(record for file in files for record in read(file))
    versions = Versions(course.samples)
    findings: list[str] = []
    kinds = sorted({client.kind for client in records.clients.values()})
    load = verdict.load_made(records, drill, course.marks, course.began, course.seconds)
    was_read = not course.problem and not course.unwell
    produced = verdict.produced(records, course.regions if was_read else (), findings)
    consumed = [verdict.consumed(records, group, findings) for group in drill.groups]
    readers = [kind for kind in kinds if kind in ("xread", "crdt.xread")]
    reads = [verdict.read(records, kind, findings) for kind in readers]
    stalls = [verdict.stall(records, kind, course.marks, course.began) for kind in kinds]
    alerts = None if course.fired is None else _alerts(drill, course)
    convergences = [*_after_faults(versions, course), *course.convergences]
    # An interrupted drill is not judged: rows are open, and regions may be on their way.
    found: list[Check] = []
    if was_read:
        found = checks(
            drill,
            produced=produced,
            consumed=consumed,
            read=reads,
            stalls=stalls,
            convergences=convergences,
            regions=course.regions,
            digests=course.digests,
            taken_over=course.taken_over,
            alerts=alerts,
        )
    elif course.unwell:
        found = [unwell(course.unwell)]
        findings = course.unwell.splitlines()
    else:
        findings = []
    if alerts is None and drill.alerts is not None and not course.problem:
        findings.insert(0, "alerts were not watched: there was no Prometheus")
    how = Verdict.ABORTED if course.problem else _verdict(found, is_load_made=load.is_made)
    problem = course.problem or (load.problem if how is Verdict.ABORTED else "")
    return Run(
        drill=name,
        about=drill.about,
        began=course.began_at,
        seconds=round(course.seconds, 1),
        environment=environment(),
        verdict=how,
        problem=problem,
        marks=course.marks,
        checks=found,
        findings=verdict.listed(findings) if was_read else findings,
        load=load,
        produced=produced,
        consumed=consumed,
        read=reads,
        stalls=stalls,
        latencies=verdict.latencies(records, course.marks, course.began) if load.is_made else [],
        convergences=convergences,
        links=link_series(versions, course.samples, course.links, course.began),
        nodes=node_series(course.samples, course.regions, course.began),
        throughput=verdict.throughput(records, course.began, drill.seconds),
        alerts=alerts or [],
        digests=course.digests,
    )


def aborted(name: str, drill: Drill, problem: str) -> Run:
    """The run of a drill that could not begin."""
    course = Course(
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        began=0.0,
        seconds=0.0,
        marks=[],
        samples=[],
        links=[],
        regions=(),
        convergences=[],
        digests={},
        taken_over=0,
        fired=None,
        problem=problem,
    )
    return judge(name, drill, [], course)


def _verdict(found: Sequence[Check], *, is_load_made: bool) -> Verdict:
    """Verdict: passed if all is met; not judged if only times are not, of a load that was not
    made."""
    unmet = [check for check in found if not check.is_met]
    if not unmet:
        return Verdict.PASSED
    if not is_load_made and all(is_of_clients_times(check) for check in unmet):
        return Verdict.ABORTED
    return Verdict.FAILED


def _after_faults(versions: Versions, course: Course) -> list[Convergence]:
    """Convergences from each fault's end until every region has all that any had at that moment."""
    found = []
    for mark in course.marks:
        if mark.kind is MarkKind.END:
            at = course.began + mark.at
            target = versions.everything(course.regions, at)
            reached = versions.caught_up(course.regions, target, at)
            seconds = None if reached is None else round(reached - at, 2)
            found.append(Convergence(after=mark.what, seconds=seconds))
    return found


def _alerts(drill: Drill, course: Course) -> list[Alert]:
    """Alerts that fired since the load began, and those that should have."""
    assert course.fired is not None
    expected = drill.alerts or ()
    fired = [
        Alert(
            name=name,
            labels=labels,
            is_expected=name in expected,
            fired_at=round(at - course.began, 1),
        )
        for name, labels, at in course.fired
        if at >= course.began
    ]
    seen = {alert.name for alert in fired}
    missing = [name for name in expected if name not in seen]
    return fired + [
        Alert(name=name, labels={}, is_expected=True, fired_at=None) for name in missing
    ]


def environment() -> dict[str, str]:
    """Environment that a reader needs to judge the figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "crdtstream": importlib.metadata.version("crdtstream"),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "load average": f"{os.getloadavg()[0]:.1f}",
        "redis-py": importlib.metadata.version("redis"),
    }
