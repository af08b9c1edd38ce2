"""Registers of a key that keep every value that is not overwritten: expiry, XCFGSET.

A value is overwritten by one that had observed it.  Concurrent values are all kept; the one that
counts is chosen when the register is read.  Keeping only the winner would not do:

    R1 sets A (deadline 900), R2 concurrently B (500); R3, having observed A only, sets C (100).
    A region that keeps winners has dropped B when C overwrites A, and is left with C; one that
    heard C before B has both, and B counts.

A DeleteKey drops all values, also those it had not observed (delete-wins): an orphan deadline would
otherwise delete a stream that is begun later under the same name.  An ExpireKey drops those it had
observed.  A write to a key that has only registers left clears them first.  Source: ``rules`` 7 and
8.
"""

from typing import Generic, TypeVar

from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.ids import Millis

V = TypeVar("V")


class MultiValue(Generic[V]):
    """A multi-value register."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[Dot, V] = {}

    def set(self, dot: Dot, value: V, context: VersionVector) -> None:
        """Overwrite what the context covers."""
        assert not covers_dot(context, dot), "an effect has not observed itself"
        self.forget_covered_by(context)
        self.values[dot] = value

    def forget_covered_by(self, context: VersionVector) -> None:
        """Drop the values that the context covers."""
        self.values = {
            dot: value for dot, value in self.values.items() if not covers_dot(context, dot)
        }


class KeyRegisters:
    """The registers of one key; they may be there before the key, and outlive it.

    Attributes:
        expiry: deadlines; None is PERSIST.
        idmp_duration_s, idmp_maxsize: what XCFGSET set.
    """

    __slots__ = ("expiry", "idmp_duration_s", "idmp_maxsize")

    def __init__(self) -> None:
        self.expiry: MultiValue[Millis | None] = MultiValue()
        self.idmp_duration_s: MultiValue[int] = MultiValue()
        self.idmp_maxsize: MultiValue[int] = MultiValue()

    @property
    def is_empty(self) -> bool:
        return not (self.expiry.values or self.idmp_duration_s.values or self.idmp_maxsize.values)

    def forget_covered_by(self, context: VersionVector) -> None:
        """Drop the values that the context covers."""
        self.expiry.forget_covered_by(context)
        self.idmp_duration_s.forget_covered_by(context)
        self.idmp_maxsize.forget_covered_by(context)

    def deadline(self) -> tuple[Millis, Dot] | None:
        """The deadline that counts and the dot that set it; None: the key does not expire."""
        return deadline_that_counts(self.expiry)


def deadline_that_counts(expiry: MultiValue[Millis | None]) -> tuple[Millis, Dot] | None:
    """Deadline that counts of an expiry register: PERSIST beats every one, else the latest counts.

    Returns:
        The deadline and the dot that set it, of equal ones the lowest; None: there is no end.
    """
    values = expiry.values
    if len(values) == 1:
        ((dot, deadline),) = values.items()
        return None if deadline is None else (deadline, dot)
    winner: tuple[Millis, Dot] | None = None
    for dot, deadline in sorted(values.items()):
        if deadline is None:
            return None
        if winner is None or deadline > winner[0]:
            winner = deadline, dot
    return winner
