"""Version vectors as Spark keeps them: offsets in JSON, region → how many of its effects.

    {"1": 4711, "2": 17, "database": "5f0c2b7e90a1d3c4b5e6f708192a3b4c"}

A region that is not named has none.  Dots are numbered per region over all streams, so one such
vector says what is read of every stream and lane; a late entry with a low ID has a high dot.

A region that goes on in another folder begins a new incarnation, and uses numbers again that only
the folder before had.  So a number names its incarnation, as in the tokens of nodes.  A number of a
region's first incarnation names none, and most regions never have another one.

    {"1": "4711@1764012345678", "2": 17, "database": "5f0c2b7e90a1d3c4b5e6f708192a3b4c"}

The text behind a number, its *mark*, has a meaning for nodes only: here it is kept and returned.
Its first part names the incarnation; a part that may follow belongs to this very number.

Beside the regions an offset names their database, and may say more about lanes (see
``stream_source``), under names that are no numbers.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from crdtstream.v1 import effects_pb2, query_pb2

U64_MAX: Final = 2**64 - 1
REGION_MAX: Final = 1023

# Name in an offset beside the vector: the identity of its database, which offsets of an earlier
# version lack.
DATABASE: Final = "database"
# By lane, what was lost before the query began.
LOST_BEFORE: Final = "lostBefore"
# Names in a progress report: by lane, entries that are not planned yet; and by region, how many
# named effects exist nowhere.
LAG_ENTRIES: Final = "lagEntries"
LOST_EFFECTS: Final = "lostEffects"
# The ends of the micro-batch's tasks, except the last one: [region, dot].
CUTS: Final = "cuts"


_UID: Final = re.compile("[0-9a-f]{32}")
# A number and its mark; and of a mark what other numbers of the incarnation have as well.
_MARKED: Final = re.compile("([0-9]{1,20})([@~][0-9A-Za-z._~-]{1,64})")
_OF_INCARNATION: Final = re.compile("(@[0-9]+)?")


NOTHING: Final[Mapping[int, int]] = MappingProxyType({})
NO_MARKS: Final[Mapping[int, str]] = MappingProxyType({})


class VectorError(ValueError):
    """Not a version vector; the text says why."""


class Vector(dict[int, int]):
    """Region → how many of its effects.

    Attributes:
        marks: by region what a token has behind the number, such as ``@1764012345678``; of most
            regions nothing.
    """

    def __init__(
        self, counts: Mapping[int, int] = NOTHING, marks: Mapping[int, str] = NO_MARKS
    ) -> None:
        super().__init__(counts)
        self.marks = {region: mark for region, mark in marks.items() if mark and region in self}

    def __eq__(self, other: object) -> bool:
        marks = other.marks if isinstance(other, Vector) else {}
        return isinstance(other, dict) and super().__eq__(other) and self.marks == marks

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Vector, (dict(self), self.marks)

    def mark_at(self, region: int, n: int) -> str:
        """The mark of a number of the same incarnation as this vector's is."""
        mark = self.marks.get(region, "")
        if n == self.get(region):
            return mark
        of_incarnation = _OF_INCARNATION.match(mark)
        return of_incarnation[0] if of_incarnation else ""

    def at(self, counts: Mapping[int, int]) -> "Vector":
        """Other numbers of the same incarnations."""
        return Vector(counts, {region: self.mark_at(region, n) for region, n in counts.items()})

    def between(self, above: "Vector", counts: Mapping[int, int]) -> "Vector":
        """Numbers from ``above`` up to this vector, the first ones as ``above`` names them."""
        marks = {
            region: (above if n == above.get(region, 0) else self).mark_at(region, n)
            for region, n in counts.items()
        }
        return Vector(counts, marks)

    @property
    def token(self) -> str:
        """The text that nodes take and return."""
        parts = [
            f"{region}:{n}{self.marks.get(region, '')}" for region, n in sorted(self.items()) if n
        ]
        return ",".join(parts) or "0"


def parse_vector(offset: object) -> Vector:
    """A vector from JSON; other values in an offset or a progress report are ignored.

    Raises:
        VectorError: it is none.
    """
    if not isinstance(offset, dict):
        raise VectorError("not a JSON object of region to number")
    vector, marks = {}, {}
    for region, told in offset.items():
        if region in (DATABASE, LOST_BEFORE, LAG_ENTRIES, LOST_EFFECTS, CUTS):
            continue
        if not (str(region).isascii() and str(region).isdigit() and 1 <= int(region) <= REGION_MAX):
            raise VectorError(f"{region!r} is no region (1 to {REGION_MAX})")
        n, mark = _number_and_mark(told)
        if n is None or not 0 <= n <= U64_MAX:
            raise VectorError(f"{told!r} of region {region} is no number of effects")
        vector[int(region)], marks[int(region)] = n, mark
    return Vector(dict(sorted(vector.items())), marks)


def _number_and_mark(told: object) -> tuple[int | None, str]:
    """A component of an offset: a number, or the text of one with a mark."""
    if isinstance(told, str):
        match = _MARKED.fullmatch(told)
        return (int(match[1]), match[2]) if match else (None, "")
    return (told if isinstance(told, int) and not isinstance(told, bool) else None), ""


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
    """Ends of tasks in an offset; None if it has none."""
    if CUTS not in offset:
        return None
    return [(int(origin), int(n)) for origin, n in offset[CUTS]]


