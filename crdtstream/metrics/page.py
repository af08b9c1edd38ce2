"""The page that Prometheus scrapes: figures as text, made in slices.

prometheus-client writes the text, about 9 us a sample.  A node with all its commands, links and a
hundred streams has two thousand samples, so after each millisecond others have their turn.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from crdtstream.metrics.definitions import REGION, Definition
from crdtstream.metrics.figure_sources import FigureSources
from crdtstream.metrics.figures import Distribution, Figures, Sample, Snapshot, Source
from crdtstream.metrics.stalls import StallWatch
from crdtstream.metrics.walk import Walker

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE_NS: Final = 1_000_000
# Samples that are written without a look at the clock.
SAMPLES_AT_ONCE: Final = 64
# Longest wait of a scrape for a walk over the streams; with few streams it ends at once.
WALK_WAIT_SECONDS: Final = 0.05
INFINITY: Final = "+Inf"


class MetricsPage:
    """The page of one node.

    Attributes:
        stalls, walker: to be run as tasks for as long as the page is served.
    """

    def __init__(self, sources: FigureSources) -> None:
        self.stalls = StallWatch(on_wake=sources.engine.region.answer_time.note_wake)
        self.walker = Walker(
            sources.engine.region.replica, names_max=sources.settings.limits.metrics_names_max
        )
        self._sources = sources
        self._figures = Figures(sources, self.stalls)
        self._region = str(sources.settings.region)
        self._process = ProcessCollector(registry=CollectorRegistry())
        self._scrape: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """The page as it is now; scrapes that come at once share it."""
        scrape = self._scrape
        if scrape is None or scrape.done():
            self._scrape = scrape = asyncio.create_task(self._write())
        # A caller may be cancelled; the others still need the page.
        return await asyncio.shield(scrape)

    async def _write(self) -> bytes:
        sources = self._sources
        found = await self.walker.fresh(WALK_WAIT_SECONDS)
        process = await asyncio.to_thread(self._look_outside)
        snapshot = Snapshot(sources.clients(), found, sources.log_bytes(), time.monotonic_ns())
        chunks: list[bytes] = []
        ends = time.perf_counter_ns() + SLICE_NS
        for chunk in self._chunks(self._figures.sources(snapshot), process):
            chunks.append(chunk)
            if time.perf_counter_ns() >= ends:
                await asyncio.sleep(0)
                ends = time.perf_counter_ns() + SLICE_NS
        return b"".join(chunks)

    def _look_outside(self) -> list[Metric]:
        """Metrics from the system's files; runs in a thread."""
        return list(self._process.collect())

    def _chunks(
        self, sources: dict[Definition, Source], process: Iterable[Metric]
    ) -> Iterator[bytes]:
        for definition, source in sources.items():
            yield from self._written(definition, source())
        for metric in process:
            marked = Metric(metric.name, metric.documentation, metric.type)
            for sample in metric.samples:
                marked.add_sample(sample.name, {REGION: self._region}, sample.value)
            yield _text(marked)

    def _written(self, definition: Definition, samples: Iterable[Sample]) -> Iterator[bytes]:
        """One metric, a few samples at a time."""
        rest = iter(samples)
        at_once = max(1, SAMPLES_AT_ONCE // (len(definition.bounds) + 3))
        is_first = True
        while some := list(islice(rest, at_once)):
            family = definition.name.removesuffix("_total")
            metric = Metric(family, definition.help, definition.kind)
            for sample in some:
                self._add(metric, definition, sample)
            text = _text(metric)
            yield text if is_first else _without_heading(text)
            is_first = False

    def _add(self, metric: Metric, definition: Definition, sample: Sample) -> None:
        labels = {
            REGION: self._region,
            **dict(zip(definition.labels, sample.labels, strict=True)),
        }
        value = sample.value
        if not isinstance(value, Distribution):
            metric.add_sample(definition.name, labels, float(value))
            return
        *within, count = value.cumulated
        for bound, covered in zip(definition.bounds, within, strict=True):
            metric.add_sample(f"{definition.name}_bucket", {**labels, "le": repr(bound)}, covered)
        metric.add_sample(f"{definition.name}_bucket", {**labels, "le": INFINITY}, count)
        metric.add_sample(f"{definition.name}_sum", labels, value.total)
        metric.add_sample(f"{definition.name}_count", labels, count)


class _Single(Collector):
    """A collector of one metric, as ``generate_latest`` wants it."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


def _text(metric: Metric) -> bytes:
    return generate_latest(_Single(metric))


def _without_heading(text: bytes) -> bytes:
    """HELP and TYPE stand above the first samples of a metric only."""
    return text.split(b"\n", 2)[2]
