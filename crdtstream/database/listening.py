"""Names to listen to, of three kinds; and patterns, found quickly."""

from collections.abc import Callable
from enum import Enum

from crdtstream.commands.glob import compile_glob


class Kind(Enum):
    """Kinds of names to listen to; the value begins Redis's words (``psubscribe``, ``pmessage``).

    A shard channel is, on a server that is no cluster, a channel that patterns do not see.
    """

    CHANNEL = b""
    PATTERN = b"p"
    SHARD = b"s"


class Patterns:
    """Patterns, found by the literal bytes that they begin with.

    ``user:17:*`` is looked at only for channels that begin with ``user:17:``.  So thousands of such
    patterns cost a publication no more than one.
    """

    def __init__(self) -> None:
        # By literal beginning: the patterns, each with a check of the rest of a channel's name.
        self._by_beginning: dict[bytes, dict[bytes, Callable[[bytes], bool]]] = {}
        # How many different beginnings have this length.
        self._lengths: dict[int, int] = {}

    def add(self, pattern: bytes) -> None:
        beginning = literal_beginning(pattern)
        length = len(beginning)
        patterns = self._by_beginning.setdefault(beginning, {})
        if not patterns:
            self._lengths[length] = self._lengths.get(length, 0) + 1
        patterns[pattern] = compile_glob(pattern[length:])

    def remove(self, pattern: bytes) -> None:
        beginning = literal_beginning(pattern)
        patterns = self._by_beginning[beginning]
        del patterns[pattern]
        if not patterns:
            del self._by_beginning[beginning]
            self._lengths[len(beginning)] -= 1
            if not self._lengths[len(beginning)]:
                del self._lengths[len(beginning)]

    def matching(self, channel: bytes) -> list[bytes]:
        """The patterns that match a channel.

        Cost: a look-up per different length of a literal beginning, and a match per pattern whose
        beginning the channel has.
        """
        return [
            pattern
            for length in self._lengths
            if length <= len(channel)
            for pattern, fits in self._by_beginning.get(channel[:length], {}).items()
            if fits(channel[length:])
        ]


def literal_beginning(pattern: bytes) -> bytes:
    """The bytes before the first one that stands for something else."""
    for at, byte in enumerate(pattern):
        if byte in b"*?[\\":
            return pattern[:at]
    return pattern
