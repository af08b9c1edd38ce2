"""Version vectors as Spark keeps them: offsets in JSON, region → how many of its effects.

    {"1": 4711, "2": 17, "database": "5f0c2b7e90a1d3c4b5e6f708192a3b4c"}

A region that is not named has none.  Dots are numbered per region over all streams, so one such
vector says of every stream and lane what is read; a late entry with a low ID has a high dot.
Beside the regions an offset says which database they are of, and may say more about lanes (see
``stream_source``), by names that are no numbers.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from crdtstream.v1 import effects_pb2, query_pb2

Vector: TypeAlias = dict[int, int]

U64_MAX: Final = 2**64 - 1
REGION_MAX: Final = 1023

# What an offset says beside the vector: the identity of its database, which offsets of an earlier
# version lack.
DATABASE: Final = "database"
# By lane, what was lost before the query began.
LOST_BEFORE: Final = "lostBefore"
# What a progress report says beside it: by lane, what is not planned yet; and by region, how many
# effects were named that exist nowhere.
LAG_ENTRIES: Final = "lagEntries"
LOST_EFFECTS: Final = "lostEffects"
# Where the tasks of the micro-batch end, but for the last: [region, dot].
CUTS: Final = "cuts"


_UID: Final = re.compile("[0-9a-f]{32}")


class VectorError(ValueError):
    """Not a version vector; the text says why."""


def parse_vector(offset: object) -> Vector:
    """A vector from what JSON holds; what else an offset or a progress report says is passed over.

    Raises:
        VectorError: it is none.
    """
    if not isinstance(offset, dict):
        raise VectorError("not a JSON object of region to number")
    vector = {}
    for region, n in offset.items():
        if region in (DATABASE, LOST_BEFORE, LAG_ENTRIES, LOST_EFFECTS, CUTS):
            continue
        if not (str(region).isascii() and str(region).isdigit() and 1 <= int(region) <= REGION_MAX):
            raise VectorError(f"{region!r} is no region (1 to {REGION_MAX})")
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= U64_MAX:
            raise VectorError(f"{n!r} of region {region} is no number of effects")
        vector[int(region)] = n
    return dict(sorted(vector.items()))


def parse_database(offset: Mapping[str, Any]) -> str:
    """Identity of the database that an offset is of; empty if it does not say.

    Raises:
        VectorError: it is no identity.
    """
    uid = offset.get(DATABASE, "")
    if DATABASE in offset and not (isinstance(uid, str) and _UID.fullmatch(uid)):
        raise VectorError(f"{uid!r} is no identity of a database (32 hexadecimal digits)")
    return str(uid)


def parse_cuts(offset: Mapping[str, Any]) -> list[tuple[int, int]] | None:
    """Where an offset says that tasks end; None if it does not say."""
    if CUTS not in offset:
        return None
    return [(int(origin), int(n)) for origin, n in offset[CUTS]]


def offset_of(vector: Mapping[int, int], database_uid: str = "") -> dict[str, Any]:
    """The vector as Spark's JSON; equal vectors give equal text."""
    regions = {str(region): n for region, n in sorted(vector.items()) if n}
    return regions | ({DATABASE: database_uid} if database_uid else {})


def vector_of(message: effects_pb2.VersionVector) -> Vector:
    """The vector in a message."""
    return dict(zip(message.regions, message.counts, strict=True))


def message_of(vector: Mapping[int, int]) -> effects_pb2.VersionVector:
    """The message of a vector."""
    pairs = sorted((region, n) for region, n in vector.items() if n)
    return effects_pb2.VersionVector(
        regions=[region for region, _ in pairs], counts=[n for _, n in pairs]
    )


def join(vectors: Iterable[Mapping[int, int]]) -> Vector:
    """The least vector that covers all of them."""
    joined: Vector = {}
    for vector in vectors:
        for region, n in vector.items():
            joined[region] = max(joined.get(region, 0), n)
    return dict(sorted(joined.items()))


def beyond(vector: Mapping[int, int], base: Mapping[int, int]) -> Vector:
    """Where ``vector`` is ahead of ``base``; empty if ``base`` covers it."""
    return {region: n for region, n in sorted(vector.items()) if n > base.get(region, 0)}


def within(vector: Mapping[int, int], ends: Mapping[int, query_pb2.EndOfRegion]) -> Vector:
    """The vector without what lies beyond the ends of regions, and so exists nowhere."""
    return {
        region: min(n, ends[region].last_n) if region in ends else n for region, n in vector.items()
    }


def told_lost(end: query_pb2.EndOfRegion) -> str:
    """The sentence of the nodes for effects beyond the end of a region."""
    return f"LOST region {end.region} {end.why}; of its effects {end.last_n + 1}… nothing exists"


def cut_by_dots(above: Vector, upto: Vector, *, parts: int) -> list[tuple[Vector, Vector]]:
    """What lies between two vectors, in at most ``parts`` parts of equally many dots."""
    weighed = [
        (origin, above.get(origin, 0), n, n - above.get(origin, 0)) for origin, n in upto.items()
    ]
    return cut_at(above, upto, cuts_by_entries(weighed, parts=parts))


def cuts_by_entries(
    pieces: Sequence[tuple[int, int, int, int]], *, parts: int
) -> list[tuple[int, int]]:
    """Where to cut so that parts have about as many entries each.

    region 1  ├──────────┼────┤
    region 2                  ├─────┼───┤
    part            1           2     3

    Args:
        pieces: of each a region, dots above ``n`` and up to another one, and how many entries lie
            there, spread evenly.

    Returns:
        The end of each part but the last, as a region and a dot; ascending.
    """
    each = max(1, -(-sum(entries for *_, entries in pieces) // parts))
    cuts: list[tuple[int, int]] = []
    # Entries of the part that is being filled.
    filled = 0.0
    for origin in sorted({origin for origin, *_ in pieces}):
        # How many entries there are to a dot, from where on.
        steps: dict[int, float] = defaultdict(float)
        for one, above_n, upto_n, entries in pieces:
            if one == origin and upto_n > above_n:
                steps[above_n] += entries / (upto_n - above_n)
                steps[upto_n] -= entries / (upto_n - above_n)
        at, density = 0, 0.0
        for n in sorted(steps):
            while at < n and len(cuts) + 1 < parts and filled + density * (n - at) >= each:
                at = min(n, at + max(1, math.ceil((each - filled) / density)))
                cuts.append((origin, at))
                filled = 0.0
            filled += density * max(0, n - at)
            at, density = max(at, n), density + steps[n]
    return cuts


def cut_at(
    above: Vector, upto: Vector, cuts: Sequence[tuple[int, int]]
) -> list[tuple[Vector, Vector]]:
    """What lies between two vectors, in the parts that such cuts make; none of them empty."""
    parts: list[tuple[Vector, Vector]] = [({}, {})]
    for origin, upto_n in sorted(upto.items()):
        at = above.get(origin, 0)
        inside = sorted({n for one, n in cuts if one == origin and at < n <= upto_n})
        for n in [*inside, *([upto_n] if not inside or inside[-1] < upto_n else [])]:
            parts[-1][0][origin], parts[-1][1][origin] = at, n
            at = n
            if n in inside:
                parts.append(({}, {}))
    return [part for part in parts if part[1]]
