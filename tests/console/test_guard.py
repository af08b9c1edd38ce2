"""Rights to look: the console asks on each port, and shows of keys what the viewer may read."""

from typing import Any

import pytest

from crdtstream.access.basic import Login
from crdtstream.database.acl.log import Context, Refused
from crdtstream.database.acl.selectors import Reason
from tests.console.shown import PASSWORD, Shown

PAGES = ["/", "/console/streams", "/console/members", "/console/node"]
ABOUT_ONE = {
    "/console/stream": {"key": "orders"},
    "/console/entry": {"key": "orders", "id": "1000-1"},
}
PATHS = [*PAGES, *ABOUT_ONE, "/console/live", "/console/nowhere"]


def shown_with_streams(**settings: Any) -> Shown:
    shown = Shown(**settings)
    for key in ("orders", "orders:2", "salaries"):
        assert shown.driven.ask("XADD", key, "*", "field", f"of {key}") == b"1000-1"
    shown.driven.ask("XGROUP", "CREATE", "salaries", "audit-of-salaries", "0")
    return shown


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("http_host", ["127.0.0.1", "10.0.0.1"])
async def test_every_page_asks_on_each_port_once_there_is_a_password(
    path: str, http_host: str
) -> None:
    shown = shown_with_streams(http_host=http_host, requirepass=PASSWORD)
    shown.user("ops", "+@all", "~*")
    for login in (None, Login("wrong", "ops"), Login(PASSWORD, "nobody")):
        answer = await shown.get(path, login)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert "orders" not in answer.text


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_password_a_port_of_this_machine_asks_nobody(path: str) -> None:
    answer = await shown_with_streams().get(path)
    assert answer.status == 200


@pytest.mark.parametrize("path", [*PAGES, "/console/live"])
async def test_a_user_needs_the_right_to_info(path: str) -> None:
    shown = shown_with_streams()
    answer = await shown.get(path, shown.user("eve", "+@read", "~*"))
    assert answer.status == 403
    assert "+info" in answer.text


async def test_keys_are_listed_that_the_viewer_may_read() -> None:
    shown = shown_with_streams()
    reader = shown.user("reader", "+@read", "+info", "%R~orders*")
    answer = await shown.get("/console/streams", reader)
    assert answer.status == 200
    assert "orders:2" in answer.text
    assert "1 stream hidden" in answer.text
    assert "salaries" not in answer.text
    searched = await shown.get("/console/streams", reader, query={"pattern": "salar*"})
    # The word stands in no link; the search has the pattern.
    assert "/console/stream?key=salaries" not in searched.text
    assert "No stream matches" in searched.text
    other = await shown.get("/console/streams", reader, query={"pattern": "nothin*"})
    assert searched.text.replace("salar*", "nothin*") == other.text
    there = await shown.get("/console/streams", reader, query={"pattern": "salaries"})
    missing = await shown.get("/console/streams", reader, query={"pattern": "salarieX"})
    assert there.text.replace("salaries", "salarieX") == missing.text


@pytest.mark.parametrize("path", ["/console/stream", "/console/entry"])
async def test_a_key_that_may_not_be_read_is_as_unknown_as_one_that_is_not_there(path: str) -> None:
    shown = shown_with_streams()
    reader = shown.user("reader", "+@read", "+info", "+crdt.why", "%R~orders*")
    query = {} if path == "/console/stream" else {"id": "1000-1"}
    there = await shown.get(path, reader, query={"key": "salaries", **query})
    missing = await shown.get(path, reader, query={"key": "salarie", **query})
    assert there.status == missing.status == 403
    assert there.text == missing.text
    allowed = await shown.get(path, reader, query={"key": "orders", **query})
    assert allowed.status == 200


async def test_a_write_only_right_shows_nothing() -> None:
    shown = shown_with_streams()
    writer = shown.user("writer", "+@all", "%W~orders*")
    answer = await shown.get("/console/stream", writer, query={"key": "orders"})
    assert answer.status == 403


@pytest.mark.parametrize(
    ("path", "command"), [("/console/stream", b"xinfo|stream"), ("/console/entry", b"crdt.why")]
)
async def test_keys_and_commands_that_are_refused_are_told(path: str, command: bytes) -> None:
    shown = shown_with_streams()
    refused: list[tuple[Refused, str]] = []
    shown.driven.region.database.on_program_refused = lambda *one: refused.append(one)
    query = {"key": "salaries"} | ({} if path == "/console/stream" else {"id": "1000-1"})
    of_other_keys = shown.user("reader", "+@all", "%R~orders*")
    assert (await shown.get(path, of_other_keys, query=query)).status == 403
    without_command = shown.user("viewer", "+info", "~*")
    assert (await shown.get(path, without_command, query=query)).status == 403
    assert [(one.context, one.reason, one.subject, one.user) for one, _ in refused] == [
        (Context.HTTP, Reason.KEY, b"salaries", b"reader"),
        (Context.HTTP, Reason.COMMAND, command, b"viewer"),
    ]
    assert all(address for _, address in refused)


