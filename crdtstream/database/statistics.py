"""Statistics: how often each command ran, how long it took, and which errors were answered.

Noting a call must cost next to nothing, so it only appends a duration to a list.  Adding up and
sorting into a histogram come later: when they are asked for, or after SAMPLES_MAX calls.

The histogram is Redis's: durations in whole microseconds, kept as nanoseconds with a precision of
eight binary digits.  So a value and its *level* (the highest that counts as equal) differ by less
than one per cent:

    59 us = 59,000 ns = 0b1110_0110_0111_1000  ->  level 0b1110_0110_1111_1111 = 59,135 ns
                          └── eight kept ──┘                        └─ ones ─┘
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import repeat
from operator import floordiv
from typing import Final

from crdtstream.core.size import Size

# How many durations are kept as they are.
SAMPLES_MAX: Final = Size(1024, least=1)
# More kinds of errors than this are only counted together.
ERROR_KINDS_MAX: Final = Size(128, least=1)
PRECISION_BITS: Final = 8
# What a refused write is answered with.
REFUSED_KIND: Final = "MISCONF"
# The first level that LATENCY HISTOGRAM shows; the next are twice as high each.
LEVEL_BITS_FIRST: Final = 10


def level_of(ns: int) -> int:
    """The highest duration that counts as the same as ``ns``."""
    ns = max(1, ns)
    unit = 1 << max(0, ns.bit_length() - PRECISION_BITS)
    return (ns // unit + 1) * unit - 1


class CallStatistics:
    """Statistics of one command.

    Attributes:
        samples: durations in ns that are not added up yet; the caller that appends calls ``fold``
            when there are SAMPLES_MAX.
        rejected: refused before it ran (arguments, authentication, a disk that refuses).
        failed: ran, and answered an error.
    """

    __slots__ = ("_calls", "_levels", "_ns", "failed", "rejected", "samples")

    def __init__(self) -> None:
        self.samples: list[int] = []
        self.rejected = 0
        self.failed = 0
        self._calls = 0
        self._ns = 0
        self._levels: dict[int, int] = {}

    @property
    def calls(self) -> int:
        """Number of times it ran to its end; a blocked command has not, yet."""
        return self._calls + len(self.samples)

    @property
    def usec(self) -> int:
        """All its calls took together."""
        self.fold()
        return self._ns // 1000

    @property
    def is_used(self) -> bool:
        return bool(self.calls or self.rejected or self.failed)

    def fold(self) -> None:
        """Add up the samples.  About 50 ns for each."""
        if not self.samples:
            return
        levels = self._levels
        self._calls += len(self.samples)
        self._ns += sum(self.samples)
        for usec, count in Counter(map(floordiv, self.samples, repeat(1000))).items():
            level = level_of(usec * 1000)
            levels[level] = levels.get(level, 0) + count
        self.samples.clear()

    def percentiles(self, percents: Iterable[float]) -> list[int]:
        """Level in ns, for each per cent (ascending), within which that share of the calls was.

        There must be calls.
        """
        self.fold()
        levels = iter(sorted(self._levels.items()))
        level, covered = next(levels)
        found = []
        for percent in percents:
            wanted = max(1, int(percent / 100 * self._calls + 0.5))
            while covered < wanted:
                level, count = next(levels)
                covered += count
            found.append(level)
        return found

    def levels(self) -> list[tuple[int, int]]:
        """Ascending pairs of a level in ns and how many calls took that long."""
        self.fold()
        return sorted(self._levels.items())

    @property
    def ns(self) -> int:
        """All its calls took together."""
        self.fold()
        return self._ns

    def distribution(self) -> list[tuple[int, int]]:
        """Pairs of a duration in us and how many calls took at most that; about a power of two
        each, those that add no calls left out."""
        self.fold()
        found: list[tuple[int, int]] = []
        covered = 0
        bits = LEVEL_BITS_FIRST
        bound = level_of(1 << bits)
        for level, count in sorted(self._levels.items()):
            if level > bound:
                if covered:
                    found.append((bound // 1000, covered))
                while level > bound:
                    bits += 1
                    bound = level_of(1 << bits)
            covered += count
        if covered:
            found.append((bound // 1000, covered))
        return found

    def reset(self) -> None:
        self.samples.clear()
        self._levels.clear()
        self.rejected = self.failed = self._calls = self._ns = 0


class Statistics:
    """All commands' and all errors', since the start or the last CONFIG RESETSTAT.

    Attributes:
        errors: how many were answered.
        refused_because: in a word why writes are refused while they are; the region sets it.
        refused: how many commands were answered MISCONF, by that word.
    """

    def __init__(self) -> None:
        self.errors = 0
        self.refused_because = ""
        self.refused: dict[str, int] = {}
        self._by_name: dict[bytes, CallStatistics] = {}
        self._by_kind: dict[str, int] = {}

    def of(self, name: bytes) -> CallStatistics:
        """A command's, made when it is first asked for."""
        return self._by_name.setdefault(name, CallStatistics())

    def used(self) -> list[tuple[bytes, CallStatistics]]:
        """Commands that were called or refused, by name."""
        return sorted((name, calls) for name, calls in self._by_name.items() if calls.is_used)

    @property
    def calls(self) -> int:
        """Number of commands that ran to their end."""
        return sum(calls.calls for calls in self._by_name.values())

    def note_error(self, text: str, count: int = 1) -> None:
        """An error reply; its first word is its kind."""
        self.errors += count
        kind = text.partition(" ")[0]
        if kind == REFUSED_KIND:
            because = self.refused_because
            self.refused[because] = self.refused.get(because, 0) + count
        if kind in self._by_kind or len(self._by_kind) < ERROR_KINDS_MAX.value:
            self._by_kind[kind] = self._by_kind.get(kind, 0) + count

    def errors_by_kind(self) -> Mapping[str, int]:
        return dict(sorted(self._by_kind.items()))

    def reset(self) -> None:
        self.errors = 0
        self.refused.clear()
        self._by_kind.clear()
        for calls in self._by_name.values():
            calls.reset()
