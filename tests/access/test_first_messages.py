"""First messages of calls: those that do not come, or come slowly, hold nothing for long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest

from crdtstream.access import first_messages
from crdtstream.access.first_messages import PLACES, FirstMessages
from tests.access.test_calls import KINDS, Service, call
from tests.patience import seconds

OPEN: Final = "a.Service"
ASKING: Final = "a.Other"


@asynccontextmanager
async def served(
    **options: int,
) -> AsyncIterator[tuple[Service, FirstMessages, grpc.aio.Channel]]:
    """A server with an open service and another one."""
    service, guard = Service(), FirstMessages(opens=(OPEN,))
    server = grpc.aio.server(interceptors=(guard,), **options)  # type: ignore[arg-type]
    for name in (OPEN, ASKING):
        handler = grpc.method_handlers_generic_handler(name, service.handlers())
        server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with (
            asyncio.timeout(seconds()),
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            yield service, guard, channel
    finally:
        await server.stop(grace=None)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open calls have a moment; for others there is no hurry."""
    monkeypatch.setattr(first_messages.OPEN_SECONDS, "value", 0.1)


def never_sent(channel: grpc.aio.Channel, kind: str, service: str) -> Any:
    """A call whose message does not come."""
    return channel.stream_stream(f"/{service}/{kind}")()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("service", [OPEN, ASKING])
async def test_calls_of_each_kind_are_as_without_the_guard(kind: str, service: str) -> None:
    wanted = {"unary_stream": [b"%d" % n for n in range(1_000)], "stream_stream": [b"written 2"]}
    async with served() as (_, guard, channel):
        assert await call(channel, kind, service=service) == wanted.get(kind, [b"ab"])
        assert guard.ended == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("short")
async def test_a_call_whose_message_does_not_come_ends(kind: str) -> None:
    async with served() as (service, guard, channel):
        code = await never_sent(channel, kind, OPEN).code()
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert (guard.ended, service.called) == (1, 0)


@pytest.mark.usefixtures("short")
async def test_calls_that_ask_for_a_login_have_more_time() -> None:
    """The guard of logins stands before, so they come from programs with a password."""
    async with served() as (service, guard, channel):
        slow = never_sent(channel, "stream_unary", ASKING)
        assert await never_sent(channel, "unary_unary", OPEN).code()
        for part in (b"a", b"b"):
            await slow.write(part)
        await slow.done_writing()
        assert await slow.read() == b"ab"
        assert (guard.ended, service.called) == (1, 1)


async def test_calls_without_messages_give_their_slots_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(first_messages.ASKING_SECONDS, "value", 0.1)
    async with served(maximum_concurrent_rpcs=2) as (_, _, channel):
        held = [never_sent(channel, "unary_unary", ASKING) for _ in range(2)]
        assert [await one.code() for one in held] == [grpc.StatusCode.DEADLINE_EXCEEDED] * 2
        assert await call(channel, "unary_unary", service=ASKING) == [b"ab"]


async def test_one_more_ends_the_call_that_has_waited_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PLACES, "value", 3)
    async with served() as (_, guard, channel):
        held = []
        for number in range(3):
            held.append(never_sent(channel, "unary_unary", OPEN))
            while len(guard._waiting) <= number:
                await asyncio.sleep(0.001)
        # Others are served as if there were none.
        for number in range(3):
            assert await call(channel, "unary_unary", service=OPEN) == [b"ab"]
            del number
        assert await held[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for one in held:
            one.cancel()
        assert 1 <= guard.ended <= 3


async def test_a_call_that_ends_its_stream_without_a_message_is_refused() -> None:
    async with served() as (service, _, channel):
        empty: Any = channel.stream_stream("/a.Service/unary_unary")(iter(()))
        assert await empty.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert service.called == 0


async def test_places_are_given_back_when_callers_go() -> None:
    async with served() as (_, guard, channel):
        for _ in range(3):
            one = never_sent(channel, "unary_unary", OPEN)
            while not guard._waiting:
                await asyncio.sleep(0.001)
            one.cancel()
            while guard._waiting:
                await asyncio.sleep(0.001)
        assert guard.ended == 0
