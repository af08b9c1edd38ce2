"""EX, PX, EXAT and PXAT: when a string that is set ends."""

from dataclasses import dataclass
from typing import Final

from crdtstream.commands.arguments import I64_MAX, as_sent, integer
from crdtstream.commands.reply import CommandError
from crdtstream.core.ids import Millis

# What a unit of the number is in milliseconds, and whether it counts from now on.
DEADLINES: Final = {
    b"ex": (1000, True),
    b"px": (1, True),
    b"exat": (1000, False),
    b"pxat": (1, False),
}


@dataclass(frozen=True, slots=True)
class DeadlineOption:
    """One of these words, in lower case, with its number as the client wrote it."""

    word: bytes
    number: bytes

    def deadline(self, command: bytes, now: Millis) -> Millis:
        """Milliseconds since the epoch; it may have passed.

        Raises:
            CommandError: no number, not above 0, or beyond 64 bits.
        """
        unit_ms, from_now = DEADLINES[self.word]
        number = integer(self.number)
        base = now if from_now else 0
        if not 0 < number <= (I64_MAX - base) // unit_ms:
            raise CommandError(f"ERR invalid expire time in '{as_sent(command.lower())}' command")
        return Millis(number * unit_ms + base)
