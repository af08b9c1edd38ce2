"""Bounds on what clients leave unread, by class of client, as Redis has them.

    client-output-buffer-limit  normal <hard> <soft> <seconds> …

A client is ended at once with ``hard`` bytes unread, and after ``seconds`` with ``soft`` bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.sizes import parse_memory

# As Redis names them; a replica is also called by its former name.
NORMAL: Final = "normal"
REPLICA: Final = "replica"
PUBSUB: Final = "pubsub"
CLASSES: Final = {NORMAL: NORMAL, "slave": REPLICA, REPLICA: REPLICA, PUBSUB: PUBSUB}
WORDS_PER_CLASS: Final = 4
BYTES_MAX: Final = (1 << 63) - 1
SECONDS_MAX: Final = (1 << 31) - 1


class OutputLimitError(Exception):
    """A text is no limit; the text of this is Redis's."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """The bounds of one class; 0: none.

    Attributes:
        hard: bytes unread with which a client is ended at once.
        soft, soft_s: bytes unread with which it is ended after this many seconds.
    """

    hard: int = 0
    soft: int = 0
    soft_s: int = 0

    def __str__(self) -> str:
        return f"{self.hard} {self.soft} {self.soft_s}"


# Redis's defaults.
REPLICA_LIMIT: Final = OutputLimit(256 << 20, 64 << 20, 60)
PUBSUB_LIMIT: Final = OutputLimit(32 << 20, 8 << 20, 60)


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """The bounds of all classes.

    Attributes:
        normal: of clients that listen to no channel.
        replica: kept and shown; no client is one.
        pubsub: of clients that listen to a channel.
    """

    normal: OutputLimit = OutputLimit()
    replica: OutputLimit = REPLICA_LIMIT
    pubsub: OutputLimit = PUBSUB_LIMIT

    def __str__(self) -> str:
        """As CONFIG GET shows it: Redis says ``slave`` there."""
        return f"normal {self.normal} slave {self.replica} pubsub {self.pubsub}"

    def changed(self, text: str) -> "OutputLimits":
        """The bounds with those in a text; classes that it does not name stay.

        Raises:
            OutputLimitError: the text is none; nothing of it counts.
        """
        words = text.split()
        if not words or len(words) % WORDS_PER_CLASS:
            raise OutputLimitError("Wrong number of arguments in buffer limit configuration.")
        changes: dict[str, OutputLimit] = {}
        for at in range(0, len(words), WORDS_PER_CLASS):
            name, *numbers = words[at : at + WORDS_PER_CLASS]
            kind = CLASSES.get(name.lower())
            if kind is None:
                raise OutputLimitError(
                    "Invalid client class specified in buffer limit configuration."
                )
            changes[kind] = _parsed(*numbers)
        return replace(self, **changes)


def _parsed(hard: str, soft: str, seconds: str) -> OutputLimit:
    sizes = parse_memory(hard), parse_memory(soft)
    is_number = seconds.isascii() and seconds.isdigit() and int(seconds) <= SECONDS_MAX
    if sizes[0] is None or sizes[1] is None or max(sizes[0], sizes[1]) > BYTES_MAX or not is_number:
        raise OutputLimitError(
            "Error in hard, soft or soft_seconds setting in buffer limit configuration."
        )
    return OutputLimit(sizes[0], sizes[1], int(seconds))


class UnreadBound:
    """Bound on what one client leaves unread, and for how long.

    Attributes:
        much_since: since when it has left more than the soft bound unread; None: it has not.
    """

    __slots__ = ("much_since",)

    def __init__(self) -> None:
        self.much_since: Millis | None = None

    def excess(self, limit: OutputLimit, unread_bytes: int, now: Millis) -> str | None:
        """Why the client is to be cut off; None while it may stay."""
        if limit.hard and unread_bytes >= limit.hard:
            return f"it leaves {unread_bytes} bytes unread, and the limit is {limit.hard}"
        if not limit.soft or unread_bytes < limit.soft:
            self.much_since = None
            return None
        if self.much_since is None:
            self.much_since = now
        if now - self.much_since > limit.soft_s * 1000:
            return f"it has left {limit.soft} bytes and more unread for {limit.soft_s} s"
        return None


# Called with the bounds that were asked for.
Change = Callable[[OutputLimits], None]
