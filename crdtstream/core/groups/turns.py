"""Turns: in which order pending entries are to be claimed.

A turn is a number, the lowest one first.  That of entries with a consumer has the delivery time in
its upper 48 bits, and in the lower 16 how many turns of that millisecond were given before.
"""

from typing import Final

from crdtstream.core.ids import Millis

# Bits of a turn below the delivery time.
_TURN_BITS: Final = 16
_TURN_MS_MAX: Final = (1 << 64 - _TURN_BITS) - 1
_WITHIN_MAX: Final = (1 << _TURN_BITS) - 1


def delivery_turn(delivered_ms: int, within: int) -> int:
    """The turn of entries that were delivered then.

    Args:
        within: how many turns of that millisecond were given before; all from a number on are one.
    """
    assert within >= 0, "turns of a millisecond are counted upwards"
    # The clock is supposed to stop in the year 10889.
    ms = delivered_ms if delivered_ms < _TURN_MS_MAX else _TURN_MS_MAX
    return ms << _TURN_BITS | (within if within < _WITHIN_MAX else _WITHIN_MAX)


def last_turn(delivered_ms: int) -> int:
    """The highest turn of entries that were delivered then or before; also of negative times."""
    return (delivered_ms + 1 << _TURN_BITS) - 1


def delivered_at(turn: int) -> Millis:
    """When the entries of a turn were delivered."""
    return Millis(turn >> _TURN_BITS)
