"""The map: regions on an ellipse, and two arrows between each pair, one for each direction.

╭───╮ ──2→1──> ╭───╮       An arrow bends to the left of its way, so that the two of a
│ 2 │          │ 1 │       pair lie apart.  Its label is the lag, in one unit.  A link that
╰───╯ <──1→2── ╰───╯       is not up has another colour and is broken as well.

Labels have places for a text of their longest form: no two meet, and none covers a region.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from crdtstream.console import words
from crdtstream.console.cells import Cells
from crdtstream.console.layout import COLOURS
from crdtstream.page.markup import Markup, element

WIDTH: Final = 440.0
HEIGHT: Final = 350.0
# More regions have more labels, seven have 42.
HEIGHTS: Final = {5: 450.0, 6: 450.0, 7: 550.0}
RADIUS: Final = 24.0
# Between an arrow's end and the region's circle.
GAP: Final = 7.0
ARROW: Final = 9.0
# How far an arrow bends, as a share of its length.
BEND: Final = 0.14
# Around the regions, for their names and for labels.
MARGIN: Final = 30.0
# From an arrow to the middle of its label, which is wider than high.
LABEL_ACROSS: Final = 31.0
LABEL_ABOVE: Final = 12.0
# Half of the space of a label, and of a region's name.
LABEL_HALF: Final = (25.0, 8.5)
NAME_HALF: Final = (48.0, 9.0)
NAME_LENGTH_MAX: Final = 16
# A label is as near to the middle of its arrow as it can be, by steps of this share of the arrow.
LABEL_STEP: Final = 0.02
LABEL_STEPS: Final = 36
# More regions than this are a knot; the tables have them all.
REGIONS_MAX: Final = 7


class Place(Protocol):
    """A region on the map."""

    @property
    def region(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def member(self) -> str: ...


class Way(Protocol):
    """A link on the map: region ``to`` pulls from region ``source``."""

    @property
    def source(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...


class Point(NamedTuple):
    """A place on the map."""

    x: float
    y: float


class Space(NamedTuple):
    """A part of the map that has something on it: its middle, and half of its width and height."""

    middle: Point
    across: float
    down: float

    def shared(self, other: "Space") -> float:
        """The area that both have."""
        width = self.across + other.across - abs(self.middle.x - other.middle.x)
        height = self.down + other.down - abs(self.middle.y - other.middle.y)
        return max(0.0, width) * max(0.0, height)


class Curve(NamedTuple):
    """An arrow: a curve of one bend to the ``left`` of its way, up to the ``back`` of its head."""

    start: Point
    middle: Point
    back: Point
    tip: Point
    left: Point

    def at(self, share: float) -> Point:
        """The point after this share of it."""
        weights = ((1 - share) ** 2, 2 * share * (1 - share), share**2)
        points = (self.start, self.middle, self.back)
        x, y = (sum(w * p[axis] for w, p in zip(weights, points, strict=True)) for axis in (0, 1))
        return Point(x, y)


def region_map(
    regions: Sequence[Place], links: Sequence[Way], cells: Cells, *, own: int
) -> Markup | None:
    """The map; None if there are too many regions for one, or only one."""
    live = [one for one in regions if one.member != "removed"]
    if not 2 <= len(live) <= REGIONS_MAX:
        return None
    places = drawn(len(live))
    at = {one.region: index for index, one in enumerate(live)}
    return element(
        "svg",
        [_arrow(link, places.curves[at[link.source], at[link.to]]) for link in links],
        [_region(one, places, at[one.region], cells, is_own=one.region == own) for one in live],
        # Above all arrows, which would cross them.
        [_label(link, places.labels[at[link.source], at[link.to]], cells) for link in links],
        class_="map",
        viewBox=_view_box(places.regions),
        role="img",
        aria_label="Map of regions and links; the tables below have the same figures",
    )


def _view_box(places: Collection[Point]) -> str:
    """The part of the map that has something on it, with room for names and labels."""
    top = min(place.y for place in places) - RADIUS - MARGIN
    bottom = max(place.y for place in places) + RADIUS + MARGIN
    return f"0 {top:.0f} {WIDTH:.0f} {bottom - top:.0f}"


class Drawn(NamedTuple):
    """Places for a number of regions, and by two of them the arrow and its label."""

    regions: tuple[Point, ...]
    names: tuple[Point, ...]
    curves: dict[tuple[int, int], Curve]
    labels: dict[tuple[int, int], Point]


@lru_cache(maxsize=REGIONS_MAX)
def drawn(count: int) -> Drawn:
    """Regions clockwise; two stand side by side, of more the first one on top."""
    height = HEIGHTS.get(count, HEIGHT)
    begin = math.pi if count == 2 else -math.pi / 2
    across, down = WIDTH / 2 - RADIUS - MARGIN, height / 2 - RADIUS - MARGIN
    angles = [begin + 2 * math.pi * at / count for at in range(count)]
    regions = tuple(
        Point(WIDTH / 2 + across * math.cos(one), height / 2 + down * math.sin(one))
        for one in angles
    )
    # Outside of the ring, where no arrow is.
    names = tuple(
        Point(one.x, one.y + (RADIUS + 17 if one.y >= height / 2 else -RADIUS - 9))
        for one in regions
    )
    taken = [Space(one, RADIUS, RADIUS) for one in regions]
    taken += [Space(Point(one.x, one.y - 4), *NAME_HALF) for one in names]
    pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
    curves = {(one, other): _curve(regions[one], regions[other]) for one, other in pairs}
    labels: dict[tuple[int, int], Point] = {}
    # Those of short arrows have the fewest places.
    for pair in sorted(pairs, key=lambda one: math.dist(regions[one[0]], regions[one[1]])):
        # Between many others it would not be clear whose label one beside an arrow is.
        is_among = count in HEIGHTS and abs(pair[0] - pair[1]) not in (1, count - 1)
        best = _best(curves[pair], taken, beside=(0, 1) if is_among else (1, 0))
        taken.append(best)
        labels[pair] = best.middle
    return Drawn(regions, names, curves, labels)


def _best(curve: Curve, taken: Sequence[Space], beside: Sequence[int]) -> Space:
    """The first space for a label that is free, or the one that is most so."""
    best, best_shared = None, math.inf
    for space in _spaces(curve, beside):
        shared = sum(space.shared(one) for one in taken)
        if shared < best_shared:
            best, best_shared = space, shared
            if not shared:
                break
    assert best is not None, "the middle of an arrow is on the map"
    return best


def _spaces(curve: Curve, beside: Sequence[int]) -> Iterator[Space]:
    """Spaces for the label of an arrow: all beside it (1) or on it (0), from its middle on."""
    for far in beside:
        for step in range(LABEL_STEPS + 1):
            away = (step + 1) // 2 * LABEL_STEP
            on = curve.at(0.5 + (away if step % 2 else -away))
            x = on.x + far * curve.left.x * LABEL_ACROSS
            if LABEL_HALF[0] <= x <= WIDTH - LABEL_HALF[0]:
                yield Space(Point(x, on.y + far * curve.left.y * LABEL_ABOVE), *LABEL_HALF)


def _curve(begin: Point, end: Point) -> Curve:
    length = math.dist(begin, end)
    along = Point((end.x - begin.x) / length, (end.y - begin.y) / length)
    # To the left of the way, on a screen whose y grows downwards.
    left = Point(along.y, -along.x)
    bend = length * BEND
    middle = Point((begin.x + end.x) / 2 + left.x * bend, (begin.y + end.y) / 2 + left.y * bend)
    tip = _towards(end, middle, RADIUS + GAP)
    start, back = _towards(begin, middle, RADIUS + GAP), _towards(tip, middle, ARROW)
    return Curve(start, middle, back, tip, left)


def _region(one: Place, places: Drawn, at: int, cells: Cells, *, is_own: bool) -> Markup:
    name, place, beside = f"region.{one.region}", places.regions[at], places.names[at]
    here = " · here" if is_own else ""
    return element(
        "g",
        element("circle", cx=place.x, cy=place.y, r=RADIUS),
        element("text", str(one.region), x=place.x, y=place.y, dy="0.35em", class_="number"),
        element(
            "text",
            words.name(one.name.encode(), NAME_LENGTH_MAX - len(here)) + here,
            x=beside.x,
            y=beside.y,
            class_="name",
        ),
        class_=f"place r{one.region % COLOURS}",
        data_state_of=f"{name}.state",
        data_state=cells[f"{name}.state"],
    )


def _arrow(link: Way, curve: Curve) -> Markup:
    """A curve of one bend, with a head at its end."""
    start, middle, back, tip = curve.start, curve.middle, curve.back, curve.tip
    across = Point((back.y - tip.y) / 2, (tip.x - back.x) / 2)
    head = (
        f"M{tip.x:.1f} {tip.y:.1f}L{back.x + across.x:.1f} {back.y + across.y:.1f}"
        f"L{back.x - across.x:.1f} {back.y - across.y:.1f}Z"
    )
    line = f"M{start.x:.1f} {start.y:.1f}Q{middle.x:.1f} {middle.y:.1f} {back.x:.1f} {back.y:.1f}"
    return element(
        "g",
        _title(link),
        element("path", d=line, class_="way"),
        element("path", d=head, class_="head"),
        class_="arrow",
        data_state_of=f"link.{link.name}.state",
        data_state=link.state,
    )


def _label(link: Way, at: Point, cells: Cells) -> Markup:
    """The lag of a link."""
    name = f"link.{link.name}.label"
    text = element("text", cells[name], x=at.x, y=at.y, dy="0.35em", data_cell=name)
    return element("g", _title(link), text, class_="label")


def _title(link: Way) -> Markup:
    return element("title", f"from region {link.source} to region {link.to}")


def _towards(begin: Point, end: Point, distance: float) -> Point:
    whole = math.dist(begin, end)
    return Point(
        begin.x + (end.x - begin.x) * distance / whole,
        begin.y + (end.y - begin.y) * distance / whole,
    )