async def test_entries_need_the_right_to_xrange() -> None:
    shown = shown_with_streams()
    counter = shown.user("counter", "+info", "+xinfo", "%R~orders*")
    answer = await shown.get("/console/stream", counter, query={"key": "orders"})
    assert answer.status == 200
    assert "of orders" not in answer.text
    assert "may not read that key" in answer.text


async def test_fields_of_an_entry_need_the_right_to_xrange() -> None:
    shown = shown_with_streams()
    query = {"key": "orders", "id": "1000-1"}
    historian = shown.user("historian", "+info", "+xinfo", "+crdt.why", "%R~orders*")
    answer = await shown.get("/console/entry", historian, query=query)
    assert answer.status == 200
    assert "of orders" not in answer.text
    assert "may not read that key" in answer.text
    reader = shown.user("reader", "+info", "+xinfo", "+crdt.why", "+xrange", "%R~orders*")
    assert "of orders" in (await shown.get("/console/entry", reader, query=query)).text


async def test_slow_commands_need_the_right_to_slowlog() -> None:
    shown = shown_with_streams()
    shown.slowlog.note(
        [b"XADD", b"salaries"], usec=5, unix_s=1, address="127.0.0.1:1", client_name=b""
    )
    viewer = shown.user("viewer", "+info")
    answer = await shown.get("/console/node", viewer)
    assert answer.status == 200
    assert "salaries" not in answer.text
    assert "+slowlog|get" in answer.text
    assert "salaries" in (await shown.get("/console/node", shown.user("ops", "+@all", "~*"))).text


async def test_wrong_logins_are_counted_as_of_all_pages() -> None:
    shown = shown_with_streams()
    shown.user("ops", "+@all", "~*")
    for at in range(3):
        await shown.get("/", Login(f"guess {at}", "ops"))
    assert {door.value: count for (door, _), count in shown.parts.logins.refused.items()} == {
        "http": 3
    }


# --- Other sites ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8381", "127.0.0.1.evil.example", ""),
        # Starlette takes the node's own address for these; browsers ask for them.
        *("a{b.evil.example:8381", "a}b.evil.example", "a`b.evil.example", 'a"b.evil.example'),
        *("127.0.0.1@evil.example", "evil.example#@127.0.0.1", "127.0.0.1/x", "[::1", "[v1.a]:80"),
    ],
)
async def test_a_name_of_another_domain_that_leads_here_is_refused(host: str) -> None:
    answer = await shown_with_streams().get("/console/streams", host=host)
    assert answer.status == 421
    assert "orders" not in answer.text


async def test_the_check_of_a_load_balancer_is_told_its_method_not_its_name() -> None:
    answer = await shown_with_streams().get("/", method="OPTIONS", host="")
    assert answer.status == 405


@pytest.mark.parametrize("host", ["localhost:8381", "127.0.0.1", "[::1]:8381", "db.example"])
async def test_own_names_are_answered(host: str) -> None:
    shown = shown_with_streams(announce_hosts=["db.example"])
    assert (await shown.get("/", host=host)).status == 200


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("cross-site", "no-cors", 403),
        ("cross-site", "cors", 403),
        ("same-site", "cors", 403),
        ("cross-site", "navigate", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ],
)
async def test_a_page_of_another_site_reads_nothing(site: str, mode: str, status: int) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
    assert (await shown_with_streams().get("/", headers=headers)).status == status


@pytest.mark.parametrize(
    "path", [*PAGES, "/console/nowhere", "/console/static/console.js", "/console/static/no"]
)
async def test_every_answer_forbids_what_is_not_of_this_node(path: str) -> None:
    shown = shown_with_streams()
    for login in (None, shown.user("ops", "+@all", "~*")):
        headers = (await shown.get(path, login)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_pages_to_look_at_take_nothing_else(path: str, method: str) -> None:
    shown = shown_with_streams()
    assert (await shown.get(path, method=method)).status == 403
    own = {"origin": "http://127.0.0.1:8381"}
    assert (await shown.get(path, method=method, headers=own)).status == 405
