"""Actions: asked first, by whom has the right, for a page of this node, and done once."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import structlog

from crdtstream.access.basic import Login
from crdtstream.admin.tunables import Tunables
from crdtstream.console.acting import ACT_SECONDS
from crdtstream.console.action_pages import MEMORY_VALUE, ZERO
from crdtstream.console.feed import SAMPLE_SECONDS
from crdtstream.console.outcomes import (
    OUTCOMES_MAX,
    USER_OUTCOMES_MAX,
    Outcome,
    Outcomes,
    Secret,
    State,
)
from crdtstream.console.pending import PENDING_SHOWN
from crdtstream.console.plans import joining_command
from crdtstream.console.proofs import SECONDS_MAX
from crdtstream.database.acl.log import Refused
from crdtstream.node.actions import Actions
from crdtstream.region.links.link import LinkState
from crdtstream.region.tuning import tunables_of
from crdtstream.store.errors import StoreError
from crdtstream.v1 import admin_pb2 as pb
from tests.console.shown import Answer, Shown

HERE = {"host": "127.0.0.1:8381", "origin": "http://127.0.0.1:8381"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
Query = Mapping[str, str | bytes | Sequence[str]]

PAUSE: Query = {"peer": "2"}
TUNE: Query = {"parameter": "maxmemory", "value": "100mb"}
ACK: Query = {"key": "orders", "group": "g", "id": ["1000-1"]}
CLAIM: Query = {**ACK, "consumer": "bob", "idle": "0"}
REMOVE: Query = {"region": "2"}
ADD: Query = {"name": "eu", "grpc": "127.0.0.1:9", "resp": "", "http": ""}
ACTIONS = {"pause": PAUSE, "tune": TUNE, "acknowledge": ACK, "claim": CLAIM, "remove": REMOVE}
ACTIONS["add"] = ADD
# Those that one region does by itself.
CHANGES = {name: query for name, query in ACTIONS.items() if name not in {"add", "remove"}}


def shown_with_pending() -> Shown:
    shown = Shown()
    for _ in range(3):
        shown.driven.ask("XADD", "orders", "*", "f", "v")
    shown.driven.ask("XGROUP", "CREATE", "orders", "g", "0")
    shown.driven.ask("XREADGROUP", "GROUP", "g", "alice", "STREAMS", "orders", ">")
    return shown


def state_of(shown: Shown) -> tuple[object, ...]:
    """All that the actions of these tests could have changed."""
    stream = shown.replica.stream(b"orders")
    assert stream is not None
    owners = [
        (nack.id, nack.consumer and nack.consumer.name)
        for nack in stream.groups[b"g"].pending_from(0)  # type: ignore[arg-type]
    ]
    links = [pull.link.state for pull in shown.region.links.pulls.values()]
    return owners, links, shown.region.memory.maxmemory, shown.region.membership.known.epoch


def proof_in(text: str) -> str:
    found = re.search(r'name="proof" value="([^"]*)"', text)
    assert found is not None, text
    return unescape(found[1])


async def asked(shown: Shown, name: str, query: Query, login: Login | None = None) -> str:
    """The proof of the page that asks."""
    answer = await shown.get(f"/console/act/{name}", login, query=query)
    assert answer.status == 200, answer.text
    return proof_in(answer.text)


async def sent(
    shown: Shown,
    name: str,
    query: Query,
    proof: str,
    login: Login | None = None,
    headers: Mapping[str, str] = HERE,
) -> Answer:
    """The form of that page, as a browser sends it."""
    return await shown.get(
        f"/console/act/{name}",
        login,
        query=query,
        method="POST",
        headers={**FORM, **headers},
        body=lambda: f"proof={proof}".encode(),
    )


async def outcome_of(shown: Shown, answer: Answer, login: Login | None = None) -> str:
    """The page that a form leads to."""
    assert answer.status == 303, answer.text
    found = await shown.get(answer.headers["location"], login)
    assert found.status == 200
    return found.text


# --- What is done ---------------------------------------------------------------------------------


async def test_entries_are_acknowledged_as_by_xack() -> None:
    shown = shown_with_pending()
    query = {**ACK, "id": ["1000-1", "1000-1025"]}
    async with shown.at_work():
        page = await shown.get("/console/act/acknowledge", query=query)
        assert "2 entries are pending no longer" in page.text
        assert "cannot be undone" in page.text
        done = await sent(shown, "acknowledge", query, proof_in(page.text))
        assert "2 entries are acknowledged in this region" in await outcome_of(shown, done)
    assert len(state_of(shown)[0]) == 1  # type: ignore[arg-type]


async def test_chosen_entries_that_are_not_pending_any_more_are_counted() -> None:
    shown = shown_with_pending()
    query = {**ACK, "id": ["1000-1", "9999-1"]}
    async with shown.at_work():
        page = await shown.get("/console/act/acknowledge", query=query)
        assert "1 entry is pending no longer" in page.text
        assert "1 entry that you chose is not pending, and stays as it is." in page.text
        done = await sent(shown, "acknowledge", query, proof_in(page.text))
        told = await outcome_of(shown, done)
    assert "1 entry is acknowledged in this region, of 2 that you chose." in told


async def test_entries_are_claimed_as_by_xclaim_without_a_delivery() -> None:
    shown = shown_with_pending()
    async with shown.at_work():
        page = await shown.get("/console/act/claim", query=CLAIM)
        assert "become those of bob. The group makes this consumer." in page.text
        done = await sent(shown, "claim", CLAIM, proof_in(page.text))
        assert "1 entry is of consumer bob" in await outcome_of(shown, done)
    rows: Any = shown.driven.ask("XPENDING", "orders", "g", "-", "+", "10")
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (b"1000-1", b"bob", 1),
        (b"1000-1025", b"alice", 1),
        (b"1000-2049", b"alice", 1),
    ]


async def test_an_entry_that_is_not_idle_stays_with_its_consumer() -> None:
    shown = shown_with_pending()
    query = {**CLAIM, "idle": "999999999999999"}
    async with shown.at_work():
        proof = await asked(shown, "claim", query)
        page = await outcome_of(shown, await sent(shown, "claim", query, proof))
    assert "0 entries are of consumer bob" in page
    owners: Any = state_of(shown)[0]
    assert owners[0][1] == b"alice"


async def test_entries_of_a_group_with_another_home_are_not_claimed_here() -> None:
    shown = shown_with_pending()
    shown.driven.ask("CRDT.XGROUP", "SETMODE", "orders", "g", "HOME", "2", "FORCE")
    async with shown.at_work():
        page = await shown.get("/console/act/claim", query=CLAIM)
    assert "Region 2 delivers this group alone" in page.text
    assert "console of region 2" in page.text
    assert "<form" not in page.text


async def test_entries_without_a_consumer_are_not_said_to_be_claimed_back() -> None:
    shown = shown_with_pending()
    both = {**CLAIM, "id": ["1000-1", "1000-1025"]}
    back = "Claiming them for the former consumer undoes it"
    assert f"{back}." in (await shown.get("/console/act/claim", query=both)).text
    shown.driven.ask("XNACK", "orders", "g", "SILENT", "IDS", "1", "1000-1")
    text = (await shown.get("/console/act/claim", query=both)).text
    assert f"{back}, except for 1 entry without a consumer." in text
    text = (await shown.get("/console/act/claim", query=CLAIM)).text
    assert "This cannot be undone: they have no consumer" in text
    assert back not in text


async def test_a_link_is_paused_and_resumed() -> None:
    shown = Shown()
    pull = shown.region.links.pulls[2]  # type: ignore[index]
    async with shown.at_work():
        done = await sent(shown, "pause", PAUSE, await asked(shown, "pause", PAUSE))
        assert "is paused" in await outcome_of(shown, done)
        assert pull.link.state is LinkState.PAUSED
        done = await sent(shown, "resume", PAUSE, await asked(shown, "resume", PAUSE))
        assert "is resumed" in await outcome_of(shown, done)
        assert pull.link.state is not LinkState.PAUSED


async def test_one_address_asks_to_pause_a_link_or_to_resume_it() -> None:
    shown = Shown()
    assert "Pause the link" in (await shown.get("/console/act/link", query=PAUSE)).text
    shown.own.links[0].paused = True
    assert "Resume the link" in (await shown.get("/console/act/link", query=PAUSE)).text


async def test_a_size_has_an_example_and_the_meaning_of_0() -> None:
    shown = Shown()
    tunables = tunables_of(shown.region)
    sizes = [name for name, one in tunables.items() if one.tunable.wanted == MEMORY_VALUE]
    assert len(sizes) > 3
    for name in sizes:
        shown.own.tunables.add(name=name, value="1", allowed=[MEMORY_VALUE])
        page = await shown.get("/console/act/tune", query={"parameter": name})
        assert "It must be a number of bytes, or one with a unit, such as 4gb." in page.text
        assert f" 0 means: {ZERO[name]}." in page.text


async def test_a_setting_is_tuned_durably() -> None:
    shown = Shown()
    async with shown.at_work():
        page = await shown.get("/console/act/tune", query=TUNE)
        assert "maxmemory of region 1 is 0, and becomes 100mb" in page.text
        assert "Setting it to 0 undoes it" in page.text
        done = await sent(shown, "tune", TUNE, proof_in(page.text))
        assert "maxmemory was 0, and is 104857600" in await outcome_of(shown, done)
        assert await shown.parts.engine.log.get_meta("tune:maxmemory") == "100mb"


@pytest.mark.parametrize(
    ("name", "query", "why"),
    [
        (
            "tune",
            {**TUNE, "value": "much"},
            "maxmemory cannot be 'much'; it must be a memory value",
        ),
        ("tune", {"parameter": "color", "value": "red"}, "no parameter 'color'; there are"),
        ("pause", {"peer": "9"}, "Region 9 is no peer of region 1"),
        ("acknowledge", {**ACK, "id": ["7-7"]}, "None of these entries is pending"),
        ("acknowledge", {**ACK, "group": "h"}, "No such key 'orders' or consumer group 'h'"),
        ("remove", {"region": "1"}, "this is region 1 itself"),
        ("remove", {"region": "77"}, "there is no region 77"),
    ],
)
async def test_an_action_that_is_not_possible_is_not_offered(
    name: str, query: Query, why: str
) -> None:
    shown = shown_with_pending()
    async with shown.at_work():
        page = await shown.get(f"/console/act/{name}", query=query)
    assert page.status == 200
    assert why in unescape(page.text)
    assert "Nothing was changed" in page.text
    assert "<form" not in page.text


async def test_a_setting_that_may_be_lost_with_the_power_is_told_as_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Shown()
    log, region = shown.parts.engine.log, shown.region

    async def sync() -> None:
        raise StoreError("the disk refused")

    async with shown.at_work():
        proof = await asked(shown, "tune", TUNE)
        with monkeypatch.context() as refusing:
            refusing.setattr(log, "sync", sync)
            page = await outcome_of(shown, await sent(shown, "tune", TUNE, proof))
        assert 'data-state="not known"' in page
        assert "maxmemory is still 0, and may be 100mb after a restart" in page
        assert region.memory.maxmemory == 0
        # The next start: the page told the truth.
        await Tunables(region, log, shown.settings).restore()
        assert region.memory.maxmemory == 100 << 20


async def test_a_refused_write_is_told_as_not_done() -> None:
    shown = shown_with_pending()
    async with shown.at_work():
        proof = await asked(shown, "acknowledge", ACK)
        shown.region.database.fault = "the disk is full"
        page = await outcome_of(shown, await sent(shown, "acknowledge", ACK, proof))
        shown.region.database.fault = None
    assert 'data-state="not done"' in page
    assert "the disk is full" in page


# --- Asked first, and done once -------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTIONS)
async def test_asking_changes_nothing(name: str) -> None:
    shown = shown_with_pending()
    before = state_of(shown)
    async with shown.at_work():
        for method in ("GET", "HEAD"):
            answer = await shown.get(f"/console/act/{name}", query=ACTIONS[name], method=method)
            assert answer.status == 200
    assert state_of(shown) == before


async def test_a_form_that_is_sent_twice_acts_once() -> None:
    shown = shown_with_pending()
    async with shown.at_work():
        proof = await asked(shown, "pause", PAUSE)
        first = await sent(shown, "pause", PAUSE, proof)
        shown.region.links.pulls[2].resume(shown.parts.engine.now())  # type: ignore[index]
        again = await sent(shown, "pause", PAUSE, proof)
    assert again.headers["location"] == first.headers["location"]
    state = shown.region.links.pulls[2].link.state  # type: ignore[index]
    assert state is not LinkState.PAUSED


async def test_reloading_an_outcome_changes_nothing() -> None:
    shown = shown_with_pending()
    async with shown.at_work():
        done = await sent(shown, "pause", PAUSE, await asked(shown, "pause", PAUSE))
        before = state_of(shown)
        pages = [await outcome_of(shown, done) for _ in range(2)]
        assert state_of(shown) == before
    strip = [re.sub(r"<time.*?</time>", "", page) for page in pages]
    assert strip[0] == strip[1]


async def test_the_page_behind_an_action_has_the_figures_of_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Shown()
    monkeypatch.setattr(SAMPLE_SECONDS, "value", 3_600.0)
    async with shown.at_work():
        proof = await asked(shown, "pause", PAUSE)
        await shown.get("/")
        of_one_page = shown.samples
        await shown.get("/")
        assert shown.samples == of_one_page
        await sent(shown, "pause", PAUSE, proof)
        await shown.get("/")
    assert shown.samples > of_one_page


async def test_outcomes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    monkeypatch.setattr(OUTCOMES_MAX, "value", 2)
    async with shown.at_work():
        for _ in range(3):
            done = await sent(shown, "pause", PAUSE, await asked(shown, "pause", PAUSE))
            assert done.status == 303
        assert len(shown_outcomes(shown)) == 2
        for one in shown_outcomes(shown):
            one.state = State.RUNNING
        refused = await sent(shown, "pause", PAUSE, await asked(shown, "pause", PAUSE))
        assert refused.status == 503
        assert "being done at this moment" in refused.text
        shown_outcomes(shown)[1].state = State.DONE
        proof = await asked(shown, "pause", PAUSE)
        assert (await sent(shown, "pause", PAUSE, proof)).status == 303


async def test_a_user_who_does_much_keeps_nobody_from_acting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Shown()
    monkeypatch.setattr(OUTCOMES_MAX, "value", 4)
    monkeypatch.setattr(USER_OUTCOMES_MAX, "value", 2)
    ops, eve = shown.user("ops", "+@all", "~*"), shown.user("eve", "+@all", "~*")
    async with shown.at_work():
        for login in (ops, eve, eve, eve):
            done = await sent(
                shown, "pause", PAUSE, await asked(shown, "pause", PAUSE, login), login
            )
            assert done.status == 303
        assert [one.user for one in shown_outcomes(shown)] == [b"ops", b"eve", b"eve"]
        for one in shown_outcomes(shown):
            one.state = State.RUNNING
        for login, status in ((eve, 503), (ops, 303)):
            proof = await asked(shown, "resume", PAUSE, login)
            assert (await sent(shown, "resume", PAUSE, proof, login)).status == status


async def test_a_form_whose_outcome_was_dropped_does_not_act_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Shown()
    monkeypatch.setattr(USER_OUTCOMES_MAX, "value", 1)
    pull = shown.region.links.pulls[2]  # type: ignore[index]
    async with shown.at_work():
        first = await asked(shown, "pause", PAUSE)
        assert (await sent(shown, "pause", PAUSE, first)).status == 303
        proof = await asked(shown, "resume", PAUSE)
        assert (await sent(shown, "resume", PAUSE, proof)).status == 303
        again = await sent(shown, "pause", PAUSE, first)
        assert again.status == 409
        assert "did too much after the page was loaded" in again.text
        assert "Ask again" in again.text
        assert pull.link.state is not LinkState.PAUSED


def test_dropped_outcomes_of_a_user_are_noted_as_long_as_a_page_proves_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(USER_OUTCOMES_MAX, "value", 1)
    outcomes = Outcomes()

    def done(user: bytes, began_s: float) -> None:
        outcome = Outcome(f"{user!r} {began_s}", user, "", "/", began_s)
        outcomes.begin(outcome)
        outcome.state = State.DONE

    for began_s in (10.0, 20.0):
        done(b"eve", began_s)
    assert [outcomes.is_spent(b"eve", asked_s) for asked_s in (9.0, 10.0, 10.1)] == [
        *(True, True, False)
    ]
    for began_s in (600.0, 609.0):
        done(b"ops", began_s)
    assert outcomes.is_spent(b"eve", 10.0)
    done(b"ops", 611.0)
    assert not outcomes.is_spent(b"eve", 10.0)
    assert outcomes.is_spent(b"ops", 609.0)


# --- Who may, and from where ----------------------------------------------------------------------


def user(shown: Shown, *rules: str, name: str = "eve") -> Login:
    return shown.user(name, "+info", *rules)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("acknowledge", ("+@read", "+xclaim", "~*")),
        ("acknowledge", ("+xack", "%R~orders")),
        ("acknowledge", ("+xack", "~salaries")),
        ("claim", ("+@read", "+xack", "~*")),
        ("claim", ("+xclaim", "~salaries")),
        ("pause", ("+@all", "-config|set", "~*")),
        ("tune", ("+@write", "+config|set", "~*")),
        ("remove", ("+@all", "-@admin", "~*")),
        ("add", ("+@all", "-@admin", "~*")),
    ],
)
async def test_without_the_right_nothing_is_asked_or_done(name: str, rules: Sequence[str]) -> None:
    shown = shown_with_pending()
    refused: list[Refused] = []
    shown.region.database.on_program_refused = lambda one, _address: refused.append(one)
    shown.parts.logins.on_refused = lambda one: refused.append(one)  # type: ignore[arg-type]
    before = state_of(shown)
    operator = shown.user("ops", "+@all", "~*")
    eve = user(shown, *rules)
    async with shown.at_work():
        page = await shown.get(f"/console/act/{name}", eve, query=ACTIONS[name])
        assert page.status == 403
        assert "<form" not in page.text
        right = {"acknowledge": "It needs +xack, and", "claim": "It needs +xclaim, and"}
        assert right.get(name, "all commands of the category @admin") in unescape(page.text)
        assert name not in right or "read and write the key orders" in page.text
        # Even with a proof that was made for her, by which the node would know its own page.
        shown.accounts.set_user(b"eve", [b"+@all", b"~*"])
        given = name if name in CHANGES else "pause"
        proof = await asked(shown, given, ACTIONS[given], eve)
        shown.accounts.set_user(b"eve", [b"resetkeys", b"-@all", b"+info"])
        shown.accounts.set_user(b"eve", [rule.encode() for rule in rules])
        answer = await sent(shown, name, ACTIONS[name], proof, eve)
        assert answer.status == 403
        assert state_of(shown) == before
        assert len(refused) == 2
        if name in CHANGES:
            proof = await asked(shown, name, ACTIONS[name], operator)
            assert (await sent(shown, name, ACTIONS[name], proof, operator)).status == 303
            assert state_of(shown) != before


async def test_a_user_who_is_removed_while_the_form_comes_does_nothing() -> None:
    shown = shown_with_pending()
    before = state_of(shown)
    eve = shown.user("eve", "+@all", "~*")
    async with shown.at_work():
        proof = await asked(shown, "pause", PAUSE, eve)

        def body() -> bytes:
            shown.accounts.set_user(b"eve", [b"off"])
            return f"proof={proof}".encode()

        answer = await shown.get(
            "/console/act/pause",
            eve,
            query=PAUSE,
            method="POST",
            headers={**FORM, **HERE},
            body=body,
        )
        assert answer.status == 403
        assert "was removed" in answer.text
    assert state_of(shown) == before


async def test_a_refusal_of_the_question_for_a_consumer_names_the_right() -> None:
    shown = shown_with_pending()
    eve = user(shown, "+xpending", "~*")
    page = await shown.get("/console/act/claim", eve, query=ACK)
    assert page.status == 403
    assert "It needs +xclaim, and a right to read and write the key orders" in page.text


async def test_commands_on_keys_need_the_rights_of_the_commands() -> None:
    shown = shown_with_pending()
    worker = user(shown, "+xack", "+xclaim", "%RW~orders")
    async with shown.at_work():
        for name in ("claim", "acknowledge"):
            proof = await asked(shown, name, ACTIONS[name], worker)
            done = await sent(shown, name, ACTIONS[name], proof, worker)
            assert 'data-state="done"' in await outcome_of(shown, done, worker)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "none", "origin": "null"},
        # A browser that reaches the node over an address that is not trustworthy.
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": "http://[::1"},
        {},
    ],
)
async def test_a_form_of_another_site_is_refused(name: str, headers: Mapping[str, str]) -> None:
    shown = shown_with_pending()
    before = state_of(shown)
    async with shown.at_work():
        proof = await asked(shown, name, ACTIONS[name])
        answer = await sent(shown, name, ACTIONS[name], proof, headers=headers)
        assert answer.status == 403
        assert "No page of this node made this request" in answer.text
    assert state_of(shown) == before


async def test_a_form_without_a_proof_is_refused() -> None:
    shown = shown_with_pending()
    before = state_of(shown)
    async with shown.at_work():
        for proof in ("", "x", "é", "a.b.c.d", "1" * 5_000):
            answer = await sent(shown, "pause", PAUSE, proof)
            assert answer.status in (400, 409), proof
    assert state_of(shown) == before


async def test_a_proof_is_of_one_user() -> None:
    shown = shown_with_pending()
    ops, eve = shown.user("ops", "+@all", "~*"), shown.user("eve", "+@all", "~*")
    before = state_of(shown)
    async with shown.at_work():
        proof = await asked(shown, "pause", PAUSE, eve)
        answer = await sent(shown, "pause", PAUSE, proof, ops)
        assert answer.status == 409
        assert "made for another user" in answer.text
    assert state_of(shown) == before


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("pause", {"peer": "3"}),
        ("resume", PAUSE),
        ("remove", REMOVE),
        ("add", ADD),
        ("acknowledge", {**ACK, "id": ["1000-1025"]}),
    ],
)
async def test_a_proof_is_of_one_action_with_its_values(name: str, query: Query) -> None:
    shown = shown_with_pending()
    before = state_of(shown)
    async with shown.at_work():
        given = "acknowledge" if name == "acknowledge" else "pause"
        proof = await asked(shown, given, ACTIONS[given])
        answer = await sent(shown, name, query, proof)
        assert answer.status == 409
        assert "for another action" in answer.text
    assert state_of(shown) == before


async def test_a_page_of_before_an_upgrade_changes_nothing_and_leads_to_a_new_one() -> None:
    before, after = shown_with_pending(), shown_with_pending()
    untouched = state_of(after)
    async with before.at_work(), after.at_work():
        proof = await asked(before, "acknowledge", ACK)
        answer = await sent(after, "acknowledge", ACK, proof)
        assert answer.status == 409
        assert "restarted or upgraded" in answer.text
        assert "Nothing was changed" in answer.text
        assert state_of(after) == untouched
        again = re.search(r'href="(/console/act/[^"]*)">Ask again', answer.text)
        assert again is not None
        path, _, query = unescape(again[1]).partition("?")
        assert path == "/console/act/acknowledge"
        assert query == "key=orders&group=g&id=1000-1"


async def test_an_old_page_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_with_pending()
    before = state_of(shown)
    async with shown.at_work():
        proof = await asked(shown, "pause", PAUSE)
        monkeypatch.setattr(SECONDS_MAX, "value", -1.0)
        answer = await sent(shown, "pause", PAUSE, proof)
        assert answer.status == 409
        assert "older than" in answer.text
    assert state_of(shown) == before


async def test_an_outcome_is_shown_to_its_user_alone() -> None:
    shown = shown_with_pending()
    ops, eve = shown.user("ops", "+@all", "~*"), shown.user("eve", "+@all", "~*")
    async with shown.at_work():
        proof = await asked(shown, "acknowledge", ACK, ops)
        done = await sent(shown, "acknowledge", ACK, proof, ops)
        assert (await shown.get(done.headers["location"], eve)).status == 404
        assert (await shown.get(done.headers["location"], ops)).status == 200


@pytest.mark.parametrize("name", CHANGES)
async def test_each_action_is_logged_with_its_user(name: str) -> None:
    shown = shown_with_pending()
    ops = shown.user("ops", "+@all", "~*")
    with structlog.testing.capture_logs() as lines:
        async with shown.at_work():
            proof = await asked(shown, name, ACTIONS[name], ops)
            await sent(shown, name, ACTIONS[name], proof, ops)
    began, ended = (line for line in lines if line["event"].startswith("the console act"))
    for line in (began, ended):
        assert (line["user"], line["action"], line["address"]) == ("ops", name, "127.0.0.1")
    assert ended["outcome"] == "done"


async def test_an_action_that_ends_with_the_node_is_logged_as_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = shown_with_pending()
    monkeypatch.setattr(ACT_SECONDS, "value", 0.001)
    # Nothing is committed: the engine does not run.
    with structlog.testing.capture_logs() as lines:
        done = await sent(shown, "acknowledge", ACK, await asked(shown, "acknowledge", ACK))
        assert 'data-state="being done"' in await outcome_of(shown, done)
        (action,) = shown.actions
        action.cancel()
        await asyncio.wait([action])
    assert action.cancelled()
    assert lines[-1]["event"] == "the console acted"
    assert lines[-1]["outcome"] == "not known"
    assert "The node stopped before it was done" in lines[-1]["told"]


async def test_actions_of_a_node_end_before_it_has_stopped() -> None:
    ended: list[str] = []

    async def work(seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with asyncio.TaskGroup() as tasks:
        actions = Actions(tasks)
        short, long = actions.begin(work(0)), actions.begin(work(3_600))
        await short
        actions.cancel()
    assert ended == ["cancelled"]
    assert long.cancelled()


# --- Bad requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "query", "says"),
    [
        ("format", {}, "no action"),
        ("pause", {}, "peer is missing"),
        ("pause", {"peer": "-1"}, "number of a region"),
        ("pause", {"peer": ["2", "3"]}, "there twice"),
        ("pause", {"peer": "2", "region": "3"}, "other values"),
        ("acknowledge", {"key": "orders", "group": "g"}, "No entry was chosen"),
        ("acknowledge", {**ACK, "id": [f"{n}-1" for n in range(101)]}, "At most 100"),
        ("acknowledge", {**ACK, "id": ["first"]}, "An ID is two numbers"),
        ("claim", {**CLAIM, "idle": "soon"}, "number of milliseconds"),
        ("claim", {**CLAIM, "consumer": ""}, "1 to 1024 bytes"),
        ("tune", {**TUNE, "value": "ä"}, "characters of ASCII"),
    ],
)
async def test_values_that_make_no_action_are_told(name: str, query: Query, says: str) -> None:
    answer = await shown_with_pending().get(f"/console/act/{name}", query=query)
    assert answer.status == 400
    assert says in answer.text


async def test_a_body_that_is_no_form_is_refused() -> None:
    shown = shown_with_pending()
    for headers, body in [
        ({"content-type": "application/json"}, b"{}"),
        (FORM, b"proof=" + b"x" * 10_000),
    ]:
        answer = await shown.get(
            "/console/act/pause",
            query=PAUSE,
            method="POST",
            headers={**HERE, **headers},
            body=partial(bytes, body),
        )
        assert answer.status == 400
        assert "no form" in answer.text


# --- Where they are offered -----------------------------------------------------------------------


async def test_buttons_are_shown_to_those_who_have_the_right() -> None:
    shown = shown_with_pending()
    ops = shown.user("ops", "+@all", "~*")
    viewer = shown.user("viewer", "+info", "+@read", "~*")
    worker = shown.user("worker", "+info", "+xpending", "+xack", "~*")
    pending = {"key": "orders", "group": "g"}
    for path, query, link in (
        ("/", None, "/console/act/link?peer=2"),
        ("/console/members", None, "/console/act/remove?region=2"),
        ("/console/members", None, "/console/act/add"),
        ("/console/node", None, "/console/act/tune?parameter=maxmemory"),
        ("/console/pending", pending, "/console/act/claim"),
        ("/console/pending", pending, "/console/act/acknowledge"),
    ):
        shown.own.tunables.add(name="maxmemory", value="0", allowed=["a memory value"])
        assert link in (await shown.get(path, ops, query=query)).text, path
        assert "/console/act/" not in (await shown.get(path, viewer, query=query)).text, path
    text = (await shown.get("/console/pending", worker, query=pending)).text
    assert "/console/act/acknowledge" in text
    assert "/console/act/claim" not in text


async def test_all_entries_of_a_page_are_chosen_without_scripts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PENDING_SHOWN, "value", 2)
    shown = shown_with_pending()
    page = (await shown.get("/console/pending", query={"key": "orders", "group": "g"})).text
    assert "checked" not in page
    all_of_it = parameters_of(page, "Choose all of this page")
    chosen = (await shown.get("/console/pending", query=all_of_it)).text
    assert re.findall(r'value="([0-9-]+)" checked', chosen) == ["1000-1", "1000-1025"]
    assert parameters_of(chosen, "Choose none") == {"key": "orders", "group": "g"}
    further = parameters_of(chosen, "Next page")
    page = (await shown.get("/console/pending", query=further)).text
    assert "checked" not in page
    all_of_it = parameters_of(page, "Choose all of this page")
    chosen = (await shown.get("/console/pending", query=all_of_it)).text
    assert re.findall(r'value="([0-9-]+)" checked', chosen) == ["1000-2049"]


def parameters_of(page: str, link: str) -> dict[str, str]:
    """Parameters of the address to which a link leads."""
    found = re.search(rf'<a href="([^"]*)"[^>]*>{link}<', page)
    assert found is not None, page
    return dict(parse_qsl(urlsplit(unescape(found[1])).query))


async def test_a_claim_offers_the_consumers_to_those_who_may_see_them() -> None:
    shown = shown_with_pending()
    shown.driven.ask("XGROUP", "CREATECONSUMER", "orders", "g", "<b>")
    worker = shown.user("worker", "+info", "+xclaim", "~*")
    reader = shown.user("reader", "+info", "+xclaim", "+xinfo", "~*")
    offered = (await shown.get("/console/act/claim", reader, query=ACK)).text
    assert '<option value="&lt;b&gt;"></option><option value="alice"></option>' in offered
    assert 'list="consumers"' in offered
    page = await shown.get("/console/act/claim", worker, query=ACK)
    assert page.status == 200
    assert "alice" not in page.text


async def test_pending_entries_need_the_right_to_xpending() -> None:
    shown = shown_with_pending()
    query = {"key": "orders", "group": "g"}
    reader = shown.user("reader", "+info", "+xinfo", "+xrange", "~*")
    answer = await shown.get("/console/pending", reader, query=query)
    assert answer.status == 403
    assert "alice" not in answer.text
    assert (
        "alice"
        in (await shown.get("/console/pending", shown.user("r", "+@all", "~*"), query=query)).text
    )


async def test_consumers_of_a_group_are_shown_to_those_who_may_see_them() -> None:
    shown = shown_with_pending()
    shown.driven.ask("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "orders", ">")
    query = {"key": "orders", "group": "g"}
    for right, is_there in (("+xpending", False), ("+xinfo", True)):
        viewer = shown.user(right[1:], "+info", "+xpending", right, "~*")
        page = (await shown.get("/console/pending", viewer, query=query)).text
        assert ("2 consumers in region 1" in page) == is_there
        # It is the consumer of nothing.
        assert ("bob" in page) == is_there
        assert ("never" in page) == is_there
        assert ("Progress in all regions" in page) == is_there


def test_the_node_of_an_added_region_shows_its_certificate_where_members_speak_tls() -> None:
    plain = "crdtstream node --join h:1 --token-file region-4.token --config region-4.toml"
    assert joining_command("h:1", 4, has_certificate=False) == plain
    with_files = joining_command("h:1", 4, has_certificate=True)
    for option in ("--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"):
        assert option in with_files.split()


async def test_a_group_shows_its_progress_in_all_regions() -> None:
    shown = shown_with_pending()
    lane = pb.LaneProgress(lane=2, delivered=b"7-7", acknowledged=b"5-5", pending=41)
    shown.progress = {2: pb.GroupProgress(consumers=9, lanes=[lane]), 3: "no answer"}
    query = {"key": "orders", "group": "g"}
    page = (await shown.get("/console/pending", query=query)).text
    regions, lanes = re.findall(r"<caption[^>]*>Progress.*?</table>", page, re.DOTALL)
    # Of this region and lane, and of region 2; consumers and the rest to deliver once for each.
    assert "<code>1000-2049</code>" in lanes
    for text in ("<code>7-7</code>", "<code>5-5</code>", ">41<"):
        assert text in lanes
    assert ">9<" in regions
    assert ">9<" not in lanes
    assert "to deliver" not in lanes
    assert "Region 3 is not known: no answer." in page


async def test_a_key_of_any_bytes_reaches_its_action() -> None:
    shown = Shown()
    key = b"\xff\x00<b>"
    driven = shown.driven
    for argv in (
        [b"XADD", key, b"*", b"f", b"v"],
        [b"XGROUP", b"CREATE", key, key, b"0"],
        [b"XREADGROUP", b"GROUP", key, b"a", b"STREAMS", key, b">"],
    ):
        driven.client.client.run(iter([argv]), driven.now, bytes_max=1 << 20)
        driven.end_tick()
        driven.commit()
    async with shown.at_work():
        page = await shown.get("/console/pending", query={"key": key, "group": key})
        of = re.search(r'name="of" value="([^"]*)"', page.text)
        assert of is not None
        query = {"of": unescape(of[1]), "id": ["1000-1"]}
        page = await shown.get("/console/act/acknowledge", query=query)
        action = re.search(r'action="/console/act/acknowledge\?([^"]*)"', page.text)
        assert action is not None
        assert unescape(action[1]) == "key=%FF%00%3Cb%3E&group=%FF%00%3Cb%3E&id=1000-1"
        values: Query = {"key": key, "group": key, "id": ["1000-1"]}
        done = await sent(shown, "acknowledge", values, proof_in(page.text))
        assert "1 entry is acknowledged" in await outcome_of(shown, done)


@pytest.mark.parametrize(
    ("status", "told", "is_followed"),
    [
        ("JOINING", "has not joined yet", True),
        ("ACTIVE", "Its node has joined.", False),
        ("REMOVED", "was removed again", False),
    ],
)
async def test_the_outcome_of_an_added_region_follows_it_until_it_has_joined(
    status: str, told: str, is_followed: bool
) -> None:
    shown = Shown()
    shown.members.members.add(region=4, status=pb.MemberStatus.Status.Value(status))
    secret = Secret(4, "Token:", "5ec2e7", "Then:", "crdtstream node --join")
    done = Outcome(
        "7", b"default", "Add region eu", "/console/members", 0.0, State.DONE, secret=secret
    )
    kept_outcomes(shown).begin(done)
    page = (await shown.get("/console/outcome/7")).text
    assert told in page
    assert ("data-followed" in page) == is_followed
    # A token that was used is shown no more.
    assert ("5ec2e7" in page) == is_followed


@pytest.mark.parametrize(
    ("back", "tab"),
    [
        ("/", "Overview"),
        ("/console/pending?key=orders&group=g", "Streams"),
        ("/console/members", "Members"),
        ("/console/node", "Node"),
    ],
)
async def test_an_outcome_is_in_the_tab_from_which_it_was_done(back: str, tab: str) -> None:
    shown = Shown()
    kept_outcomes(shown).begin(Outcome("7", b"default", "Do it", back, 0.0, State.DONE))
    page = (await shown.get("/console/outcome/7")).text
    assert re.findall(r'aria-current="page"[^>]*>([^<]*)<', page) == [tab]


def kept_outcomes(shown: Shown) -> Outcomes:
    """The outcomes that its console keeps."""
    for route in shown.app.routes:  # type: ignore[attr-defined]
        if route.path == "/console/outcome/{number}":
            found: Outcomes = route.endpoint.__self__._outcomes
            return found
    raise AssertionError("there is a route of outcomes")


def shown_outcomes(shown: Shown) -> list[Outcome]:
    return list(kept_outcomes(shown)._found.values())
