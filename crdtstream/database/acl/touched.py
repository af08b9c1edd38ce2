"""Keys and channels that a request touches, and what it needs of each.

A command's page says where its keys are.  XREAD and XREADGROUP are read as the commands read them:
a group or a consumer may be named STREAMS, and the word alone would then point at wrong arguments.
"""

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from crdtstream.commands.documentation.key_specs import KeySpec, flags_in
from crdtstream.commands.documentation.manual import pages
from crdtstream.commands.streams.read_options import streams_at

READ: Final = 1
WRITE: Final = 2
_NEEDS: Final = {"access": READ, "insert": WRITE, "update": WRITE, "delete": WRITE}


class Naming(Enum):
    """Arguments of a command that are channels."""

    NONE = "none"
    FIRST = "the first argument"
    ALL = "all arguments"
    PATTERNS = "all arguments, as patterns"


_CHANNELS: Final = {
    b"publish": Naming.FIRST,
    b"spublish": Naming.FIRST,
    b"subscribe": Naming.ALL,
    b"ssubscribe": Naming.ALL,
    b"psubscribe": Naming.PATTERNS,
}


class TouchedKey(NamedTuple):
    """A key of a request.

    Attributes:
        at: its position among the arguments.
        needs: READ, WRITE, both, or 0: only whether it exists, which any right on it allows.
    """

    at: int
    key: bytes
    needs: int


@dataclass(frozen=True, slots=True)
class Touches:
    """Keys and channels of the requests of one command.

    Attributes:
        specs: where the keys are, each with what is needed of them; None: the request decides.
        only_at: position of the only key, if that is fixed, as for nearly all; 0: it is not.
        only_needs: what is needed of that key.
        reads_streams: keys are behind the option STREAMS.
        channels: which arguments are channels.
    """

    specs: tuple[tuple[KeySpec, int | None], ...] = ()
    only_at: int = 0
    only_needs: int = 0
    reads_streams: bool = False
    channels: Naming = Naming.NONE

    def keys(self, argv: list[bytes]) -> list[TouchedKey]:
        """Keys of a request; none if it is malformed, as the command then answers an error."""
        at = self.only_at
        if at:
            return [TouchedKey(at, argv[at], self.only_needs)] if at < len(argv) else []
        if self.reads_streams:
            first = streams_at(argv)
            found = range(first, first + (len(argv) - first) // 2) if first else range(0)
            stream_needs = self.specs[0][1] or 0
            return [TouchedKey(at, argv[at], stream_needs) for at in found]
        keys: list[TouchedKey] = []
        for spec, always in self.specs:
            needs = _needs(flags_in(spec, argv)) if always is None else always
            keys += [TouchedKey(at, argv[at], needs) for at in spec.positions(argv) or ()]
        return keys

    def channel_positions(self, argv: list[bytes]) -> range:
        """Positions of the channels or patterns of a request."""
        if self.channels is Naming.NONE:
            return range(0)
        return range(1, 2 if self.channels is Naming.FIRST else len(argv))


@cache
def touches_of(name: bytes) -> Touches:
    """Keys and channels of the requests of a command; none if it has no page.

    The answers are kept: a node asks once for each command, and tests make thousands of nodes.
    """
    page = pages().get(name.decode())
    specs = () if page is None else tuple(spec for spec in page.key_specs if spec.finds_keys)
    with_needs = tuple(
        (spec, None if "variable_flags" in spec.flags else _needs(spec.flags)) for spec in specs
    )
    is_single = len(specs) == 1 and specs[0].is_single and with_needs[0][1] is not None
    return Touches(
        with_needs,
        only_at=specs[0].start if is_single else 0,
        only_needs=_needs(specs[0].flags) if is_single else 0,
        reads_streams=any(spec.word == "STREAMS" for spec in specs),
        channels=_CHANNELS.get(name, Naming.NONE),
    )


def _needs(flags: tuple[str, ...]) -> int:
    needs = 0
    for flag in flags:
        needs |= _NEEDS.get(flag, 0)
    return needs
