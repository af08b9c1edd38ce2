"""The string of a key: a register that keeps every value that is not overwritten (``rules`` 23).

    R1  1:7  SET k a PX 900   ──╲╱──>  both regions hold  1:7 a, until …900
    R2  2:3  SET k b          ──╱╲──>                     2:3 b
                                       and show a: of concurrent values the lowest dot counts

A value is overwritten by a SET that had observed it, and removed by a DEL that had.  It has its own
deadlines, which are dropped with it.  If the deadlines were the key's, as a stream's are, a DEL
elsewhere would take the deadline of a lock that it had not observed, and leave the lock for good.

Always so: a register that is kept has a value; removing the last one drops the register.
"""

from collections.abc import Iterator

from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.registers import MultiValue, deadline_that_counts


class StringValue:
    """One value of a string.

    Attributes:
        data: the bytes.
        expiry: its deadlines; empty: it does not end.
    """

    __slots__ = ("data", "expiry")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.expiry: MultiValue[Millis | None] = MultiValue()

    def deadline(self) -> tuple[Millis, Dot] | None:
        """The deadline that counts and the dot that set it; None: the value does not end."""
        return deadline_that_counts(self.expiry)


class StringRegister:
    """See the module's text."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Dot, StringValue] = {}

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> Iterator[tuple[Dot, StringValue]]:
        """All values with their dots; the one that counts comes first."""
        return iter(sorted(self._values.items()))

    @property
    def dot(self) -> Dot:
        """Dot of the value that counts."""
        return min(self._values)

    @property
    def data(self) -> bytes:
        """The bytes that GET returns."""
        return self._values[min(self._values)].data

    def deadline(self) -> tuple[Millis, Dot] | None:
        """The deadline that counts and the dot that set it; None: the string does not end."""
        return self._values[min(self._values)].deadline()

    # --- Changing -----------------------------------------------------------------------------

    def set(self, dot: Dot, data: bytes, deadline: Millis | None, context: VersionVector) -> None:
        """Overwrite what the context covers."""
        self.forget_covered_by(context)
        self._values[dot] = value = StringValue(data)
        if deadline is not None:
            value.expiry.set(dot, deadline, {})
        assert not covers_dot(context, dot), "an effect has not observed itself"

    def set_expiry(self, dot: Dot, deadline: Millis | None, context: VersionVector) -> None:
        """Set the deadline of the values that the context covers."""
        for value_dot, value in self._values.items():
            if covers_dot(context, value_dot):
                value.expiry.set(dot, deadline, context)

    def forget_covered_by(self, context: VersionVector) -> None:
        """Drop the values that the context covers."""
        if self._values:
            self._values = {
                dot: value for dot, value in self._values.items() if not covers_dot(context, dot)
            }

    def replace_values(self, values: dict[Dot, StringValue]) -> None:
        """Replace all values by these."""
        self._values = values

    # --- What a checkpoint has ----------------------------------------------------------------

    def restore(self, dot: Dot, data: bytes, expiry: dict[Dot, Millis | None]) -> None:
        """Put back a value that ``values`` returned."""
        self._values[dot] = value = StringValue(data)
        value.expiry.values = expiry
