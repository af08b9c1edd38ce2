"""Places of a command's keys among its arguments, and what it does to them.

    1 RW update           argument 1
    1.. RM delete         argument 1 and all that follow
    1..-2 RW delete       argument 1 and all that follow but the last
    1../2 OW update       argument 1 and every second one that follows
    2# RW access          as many as argument 2 says, behind it
    STREAMS@4 RO access   after the word STREAMS, which is sought from argument 4 on: the first half
                          of the arguments that follow, as keys come first and then as many IDs

Source: redis.io/docs/latest/develop/reference/key-specs; the flags are explained there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SPEC: Final = re.compile(r"(?:(\d+)(\.\.(-\d+)?(?:/(\d+))?|#)?|([A-Z]+)@(\d+))((?: \w+)+)")

# Python makes no number of thousands of digits.
_COUNT_DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Finds some of a command's keys.

    Attributes:
        start: the argument where the keys begin, or from which on the word is sought.
        word: the keys begin after it; empty: at ``start``.
        last: the argument of the last key, counted from the first one; negative: from the end.
        share: 2 if only the first half of the arguments after the word are keys, else 0.
        step: from one key to the next.
        is_counted: the argument at ``start`` says how many keys follow it; ``last`` counts for
            nothing then.
        flags: ``RO``, ``RW``, ``OW`` or ``RM``, then what the command does with them: ``access``,
            ``update`` …; ``not_key`` for what only routes like a key (shard channels).
    """

    start: int
    word: str
    last: int
    share: int
    flags: tuple[str, ...]
    step: int = 1
    is_counted: bool = False

    @property
    def finds_keys(self) -> bool:
        return "not_key" not in self.flags

    @property
    def is_single(self) -> bool:
        """True if it finds one key, always in the same place."""
        return not self.word and not self.is_counted and self.last == 0

    def find(self, argv: Sequence[bytes]) -> Sequence[bytes] | None:
        """The keys; none if the word is not there; None if they would stand beyond the end."""
        found = self.positions(argv)
        return None if found is None else [argv[at] for at in found]

    def positions(self, argv: Sequence[bytes]) -> range | None:
        """Positions of the keys; empty and None as of ``find``."""
        first = self.start
        if self.is_counted:
            number = argv[first] if first < len(argv) else b""
            # The first digits are enough to see that a longer number is too high.
            digits = b"0" + number.lstrip(b"0")[:_COUNT_DIGITS]
            count = int(digits) if number.isdigit() else 0
            return range(first + 1, first + 1 + count) if count < len(argv) - first else None
        if self.word:
            # The last argument cannot be the word, as nothing would follow it.
            words = [word.upper() for word in argv[first:-1]]
            if self.word.encode() not in words:
                return range(0)
            first += words.index(self.word.encode()) + 1
        if self.last >= 0:
            last = first + self.last
        elif self.share:
            last = first + (len(argv) - first) // self.share + self.last
        else:
            last = len(argv) + self.last
        return range(first, last + 1, self.step) if first <= last < len(argv) else None


def flags_in(spec: KeySpec, argv: Sequence[bytes]) -> tuple[str, ...]:
    """Flags for what a request does to its keys: SET reads them only if it has GET."""
    if "variable_flags" not in spec.flags:
        return spec.flags
    reads = b"GET" in [word.upper() for word in argv[3:]]
    return ("RW", "access", "update") if reads else ("OW", "update")


def parse_key_spec(text: str) -> KeySpec:
    """A specification from the notation above.

    Raises:
        ValueError: the text is not of that notation.
    """
    match = _SPEC.fullmatch(text)
    if match is None:
        raise ValueError(f"no key specification: {text!r}; an example is '1 RW update'")
    argument, reach, last, step, word, start, flags = match.groups()
    if word is not None:
        return KeySpec(int(start), word, -1, 2, tuple(flags.split()))
    if reach == "#":
        return KeySpec(int(argument), "", 0, 0, tuple(flags.split()), is_counted=True)
    return KeySpec(
        int(argument), "", int(last or -1) if reach else 0, 0, tuple(flags.split()), int(step or 1)
    )


def key_range(specs: Sequence[KeySpec]) -> tuple[int, int, int]:
    """First key, last key and step, for clients before Redis 7; zeros if another word decides."""
    if not specs or any(spec.word or spec.is_counted for spec in specs):
        return 0, 0, 0
    final = specs[-1]
    return specs[0].start, final.last if final.last < 0 else final.start + final.last, final.step
