"""MEMORY USAGE: how much memory a key takes, as ``core/footprint.py`` estimates it."""

from crdtstream.commands.arguments import SYNTAX_ERROR, integer
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.core.footprint import SAMPLES_DEFAULT, nodes_of_stream, rest_of_key
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica


def usage(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """MEMORY USAGE key [SAMPLES n]: bytes; null without a key.

    In each lane the first n macro nodes (5 by default, 0: all) and the last one are measured; the
    others are taken to be like the first ones.

    Cost: O(n + macro nodes + producers).
    """
    samples = _samples(argv)
    key = argv[2]
    rest = rest_of_key(replica, key)
    if not rest:
        return None
    stream = replica.stream(key)
    return rest if stream is None else rest + nodes_of_stream(stream, samples)


def _samples(argv: list[bytes]) -> int | None:
    """Number of macro nodes to measure, None for all."""
    samples = SAMPLES_DEFAULT
    for at in range(3, len(argv), 2):
        if argv[at].lower() != b"samples" or at + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        samples = integer(argv[at + 1])
        if samples < 0:
            raise CommandError(SYNTAX_ERROR)
    return samples or None
