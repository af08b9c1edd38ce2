"""All parts, in the order in which they run."""

from typing import Final

from benchmarks.parts import (
    bootstrap,
    bulk,
    catch_up,
    cold,
    consume,
    curves,
    floor,
    idle,
    join,
    large,
    latency,
    links,
    pythons,
    regions,
    tls,
    users,
    visibility,
    wire,
    xadd,
)
from benchmarks.parts.part import Part

PARTS: Final[dict[str, Part]] = {
    part.name: part
    for part in (
        xadd.PART,
        floor.PART,
        tls.PART,
        users.PART,
        regions.PART,
        links.PART,
        consume.PART,
        latency.PART,
        visibility.PART,
        wire.PART,
        catch_up.PART,
        bootstrap.PART,
        join.PART,
        bulk.PART,
        large.PART,
        cold.PART,
        idle.PART,
        pythons.PART,
        *curves.PARTS,
    )
}
