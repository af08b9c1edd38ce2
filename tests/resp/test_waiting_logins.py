"""Logins that wait: each goes on when its timer rings, whatever the clock says then."""

import asyncio
from typing import Any

import pytest

from crdtstream.access.logins import WAITING_MAX, Verdict
from crdtstream.access.slowing import FREE_MAX, WAIT_SECONDS_MIN, Slowing
from crdtstream.commands.reply import CommandError
from crdtstream.database.admission import PostponedError
from crdtstream.database.session import Session
from crdtstream.resp.clients import waiting_logins
from crdtstream.resp.clients.waiting_logins import WaitingLogins
from tests.patience import seconds

SOURCE = "10.0.0.1"


class Waiting:
    """One client of an address that has sent too many wrong logins."""

    def __init__(self) -> None:
        slowing = Slowing()
        for _ in range(FREE_MAX.value + 1):
            slowing.note_wrong(SOURCE, asyncio.get_running_loop().time())
        self.gone_on = asyncio.Event()
        self.refused: list[tuple[Verdict, str]] = []
        self.logins = WaitingLogins(
            slowing,
            address_of=lambda _session: f"{SOURCE}:7",
            go_on=self._go_on,
            note_refused=lambda verdict, address: self.refused.append((verdict, address)),
        )
        self.session = Session(7)

    def _go_on(self, session_id: int) -> None:
        assert session_id == self.session.id
        self.gone_on.set()

    def admit(self) -> None:
        self.logins.admit(self.session, b"digest")


@pytest.mark.pure
async def test_a_login_goes_on_though_its_timer_rings_early(monkeypatch: Any) -> None:
    """A third of uvloop's timers ring up to a millisecond before the time that they were set to."""
    at = asyncio.get_running_loop().time()
    monkeypatch.setattr(waiting_logins, "_now", lambda: at)
    waiting = Waiting()
    with pytest.raises(PostponedError):
        waiting.admit()
    async with asyncio.timeout(seconds()):
        await waiting.gone_on.wait()
    waiting.admit()


async def test_a_login_that_is_tried_before_its_time_waits_on(monkeypatch: Any) -> None:
    monkeypatch.setattr(WAIT_SECONDS_MIN, "value", 3600.0)
    waiting = Waiting()
    for _ in range(2):
        with pytest.raises(PostponedError):
            waiting.admit()


async def test_a_client_that_is_gone_is_not_woken(monkeypatch: Any) -> None:
    monkeypatch.setattr(WAIT_SECONDS_MIN, "value", 0.001)
    waiting = Waiting()
    with pytest.raises(PostponedError):
        waiting.admit()
    waiting.logins.forget(waiting.session)
    # A timer that is set later rings later.
    rung = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, rung.set_result, None)
    await rung
    assert not waiting.gone_on.is_set()


async def test_attempts_that_are_wrong_or_not_judged_are_noted(monkeypatch: Any) -> None:
    monkeypatch.setattr(WAIT_SECONDS_MIN, "value", 3600.0)
    waiting = Waiting()
    waiting.logins.note_wrong(waiting.session, b"digest")
    assert waiting.refused == [(Verdict.WRONG, SOURCE)]
    for number in range(WAITING_MAX.value):
        with pytest.raises(PostponedError):
            waiting.logins.admit(Session(number), b"%d" % number)
    with pytest.raises(CommandError, match="too many wrong logins"):
        waiting.logins.admit(Session(WAITING_MAX.value), b"another")
    assert waiting.refused[1:] == [(Verdict.SLOWED, SOURCE)]
