"""A part of the benchmark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.measured import Sample

FSYNCS: Final = ("everysec", "always")
OURS: Final = "crdtstream"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    Attributes:
        rounds: measurements of each, in turns.
        scale: all amounts are multiplied by it; less than 1 for a quick look, whose figures are
            worth less.
        against: another checkout, whose regions are measured besides.
    """

    rounds: int = 3
    scale: float = 1.0
    against: Path | None = None

    def scaled(self, count: int, *, least: int = 1) -> int:
        return max(least, round(count * self.scale))

    def seconds(self, seconds: float) -> float:
        return max(1.0, seconds * self.scale)


@dataclass(frozen=True, slots=True)
class Found:
    """Measurements of a part."""

    samples: Sequence[Sample]
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the benchmark.

    Attributes:
        about: one sentence: what is measured, and between what.
        reference: the system that ratios are to; empty: none.
        curve: the cases are points along this axis; empty: they are not.
    """

    name: str
    about: str
    reference: str
    run: Callable[[Options], Found]
    curve: str = ""
