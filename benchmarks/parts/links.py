"""Processor time of regions whose links speak mutual TLS, beside that of plain links.

Clients reach both without TLS, so all that differs is how the three nodes speak to each other.
"""

from functools import partial
from typing import Final

from benchmarks.measured import in_turns
from benchmarks.parts.part import Found, Options, Part
from benchmarks.parts.regions import PIPELINE, REGIONS, REQUESTS, measure
from benchmarks.systems import regions, started

FSYNC: Final = "everysec"
PLAIN: Final = "plain links"
# As the links begin, and a node's files are new.
WARM_UP: Final = 300 * PIPELINE


def run(options: Options) -> Found:
    requests = options.scaled(REQUESTS)
    starters = {
        PLAIN: regions(FSYNC, count=REGIONS),
        "mutual TLS": regions(FSYNC, count=REGIONS, tls_links=True),
    }
    with started(starters) as systems:
        for system in systems.values():
            measure(system, 1, WARM_UP)
        return Found(
            in_turns(
                options.rounds,
                [
                    (f"{REGIONS} nodes, -P 16", name, partial(measure, system, 1, requests))
                    for name, system in systems.items()
                ],
            )
        )


PART: Final = Part(
    name="links",
    about="XADD, -P 16, 50 clients at one of three regions, appendfsync everysec; processor time"
    " of all three nodes for a message until all have every entry, by mutual TLS between the"
    " regions and without it.",
    reference=PLAIN,
    run=run,
)
