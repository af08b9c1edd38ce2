"""The clients of a load: producers, consumers, readers."""

import asyncio
import base64
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from crdtstream.drill.drill import Consumers, Producers, Readers
from crdtstream.drill.load.journal import Journal
from crdtstream.drill.load.regional import Answer, RegionalClient
from crdtstream.drill.plan import (
    BLOCK_MS,
    FINISH_SECONDS_MAX,
    READ_COUNT,
    RETRY_SECONDS,
    LoadPlan,
)
from crdtstream.drill.records import Acknowledged, Given, How, Sent

_PAYLOAD_SPARE_BYTES: Final = 8_192

# Streams read by one request, with the entries of each.
Entries = list[tuple[str, dict[str, str]]]
Streams = list[tuple[str, Entries]]


async def produce(
    plan: LoadPlan,
    item: Producers,
    ask: Callable[..., Awaitable[Answer]],
    name: str,
    journal: Journal,
    began: float,
) -> None:
    """Add rows at a steady rate until the load ends, then settle what is open.

    Rows that are so late then that they cannot be sent in time are left out.

    Args:
        ask: sends one request, to a place of its choice.
        began: beginning of the load; the n-th row is due (n-1) intervals later.
    """
    payloads = _Payloads(plan.entry_bytes)
    ends = began + plan.seconds
    n = 0
    while (due := began + n / item.per_second) < ends:
        if time.monotonic() > ends + FINISH_SECONDS_MAX:
            return
        n += 1
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        stream = plan.streams[(n - 1) % len(plan.streams)]
        # "p" and "n" name the row, "x" is what applications would write.
        fields = ("p", name, "n", n, "x", payloads.of(n))
        attempt = 0
        while True:
            attempt += 1
            words: tuple[str | int, ...] = ("XADD", stream, "*", *fields)
            if item.kind != "plain":
                words = ("XADD", stream, "IDMP", name, str(n), "*", *fields)
            answer = await ask(words, due=due)
            entry_id = answer.reply if answer.is_ok else ""
            journal.note(
                Sent(
                    name,
                    n,
                    stream,
                    answer.region,
                    answer.ended,
                    answer.outcome,
                    entry_id,
                    attempt,
                )
            )
            if answer.is_ok or item.kind == "plain":
                break
            if time.monotonic() > ends + FINISH_SECONDS_MAX:
                return
            await asyncio.sleep(RETRY_SECONDS)


class _Payloads:
    """Texts that no compression makes smaller than three quarters, cheap to make.

    Entries of nothing but one letter would make every link look wide.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        drawn = random.Random(size).randbytes(size + _PAYLOAD_SPARE_BYTES)
        self._text = base64.b64encode(drawn).decode()

    def of(self, n: int) -> str:
        start = n * 61 % _PAYLOAD_SPARE_BYTES
        return self._text[start : start + self._size]


async def consume(
    plan: LoadPlan, item: Consumers, client: RegionalClient, journal: Journal
) -> None:
    """Read, acknowledge, and take over what other consumers left; until cancelled."""
    name = client.client.name
    new = [">" for _ in plan.streams]
    words = ("XREADGROUP", "GROUP", item.group, name, "COUNT", READ_COUNT, "BLOCK", BLOCK_MS)
    claims_at = time.monotonic() + item.claim_after_ms / 1e3
    while True:
        answer = await client.request((*words, "STREAMS", *plan.streams, *new))
        if not answer.is_ok:
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for stream, entries in streams_of(answer.reply):
            _note_given(journal, name, stream, answer, How.NEW, entries)
            await _acknowledge(client, item.group, stream, [at for at, _ in entries], journal)
        if time.monotonic() >= claims_at:
            claims_at = time.monotonic() + item.claim_after_ms / 2e3
            for stream in plan.streams:
                await _claim(client, item, stream, journal)


async def _claim(client: RegionalClient, item: Consumers, stream: str, journal: Journal) -> None:
    cursor = "0-0"
    while True:
        words = ("XAUTOCLAIM", stream, item.group, client.client.name, item.claim_after_ms)
        answer = await client.request((*words, cursor, "COUNT", READ_COUNT))
        if not answer.is_ok:
            return
        cursor, entries = answer.reply[0], entries_of(answer.reply[1])
        if entries:
            _note_given(journal, client.client.name, stream, answer, How.CLAIMED, entries)
            await _acknowledge(client, item.group, stream, [at for at, _ in entries], journal)
        if cursor == "0-0":
            return


async def _acknowledge(
    client: RegionalClient, group: str, stream: str, ids: list[str], journal: Journal
) -> None:
    if not ids:
        return
    answer = await client.request(("XACK", stream, group, *ids))
    journal.note(
        Acknowledged(
            client.client.name, stream, answer.region, answer.ended, answer.outcome, tuple(ids)
        )
    )


async def read(plan: LoadPlan, item: Readers, client: RegionalClient, journal: Journal) -> None:
    """Follow every stream from its begin; until cancelled."""
    if item.kind == "xread":
        await _read_by_id(plan, client, journal)
    else:
        await _read_by_cursor(plan, client, journal)


async def _read_by_id(plan: LoadPlan, client: RegionalClient, journal: Journal) -> None:
    last = dict.fromkeys(plan.streams, "0-0")
    while True:
        words = ("XREAD", "COUNT", READ_COUNT, "BLOCK", BLOCK_MS, "STREAMS")
        answer = await client.request((*words, *last, *last.values()))
        if not answer.is_ok:
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for stream, entries in streams_of(answer.reply):
            _note_given(journal, client.client.name, stream, answer, How.READ, entries)
            last[stream] = entries[-1][0]


async def _read_by_cursor(plan: LoadPlan, client: RegionalClient, journal: Journal) -> None:
    cursors = dict.fromkeys(plan.streams, "0")
    while True:
        most = 0
        for stream, cursor in cursors.items():
            answer = await client.request(("CRDT.XREAD", stream, cursor, "COUNT", READ_COUNT))
            if answer.is_ok and answer.reply is not None:
                cursors[stream], entries = answer.reply[0], entries_of(answer.reply[1])
                _note_given(journal, client.client.name, stream, answer, How.READ, entries)
                most = max(most, len(entries))
        if most < READ_COUNT:
            await asyncio.sleep(RETRY_SECONDS)


def _note_given(
    journal: Journal,
    name: str,
    stream: str,
    answer: Answer,
    how: How,
    entries: Entries,
) -> None:
    for entry_id, row in entries:
        producer, n = row["p"], int(row["n"])
        journal.note(Given(name, stream, answer.region, answer.ended, how, entry_id, producer, n))


def streams_of(reply: Any) -> Streams:
    """An XREAD or XREADGROUP reply: per stream its entries; none if it is nil."""
    return [(stream, entries_of(entries)) for stream, entries in reply or []]


def entries_of(reply: Any) -> Entries:
    """Entries with their fields; without those whose fields were removed: drills delete nothing."""
    return [
        (entry_id, fields if isinstance(fields, dict) else dict(_pairs(fields)))
        for entry_id, fields in reply or []
        if fields
    ]


def _pairs(fields: list[str]) -> list[tuple[str, str]]:
    return list(zip(fields[::2], fields[1::2], strict=True))
