"""The fence: whatever happens, the source gets back what it had before, or people are told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crdtstream.move import fence, moving
from crdtstream.move.address import parse_address
from crdtstream.move.ends import Ends
from crdtstream.move.errors import LostError, MoveError
from crdtstream.move.moving import Move, Outcome
from crdtstream.move.survey import Selection
from tests.conftest import require
from tests.move.ends import Server, move

SETTINGS = ("min-replicas-to-write", "min-replicas-max-lag")


@pytest.fixture
def source(old: Server) -> Any:
    """A Redis whose settings of replicas are unusual, but let writes through."""
    old.client.config_set("min-replicas-to-write", 1)
    old.client.config_set("min-replicas-max-lag", 0)
    old.do("XADD s 1-1 f v")
    yield old
    old.client.config_set("min-replicas-to-write", 0)
    old.client.config_set("min-replicas-max-lag", 10)


def settings(server: Server) -> tuple[str, ...]:
    return tuple(server.client.config_get(name)[name] for name in SETTINGS)


class _Listening:
    def __init__(self) -> None:
        self.said: list[str] = []

    def show(self, what: str, done: int, total: int) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)


def cut_over(source: Server, target: Server, *, user: str | None = None) -> tuple[Any, list[str]]:
    """Outcome or error of a cut-over with a fence, in this process, and what was said."""
    watcher = _Listening()

    async def run() -> Outcome:
        password = "right-one" if user else None
        address = parse_address(target.url).with_login(user, password)
        ends = Ends(parse_address(source.url), address, retry_seconds=1)
        try:
            one = Move(ends, Selection(), watcher)
            await one.begin()
            return await one.cut_over(stop_writes=True)
        finally:
            ends.close()

    try:
        return asyncio.run(run()), watcher.said
    except MoveError as error:
        return error, watcher.said


def test_a_cut_over_that_fails_puts_both_settings_back(source: Server, region: Server) -> None:
    words = ["import", source.url, "--node", region.url]
    assert move(*words).returncode == 0
    region.do("XADD s * f own")
    assert move(*words, "--cut-over", "--stop-writes").returncode == 1
    assert settings(source) == ("1", "0")
    assert source.do("XADD s 2-1 f v") == b"2-1"


def test_a_fence_that_stays_tells_what_the_source_had(source: Server, region: Server) -> None:
    done = move("import", source.url, "--node", region.url, "--cut-over", "--stop-writes")
    assert done.returncode == 0, done.stderr
    told = "CONFIG SET min-replicas-max-lag 0, then CONFIG SET min-replicas-to-write 1"
    assert told in " ".join(done.stdout.split())


Raising = Callable[..., Awaitable[None]]


@pytest.mark.parametrize("times", [1, 1_000])
def test_a_fence_whose_reply_is_lost_remembers_no_settings_of_its_own(
    source: Server, region: Server, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The fence is raised, and the connection breaks: once, or until the patience ends."""
    raising: Raising = fence._raise
    left = times

    async def raise_and_lose(*words: Any) -> None:
        nonlocal left
        await raising(*words)
        left -= 1
        if left >= 0:
            raise LostError("the reply is lost")

    monkeypatch.setattr(fence, "_raise", raise_and_lose)
    outcome, _ = cut_over(source, region)
    if times == 1:
        assert outcome.is_equal
        assert outcome.fenced == (b"1", b"0")
    else:
        assert isinstance(outcome, MoveError)
        assert settings(source) == ("1", "0")


def test_a_later_run_puts_back_what_the_source_had_before_the_fence_of_a_killed_one(
    source: Server, region: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert move("import", source.url, "--node", region.url).returncode == 0
    region.do("XADD s * f own")

    async def unreachable(*_: object) -> None:
        raise MoveError("the source does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(moving, "lower_fence", unreachable)
        _, said = cut_over(source, region)
    assert "CONFIG SET min-replicas-max-lag 0, then CONFIG SET min-replicas-to-write 1" in said[-1]
    assert settings(source) == ("1000000", "10")

    outcome, _ = cut_over(source, region)
    assert isinstance(outcome, MoveError)
    assert settings(source) == ("1", "0")


def test_a_fence_that_nobody_remembers_is_refused(source: Server) -> None:
    source.client.config_set("min-replicas-to-write", fence.REPLICAS)
    outcome, _ = cut_over(source, source.database(1))
    assert "another move may have fenced it" in str(outcome)
    assert settings(source) == ("1000000", "0")


def test_ends_that_are_equal_are_told_so_even_if_the_record_stays(
    source: Server, servers: dict[str, Server]
) -> None:
    require("valkey" in servers, "a server: valkey")
    target = servers["valkey"]
    target.clear()
    target.do("ACL SETUSER mover on >right-one ~* +@all -del")
    try:
        outcome, _ = cut_over(source, target, user="mover")
    finally:
        target.do("ACL DELUSER mover")
    assert outcome.is_equal
    assert outcome.fenced == (b"1", b"0")
    assert outcome.record_left.startswith("crdtstream:move:unix://")
    assert "NOPERM" in outcome.record_left
