"""Calls that end with the authorities that they were checked with."""

import asyncio
import datetime
from typing import Any, cast

import grpc
import pytest

from crdtstream.access.callers import Caller
from crdtstream.access.certified import ENDED, OPERATORS, CertificateGuard
from crdtstream.access.methods import Method
from crdtstream.access.running import RunningCalls
from tests.patience import seconds


async def test_a_call_that_is_ending_is_not_ended_again() -> None:
    """The authorities change twice in a row, and a call needs its time to end."""
    running = RunningCalls()
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    ending, may_end = asyncio.Event(), asyncio.Event()

    async def call() -> None:
        async with running.bounded(1, until=later):
            try:
                await asyncio.sleep(60)
            finally:
                ending.set()
                await may_end.wait()

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    running.end_all(within=0)
    await asyncio.wait_for(ending.wait(), seconds())
    running.end_all(within=0)
    may_end.set()
    await asyncio.wait([task])
    assert isinstance(task.exception(), TimeoutError)
    assert len(running) == 0


class Waits:
    """The callers and logins of a guard: one caller, whose login is slowed down."""

    asks = True

    def __init__(self) -> None:
        self.caller = Caller(
            cast("Any", None), 7, datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        )
        self.revoked: set[int] = set()
        self.is_waiting, self.may_go_on = asyncio.Event(), asyncio.Event()

    def caller_of(self, _context: object) -> Caller:
        return self.caller

    def is_revoked(self, serial: int) -> bool:
        return serial in self.revoked

    async def admit(self, *_args: object, **_options: object) -> Any:
        self.is_waiting.set()
        await self.may_go_on.wait()
        raise AssertionError("the call has ended before")


class Call:
    """A call with a login, and how it ended."""

    def __init__(self) -> None:
        self.has_begun = False
        self.ended: tuple[grpc.StatusCode, str] | None = None

    async def send_initial_metadata(self, _metadata: object) -> None:
        self.has_begun = True

    def invocation_metadata(self) -> Any:
        return (("authorization", "Basic eA=="),)

    def peer(self) -> str:
        return "ipv4:10.0.0.1:1"

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        assert self.has_begun, "an end may be lost"
        self.ended = code, text
        raise grpc.aio.AbortError


@pytest.mark.parametrize("ends", ["revoked", "authorities"])
async def test_a_call_that_waits_for_its_login_ends_with_its_certificate(ends: str) -> None:
    waits, call = cast("Any", Waits()), Call()
    guard = CertificateGuard(waits, waits, rights={}, is_member=lambda _region: True)

    async def answer(_request: object, _context: object) -> None:
        raise AssertionError("it is served")

    method = Method("service/method", grpc.stream_stream_rpc_method_handler(answer))
    served = guard._guarded(method, OPERATORS)
    task = asyncio.create_task(served(cast("Any", None), cast("Any", call)))
    await asyncio.wait_for(waits.is_waiting.wait(), seconds())
    if ends == "revoked":
        waits.revoked.add(7)
        guard.end_revoked()
    else:
        guard.end_calls(within=0)
    await asyncio.wait([task], timeout=seconds())
    assert call.ended == (grpc.StatusCode.UNAVAILABLE, ENDED)
    assert guard.count == 0
