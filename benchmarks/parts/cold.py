"""Bytes of an entry that nobody reads: memory and disk, after a checkpoint and a restart."""

from functools import partial
from typing import Final

from benchmarks import nodes
from benchmarks.measured import in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.processes import wait_for_ping, wait_until
from benchmarks.systems import System, redis_servers, regions, started

ENTRIES: Final = 1_000_000
CHECKPOINT_SECONDS_MAX: Final = 600
REDIS: Final = "Redis"
KEY: Final = nodes.KEY
SENSOR: Final = "sensor, 4 fields"
SHAPES: Final = {"field value": nodes.small, SENSOR: nodes.sensor}


def run(options: Options) -> Found:
    entries = options.scaled(ENTRIES, least=1_000)
    with started({REDIS: redis_servers(), OURS: regions()}) as systems:
        return Found(
            in_turns(
                options.rounds,
                [
                    (case, name, partial(measure, system, case, entries))
                    for case in SHAPES
                    for name, system in systems.items()
                ],
            )
        )


def measure(system: System, case: str, entries: int) -> dict[str, float]:
    """Bytes an entry: in memory for the key, and of a region in its checkpoint."""
    nodes.write(system.ports[0], SHAPES[case], entries)
    figures = {}
    if system.name == OURS:
        client = system.client()
        client.bgsave()
        wait_until(partial(is_saved, system), "a checkpoint", CHECKPOINT_SECONDS_MAX)
        figures["disk_bytes"] = client.info("persistence")["checkpoint_bytes"] / entries
        system.nodes.stop(0)
        system.nodes.start(0)
        wait_for_ping(system.ports[0])
    usage = system.client().memory_usage(KEY, samples=0)
    system.drop(KEY.decode())
    return {"memory_bytes": usage / entries} | figures


def is_saved(system: System) -> bool:
    info = system.client().info("persistence")
    return not info["rdb_bgsave_in_progress"] and info["rdb_changes_since_last_save"] == 0


PART: Final = Part(
    name="cold",
    about="Bytes for an entry of a stream that nobody has read since a restart: in memory"
    " (MEMORY USAGE), and in the region's checkpoint on disk.",
    reference=REDIS,
    run=run,
)
