"""The guard in front of a gRPC server: which calls it ends, and that others pass as they are."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import grpc
import pytest

from crdtstream.access.admitting import address_of
from crdtstream.access.basic import NO_LOGIN, Login, login_of_region
from crdtstream.access.calls import CallGuard
from crdtstream.access.logins import Door, Judge, Logins, Verdict, one_user, region_or_user
from crdtstream.access.rights import Needs
from crdtstream.access.slowing import FREE_MAX
from tests.patience import seconds

LOGIN: Final = Login("secret")
KINDS: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


class Service:
    """Methods of each kind, as our services have them: generators, and some that write."""

    def __init__(self) -> None:
        self.called = 0
        self.closed = 0

    async def once(self, request: Any, _context: Any) -> bytes:
        self.called += 1
        if isinstance(request, bytes):
            return request
        return b"".join([part async for part in request])

    async def many(self, _request: Any, _context: Any) -> AsyncIterator[bytes]:
        self.called += 1
        try:
            for number in range(1_000):
                yield b"%d" % number
        finally:
            self.closed += 1

    async def writing(self, request: Any, context: Any) -> None:
        """Read before it ends: gRPC fails in a caller that still sends when its call ends."""
        self.called += 1
        parts = [part async for part in request]
        await context.write(b"written %d" % len(parts))

    def handlers(self) -> dict[str, Any]:
        return {
            "unary_unary": grpc.unary_unary_rpc_method_handler(self.once),
            "unary_stream": grpc.unary_stream_rpc_method_handler(self.many),
            "stream_unary": grpc.stream_unary_rpc_method_handler(self.once),
            "stream_stream": grpc.stream_stream_rpc_method_handler(self.writing),
        }


@asynccontextmanager
async def served(
    *opens: str,
    closed: Collection[str] = (),
    password: str = "secret",
    judges: Mapping[str, Judge] = MappingProxyType({}),
    needs: Mapping[str, Needs] = MappingProxyType({}),
) -> AsyncIterator[tuple[Service, Logins, grpc.aio.Channel]]:
    service, logins = Service(), Logins(one_user(password), asks=lambda: bool(password))
    guard = CallGuard(logins, opens=opens, closed=closed, judges=judges, needs=needs)
    server = grpc.aio.server(interceptors=(guard,))
    for name in ("a.Service", "a.Other"):
        handler = grpc.method_handlers_generic_handler(name, service.handlers())
        server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield service, logins, channel
    finally:
        await server.stop(grace=None)


async def call(
    channel: grpc.aio.Channel, kind: str, login: Login = NO_LOGIN, service: str = "a.Service"
) -> list[bytes]:
    """Answers of a call of this kind."""
    method = getattr(channel, kind)(f"/{service}/{kind}")
    request = iter([b"a", b"b"]) if kind.startswith("stream") else b"ab"
    answer = method(request, metadata=login.metadata)
    if kind.endswith("stream"):
        return [reply async for reply in answer]
    return [await answer]


async def refusal(channel: grpc.aio.Channel, kind: str, login: Login) -> grpc.StatusCode:
    """The status of a call that is refused.

    Nothing is sent but its metadata: a message that meets the end of its call fails by itself.
    """
    method = getattr(channel, kind)(f"/a.Service/{kind}")
    request = () if kind.startswith("stream") else (b"ab",)
    async with asyncio.timeout(seconds()):
        code: grpc.StatusCode = await method(*request, metadata=login.metadata).code()
    return code


@pytest.mark.parametrize("kind", KINDS)
async def test_calls_of_each_kind_pass_with_the_login_alone(kind: str) -> None:
    wanted = {"unary_stream": [b"%d" % n for n in range(1_000)], "stream_stream": [b"written 2"]}
    async with served() as (service, logins, channel):
        for login in (NO_LOGIN, Login("Secret"), Login("secret", "eve")):
            assert await refusal(channel, kind, login) is grpc.StatusCode.UNAUTHENTICATED
        assert service.called == 0
        assert await call(channel, kind, LOGIN) == wanted.get(kind, [b"ab"])
        assert dict(logins.refused) == {
            (Door.GRPC, Verdict.MISSING): 1, (Door.GRPC, Verdict.WRONG): 2,
        }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_is_refused_before_its_message_is_read(kind: str) -> None:
    """Else strangers fill the memory with messages, which may be large."""
    async with served() as (_, _, channel):
        for login in (NO_LOGIN, Login("wrong")):
            never_sent: Any = channel.stream_stream(f"/a.Service/{kind}")(metadata=login.metadata)
            async with asyncio.timeout(seconds()):
                assert await never_sent.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_region_calls_what_regions_call_and_nothing_else() -> None:
    """Its login goes to addresses that were learned from others, so it must not be the password."""
    judges = {"a.Service/unary_unary": region_or_user(one_user("secret"), "secret", "orders")}
    region = login_of_region("secret", "orders")
    assert "secret" not in region.password
    async with served(judges=judges) as (_, _, channel):
        for login in (region, LOGIN):
            assert await call(channel, "unary_unary", login) == [b"ab"]
        wrong = (login_of_region("secret", "others"), login_of_region("Secret", "orders"))
        for login in (*wrong, Login("secret", "region"), NO_LOGIN):
            found = await refusal(channel, "unary_unary", login)
            assert found is grpc.StatusCode.UNAUTHENTICATED
        assert await refusal(channel, "unary_stream", region) is grpc.StatusCode.UNAUTHENTICATED
    assert login_of_region("", "orders") == NO_LOGIN


async def test_an_open_method_does_not_open_its_service() -> None:
    async with served("a.Service/unary_unary") as (_, _, channel):
        assert await call(channel, "unary_unary") == [b"ab"]
        for kind in KINDS[1:]:
            with pytest.raises(grpc.aio.AioRpcError):
                await call(channel, kind)


async def test_an_open_service_does_not_open_others() -> None:
    async with served("a.Service") as (_, _, channel):
        for kind in KINDS:
            assert await call(channel, kind)
            with pytest.raises(grpc.aio.AioRpcError):
                await call(channel, kind, service="a.Other")


async def test_without_a_password_all_is_open_and_what_is_not_there_is_not() -> None:
    async with served(password="") as (_, _, channel):
        assert await call(channel, "unary_unary") == [b"ab"]
        nothing: Any = channel.unary_unary("/a.Service/nothing")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await nothing(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_stream_that_is_given_up_is_closed_at_once() -> None:
    async with served() as (service, _, channel):
        method: Any = channel.unary_stream("/a.Service/unary_stream")
        answer = method(b"", metadata=LOGIN.metadata)
        await answer.read()
        answer.cancel()
        # The server hears of it before it answers the next call.
        while not service.closed:
            await call(channel, "unary_unary", LOGIN)


async def test_a_method_may_ask_where_its_service_is_open() -> None:
    async with served("a.Service", closed={"a.Service/unary_unary"}) as (service, _, channel):
        assert await call(channel, "stream_unary") == [b"ab"]
        assert await refusal(channel, "unary_unary", NO_LOGIN) is grpc.StatusCode.UNAUTHENTICATED
        assert service.called == 1
        assert await call(channel, "unary_unary", LOGIN) == [b"ab"]


async def test_a_guesser_is_told_to_wait() -> None:
    async with served() as (_, _, channel):
        for number in range(FREE_MAX.value + 3):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(channel, "unary_unary", Login(f"guess {number}"))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert await call(channel, "unary_unary", LOGIN) == [b"ab"]


async def test_two_logins_in_one_call_are_a_wrong_one() -> None:
    async with served() as (service, logins, channel):
        for first, second in ((LOGIN, LOGIN), (LOGIN, Login("x")), (Login("x"), LOGIN)):
            method: Any = channel.unary_unary("/a.Service/unary_unary")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(b"", metadata=(*first.metadata, *second.metadata))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert service.called == 0
        assert logins.refused_by_verdict()[Verdict.WRONG] == 3


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:%5B::1%5D:4711", "::1"),
        ("ipv6:[fd00::2]:4711", "fd00::2"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::1%eth0"),
        ("unix:/tmp/socket", "unix:/tmp/socket"),
    ],
)
def test_the_address_of_a_caller_is_read_from_its_name(peer: str, address: str) -> None:
    assert address_of(peer) == address


@pytest.mark.parametrize("password", ["secret", ""])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_caller_without_the_right_is_refused_and_counted(kind: str, password: str) -> None:
    """Also where nobody is asked for a password: the default user may have few rights."""
    needs: dict[str, Needs] = {f"a.Service/{kind}": lambda _caller: False}
    async with served(password=password, needs=needs) as (service, logins, channel):
        assert await refusal(channel, kind, LOGIN) is grpc.StatusCode.PERMISSION_DENIED
        assert service.called == 0
        assert logins.refused[Door.GRPC, Verdict.FORBIDDEN] == 1
        await call(channel, kind, LOGIN, service="a.Other")
        assert service.called == 1
