"""Inputs that a region takes from its machine: the time, and randomness."""

import secrets
import time
from collections.abc import Callable
from random import SystemRandom

from crdtstream.core.ids import Millis
from crdtstream.core.uid import UID_BYTES, DatabaseUid


def wall_clock() -> Millis:
    """Milliseconds since the epoch, as this machine believes."""
    return Millis(time.time_ns() // 1_000_000)


def wall_clock_off_by(offset_ms: int) -> Callable[[], Millis]:
    """The wall clock of a machine whose time is wrong."""
    if not offset_ms:
        return wall_clock
    return lambda: Millis(time.time_ns() // 1_000_000 + offset_ms)


def random_uid() -> DatabaseUid:
    return DatabaseUid(secrets.token_bytes(UID_BYTES))


def uniform(low: float, high: float) -> float:
    return SystemRandom().uniform(low, high)
