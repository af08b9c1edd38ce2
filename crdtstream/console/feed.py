"""Figures for all viewers: gathered once a second while a page watches, and shared.

    status, members, figures ──> Sample ──> Picture ──> cells, curves, notices
         each second                                        │ changes only, encoded once
    other regions: each 5 s                                 └──> queue of each viewer

So the cost of gathering does not depend on the number of viewers, and without viewers there is
none.  A page that is loaded takes the picture of the last second, or has one made.

Always so: a viewer whose queue is full has lost changes, so it ends, and its browser begins again
with everything.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from crdtstream.console import words
from crdtstream.console.attention import Notice, notices_of
from crdtstream.console.cells import Cells, cells_of, changed, curves_of
from crdtstream.console.console_sources import ConsoleSources
from crdtstream.console.picture import Picture, Rates, Sample, picture_of
from crdtstream.core.size import Seconds, Size
from crdtstream.v1 import admin_pb2 as pb

SAMPLE_SECONDS: Final = Seconds(1.0, least=0.01)
# Others are asked by a call each, which costs both ends about a millisecond.
OTHERS_SECONDS: Final = Seconds(5.0, least=0.01)
# Answers are shown no longer than this; asking takes some seconds where a region is silent.
ANSWERS_SECONDS: Final = Seconds(15.0, least=0.01)
# A page waits for the first answers of the others no longer than this.
FIRST_ANSWERS_SECONDS: Final = Seconds(0.3, least=0.0)
VIEWERS_MAX: Final = Size(16, least=1)
# Changes that a viewer may leave unread.
UNREAD_MAX: Final = Size(10, least=1)
# Curves begin again after a time without points.
CURVE_GAP_SECONDS: Final = Seconds(5.0, least=0.0)
# Points of each curve: two minutes.
CURVE_POINTS: Final = Size(120, least=2)

logger = structlog.get_logger(__name__)


class ViewersFullError(Exception):
    """As many watch already as may."""


class Viewer:
    """One browser that watches.

    Attributes:
        is_behind: it has lost changes.
    """

    def __init__(self) -> None:
        self.is_behind = False
        self._unread: asyncio.Queue[bytes] = asyncio.Queue(UNREAD_MAX.value)

    def tell(self, event: bytes) -> None:
        """Queue an event."""
        try:
            self._unread.put_nowait(event)
        except asyncio.QueueFull:
            self.is_behind = True

    async def next(self) -> bytes:
        """The next event."""
        return await self._unread.get()


@dataclass(frozen=True, slots=True)
class View:
    """A picture with all that is shown of it."""

    picture: Picture
    cells: Cells
    curves: Mapping[str, float | None]
    notices: list[Notice]

    @staticmethod
    def of(picture: Picture) -> "View":
        return View(picture, cells_of(picture), curves_of(picture), notices_of(picture))


@dataclass(slots=True)
class _Others:
    """Answers of the other regions, and when they are asked again."""

    answers: Mapping[int, pb.StatusReply | str] = field(default_factory=dict)
    own_before: pb.StatusReply | None = None
    good_until: float = 0.0
    from_: float = 0.0
    task: "asyncio.Task[None] | None" = None


class Feed:
    """The figures of one node's console.

    Args:
        assets: names the program's version of scripts and styles; a page with another one is old.
    """

    def __init__(self, sources: ConsoleSources, *, assets: str) -> None:
        self._sources = sources
        self._assets = assets
        self._rates = Rates()
        self._viewers: set[Viewer] = set()
        self._view: View | None = None
        self._sampled_at = 0.0
        # Something was changed since.
        self._is_outdated = False
        self._curves: dict[str, deque[float | None]] = {}
        self._others = _Others()
        self._sampling: asyncio.Task[None] | None = None

    @property
    def viewer_count(self) -> int:
        return len(self._viewers)

    @property
    def is_sampling(self) -> bool:
        """True while a page watches."""
        return self._sampling is not None

    async def view(self) -> View:
        """The view of the last second."""
        self._ask_others()
        asking = self._others.task
        if asking is not None and not self._others.answers:
            await asyncio.wait({asking}, timeout=FIRST_ANSWERS_SECONDS.value)
        if self._view is None or self._is_old():
            self._sample()
        assert self._view is not None, "it was just made"
        return self._view

    def _is_old(self) -> bool:
        return self._is_outdated or _now() - self._sampled_at >= SAMPLE_SECONDS.value

    def note_action(self) -> None:
        """A viewer has changed something: the next page has figures of then."""
        self._is_outdated = True

    def curve(self, name: str) -> list[float | None]:
        """Points of a curve, the newest last."""
        return list(self._curves.get(name, ()))

    @contextlib.contextmanager
    def watching(self) -> Iterator[Viewer]:
        """A viewer, whose first event has everything.

        Raises:
            ViewersFullError: as many watch already as may.
        """
        if len(self._viewers) >= VIEWERS_MAX.value:
            raise ViewersFullError
        viewer = Viewer()
        if self._view is None or self._is_old():
            self._sample()
        viewer.tell(self._whole())
        self._viewers.add(viewer)
        if self._sampling is None:
            self._sampling = asyncio.create_task(self._run())
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)
            if not self._viewers:
                self._stop()

    def _stop(self) -> None:
        for task in (self._sampling, self._others.task):
            if task is not None:
                task.cancel()
        self._sampling = self._others.task = None

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(SAMPLE_SECONDS.value)
                self._ask_others()
                self._sample()
        except Exception:
            # The end of a task: pages without changes are better than a node that stops.
            logger.exception("the console has no more figures")
            for viewer in self._viewers:
                viewer.is_behind = True
                viewer.tell(b"")
            self._sampling = None

    # --- Gathering ----------------------------------------------------------------------------

    def _ask_others(self) -> None:
        others = self._others
        if others.answers and _now() >= others.good_until:
            # No page has watched for a while.
            others.answers, others.own_before = {}, None
        if others.task is None and _now() >= others.from_:
            others.from_ = _now() + OTHERS_SECONDS.value
            others.task = asyncio.create_task(self._asked())

    async def _asked(self) -> None:
        before = self._sources.status()
        try:
            self._others.answers = await self._sources.others()
            self._others.own_before = before
            self._others.good_until = _now() + ANSWERS_SECONDS.value
        finally:
            if self._others.task is asyncio.current_task():
                self._others.task = None

    def _sample(self) -> None:
        """Have a new view, and tell all viewers what changed."""
        sources, before = self._sources, self._view
        own, others = sources.status(), self._others
        sample = Sample(
            own, others.answers, others.own_before or own, sources.members(), sources.node()
        )
        view = View.of(picture_of(sample, self._rates))
        if _now() - self._sampled_at > CURVE_GAP_SECONDS.value:
            self._curves.clear()
        self._view, self._sampled_at, self._is_outdated = view, _now(), False
        for name, point in view.curves.items():
            points = self._curves.setdefault(name, deque(maxlen=CURVE_POINTS.value))
            points.append(point)
        for gone in self._curves.keys() - view.curves.keys():
            del self._curves[gone]
        event = self._change(before, view)
        for viewer in self._viewers:
            viewer.tell(event)

    def _change(self, before: View | None, view: View) -> bytes:
        """The event that makes one view into the next."""
        if before is None or before.picture.shape != view.picture.shape:
            return self._whole()
        # A region that answers no more has no bootstrap, and one that has all is kept nothing for.
        gone = dict.fromkeys(sorted(before.cells.keys() - view.cells.keys()), words.UNKNOWN)
        change: dict[str, object] = {"cells": {**changed(before.cells, view.cells), **gone}}
        if curves := changed(before.curves, view.curves):
            change["curves"] = curves
        if before.notices != view.notices:
            change["notices"] = view.notices
        return _event("change", change)

    def _whole(self) -> bytes:
        view = self._view
        assert view is not None, "there is a view before there are viewers"
        return _event(
            "whole",
            {
                "assets": self._assets,
                "shape": view.picture.shape,
                "cells": view.cells,
                "curves": {name: list(points) for name, points in self._curves.items()},
                "notices": view.notices,
            },
        )


def _event(kind: str, content: dict[str, object]) -> bytes:
    """An event as a browser's EventSource reads it; JSON has no line ends."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(content))


def _now() -> float:
    return asyncio.get_running_loop().time()
