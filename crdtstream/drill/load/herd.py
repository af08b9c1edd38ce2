"""``python -m crdtstream.drill.load.herd PLAN RECORDS``: a part of a herd.

All clients connect and say PING.  When a connection ends, its client connects again at once, and
then by its backoff, until it is answered; then it adds one entry, and stays.  So a herd meets a
region that has to accept all clients at the same moment.
"""

import asyncio
import contextlib
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from crdtstream.drill.load.journal import Journal
from crdtstream.drill.load.lines import say, standard_input
from crdtstream.drill.plan import HerdPlan
from crdtstream.drill.records import Client, Outcome, Request, Sent

# At first, as many connect at a time as fit into the queue of a listening socket.
CONNECTING_MAX: Final = 100
BACKOFF_SECONDS: Final = 0.25
# A whole herd is not answered in a second.
HERD_REQUEST_SECONDS_MAX: Final = 15.0


async def main(plan: HerdPlan, path: Path) -> None:
    journal = Journal(path)
    lines = await standard_input()
    gate = asyncio.Semaphore(CONNECTING_MAX)
    connected = asyncio.Semaphore(0)
    telling = asyncio.ensure_future(journal.tell())
    numbers = range(plan.first, plan.first + plan.clients)
    tasks = [
        asyncio.ensure_future(_return(plan, number, journal, gate, connected)) for number in numbers
    ]
    ended = asyncio.ensure_future(lines.readline())
    everybody = asyncio.gather(*tasks)
    all_connected = asyncio.ensure_future(_take(connected, plan.clients))
    try:
        if await _is_first(all_connected, everybody, ended):
            say("connected")
            if await _is_first(everybody, ended):
                say("produced")
                await ended
    except (RedisError, OSError) as error:
        sys.exit(f"a client of the herd cannot connect: {error}")
    finally:
        all_connected.cancel()
        for task in tasks:
            task.cancel()
        telling.cancel()
        await asyncio.gather(*tasks, telling, return_exceptions=True)
        journal.close()


async def _take(semaphore: asyncio.Semaphore, count: int) -> None:
    for _ in range(count):
        await semaphore.acquire()


async def _is_first(wanted: "asyncio.Future[Any]", *others: "asyncio.Future[Any]") -> bool:
    """Wait for any of them; return True if ``wanted`` has ended.  Raises what any of them
    raised."""
    done, _ = await asyncio.wait([wanted, *others], return_when=asyncio.FIRST_COMPLETED)
    for each in done:
        each.result()
    return wanted in done


async def _return(
    plan: HerdPlan,
    number: int,
    journal: Journal,
    gate: asyncio.Semaphore,
    connected: asyncio.Semaphore,
) -> None:
    """Run one client: connect, wait for the cut, connect again, add a row."""
    name = f"herd-{number}"
    client = redis.Redis(
        host=plan.place.host,
        port=plan.place.port,
        **plan.access.connection(tls=plan.place.resp_tls),
        socket_timeout=HERD_REQUEST_SECONDS_MAX,
        socket_connect_timeout=HERD_REQUEST_SECONDS_MAX,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        protocol=2,
        # CLIENT SETINFO would be two more requests of each client.
        driver_info=None,
        single_connection_client=True,
    )
    drawn = random.Random(number)
    try:
        async with gate:
            await client.ping()
        connected.release()
        await _until_cut(client)
        journal.note(Client(name, "herd", plan.region, "", moves=False))
        cut_at = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            began = time.monotonic()
            error = ""
            entry_id = ""
            try:
                entry_id = await client.execute_command(
                    *("XADD", plan.stream, "IDMP", name, "1", "*", "p", name, "n", 1)
                )
                outcome = Outcome.OK
            except ResponseError as refusal:
                outcome, error = Outcome.REFUSED, str(refusal).split(" ", 1)[0]
            except (RedisError, OSError, TimeoutError) as failure:
                outcome, error = Outcome.UNKNOWN, type(failure).__name__
            ended = time.monotonic()
            journal.note(Request(name, plan.region, cut_at, began, ended, outcome, error))
            journal.note(Sent(name, 1, plan.stream, plan.region, ended, outcome, entry_id, attempt))
            if outcome is Outcome.OK:
                return
            await asyncio.sleep(drawn.uniform(0, BACKOFF_SECONDS))
    finally:
        await client.aclose()


async def _until_cut(client: "redis.Redis") -> None:
    """Wait, without a request, until the connection ends."""
    connection = client.connection
    assert connection is not None
    with contextlib.suppress(RedisError, OSError):
        await connection.read_response(timeout=None, disconnect_on_error=True)


if __name__ == "__main__":
    asyncio.run(
        main(HerdPlan.model_validate_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    )
