"""A run of a drill as of each moment: what was measured last by then, and which faults lasted.

    samples   0.0   0.5   1.0   1.5 ...        a moment has the last sample at or before it
    moment              ^ 0.9 -> that of 0.5

Pure: the same report and moment, the same texts.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.console import words
from crdtstream.console.cells import Cells
from crdtstream.drill.outcome import LinkSeries, Mark, MarkKind, NodeSeries, Run

# Beyond this a link is shown as behind.
BEHIND_MS: Final = 1_000.0
# In the words of a mark, before those of the fault that ends.
OVER: Final = "over: "
NO_FAULT: Final = "no fault"


@dataclass(frozen=True, slots=True)
class ReplayedRegion:
    """A region on the map."""

    region: int
    member: str = "member"

    @property
    def name(self) -> str:
        return f"region {self.region}"


@dataclass(frozen=True, slots=True)
class ReplayedLink:
    """A link on the map: region ``to`` pulls from region ``source``."""

    source: int
    to: int
    state: str

    @property
    def name(self) -> str:
        return f"{self.source}-{self.to}"


class Timeline:
    """One run.

    Attributes:
        run: its report.
        begin, end: of all that was measured or marked, in seconds since the load began.
        marks: by time.
        regions: numbers of all that the report names.
        links: as pairs of the region that is pulled from, and the one that pulls.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.marks: Sequence[Mark] = sorted(run.marks, key=lambda one: one.at)
        times = [run.throughput.at, *(one.at for one in run.links), *(one.at for one in run.nodes)]
        moments = [at for series in times for at in (series[:1] + series[-1:])]
        moments += [one.at for one in self.marks]
        self.begin = min([0.0, *moments])
        self.end = max([run.seconds, *moments])
        self.regions = sorted(
            {one.region for one in run.nodes}
            | {region for one in run.links for region in (one.puller, one.peer)}
            | set(run.throughput.acknowledged)
            | set(run.digests)
        )
        self.links = sorted((one.peer, one.puller) for one in run.links)

    def within(self, at: float) -> float:
        """The moment, or the nearest one that the run has."""
        return min(max(at, self.begin), self.end)

    def cells(self, at: float) -> Cells:
        """All texts as of a moment."""
        return {
            "at": f"{at:.1f} s",
            "faults": ", ".join(self.lasting(at)) or NO_FAULT,
            "faults.state": "bad" if self.lasting(at) else "ok",
            **dict(self._totals(at)),
            **{name: text for one in self.regions for name, text in self._of_region(one, at)},
            **{name: text for one in self.run.links for name, text in _of_link(one, at)},
            **{f"mark.{n}.state": _mark_state(one, at) for n, one in enumerate(self.marks)},
        }

    def lasting(self, at: float) -> list[str]:
        """Faults that last at a moment."""
        found: list[str] = []
        for mark in self.marks:
            if mark.at > at:
                break
            if mark.kind is MarkKind.FAULT:
                found.append(mark.what)
            elif mark.kind is MarkKind.END and found:
                what = mark.what.removeprefix(OVER)
                # A fault of other words ended: the oldest one, as it is not known which.
                found.remove(what if what in found else found[0])
        return found

    def regions_on_map(self) -> list[ReplayedRegion]:
        return [ReplayedRegion(one) for one in self.regions]

    def links_on_map(self, cells: Cells) -> list[ReplayedLink]:
        return [
            ReplayedLink(source, to, cells[f"link.{source}-{to}.state"])
            for source, to in self.links
        ]

    def _totals(self, at: float) -> Iterator[tuple[str, str]]:
        throughput = self.run.throughput
        delivered = _value(throughput.at, throughput.delivered, at)
        known = [
            value
            for values in throughput.acknowledged.values()
            if (value := _value(throughput.at, values, at)) is not None
        ]
        yield "total.acknowledged", words.rate(sum(known) if known else None)
        yield "total.delivered", words.rate(delivered)

    def _of_region(self, region: int, at: float) -> Iterator[tuple[str, str]]:
        name, throughput = f"region.{region}", self.run.throughput
        acknowledged = throughput.acknowledged.get(region, [])
        yield f"{name}.writes", words.rate(_value(throughput.at, acknowledged, at))
        node = next((one for one in self.run.nodes if one.region == region), None)
        yield from _of_node(name, node, at)


def _of_node(name: str, node: NodeSeries | None, at: float) -> Iterator[tuple[str, str]]:
    if node is None or not node.at or node.at[0] > at:
        yield f"{name}.state", "not watched"
        yield f"{name}.memory", words.UNKNOWN
        yield f"{name}.cpu", words.UNKNOWN
        return
    memory, cpu = _value(node.at, node.rss_bytes, at), _value(node.at, node.cpu_percent, at)
    yield f"{name}.state", "no process" if memory is None else "ok"
    yield f"{name}.memory", words.UNKNOWN if memory is None else words.size(memory)
    yield f"{name}.cpu", words.UNKNOWN if cpu is None else f"{cpu:.0f} %"


def _of_link(link: LinkSeries, at: float) -> Iterator[tuple[str, str]]:
    name = f"link.{link.peer}-{link.puller}"
    lag_ms, effects = _value(link.at, link.lag_ms, at), _value(link.at, link.lag_effects, at)
    yield f"{name}.lag", words.UNKNOWN if lag_ms is None else words.duration(lag_ms)
    yield f"{name}.label", words.UNKNOWN if lag_ms is None else words.in_one_unit(lag_ms)
    yield f"{name}.behind", words.UNKNOWN if effects is None else words.count(round(effects))
    if lag_ms is None:
        yield f"{name}.state", "unknown"
    else:
        yield f"{name}.state", "behind" if lag_ms > BEHIND_MS else "ok"


def _mark_state(mark: Mark, at: float) -> str:
    return "to come" if mark.at > at else "past"


def _value(times: Sequence[float], values: Sequence[float | None], at: float) -> float | None:
    """The value of the last sample at or before a moment; None: there is none, or it is unknown."""
    found = bisect_right(times, at) - 1
    return values[found] if 0 <= found < len(values) else None
