"""Pages of a port that other machines reach: which ask for a password."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from crdtstream.access.basic import Login
from crdtstream.access.logins import Logins, one_user
from crdtstream.engine.engine import Engine
from crdtstream.http.app import make_app
from crdtstream.http.page_sources import PageSources
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region

OPEN = [
    "/healthz",
    "/readyz",
    "/health",
    "/v1/bdbs/1/availability",
    "/v1/local/bdbs/1/endpoint/availability",
    # The absolute form of a target.
    "http://here:8381/readyz",
    "HTTPS://here/healthz",
]
ASKING = [
    "/metrics",
    "/v1/bdbs",
    "/v1/bdbs/1",
    "/v1/crdbs",
    "/v1/crdbs/1",
    "/v1/crdbs/1/health_report",
    # No page, and close to an open one.
    "/",
    "/nowhere",
    "/healthz/",
    "//healthz",
    "/readyz/../metrics",
    "/v1/bdbs/1/2/availability",
    "/v1/bdbs/1/availability/x",
    "/metrics/healthz",
    "http://here:8381/metrics",
    "http://here",
    "http:///readyz/../metrics",
    "/http://here/readyz",
    "http://here/http://here/readyz",
]


async def no_metrics() -> bytes:
    return b""


async def no_reports(_instance: int | None) -> list[dict[str, Any]]:
    return []


async def get(path: str, *logins: Login, asks: bool = True) -> tuple[int, Mapping[bytes, bytes]]:
    """Status and headers of an answer."""
    parts = PageSources(
        settings=NodeSettings(region=1, dir=Path("data")),
        engine=Engine(make_region(), MemoryLog()),
        version="1",
        metrics_text=no_metrics,
        health_reports=no_reports,
        logins=Logins(one_user("secret"), asks=lambda: True) if asks else None,
    )
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"authorization", login.header.encode()) for login in logins],
        "server": ("10.0.0.1", 8381),
        "client": ("10.0.0.2", 4711),
    }
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.append(message)

    await make_app(parts)(scope, receive, send)
    return told[0]["status"], dict(told[0]["headers"])


@pytest.mark.parametrize("path", OPEN)
async def test_health_asks_nobody(path: str) -> None:
    status, _ = await get(path)
    assert status in (200, 503)


@pytest.mark.parametrize("path", ASKING)
async def test_all_other_pages_ask(path: str) -> None:
    right = Login("secret")
    for logins in ((), (Login("Secret"),), (Login("secret", "eve"),), (right, right)):
        status, headers = await get(path, *logins)
        assert status == 401
        assert headers[b"www-authenticate"].startswith(b"Basic ")
    status, _ = await get(path, right)
    assert status != 401


@pytest.mark.parametrize("path", ["/metrics", "/v1/bdbs", "http://here:8381/metrics"])
async def test_a_port_of_this_machine_asks_nobody(path: str) -> None:
    status, _ = await get(path, asks=False)
    assert status == 200
