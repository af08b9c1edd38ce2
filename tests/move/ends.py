"""Ends as tests see them: by redis-py, which shares no code with a move."""

import random
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.live.forked import completed


class Server:
    """A running server.

    Attributes:
        url: as `import` and `export` take it.
        client: connected to it.
    """

    def __init__(self, where: Path | str, client: Any = None, *, database: int = 0) -> None:
        self.path = where
        self.url = str(where) if client is not None else f"unix://{where}?db={database}"
        self.client: Any = client or redis.Redis(unix_socket_path=str(where), db=database)

    def database(self, number: int) -> "Server":
        """Another database of the server, without keys."""
        other = Server(self.path, database=number)
        other.client.flushdb()
        return other

    def clear(self) -> None:
        if isinstance(self.path, Path):
            # A fence of the test before.
            self.client.config_set("min-replicas-to-write", 0)
        self.client.flushall()

    def do(self, *lines: str) -> Any:
        """Run commands whose words have no blanks; the reply to the last."""
        reply = None
        for line in lines:
            reply = self.client.execute_command(*line.split())
        return reply


class Group(NamedTuple):
    """A group as an observer sees it; pending entries without those that were deleted."""

    position: bytes
    consumers: list[bytes]
    pending: list[tuple[bytes, bytes, int]]


class Stream(NamedTuple):
    """A stream as an observer sees it."""

    entries: list[tuple[bytes, dict[bytes, bytes]]]
    last_id: bytes
    added: int
    expires: bool
    groups: dict[bytes, Group]


def seen(server: Server) -> dict[bytes, Stream | tuple[bytes, bool]]:
    """All keys of a server: streams and strings."""
    client = server.client
    found: dict[bytes, Stream | tuple[bytes, bool]] = {}
    for key in client.scan_iter():
        if key.startswith(b"crdtstream:moved:"):
            # The note of a finished move.
            continue
        expires = client.pttl(key) > 0
        match client.type(key):
            case b"stream":
                found[key] = _stream(client, key, expires=expires)
            case b"string":
                found[key] = (client.get(key), expires)
            case _:
                pass
    return found


def _stream(client: Any, key: bytes, *, expires: bool) -> Stream:
    facts = client.xinfo_stream(key)
    entries = client.xrange(key)
    present = {entry_id for entry_id, _ in entries}
    groups = {}
    for group in client.xinfo_groups(key):
        rows = client.xpending_range(key, group["name"], "-", "+", 1_000_000)
        groups[group["name"]] = Group(
            group["last-delivered-id"],
            sorted(one["name"] for one in client.xinfo_consumers(key, group["name"])),
            [
                (row["message_id"], row["consumer"], row["times_delivered"])
                for row in rows
                if row["message_id"] in present
            ],
        )
    return Stream(entries, facts["last-generated-id"], facts["entries-added"], expires, groups)


def fill(server: Server, *, streams: int, entries: int, seed: int) -> None:
    """Streams with groups in all states, and strings, drawn from a seed."""
    draw = random.Random(seed)
    client = server.client
    for number in range(streams):
        key = f"orders:{number}"
        pipeline = client.pipeline(transaction=False)
        for entry in range(entries):
            fields = {"n": entry, "text": "v" * draw.randrange(100)}
            pipeline.xadd(key, fields, id=f"{1_700_000_000_000 + entry // 3}-{entry % 3}")
        pipeline.execute()
        client.xgroup_create(key, "workers", "0")
        client.xgroup_create(key, "later", "$")
        for consumer in ("alice", "bob"):
            client.xreadgroup("workers", consumer, {key: ">"}, count=entries // 4)
        ids = [entry_id for entry_id, _ in client.xrange(key, count=entries // 2)]
        client.xack(key, "workers", *draw.sample(ids, len(ids) // 2))
        client.xclaim(key, "workers", "bob", 0, draw.sample(ids, len(ids) // 4))
        client.xgroup_createconsumer(key, "workers", "carol")
        client.xdel(key, *draw.sample(ids, len(ids) // 5))
    client.set("name", b"\x00\xff binary")
    client.set("session", "s", px=1_000_000)
    client.pexpire("orders:0", 1_000_000)


def move(*words: str, timeout: float | None = None) -> "subprocess.CompletedProcess[str]":
    """Run `import` or `export` to its end."""
    return completed(["crdtstream", *words], timeout=timeout)


class Silent:
    """A watcher that shows nothing."""

    def show(self, what: str, done: int, total: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass
