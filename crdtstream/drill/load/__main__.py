"""``python -m crdtstream.drill.load PLAN RECORDS``: one load, reported on its standard output.

It begins at the line ``go`` on its standard input, which carries the moment.  It ends its consumers
at the line ``end``, or at the end of the input, so they end however the runner does.
"""

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any, Final

from crdtstream.drill.drill import Consumers, Producers, Readers
from crdtstream.drill.load.clients import consume, produce, read
from crdtstream.drill.load.journal import Journal
from crdtstream.drill.load.lines import say, standard_input
from crdtstream.drill.load.multidb import MultiDb
from crdtstream.drill.load.regional import RegionalClient
from crdtstream.drill.plan import LoadPlan
from crdtstream.drill.records import Client

CANCEL_SECONDS: Final = 0.5


async def main(plan: LoadPlan, path: Path) -> None:
    """One load, from the line ``go`` to the line ``end``."""
    lines = await standard_input()
    say("ready")
    match (await lines.readline()).decode().split():
        case ["go", moment]:
            await _load(plan, Journal(path), lines, float(moment))
        case _:
            # The drill ended before it began.
            return


async def _load(
    plan: LoadPlan, journal: Journal, lines: asyncio.StreamReader, began: float
) -> None:
    clients: list[RegionalClient | MultiDb] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            producing, following = _begin(plan, journal, began, tasks, clients)
            following += [
                tasks.create_task(journal.tell()),
                tasks.create_task(journal.measure_lateness()),
            ]
            ended = tasks.create_task(lines.readline())
            produced = asyncio.gather(*producing)
            either: list[asyncio.Future[Any]] = [produced, ended]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if produced.done():
                say("produced")
                await ended
            await _end([*producing, *following])
    finally:
        journal.close()
        for client in clients:
            await client.close()


def _begin(
    plan: LoadPlan,
    journal: Journal,
    began: float,
    tasks: asyncio.TaskGroup,
    clients: list[RegionalClient | MultiDb],
) -> tuple[list[asyncio.Task[None]], list[asyncio.Task[None]]]:
    """Start every client of the plan: those that end by themselves, and those that do not."""
    producing = []
    following = []
    for place, item in enumerate(plan.items, 1):
        for number in range(1, item.clients + 1):
            name = f"{item.kind}-{item.region}-{place}.{number}"
            group = item.group if isinstance(item, Consumers) else ""
            client = Client(name, item.kind, item.region, group, item.moves)
            if isinstance(item, Producers) and item.kind == "multidb":
                multidb = MultiDb(plan, item, client, journal)
                clients.append(multidb)
                work = produce(plan, item, multidb.request, name, journal, began)
                producing.append(tasks.create_task(work))
                continue
            regional = RegionalClient(plan, client, journal)
            clients.append(regional)
            following.append(tasks.create_task(regional.watch_home()))
            match item:
                case Producers():
                    work = produce(plan, item, regional.request, name, journal, began)
                    producing.append(tasks.create_task(work))
                case Consumers():
                    following.append(tasks.create_task(consume(plan, item, regional, journal)))
                case Readers():
                    following.append(tasks.create_task(read(plan, item, regional, journal)))
    return producing, following


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: redis-py may take a cancellation for a timeout."""
    left: set[asyncio.Task[None]] = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)


if __name__ == "__main__":
    gc.freeze()
    asyncio.run(
        main(LoadPlan.model_validate_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
    )
