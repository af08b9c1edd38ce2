"""The pages of a folder of reports, as an ASGI application.

It listens on this machine alone and asks for no password, as other pages do there: all users of the
machine may look.  A page of another site reads nothing, by the rules of the console.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from crdtstream.console.asked import AskedForError, parameters
from crdtstream.console.assets import Assets
from crdtstream.console.guard import refusal_of, with_headers
from crdtstream.replay import pages, step_pages
from crdtstream.replay.folder import AnyReport, FolderError, ReportFolder, shown
from crdtstream.replay.steps import Steps
from crdtstream.replay.summaries import Summaries
from crdtstream.replay.timeline import Timeline
from crdtstream.scenario.report_file import ScenarioReports

One = TypeVar("One")
NUMBER_LENGTH_MAX: Final = 12
NAMES: Final = frozenset({"localhost"})


def make_replay(folder: ReportFolder) -> Starlette:
    """The pages of a folder."""
    replay = Replay(folder, Assets())
    return Starlette(
        routes=[
            Route("/", replay.reports, methods=["GET"]),
            Route("/report", replay.report, methods=["GET"]),
            Route("/replay", replay.replay, methods=["GET"]),
            Route("/replay/at", replay.moment, methods=["GET"]),
            Route("/console/static/{name}", replay.static, methods=["GET"]),
        ],
        middleware=[Middleware(_Guard)],
        exception_handlers={
            AskedForError: _asked_for,
            FolderError: _no_report,
            404: _not_found,
            405: _read_only,
        },
    )


class _Guard:
    """Refuses other sites, and sets the headers of all answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = refusal_of(Request(scope), NAMES) or self._app
        await answer(scope, receive, with_headers(send))


@dataclass(frozen=True, slots=True)
class _Asked:
    """The run that a request is about.

    Attributes:
        at: the moment; None: none is named.
    """

    name: str
    number: int
    at: float | None


class Replay:
    """The pages."""

    def __init__(self, folder: ReportFolder, assets: Assets) -> None:
        self._folder = folder
        self._summaries = Summaries(folder)
        self._assets = assets

    async def reports(self, request: Request) -> Response:
        parameters(request)
        listing = await asyncio.to_thread(self._folder.listing)
        summaries = await asyncio.to_thread(self._summaries.of, listing.files)
        return pages.reports(listing, summaries, shown(f"{self._folder.root}"))

    async def report(self, request: Request) -> Response:
        name = _name(parameters(request, "name"))
        found = await self._read(name)
        if isinstance(found, ScenarioReports):
            return step_pages.report(name, found)
        return pages.report(name, found)

    async def replay(self, request: Request) -> Response:
        asked = _asked(request)
        played = _played(await self._read(asked.name), asked.number)
        at = played.begin if asked.at is None else played.within(asked.at)
        if isinstance(played, Steps):
            return step_pages.replay(asked.name, asked.number, played, at)
        return pages.replay(asked.name, asked.number, played.run, played, at)

    async def moment(self, request: Request) -> Response:
        """The texts of a moment, for a page that is open."""
        asked = _asked(request)
        played = _played(await self._read(asked.name), asked.number)
        cells = played.cells(played.within(asked.at or 0.0))
        return Response(json.dumps({"cells": cells}), media_type="application/json")

    async def static(self, request: Request) -> Response:
        return self._assets.answer(request)

    async def _read(self, name: str) -> AnyReport:
        return await asyncio.to_thread(self._folder.report, name)


def _asked(request: Request) -> _Asked:
    given = parameters(request, "name", "run", "at")
    number, at = given.get("run", b"0"), given.get("at")
    if not number.isdigit() or len(number) > NUMBER_LENGTH_MAX:
        raise _wrong("The number of a drill is one from 0 on.")
    return _Asked(_name(given), int(number), None if at is None else _seconds(at))


def _name(given: dict[str, bytes]) -> str:
    return given.get("name", b"").decode(errors="replace")


def _seconds(text: bytes) -> float:
    digits = text.removeprefix(b"-").replace(b".", b"", 1)
    if not digits.isdigit() or len(text) > NUMBER_LENGTH_MAX:
        raise _wrong("A moment is a number of seconds.")
    return float(text)


def _played(report: AnyReport, number: int) -> Timeline | Steps:
    if isinstance(report, ScenarioReports):
        return Steps(_one_of(report.scenarios, number))
    return Timeline(_one_of(report.runs, number))


def _one_of(found: Sequence[One], number: int) -> One:
    if number >= len(found):
        raise AskedForError(
            404, "No such drill", "The report has fewer of them.", "Choose one of the list."
        )
    return found[number]


def _wrong(reason: str) -> AskedForError:
    return AskedForError(400, "The address is wrong", reason, "Follow the links of the pages.")


async def _asked_for(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AskedForError)
    return pages.refused(error.status, error.title, f"{error}", error.advice)


async def _no_report(_request: Request, error: Exception) -> Response:
    return pages.refused(
        404,
        "No report",
        f"{error}",
        "crdtstream drill run --out writes reports of drills, and crdtstream scenario run --report"
        " those of scenarios.",
    )


async def _not_found(_request: Request, _error: Exception) -> Response:
    return pages.refused(404, "No such page", "There is no page at this address.", "Begin at /.")


async def _read_only(_request: Request, _error: Exception) -> Response:
    return pages.refused(405, "Nothing was changed", "Reports are only shown.", "Begin at /.")
