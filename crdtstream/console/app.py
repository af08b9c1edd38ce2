"""The console of one node: all its pages, as an ASGI application.

A request that asks for what does not exist gets a page that says so, and what to do.
"""

import asyncio
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from crdtstream.admin.group_progress import group_progress
from crdtstream.commands.reply import CommandError
from crdtstream.console import figure_pages, pending_page, stream_pages, words
from crdtstream.console.acting import Acting
from crdtstream.console.actions import may_acknowledge, may_claim, may_operate
from crdtstream.console.asked import (
    AskedForError,
    id_of,
    no_group,
    no_right,
    no_stream,
    parameters,
    time_of,
    unreadable,
)
from crdtstream.console.assets import Assets
from crdtstream.console.bounded_reading import (
    group_facts,
    may_ask_why,
    may_read,
    may_read_entries,
    read_entries,
    read_entry,
    read_history,
    read_keys,
    stream_facts,
)
from crdtstream.console.console_sources import ConsoleSources
from crdtstream.console.feed import Feed, View
from crdtstream.console.guard import STILL_MAY, ConsoleGuard, rights_of
from crdtstream.console.layout import Frame, page, problem_page
from crdtstream.console.live import LiveResponse
from crdtstream.console.pending import (
    may_see_consumers,
    may_see_pending,
    read_consumers,
    read_pending,
)
from crdtstream.core.ids import ID_MAX, ID_MIN, U64_MAX, format_id, make_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.page.markup import Child
from crdtstream.v1 import admin_pb2 as pb

MS_PER_SECOND: Final = 1_000
CURSOR_DIGITS_MAX: Final = 20


def make_console(sources: ConsoleSources) -> ASGIApp:
    """The console of a node."""
    assets = Assets()
    console = Console(sources, Feed(sources, assets=assets.digest), assets)
    return Starlette(
        routes=[
            Route("/", console.overview, methods=["GET"]),
            Route("/console/streams", console.streams, methods=["GET"]),
            Route("/console/stream", console.stream, methods=["GET"]),
            Route("/console/entry", console.entry, methods=["GET"]),
            Route("/console/members", console.members, methods=["GET"]),
            Route("/console/node", console.node, methods=["GET"]),
            Route("/console/pending", console.pending, methods=["GET"]),
            Route("/console/act/{name}", console.acting.ask, methods=["GET"]),
            Route("/console/act/{name}", console.acting.act, methods=["POST"]),
            Route("/console/outcome/{number}", console.acting.outcome, methods=["GET"]),
            Route("/console/live", console.live, methods=["GET"]),
            Route("/console/static/{name}", console.static, methods=["GET"]),
        ],
        middleware=[Middleware(ConsoleGuard, sources.logins, sources.settings)],
        exception_handlers={AskedForError: _asked_for, 404: _not_found, 405: _read_only},
    )


