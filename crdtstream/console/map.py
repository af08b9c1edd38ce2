"""The map: regions on an ellipse, and two arrows between each pair, one for each direction.

╭───╮ ──2→1──> ╭───╮       An arrow bends to the left of its way, so that the two of a
│ 2 │          │ 1 │       pair lie apart.  Its label is the lag.  A link that is not up
╰───╯ <──1→2── ╰───╯       has another colour and is broken as well.
"""

import math
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

from crdtstream.console.cells import Cells
from crdtstream.console.layout import COLOURS
from crdtstream.page.markup import Markup, element

WIDTH: Final = 440.0
HEIGHT: Final = 350.0
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


def region_map(
    regions: Sequence[Place], links: Sequence[Way], cells: Cells, *, own: int
) -> Markup | None:
    """The map; None if there are too many regions for one, or only one."""
    live = [one for one in regions if one.member != "removed"]
    if not 2 <= len(live) <= REGIONS_MAX:
        return None
    places = _places([one.region for one in live])
    return element(
        "svg",
        [_arrow(link, places, cells) for link in links],
        [_region(one, places[one.region], cells, is_own=one.region == own) for one in live],
        class_="map",
        viewBox=_view_box(places.values()),
        role="img",
        aria_label="Map of regions and links; the tables below have the same figures",
    )


def _view_box(places: Collection[Point]) -> str:
    """The part of the map that has something on it, with room for names and labels."""
    top = min(place.y for place in places) - RADIUS - MARGIN
    bottom = max(place.y for place in places) + RADIUS + MARGIN
    return f"0 {top:.0f} {WIDTH:.0f} {bottom - top:.0f}"


def _places(regions: Sequence[int]) -> dict[int, Point]:
    """Regions clockwise; two stand side by side, of more the first one on top."""
    begin = math.pi if len(regions) == 2 else -math.pi / 2
    found = {}
    for at, region in enumerate(regions):
        angle = begin + 2 * math.pi * at / len(regions)
        across, down = WIDTH / 2 - RADIUS - MARGIN, HEIGHT / 2 - RADIUS - MARGIN
        found[region] = Point(
            WIDTH / 2 + across * math.cos(angle), HEIGHT / 2 + down * math.sin(angle)
        )
    return found


def _region(one: Place, place: Point, cells: Cells, *, is_own: bool) -> Markup:
    name = f"region.{one.region}"
    return element(
        "g",
        element("circle", cx=place.x, cy=place.y, r=RADIUS),
        element("text", str(one.region), x=place.x, y=place.y, dy="0.35em", class_="number"),
        element(
            "text",
            f"{one.name}{' · here' if is_own else ''}",
            x=place.x,
            # Outside of the ring, where no arrow is.
            y=place.y + (RADIUS + 17 if place.y >= HEIGHT / 2 else -RADIUS - 9),
            class_="name",
        ),
        class_=f"place r{one.region % COLOURS}",
        data_state_of=f"{name}.state",
        data_state=cells[f"{name}.state"],
    )


def _arrow(link: Way, places: dict[int, Point], cells: Cells) -> Markup:
    """A curve of one bend, with a head at its end and its lag beside its middle."""
    begin, end = places[link.source], places[link.to]
    length = math.dist(begin, end)
    along = Point((end.x - begin.x) / length, (end.y - begin.y) / length)
    # To the left of the way, on a screen whose y grows downwards.
    left = Point(along.y, -along.x)
    bend = length * BEND
    middle = Point((begin.x + end.x) / 2 + left.x * bend, (begin.y + end.y) / 2 + left.y * bend)
    start = _towards(begin, middle, RADIUS + GAP)
    tip = _towards(end, middle, RADIUS + GAP)
    back = _towards(tip, middle, ARROW)
    across = Point((back.y - tip.y) / 2, (tip.x - back.x) / 2)
    head = (
        f"M{tip.x:.1f} {tip.y:.1f}L{back.x + across.x:.1f} {back.y + across.y:.1f}"
        f"L{back.x - across.x:.1f} {back.y - across.y:.1f}Z"
    )
    line = f"M{start.x:.1f} {start.y:.1f}Q{middle.x:.1f} {middle.y:.1f} {back.x:.1f} {back.y:.1f}"
    # Beside the middle of the curve.
    label = Point(
        (start.x + 2 * middle.x + back.x) / 4 + left.x * LABEL_ACROSS,
        (start.y + 2 * middle.y + back.y) / 4 + left.y * LABEL_ABOVE,
    )
    name = f"link.{link.name}"
    return element(
        "g",
        element("title", f"from region {link.source} to region {link.to}"),
        element("path", d=line, class_="way"),
        element("path", d=head, class_="head"),
        element(
            "text", cells[f"{name}.lag"], x=label.x, y=label.y, dy="0.35em", data_cell=f"{name}.lag"
        ),
        class_="arrow",
        data_state_of=f"{name}.state",
        data_state=link.state,
    )


def _towards(begin: Point, end: Point, distance: float) -> Point:
    whole = math.dist(begin, end)
    return Point(
        begin.x + (end.x - begin.x) * distance / whole,
        begin.y + (end.y - begin.y) * distance / whole,
    )
