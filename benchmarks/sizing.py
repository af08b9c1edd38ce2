"""Cores, lines, memory and disk of regions by what they carry, computed from recorded outcomes.

A message is produced with XADD, read by a group and acknowledged.  It costs the region in which
that happens ``serve``; each other region applies it, for ``apply``.  With R regions that share the
messages evenly, a node's processor time for a message of anywhere is

    serve / R + apply (R - 1) / R

and while one region is away, the same with R - 1.  To that comes what a node takes while nothing
happens.  Units are bytes and microseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.aims import Outcomes, shown
from benchmarks.measured import Outcome
from benchmarks.parts.cold import SENSOR
from benchmarks.parts.part import OURS
from benchmarks.scaling import GIB, fitted
from crdtstream.settings.node_settings import NodeSettings

REGIONS: Final = 3
RATES: Final = (100, 1_000, 10_000, 50_000)
DAYS_KEPT: Final = 7
SECONDS_PER_DAY: Final = 86_400
MIB: Final = 1 << 20
# The process of an empty node, from the sources (docs/install.md), and the end of the log that it
# keeps in memory (docs/storage.md).
PROCESS_MIB: Final = 98
NODE_MEMORY: Final = (PROCESS_MIB + 16) * MIB
# Data that cannot leave memory, and what a command needs: docs/storage.md.
SPARE_MEMORY: Final = 64 * MIB

_FSYNC: Final = "everysec"


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of a message, of recorded medians.

    Attributes:
        alone_us: to serve it in three requests that each wait for the one before.
        pipelined_us: in pipelines of 16 XADDs, and reads of 100.
        apply_us: to apply it in another region.
        idle: of a core, what a connected node takes without messages.
        line_alone: bytes to one other region, if each message is a batch by itself.
        line_batched: the same at 10,000 messages a second.
        memory: bytes of an entry that is on disk only.
        disk: bytes of it in the folder.
    """

    alone_us: float
    pipelined_us: float
    apply_us: float
    idle: float
    line_alone: float
    line_batched: float
    memory: float
    disk: float


def costs_of(outcomes: Outcomes) -> Costs | None:
    """None: something of it is not recorded."""
    names = ("latency", "xadd", "consume", "curve-regions", "idle", "wire", "cold")
    if any(name not in outcomes for name in names):
        return None
    wire, cold = outcomes["wire"], outcomes["cold"]
    return Costs(
        alone_us=_median(outcomes["latency"], _FSYNC, "cpu_us"),
        pipelined_us=_median(outcomes["xadd"], f"{_FSYNC}, -P 16", "cpu_us")
        + _median(outcomes["consume"], _FSYNC, "cpu_us"),
        apply_us=fitted(outcomes["curve-regions"]).slope,
        idle=_median(outcomes["idle"], "3 nodes", "core_percent") / 100,
        line_alone=_median(wire, "one client, one by one", "connection_bytes"),
        line_batched=_median(wire, "10,000 messages a second", "connection_bytes"),
        memory=_median(cold, SENSOR, "memory_bytes"),
        disk=_median(cold, SENSOR, "disk_bytes"),
    )


def _median(outcome: Outcome, case: str, figure: str) -> float:
    spread = outcome.spread(case, OURS, figure)
    assert spread is not None, f"{outcome.part}: {case} has no {figure}"
    return spread.median


def cost_rows(outcomes: Outcomes) -> Iterator[Sequence[str]]:
    """The costs of a message, each with the part that measured it."""
    costs = costs_of(outcomes)
    if costs is None:
        return
    yield ["a message", "takes", "measured by"]
    yield ["served, each request waits for the one before", _us(costs.alone_us), "`latency`"]
    yield [
        "served, XADDs in pipelines of 16, reads of 100",
        _us(costs.pipelined_us),
        "`xadd`, `consume`",
    ]
    yield ["applied in another region", _us(costs.apply_us), "`curve-regions`, the slope"]
    yield ["none: a connected node that idles", f"{shown(costs.idle)} of a core", "`idle`"]
    yield ["to each other region, a batch by itself", _bytes(costs.line_alone), "`wire`"]
    yield ["to each other region, batched", _bytes(costs.line_batched), "`wire`"]
    yield ["in memory, when it is on disk only", _bytes(costs.memory), "`cold`"]
    yield ["in the folder", _bytes(costs.disk), "`cold`"]


def _us(value: float) -> str:
    return f"{shown(value)} µs of a core"


def _bytes(value: float) -> str:
    return f"{shown(value)} B"


def size_rows(outcomes: Outcomes) -> Iterator[Sequence[str]]:
    """For each rate of all regions together: a node of one of them."""
    costs = costs_of(outcomes)
    if costs is None:
        return
    yield [
        "messages/s of all regions",
        "entries kept",
        "cores, one by one",
        "cores, pipelines",
        "the same, one region away",
        "to each other region, kbit/s",
        "memory, GiB",
        "disk, GiB",
    ]
    for rate in RATES:
        entries = rate * SECONDS_PER_DAY * DAYS_KEPT
        yield [
            f"{rate:,}",
            f"{entries:,}",
            _cores(costs, rate, costs.alone_us, REGIONS),
            _cores(costs, rate, costs.pipelined_us, REGIONS),
            _cores(costs, rate, costs.pipelined_us, REGIONS - 1),
            " … ".join(
                shown(rate / REGIONS * size * 8 / 1000)
                for size in (costs.line_batched, costs.line_alone)
            ),
            shown((NODE_MEMORY + SPARE_MEMORY + entries * costs.memory) / GIB),
            shown(disk_of(entries, costs.disk) / GIB),
        ]


def disk_of(entries: int, entry_bytes: float) -> float:
    """The folder's largest size with default settings, while a region is away: docs/storage.md."""
    settings = NodeSettings.model_fields
    log: int = settings["checkpoint_log_bytes"].default
    backlog: int = settings["replication_backlog_size"].default
    return 2 * entries * entry_bytes + 3 * log + backlog + 16 * MIB


def cores(costs: Costs, rate: float, serve_us: float, regions: int) -> float:
    """Cores of a node, of which it can use little more than one."""
    work_us = (serve_us + costs.apply_us * (regions - 1)) / regions
    return costs.idle + rate * work_us / 1e6


def _cores(costs: Costs, rate: float, serve_us: float, regions: int) -> str:
    found = cores(costs, rate, serve_us, regions)
    return shown(found) if found <= 1 else f"{shown(found)}: too much"
