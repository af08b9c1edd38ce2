"""A drill on the screen while it runs: reports of the runner, in the form of the live view."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from crdtstream.drill.drill import Command, Drill, RollingRestart, described
from crdtstream.drill.outcome import Mark
from crdtstream.drill.report.live import LiveSample, LiveView
from crdtstream.drill.runner import Progress
from crdtstream.drill.sampling import Sample, Versions

# Number of seconds over which rates are taken.
RATE_SECONDS = 1.0
# Samples from which lag is computed while a drill runs.
SAMPLES_MAX = 2_000


def planned(drill: Drill) -> list[tuple[float, str]]:
    """Planned steps and their times, in order."""
    found = []
    for step in drill.steps:
        found.append((step.at, described(step)))
        if not isinstance(step, Command | RollingRestart) and step.lasts is not None:
            ends_at = min(step.at + step.lasts, drill.seconds)
            found.append((ends_at, f"over: {described(step)}"))
    return sorted(found)


@dataclass(slots=True)
class Screen:
    """Shows one drill after the other; ``close`` ends the last one's picture."""

    console: Console
    _view: LiveView | None = None
    _before: list[Progress] = field(default_factory=list)
    _samples: dict[tuple[float, int], Sample] = field(default_factory=dict)

    def began(self, name: str, drill: Drill) -> None:
        self.close()
        self._before.clear()
        self._samples.clear()
        self._view = LiveView(self.console, name, planned(drill), drill.seconds)
        self._view.__enter__()

    def mark(self, mark: Mark) -> None:
        if self._view is not None:
            self._view.mark(mark)

    def progress(self, progress: Progress) -> None:
        if self._view is None:
            return
        self._before.append(progress)
        while len(self._before) > 2 and progress.at - self._before[1].at >= RATE_SECONDS:
            self._before.pop(0)
        first = self._before[0]
        seconds = max(progress.at - first.at, 0.1)
        self._view.update(
            LiveSample(
                at=progress.at,
                acknowledged_per_s={
                    region: (n - first.acknowledged.get(region, 0)) / seconds
                    for region, n in sorted(progress.acknowledged.items())
                },
                delivered_per_s=(progress.delivered - first.delivered) / seconds,
                lag_ms=self._lag(progress.samples),
                errors=progress.errors,
                note=progress.note,
                acknowledged=sum(progress.acknowledged.values()),
                delivered=progress.delivered,
            )
        )

    def close(self) -> None:
        if self._view is not None:
            self._view.__exit__(None, None, None)
            self._view = None

    def _lag(self, newest: Sequence[Sample]) -> dict[tuple[int, int], float | None]:
        """Lag of every link now, from the answers of nodes so far."""
        for sample in newest:
            self._samples[sample.at, sample.region] = sample
        while len(self._samples) > SAMPLES_MAX:
            del self._samples[next(iter(self._samples))]
        if not newest:
            return {}
        versions = Versions(sorted(self._samples.values(), key=lambda sample: sample.at))
        now = max(sample.at for sample in newest)
        regions = sorted(sample.region for sample in newest)
        return {
            (puller, peer): versions.lag(puller, peer, now)[0]
            if versions.was_heard(puller, now) and versions.was_heard(peer, now)
            else None
            for puller in regions
            for peer in regions
            if puller != peer
        }
