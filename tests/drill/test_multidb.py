"""The drill's client by redis-py's ``MultiDBClient``, while no region is available."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from crdtstream.drill.drill import Producers
from crdtstream.drill.load.journal import Journal
from crdtstream.drill.load.multidb import MultiDb
from crdtstream.drill.plan import LoadPlan, Place
from crdtstream.drill.records import Client, Outcome
from crdtstream.engine.engine import Engine
from crdtstream.resp.server import RespServer
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from tests.conftest import free_base_port
from tests.harness.driven import make_region
from tests.patience import seconds

XADD = ("XADD", "s", "*", "f", "v")


class _Closing(MultiDb):
    async def aclose(self) -> None:
        await self.close()


@pytest.mark.timeout(60)
async def test_a_request_without_a_region_is_unanswered_and_not_the_end(tmp_path: Path) -> None:
    port = free_base_port(1)
    item = Producers(kind="multidb", region=1, health_check="ping")
    plan = LoadPlan(
        places={1: Place(host="127.0.0.1", port=port, http_port=port + 1)},
        streams=("s",),
        entry_bytes=100,
        seconds=1,
        items=(item,),
    )
    client = Client(name="multidb-1", kind="multidb", home=1, moves=True, group="")
    journal = Journal(tmp_path / "records")
    async with aclosing(_Closing(plan, item, client, journal)) as multidb:
        # It finds none when it starts.
        answer = await multidb.request(XADD)
        assert (answer.outcome, answer.error) == (Outcome.UNKNOWN, "InitialHealthCheckFailedError")

        engine = Engine(make_region(1, ()), MemoryLog())
        server = RespServer(engine, NodeSettings(region=1, dir=tmp_path))
        await engine.begin()
        await server.start("127.0.0.1", port)
        running = asyncio.create_task(engine.run())
        async with asyncio.timeout(seconds()):
            while (await multidb.request(XADD)).outcome is not Outcome.OK:
                await asyncio.sleep(0.05)
        await server.stop(patience_ms=0)
        engine.stop()
        await running

        # And loses the one that it had.
        seen = set()
        async with asyncio.timeout(seconds()):
            while "TemporaryUnavailableException" not in seen:
                answer = await multidb.request(XADD)
                assert answer.outcome is Outcome.UNKNOWN
                seen.add(answer.error)
                await asyncio.sleep(0.05)
    journal.close()
