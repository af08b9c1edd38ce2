"""redis-py and its fork valkey-py: two libraries with one interface, each in RESP2 and RESP3."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import redis
import redis.asyncio
import valkey
import valkey.asyncio


@dataclass(frozen=True)
class Library:
    """One of the two, and the protocol that its clients are told to speak."""

    module: ModuleType
    protocol: int

    def __str__(self) -> str:
        return f"{self.module.__name__}-py-resp{self.protocol}"

    def connect(self, port: int, **options: Any) -> Any:
        return self.module.Redis(port=port, protocol=self.protocol, **options)

    def connect_asyncio(self, port: int, **options: Any) -> Any:
        return self.module.asyncio.Redis(port=port, protocol=self.protocol, **options)


LIBRARIES = [Library(module, protocol) for module in (redis, valkey) for protocol in (2, 3)]


def by_key(reply: Any) -> dict[Any, list[Any]]:
    """XREAD's answer by key, whichever protocol it came in."""
    if isinstance(reply, dict):
        # In RESP3 both leave each stream's entries one level deeper than in RESP2.
        return {key: entries for key, [entries] in reply.items()}
    return dict(reply)


def ids_of(entries: list[Any]) -> list[Any]:
    return [entry_id for entry_id, _ in entries]
