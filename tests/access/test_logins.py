"""Logins: who is admitted, what is counted and logged, and who waits."""

import asyncio
import base64

import pytest
from structlog.testing import capture_logs

from crdtstream.access.basic import NO_LOGIN, Login, decode_basic
from crdtstream.access.logins import PROVEN_MAX, WAITING_MAX, Door, Logins, Verdict, one_user
from crdtstream.access.rights import UNLIMITED
from crdtstream.access.slowing import FREE_MAX, WAIT_SECONDS_MIN

PASSWORD = "s3cret: ü"
RIGHT = Login(PASSWORD).header.encode()
WRONG = Login("wr0ng").header.encode()
HERE = "10.0.0.1"


def guess(number: int) -> bytes:
    """A wrong login unlike all others."""
    return Login(f"guess {number}").header.encode()


async def guesses(found: Logins, count: int, address: str = HERE) -> None:
    for number in range(count):
        assert await found.admit(guess(number), address, Door.GRPC, what="x") is Verdict.WRONG


def logins() -> Logins:
    return Logins(one_user(PASSWORD), asks=lambda: True)


def basic(pair: bytes) -> bytes:
    return b"Basic " + base64.b64encode(pair)


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        (RIGHT, Verdict.ADMITTED),
        (RIGHT.replace(b"Basic", b"bAsIc"), Verdict.ADMITTED),
        (b"", Verdict.MISSING),
        (WRONG, Verdict.WRONG),
        (basic(b"default:"), Verdict.WRONG),
        (basic(f"default:{PASSWORD} ".encode()), Verdict.WRONG),
        (basic(f"Default:{PASSWORD}".encode()), Verdict.WRONG),
        (basic(f":{PASSWORD}".encode()), Verdict.WRONG),
        (basic(PASSWORD.encode()), Verdict.WRONG),
        (b"Basic !!", Verdict.WRONG),
        (b"Bearer " + RIGHT.split()[1], Verdict.WRONG),
        (b"Basic", Verdict.WRONG),
        (b"\xff\x00", Verdict.WRONG),
    ],
)
async def test_only_user_and_password_are_admitted(header: bytes, verdict: Verdict) -> None:
    found = logins()
    assert await found.admit(header, HERE, Door.GRPC, what="x") is verdict
    refused = {} if verdict is Verdict.ADMITTED else {(Door.GRPC, verdict): 1}
    assert dict(found.refused) == refused


async def test_a_node_without_a_password_asks_nobody() -> None:
    found = Logins(one_user(""), asks=lambda: False)
    for header in (b"", WRONG, b"Bearer x"):
        assert await found.admit(header, HERE, Door.HTTP, what="x") is Verdict.ADMITTED


async def test_wrong_logins_are_logged_at_most_once_a_minute_without_secrets() -> None:
    found = logins()
    with capture_logs() as lines:
        for _ in range(5):
            await found.admit(basic(b"t0psecret:wr0ng"), HERE, Door.HTTP, what="x")
        await found.admit(b"", HERE, Door.HTTP, what="x")
    [line] = lines
    assert (line["address"], line["port"], line["count"]) == (HERE, "http", 1)
    assert not any(word in str(lines) for word in ("t0psecret", "wr0ng", PASSWORD))
    assert found.refused_by_verdict() == {
        Verdict.MISSING: 1, Verdict.WRONG: 5, Verdict.SLOWED: 0, Verdict.FORBIDDEN: 0,
    }  # fmt: skip


async def test_an_address_with_many_wrong_logins_waits_also_with_the_right_one() -> None:
    """An answer that comes sooner would say which guess was right."""
    found = logins()
    await guesses(found, FREE_MAX.value + 1)
    # The right login of another address, which began later, is admitted before this one.
    here = asyncio.create_task(found.admit(RIGHT, HERE, Door.GRPC, what="x"))
    elsewhere = asyncio.create_task(found.admit(RIGHT, "10.0.0.2", Door.GRPC, what="x"))
    began = asyncio.get_running_loop().time()
    assert await elsewhere is Verdict.ADMITTED
    assert not here.done()
    assert await here is Verdict.ADMITTED
    assert asyncio.get_running_loop().time() - began >= WAIT_SECONDS_MIN.value * 0.9


async def test_guesses_at_the_same_moment_are_slowed_down_and_bounded() -> None:
    found = logins()
    beyond = 50
    tasks = [
        asyncio.create_task(found.admit(guess(number), HERE, Door.GRPC, what="x"))
        for number in range(FREE_MAX.value + 1 + WAITING_MAX.value + beyond)
    ]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    verdicts = [task.result() for task in done]
    assert verdicts.count(Verdict.WRONG) == FREE_MAX.value + 1
    assert verdicts.count(Verdict.SLOWED) == beyond
    later = await asyncio.gather(*tasks)
    assert later.count(Verdict.SLOWED) == beyond


async def at_once(found: Logins, header: bytes, connection: str = "") -> Verdict | None:
    """The verdict on a login; None if it waits."""
    task = asyncio.create_task(
        found.admit(header, HERE, Door.GRPC, connection=connection, what="x")
    )
    for _ in range(3):
        await asyncio.sleep(0)
    if task.done():
        return task.result()
    task.cancel()
    return None


async def test_a_program_that_repeats_an_old_password_slows_nobody_down() -> None:
    found = logins()
    for _ in range(10 * FREE_MAX.value):
        assert await at_once(found, WRONG) is Verdict.WRONG
    assert await at_once(found, RIGHT) is Verdict.ADMITTED


async def test_while_its_address_is_slowed_down_a_repeated_login_is_answered_at_once() -> None:
    found = logins()
    await guesses(found, FREE_MAX.value + 1)
    assert await at_once(found, guess(FREE_MAX.value)) is Verdict.WRONG
    assert await at_once(found, guess(-1)) is None


async def test_a_connection_with_a_right_login_is_not_slowed_down_by_others() -> None:
    found = logins()
    assert await at_once(found, RIGHT, "mine") is Verdict.ADMITTED
    await guesses(found, FREE_MAX.value + 1)
    # All places of those who wait are taken.
    tasks = [
        asyncio.create_task(found.admit(guess(100 + number), HERE, Door.GRPC, what="x"))
        for number in range(WAITING_MAX.value)
    ]
    assert await at_once(found, RIGHT, "another") is Verdict.SLOWED
    assert await at_once(found, RIGHT, "mine") is Verdict.ADMITTED
    for task in tasks:
        task.cancel()


async def test_a_connection_with_a_right_login_is_no_way_to_guess() -> None:
    """A stranger may get the port of one that is gone: its guesses wait, and it has one only."""
    found = logins()
    assert await at_once(found, RIGHT, "mine") is Verdict.ADMITTED
    await guesses(found, FREE_MAX.value + 1)
    assert await at_once(found, guess(100), "mine") is None
    assert await at_once(found, RIGHT, "mine") is None


async def test_connections_that_are_remembered_are_bounded() -> None:
    found = logins()
    for number in range(PROVEN_MAX.value + 10):
        await found.admit(RIGHT, HERE, Door.GRPC, connection=f"c{number}", what="x")
    assert len(found._proven) == PROVEN_MAX.value
    await guesses(found, FREE_MAX.value + 1)
    assert await at_once(found, RIGHT, "c0") is None
    assert await at_once(found, RIGHT, f"c{PROVEN_MAX.value}") is Verdict.ADMITTED


async def test_a_password_that_was_right_before_is_judged_again() -> None:
    password = ["old"]
    found = Logins(
        lambda _user, given: UNLIMITED if given.decode() == password[0] else None,
        asks=lambda: True,
    )
    old = Login("old").header.encode()
    assert await at_once(found, old, "mine") is Verdict.ADMITTED
    password[0] = "new"
    assert await at_once(found, old, "mine") is Verdict.WRONG


async def test_a_missing_login_is_no_guess() -> None:
    found = logins()
    for _ in range(100):
        assert await found.admit(b"", HERE, Door.GRPC, what="x") is Verdict.MISSING
    assert await found.admit(WRONG, HERE, Door.GRPC, what="x") is Verdict.WRONG


def test_a_login_is_read_as_it_was_written_and_never_shown() -> None:
    login = Login(PASSWORD, "eve")
    assert decode_basic(login.header.encode()) == (b"eve", PASSWORD.encode())
    assert PASSWORD not in repr(login)
    assert NO_LOGIN.metadata == ()
