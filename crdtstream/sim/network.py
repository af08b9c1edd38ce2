"""A network that a seed makes misbehave: messages overtake each other and come twice.

It carries opaque messages between regions.  What is sent lies in flight until ``take`` picks one,
any one; a cut link loses what it carries, as a broken connection does.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from crdtstream.core.ids import Region

Link: TypeAlias = frozenset[Region]


@dataclass(frozen=True, slots=True)
class Message:
    source: Region
    target: Region
    payload: bytes


class Network:
    """Messages in flight, and the links that are cut.

    Args:
        duplicate_rate: how likely a message is sent twice.
    """

    def __init__(self, random: Random, *, duplicate_rate: float) -> None:
        self._random = random
        self._duplicate_rate = duplicate_rate
        self._in_flight: list[Message] = []
        self._cut: set[Link] = set()

    def __len__(self) -> int:
        return len(self._in_flight)

    def cut(self, pairs: Iterable[tuple[Region, Region]]) -> None:
        """From now on these pairs of regions cannot reach each other."""
        self._cut.update(frozenset(pair) for pair in pairs)
        self._lose(lambda message: not self.connects(message.source, message.target))

    def heal(self) -> None:
        self._cut.clear()

    def lose_messages_of(self, region: Region) -> None:
        """The region's process ended: what is on its connections is gone."""
        self._lose(lambda message: region in (message.source, message.target))

    def connects(self, a: Region, b: Region) -> bool:
        return frozenset((a, b)) not in self._cut

    def send(self, message: Message) -> None:
        assert self.connects(message.source, message.target)
        self._in_flight.append(message)
        if self._random.random() < self._duplicate_rate:
            self._in_flight.append(message)

    def take(self) -> Message:
        """One of the messages in flight."""
        at = self._random.randrange(len(self._in_flight))
        self._in_flight[at], self._in_flight[-1] = self._in_flight[-1], self._in_flight[at]
        return self._in_flight.pop()

    def _lose(self, is_lost: Callable[[Message], bool]) -> None:
        self._in_flight = [message for message in self._in_flight if not is_lost(message)]
