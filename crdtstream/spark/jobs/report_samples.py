"""Samples of the regions' present state: several, as a single one says little.

Lag is of each directed pair: how many effects of the source the target has yet to apply, and how
many milliseconds the newest batch took (with the difference of the two clocks in it).
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from crdtstream.spark.jobs.regions import Regions
from crdtstream.spark.vectors import Vector, offset_of, vector_of
from crdtstream.v1 import admin_pb2

LAG_SCHEMA: Final = (
    "sampled_at TIMESTAMP, source INT, target INT, state STRING, lag_ms LONG, lag_effects LONG,"
    " lag_ms_p50 LONG, lag_ms_p95 LONG, lag_ms_p99 LONG, lag_ms_max LONG, silent_ms LONG,"
    " clock_skew_ms LONG, reconnects LONG, error STRING"
)
REGIONS_SCHEMA: Final = (
    "region INT, address STRING, database_uid STRING, version STRING, seconds DOUBLE,"
    " issued_per_second DOUBLE, applied_per_second DOUBLE, effects_issued LONG, vv STRING,"
    " lacks LONG, keys LONG, clients LONG, log_bytes LONG, fault STRING"
)


@dataclass(frozen=True, slots=True)
class Sample:
    """Status of all regions at about one moment; by region, ascending."""

    at_seconds: float
    statuses: Mapping[int, admin_pb2.StatusReply]


def take_samples(regions: Regions, *, seconds: float, interval_seconds: float) -> list[Sample]:
    """At least two samples, the last one ``seconds`` behind the first."""
    began = time.time()
    found = [Sample(began, regions.statuses())]
    while len(found) < 2 or time.time() < began + seconds:
        time.sleep(max(0.0, min(interval_seconds, began + seconds - time.time())))
        found.append(Sample(time.time(), regions.statuses()))
    return found


@dataclass(frozen=True, slots=True)
class LinkSample:
    """One directed pair in one sample; all attributes except the time are columns of ``lag``."""

    at_seconds: float
    source: int
    target: int
    state: str
    lag_ms: int
    lag_effects: int
    lag_ms_p50: int
    lag_ms_p95: int
    lag_ms_p99: int
    lag_ms_max: int
    silent_ms: int | None
    clock_skew_ms: int
    reconnects: int
    error: str


def link_samples(samples: Sequence[Sample]) -> list[LinkSample]:
    """All pairs in all samples, ascending by source, target and time."""
    found = [
        _link_sample(sample.at_seconds, status, link)
        for sample in samples
        for status in sample.statuses.values()
        for link in status.links
    ]
    return sorted(found, key=lambda one: (one.source, one.target, one.at_seconds))


def _link_sample(
    at_seconds: float, status: admin_pb2.StatusReply, link: admin_pb2.LinkStatus
) -> LinkSample:
    return LinkSample(
        at_seconds=at_seconds,
        source=link.peer,
        target=status.region,
        state=admin_pb2.LinkStatus.State.Name(link.state).lower(),
        lag_ms=link.lag_ms,
        lag_effects=link.lag_effects,
        lag_ms_p50=link.lag_ms_p50,
        lag_ms_p95=link.lag_ms_p95,
        lag_ms_p99=link.lag_ms_p99,
        lag_ms_max=link.lag_ms_max,
        # By the clock of the one that heard; None: it never did.
        silent_ms=max(0, status.now_ms - link.heard_ms) if link.heard_ms else None,
        clock_skew_ms=link.clock_skew_ms,
        reconnects=link.reconnects,
        error=link.error,
    )


@dataclass(frozen=True, slots=True)
class RegionSummary:
    """Summary of one region from the first sample to the last: a row of the table ``regions``."""

    region: int
    address: str
    database_uid: str
    version: str
    seconds: float
    issued_per_second: float
    applied_per_second: float
    effects_issued: int
    vv: Mapping[int, int]
    lacks: int
    keys: int
    clients: int
    log_bytes: int
    fault: str


def region_summaries(regions: Regions, samples: Sequence[Sample]) -> list[RegionSummary]:
    """Of those that answered at first and at last, ascending by region."""
    first, last = samples[0].statuses, samples[-1].statuses
    vectors = {region: vector_of(status.vv) for region, status in last.items()}
    return [
        _region_summary(one.address, samples, one.region, vectors)
        for one in regions.addresses
        if one.region in first and one.region in last
    ]


def _region_summary(
    address: str, samples: Sequence[Sample], region: int, vectors: Mapping[int, Vector]
) -> RegionSummary:
    first, last = samples[0].statuses[region], samples[-1].statuses[region]
    # By the region's own clock: how long an answer took to come does not count.
    seconds = max(1, last.now_ms - first.now_ms) / 1_000
    before, vv = vector_of(first.vv), vectors[region]
    gained = {origin: n - before.get(origin, 0) for origin, n in vv.items()}
    most = {
        origin: max(v.get(origin, 0) for v in vectors.values())
        for v in vectors.values()
        for origin in v
    }
    return RegionSummary(
        region=region,
        address=address,
        database_uid=last.database_uid,
        version=last.version,
        seconds=seconds,
        issued_per_second=gained.get(region, 0) / seconds,
        applied_per_second=sum(gained.values()) / seconds,
        effects_issued=vv.get(region, 0),
        vv=vv,
        lacks=sum(n - vv.get(origin, 0) for origin, n in most.items()),
        keys=last.keys,
        clients=last.clients,
        log_bytes=last.log_bytes,
        fault=last.fault,
    )


def lag_table(spark: SparkSession, links: Sequence[LinkSample]) -> DataFrame:
    """``LAG_SCHEMA``."""
    rows = [(datetime.fromtimestamp(one.at_seconds, UTC), *_values(one)[1:]) for one in links]
    return spark.createDataFrame(rows, LAG_SCHEMA)


def regions_table(spark: SparkSession, summaries: Sequence[RegionSummary]) -> DataFrame:
    """``REGIONS_SCHEMA``."""
    rows = [
        tuple(json.dumps(offset_of(v)) if isinstance(v, dict) else v for v in _values(one))
        for one in summaries
    ]
    return spark.createDataFrame(rows, REGIONS_SCHEMA)


def _values(row: LinkSample | RegionSummary) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in row.__slots__)