def offset_of(vector: Mapping[int, int], database_uid: str = "") -> dict[str, Any]:
    """The vector as Spark's JSON; equal vectors have equal texts."""
    marks = vector.marks if isinstance(vector, Vector) else {}
    regions: dict[str, Any] = {
        str(region): f"{n}{marks[region]}" if region in marks else n
        for region, n in sorted(vector.items())
        if n
    }
    return regions | ({DATABASE: database_uid} if database_uid else {})


def vector_of(message: effects_pb2.VersionVector, token: str = "") -> Vector:
    """The vector in a message; its marks are in the token.

    Raises:
        VectorError: the token is none.
    """
    counts = dict(zip(message.regions, message.counts, strict=True))
    return Vector(counts, _vector_of_token(token).marks if token else {})


def _vector_of_token(token: str) -> Vector:
    """Of ``5f0c…/1:42@1764012345678,2:17``."""
    text = token.rpartition("/")[2]
    pairs = [part.partition(":") for part in text.split(",")] if text != "0" else []
    return parse_vector({region: int(n) if n.isdigit() else n for region, _, n in pairs})


def message_of(vector: Mapping[int, int]) -> effects_pb2.VersionVector:
    """The message of a vector."""
    pairs = sorted((region, n) for region, n in vector.items() if n)
    return effects_pb2.VersionVector(
        regions=[region for region, _ in pairs], counts=[n for _, n in pairs]
    )


def join(vectors: Iterable[Vector]) -> Vector:
    """The least vector that covers all of them; equal numbers are named as the last names them."""
    counts: dict[int, int] = {}
    marks: dict[int, str] = {}
    for vector in vectors:
        for region, n in vector.items():
            if n >= counts.get(region, 0):
                counts[region], marks[region] = n, vector.marks.get(region, "")
    return Vector(dict(sorted(counts.items())), marks)


def beyond(vector: Vector, base: Mapping[int, int]) -> Vector:
    """Part of ``vector`` that is ahead of ``base``; empty if ``base`` covers it."""
    ahead = {region: n for region, n in sorted(vector.items()) if n > base.get(region, 0)}
    return vector.at(ahead)


class Ends:
    """Final ends of effects, as nodes reported them: of removed regions, and of incarnations."""

    def __init__(self) -> None:
        self._of_regions: dict[int, query_pb2.EndOfRegion] = {}
        self._of_marks: dict[tuple[int, str], query_pb2.EndOfRegion] = {}

    def hear(self, position: query_pb2.Position, asked: Vector) -> None:
        """Note the answer of a node that was asked about this vector."""
        for end in position.ends:
            self._of_regions[end.region] = end
        for end in position.lost:
            mark = (end.region, asked.marks.get(end.region, ""))
            known = self._of_marks.get(mark)
            if known is None or end.last_n < known.last_n:
                self._of_marks[mark] = end

    def of(self, region: int, vector: Vector) -> query_pb2.EndOfRegion | None:
        """End of a region's effects, as a vector names them; None: no end is known."""
        of_mark = self._of_marks.get((region, vector.marks.get(region, "")))
        found = [one for one in (of_mark, self._of_regions.get(region)) if one is not None]
        return min(found, key=lambda end: end.last_n, default=None)

    def within(self, vector: Vector) -> Vector:
        """The vector without what lies beyond such ends, and so exists nowhere."""
        ends = {region: self.of(region, vector) for region in vector}
        return vector.at(
            {
                region: n if (end := ends[region]) is None else min(n, end.last_n)
                for region, n in vector.items()
            }
        )


def told_lost(end: query_pb2.EndOfRegion) -> str:
    """The sentence of the nodes for effects beyond the end of a region."""
    return f"LOST region {end.region} {end.why}; of its effects {end.last_n + 1}… nothing exists"


def cut_by_dots(
    above: Mapping[int, int], upto: Mapping[int, int], *, parts: int
) -> list[tuple[dict[int, int], dict[int, int]]]:
    """Cut what lies between two vectors into at most ``parts`` parts of equally many dots."""
    weighed = [
        (origin, above.get(origin, 0), n, n - above.get(origin, 0)) for origin, n in upto.items()
    ]
    return cut_at(above, upto, cuts_by_entries(weighed, parts=parts))


def cuts_by_entries(
    pieces: Sequence[tuple[int, int, int, int]], *, parts: int
) -> list[tuple[int, int]]:
    """Cuts that make parts of about equally many entries.

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
        # Change of the number of entries per dot, by the dot where it changes.
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
    above: Mapping[int, int], upto: Mapping[int, int], cuts: Sequence[tuple[int, int]]
) -> list[tuple[dict[int, int], dict[int, int]]]:
    """Cut what lies between two vectors at such cuts; no part is empty."""
    parts: list[tuple[dict[int, int], dict[int, int]]] = [({}, {})]
    for origin, upto_n in sorted(upto.items()):
        at = above.get(origin, 0)
        inside = sorted({n for one, n in cuts if one == origin and at < n <= upto_n})
        for n in [*inside, *([upto_n] if not inside or inside[-1] < upto_n else [])]:
            parts[-1][0][origin], parts[-1][1][origin] = at, n
            at = n
            if n in inside:
                parts.append(({}, {}))
    return [part for part in parts if part[1]]
