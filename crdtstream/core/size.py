"""A size: a number that the code works with; what the code means does not depend on it.

    ENTRIES_MAX: Final = Size(1024, least=2)        in the module that it belongs to
    if len(chunk) >= ENTRIES_MAX.value:             wherever it is asked for

How many entries a chunk holds, how many bytes a batch, how long a link waits: with other numbers a
node is slower, or holds more, but it answers the same.  So each can be set small, and then a few
commands reach what 1,000 entries are needed for otherwise.  The simulator, the convergence machines
and the random comparison with Redis draw them for each seed (``sim/sizes.py``).  A program never
sets one: to a node sizes are constants.

A number that is no size (a bit width, a format, a limit of Redis's) stays a plain constant, and
stands with its reason in ``tests/test_sizes.py``, which fails on any that is neither.
"""

from enum import Enum
from typing import Final


class Scope(Enum):
    """The side that notices another value of a size."""

    # # No side.
    NODE = "node"
    # Clients: beyond it they are refused, or given less at a time.  The comparison with Redis
    # leaves it as it is.
    CLIENTS = "clients"
    # Other regions: it is part of a rule, and all regions of a database have the same, always.
    REGIONS = "regions"


class Size:
    """A whole number: of entries, bytes, milliseconds, nanoseconds.

    Attributes:
        default: its value in every program that is started.
        least: the smallest value with which the code is right.
        most: the largest one that is drawn.
        scope: the side that notices another value.
        value: what holds at present.
    """

    __slots__ = ("default", "least", "most", "scope", "value")

    def __init__(
        self, default: int, *, least: int, most: int | None = None, scope: Scope = Scope.NODE
    ) -> None:
        self.default: Final = default
        self.least: Final = least
        self.most: Final = 4 * default if most is None else most
        self.scope: Final = scope
        assert 0 <= least <= default <= self.most
        self.value = default


class Seconds:
    """A time in seconds; else as a ``Size``."""

    __slots__ = ("default", "least", "most", "scope", "value")

    def __init__(self, default: float, *, least: float, scope: Scope = Scope.NODE) -> None:
        self.default: Final = default
        self.least: Final = least
        self.most: Final = 4 * default
        self.scope: Final = scope
        assert 0 <= least <= default
        self.value = default
