"""A region and its console, without sockets: a test calls the pages as the server does."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.types import Message

from crdtstream.access.basic import Login
from crdtstream.access.logins import Logins
from crdtstream.access.peer_calls import PLAIN_CALLS
from crdtstream.admin.operating import Operating
from crdtstream.admin.tunables import Tunables
from crdtstream.console.app import make_console
from crdtstream.console.console_sources import ConsoleSources, SlowCommand
from crdtstream.console.feed import Feed
from crdtstream.console.picture import NodeFigures
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import encode_vv
from crdtstream.database.permits import Permits, log_in
from crdtstream.engine.engine import Engine
from crdtstream.metrics.walk import Found, Walker
from crdtstream.resp.server import RespServer
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import admin_pb2 as pb
from tests.harness.driven import Driven, make_region

UP = pb.LinkStatus.State.UP
# Long enough for a user of a port that others reach.
PASSWORD = "a-password-of-26-characters"


def link(peer: int, **figures: Any) -> pb.LinkStatus:
    return pb.LinkStatus(**{"peer": peer, "state": UP, "lag_ms": 7, **figures})


def status(
    region: int = 1, *links: pb.LinkStatus, vv: Any = None, **figures: Any
) -> pb.StatusReply:
    """A region that is well, with links to the peers 1 to 3 where none are given."""
    given = links or tuple(link(peer) for peer in (1, 2, 3) if peer != region)
    return pb.StatusReply(
        **{
            "region": region,
            "database_id": "crdb",
            "now_ms": 1_795_000_000_000,
            "vv": encode_vv({RegionId(one): n for one, n in (vv or {}).items()}),
            "links": given,
            **figures,
        }
    )


def members(*regions: int, **figures: Any) -> pb.MembersReply:
    active = pb.MemberStatus.Status.ACTIVE
    return pb.MembersReply(
        database_id="crdb",
        region=1,
        epoch=1,
        members=[pb.MemberStatus(region=one, status=active) for one in regions or (1, 2, 3)],
        **figures,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the console."""

    status: int
    headers: Mapping[str, str]
    text: str


class Shown:
    """The console of region 1, whose other regions say what the test says.

    Attributes:
        own, others, members, node: what the console is told of them.
        samples: number of times that the figures were gathered.
        asked: number of times that the other regions were asked.
    """

    def __init__(self, *, http_host: str = "127.0.0.1", **settings: Any) -> None:
        self.driven = Driven(make_region())
        self.region = self.driven.region
        self.replica = self.region.replica
        self.settings = NodeSettings(region=1, dir=Path("data"), http_host=http_host, **settings)
        database = self.region.database
        log = MemoryLog()
        engine = Engine(self.region, log)
        # It knows the commands by which rights are named.
        resp = RespServer(engine, self.settings)
        self.accounts = resp.accounts
        self.slowlog = resp.slowlog
        self.slowlog.slower_than_us = 0
        self.own = status()
        self.others: dict[int, pb.StatusReply | str] = {2: status(2), 3: status(3)}
        self.progress: dict[int, pb.GroupProgress | str] = {}
        self.members = members()
        self.node = NodeFigures(memory={"base": 1 << 20}, clients_max=100)
        self.samples = self.asked = 0
        self.actions: list[asyncio.Task[None]] = []
        self.found: Found | None = None
        self.parts = ConsoleSources(
            settings=self.settings,
            engine=engine,
            version="1",
            logins=Logins(
                lambda name, password: log_in(database, name, password),
                asks=lambda: database.users.ask,
                anonymous=lambda: Permits(database, database.users.default),
            ),
            status=self._status,
            members=lambda: self.members,
            node=lambda: self.node,
            others=self._ask,
            group_progress=self._progress,
            walk=self._walk,
            slow_commands=self._slow,
            operating=Operating(
                engine, self.settings, PLAIN_CALLS, Tunables(self.region, log, self.settings)
            ),
            begin=self._begin,
        )
        self.app = make_console(self.parts)
        # Another one of the same parts, to compare with.
        self.feed = Feed(self.parts, assets="")

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.actions.append(task)
        return task

    def _status(self) -> pb.StatusReply:
        self.samples += 1
        return self.own

    async def _ask(self) -> dict[int, pb.StatusReply | str]:
        self.asked += 1
        return self.others

    async def _progress(self, _key: bytes, _group: bytes) -> dict[int, pb.GroupProgress | str]:
        return self.progress

    async def _walk(self) -> Found | None:
        found = Found(0)
        for _ in Walker(self.replica, names_max=10).steps(found):
            pass
        return found

    def _slow(self) -> list[SlowCommand]:
        return list(self.slowlog.calls())

    def user(self, name: str, *rules: str) -> Login:
        """A user with these rights; from now on ``default`` has none."""
        self.accounts.set_user(b"default", [b"off"])
        given = [b"on", b">" + PASSWORD.encode(), *(rule.encode() for rule in rules)]
        self.accounts.set_user(name.encode(), given)
        return Login(PASSWORD, name)

    async def get(
        self,
        path: str,
        login: Login | None = None,
        *,
        query: Mapping[str, str | bytes | Sequence[str]] | None = None,
        method: str = "GET",
        host: str = "127.0.0.1:8381",
        headers: Mapping[str, str] | None = None,
        body: Callable[[], bytes] = bytes,
    ) -> Answer:
        """Ask for a page.

        Args:
            body: called when the page reads it.
        """
        given = {"host": host, **(headers or {})}
        if login is not None:
            given["authorization"] = login.header
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": urlencode(query or {}, doseq=True).encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "server": ("127.0.0.1", 8381),
            "client": ("127.0.0.1", 4711),
        }
        told: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body(), "more_body": False}

        async def send(message: Message) -> None:
            told.append(message)

        await self.app(scope, receive, send)
        head, *rest = told
        return Answer(
            head["status"],
            {name.decode(): value.decode() for name, value in head["headers"]},
            b"".join(message.get("body", b"") for message in rest).decode(),
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """The engine runs, so that something can be changed; nothing is driven meanwhile."""
        engine = self.parts.engine
        # As far as it was driven.
        await engine.log.append(self.driven.log)
        await engine.begin()
        running = asyncio.create_task(engine.run())
        # Its first turn: from then on it commits.
        await asyncio.sleep(0)
        try:
            yield
        finally:
            engine.stop()
            await running
