"""Measurements: samples of interleaved rounds, their medians, spread and ratios.

A *sample* is one measurement: in this round, in this case of this part, this system had these
figures.  Ratios are taken within a round, where both systems met the same noise of the machine;
the median of these is told.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement.

    Attributes:
        case: what was done, as in ``everysec, -P 16``.
        system: who did it, as in ``Redis``.
        figures: by name, which ends with the unit: ``rate_per_s``, ``cpu_us``, ``p99_ms``.
    """

    case: str
    system: str
    round: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Self:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a part.

    Attributes:
        about: one sentence: what is measured.
        reference: the system that ratios are to; empty: none.
        machine: its size.
        load: the machine's load average when the part began; more than 0 means that the machine was
            not ours alone.
        version: of the sources, as git names it.
        skipped: systems that were not measured, and why.
    """

    part: str
    about: str
    reference: str
    machine: str
    load: float
    version: str
    samples: Sequence[Sample]
    skipped: Mapping[str, str]

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(sample.case for sample in self.samples))

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(sample.system for sample in self.samples))

    def figures(self, case: str, system: str) -> list[str]:
        """Names of the figures that were taken, in the order of the part."""
        return list(dict.fromkeys(name for one in self._of(case, system) for name in one.figures))

    def spread(self, case: str, system: str, figure: str) -> Spread | None:
        """None: it was not measured."""
        values = [one.figures[figure] for one in self._of(case, system) if figure in one.figures]
        return Spread.over(values) if values else None

    def ratio(self, case: str, system: str, figure: str) -> float | None:
        """The median of the rounds' ratios to the reference; None: it was not measured."""
        theirs = {one.round: one.figures.get(figure) for one in self._of(case, self.reference)}
        ratios = []
        for one in self._of(case, system):
            base, own = theirs.get(one.round), one.figures.get(figure)
            if base and own is not None:
                ratios.append(own / base)
        return statistics.median(ratios) if ratios else None

    def _of(self, case: str, system: str) -> list[Sample]:
        return [one for one in self.samples if one.case == case and one.system == system]

    def legend(self) -> str:
        """The end of a title, which names the system that ratios are to; empty: there are none."""
        return f"; × is the ratio to {self.reference}" if self.reference else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "about": self.about,
            "reference": self.reference,
            "machine": self.machine,
            "load": round(self.load, 2),
            "version": self.version,
            "skipped": dict(self.skipped),
            "samples": [
                {
                    "case": one.case,
                    "system": one.system,
                    "round": one.round,
                    "figures": {name: rounded(value) for name, value in one.figures.items()},
                }
                for one in self.samples
            ],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        samples = [
            Sample(one["case"], one["system"], one["round"], one["figures"])
            for one in found["samples"]
        ]
        names = ("part", "about", "reference", "machine", "load", "version", "skipped")
        return cls(**{name: found[name] for name in names}, samples=samples)


def in_turns(
    rounds: int, measurements: Iterable[tuple[str, str, Callable[[], Mapping[str, float]]]]
) -> list[Sample]:
    """Take each measurement once in each round, every other round backwards.

    Who comes second finds the disk busy with what the first one wrote; so they change places.

    Args:
        measurements: case, system, and what measures it.
    """
    samples = []
    order = list(measurements)
    for at in range(rounds):
        for case, system, measure in order if at % 2 == 0 else reversed(order):
            samples.append(Sample(case, system, at, measure()))
    # In the order of the part, whatever the order of the last round.
    rank = {(case, system): at for at, (case, system, _) in enumerate(order)}
    return sorted(samples, key=lambda one: (rank[one.case, one.system], one.round))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` of all do not exceed; ``ordered`` is ascending."""
    assert ordered
    assert 0 < share <= 1
    # Not 1 + int(…): of 100 values the 99th is what 99 % do not exceed.
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


def latencies(taken_ms: Iterable[float]) -> dict[str, float]:
    """The figures that are told of times."""
    ordered = sorted(taken_ms)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
    return {name: percentile(ordered, share) for name, share in shares.items()} | {
        "max_ms": ordered[-1]
    }


def rounded(value: float) -> float:
    """As exactly as it is worth telling: four digits."""
    return float(f"{value:.4g}")