class Console:
    """The pages of one node.

    Attributes:
        acting: the pages of actions.
    """

    def __init__(self, sources: ConsoleSources, feed: Feed, assets: Assets) -> None:
        self._sources = sources
        self._feed = feed
        self._assets = assets
        self._replica = sources.engine.region.replica
        self.acting = Acting(sources, self._still, on_acted=feed.note_action)
        # Searches take turns of the loop, so many at once would leave none to clients.
        self._searching = asyncio.Lock()

    # --- Figures ------------------------------------------------------------------------------

    async def overview(self, request: Request) -> Response:
        view, can_act = await self._feed.view(), may_operate(rights_of(request))
        content = figure_pages.overview(view, self._feed.curve, may_operate=can_act)
        return self._live(view, "Overview", content)

    async def members(self, request: Request) -> Response:
        view, can_act = await self._feed.view(), may_operate(rights_of(request))
        return self._live(view, "Members", figure_pages.members(view, may_operate=can_act))

    async def node(self, request: Request) -> Response:
        view = await self._feed.view()
        may_see_slow = rights_of(request).may_call([b"slowlog", b"get"])
        content = figure_pages.node(
            view,
            self._feed.curve,
            self._sources.engine.region.database.statistics.used(),
            self._sources.slow_commands() if may_see_slow else None,
            now_s=self._sources.engine.now() // MS_PER_SECOND,
            may_operate=may_operate(rights_of(request)),
        )
        return self._live(view, "Node", content)

    async def live(self, request: Request) -> ASGIApp:
        return LiveResponse(self._feed, request.scope[STILL_MAY])

    async def static(self, request: Request) -> Response:
        return self._assets.answer(request)

    def _live(self, view: View, title: str, content: list[Child]) -> Response:
        return page(self._frame(view), title, *content, tab=title, live=True, at=view.cells["at"])

    # --- Keys ---------------------------------------------------------------------------------

    async def streams(self, request: Request) -> Response:
        asked = parameters(request, "pattern", "cursor")
        pattern = asked.get("pattern", b"")
        if len(pattern) > stream_pages.PATTERN_LENGTH_MAX:
            raise AskedForError(
                400,
                "The pattern is too long",
                f"A pattern has at most {stream_pages.PATTERN_LENGTH_MAX} bytes.",
                "Search for the beginning of the key, with * behind it.",
            )
        cursor = _cursor(asked.get("cursor", b"0"))
        rights, now = rights_of(request), self._sources.engine.now()
        async with self._searching:
            found = await read_keys(self._replica, rights, cursor=cursor, pattern=pattern, now=now)
        most: list[Child] = []
        if not pattern and not cursor:
            walked = await self._sources.walk()
            if walked is not None:
                most = stream_pages.most(
                    walked, partial(may_read, rights), partial(may_see_pending, rights)
                )
        content = stream_pages.streams(
            found,
            most,
            pattern=pattern.decode(errors="replace"),
            is_first=not cursor,
            key_count=len(self._replica),
            now=now,
        )
        return self._still("Streams", content, "Streams")

    async def stream(self, request: Request) -> Response:
        asked = parameters(request, "key", "up_to", "at")
        key, rights = asked.get("key", b""), rights_of(request)
        at = asked.get("at", b"")
        up_to = id_of(asked["up_to"]) if "up_to" in asked else ID_MAX
        if at:
            up_to = min(up_to, make_id(time_of(at), U64_MAX))
        if not may_read(rights, key):
            raise no_right(request, [b"xinfo", b"stream", key])
        sources, now = self._sources, self._sources.engine.now()
        found = self._replica.stream(key)
        if found is None:
            raise no_stream()
        facts = stream_facts(key, found, now)
        entries = None
        try:
            if may_read_entries(rights, key):
                entries = await sources.engine.read(
                    lambda: read_entries(self._there(key), up_to=up_to)
                )
            groups = await sources.engine.read(
                lambda: group_facts(self._replica.region, self._there(key))
            )
        except UnreadableError as error:
            raise unreadable(error) from error
        content = stream_pages.stream(
            facts,
            groups,
            entries,
            at=at.decode(errors="replace"),
            is_first=up_to == ID_MAX,
            now=now,
            has_pending_page=may_see_pending(rights, key, b""),
        )
        return self._still(words.name(key), content, "Streams")

    def _there(self, key: bytes) -> Stream:
        """The stream, looked up again at each attempt: it may be deleted meanwhile."""
        found = self._replica.stream(key)
        if found is None:
            raise no_stream()
        return found

    async def entry(self, request: Request) -> Response:
        asked = parameters(request, "key", "id")
        key, entry_id = asked.get("key", b""), id_of(asked.get("id", b""))
        if not may_ask_why(rights_of(request), key, entry_id):
            raise no_right(request, [b"crdt.why", key, format_id(entry_id)])
        now = self._sources.engine.now()
        try:
            found = await self._sources.engine.read(
                lambda: read_history(self._replica, key, entry_id, now)
            )
        except CommandError:
            raise no_stream() from None
        except UnreadableError as error:
            raise unreadable(error) from error
        entries = None
        if may_read_entries(rights_of(request), key):
            try:
                entries = await self._sources.engine.read(
                    lambda: read_entry(self._there(key), entry_id)
                )
            except UnreadableError as error:
                raise unreadable(error) from error
        content = stream_pages.entry(key, entry_id, found, entries)
        return self._still(asked["id"].decode(), content, "Streams")

    async def pending(self, request: Request) -> Response:
        asked = parameters(request, "key", "group", "start", "choose")
        key, name, rights = asked.get("key", b""), asked.get("group", b""), rights_of(request)
        start = id_of(asked["start"]) if "start" in asked else ID_MIN
        if not may_see_pending(rights, key, name):
            raise no_right(request, [b"xpending", key, name])
        group = self._there(key).groups.get(name)
        if group is None:
            raise no_group()
        now = self._sources.engine.now()
        content = pending_page.pending(
            key,
            name,
            read_pending(group, start=start, now=now),
            read_consumers(group, now) if may_see_consumers(rights, key, name) else None,
            await self._progress(key, name) if may_read(rights, key) else None,
            here=self._replica.region,
            start=start,
            are_chosen=asked.get("choose") == pending_page.ALL,
            may_acknowledge=may_acknowledge(rights, key),
            may_claim=may_claim(rights, key),
        )
        return self._still(f"Group {words.name(name)}", content, "Streams")

    async def _progress(self, key: bytes, group: bytes) -> dict[int, pb.GroupProgress | str]:
        """By region the progress of a group, or the reason why it is not known."""
        sources = self._sources
        try:
            own = await sources.engine.read(lambda: group_progress(self._replica, key, group))
        except UnreadableError as error:
            raise unreadable(error) from error
        found = dict(await sources.group_progress(key, group))
        if own is not None:
            found[self._replica.region] = own
        return found

    def _still(self, title: str, content: list[Child], tab: str) -> Response:
        at = words.clock(self._sources.engine.now())
        return page(self._frame(None), title, *content, tab=tab, at=at)

    def _frame(self, view: View | None) -> Frame:
        settings = self._sources.settings
        return Frame(
            database=settings.database_id,
            region=settings.region,
            version=self._sources.version,
            assets=self._assets.digest,
            shape="" if view is None else view.picture.shape,
        )


# --- What is asked for ----------------------------------------------------------------------------


def _cursor(text: bytes) -> int:
    if not text.isdigit() or len(text) > CURSOR_DIGITS_MAX:
        raise AskedForError(
            400,
            "The address is wrong",
            "The place in the list is a number.",
            "Begin at the first page.",
        )
    return int(text)


async def _asked_for(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AskedForError)
    return problem_page(error.status, error.title, f"{error}", error.advice, error.path)


async def _not_found(_request: Request, _error: Exception) -> Response:
    return problem_page(
        404, "No such page", "The console has no page at this address.", "Begin at the overview."
    )


async def _read_only(_request: Request, _error: Exception) -> Response:
    return problem_page(
        405,
        "Nothing was changed",
        "This page takes only GET and HEAD.",
        "Follow the links of the console; the commands crdtstream and rladmin change a database.",
    )
