"""The string of a key: a register that keeps every value that is not overwritten (``rules`` 23).

    R1  1:7  SET k a PX 900   ──╲╱──>  both regions hold  1:7 a, until …900
    R2  2:3  SET k b          ──╱╲──>                     2:3 b
                                       and show a: of concurrent values the lowest dot counts

A value is overwritten by a SET that had observed it, and removed by a DEL that had.  It has its own
deadlines, which are dropped with it.  If the deadlines were the key's, as a stream's are, a DEL
elsewhere would take the deadline of a lock that it had not observed, and leave the lock for good.

What regions add to the value is kept beside it, by region (``counters.py``).

Always so: a register that is kept has a value or a share; removing the last one drops the register.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.effects import AddToString, Taken
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.counters import Share, limited, parse_i64, share_after
from crdtstream.core.keyspace.registers import MultiValue, deadline_that_counts

# Of all strings that are no counters; never changed.
NO_SHARES: Final[dict[RegionId, Share]] = {}


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

    __slots__ = ("_shares", "_values")

    def __init__(self) -> None:
        self._values: dict[Dot, StringValue] = {}
        self._shares = NO_SHARES

    def __len__(self) -> int:
        """Number of values and shares."""
        return len(self._values) + len(self._shares)

    def values(self) -> Iterator[tuple[Dot, StringValue]]:
        """All values with their dots; the one that counts comes first."""
        return iter(sorted(self._values.items()))

    def shares(self) -> Iterator[tuple[RegionId, Share]]:
        """Shares by region."""
        return iter(sorted(self._shares.items()))

    @property
    def dot(self) -> Dot | None:
        """Dot of the value that counts; None: there is none, and the shares count."""
        return min(self._values) if self._values else None

    @property
    def data(self) -> bytes:
        """The bytes that GET returns."""
        if not self._shares:
            return self._values[min(self._values)].data
        if not self._values:
            return b"%d" % limited(sum(share.live for share in self._shares.values()))
        dot = min(self._values)
        data = self._values[dot].data
        added = [share.live for share in self._shares.values() if share.base == dot]
        number = parse_i64(data) if added else None
        return data if number is None else b"%d" % limited(number + sum(added))

    def deadline(self) -> tuple[Millis, Dot] | None:
        """The deadline that counts and the dot that set it; None: the string does not end."""
        if self._values:
            return self._values[min(self._values)].deadline()
        together: MultiValue[Millis | None] = MultiValue()
        for share in self._shares.values():
            together.values.update(share.expiry.values)
        return deadline_that_counts(together)

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
        for region, share in self._shares.items():
            if covers_dot(context, Dot(region, share.n)):
                share.expiry.set(dot, deadline, context)

    def forget_covered_by(self, context: VersionVector) -> None:
        """Drop the values that the context covers."""
        if self._values:
            self._values = {
                dot: value for dot, value in self._values.items() if not covers_dot(context, dot)
            }

    def replace_values(self, values: dict[Dot, StringValue]) -> None:
        """Replace all values by these."""
        self._values = values

    # --- Counting -----------------------------------------------------------------------------

    def addition(self, key: bytes, region: RegionId, by: int) -> AddToString:
        """The effect by which a region adds to what it sees."""
        share, base = self._shares.get(region), self.dot
        ends = self.deadline()
        deadline = None if ends is None else ends[0]
        # Without a value a region goes on with its share, so that nothing of it is lost.
        if share is not None and (share.base == base or base is None):
            return AddToString(key, by, share.base, share.n, share.total, deadline)
        return AddToString(key, by, base, 0, 0, deadline)

    def add(self, dot: Dot, effect: AddToString) -> None:
        """Apply what a region added."""
        after = share_after(self._shares.get(dot.region), dot, effect)
        if self._shares:
            self._shares[dot.region] = after
        else:
            self._shares = {dot.region: after}

    def takes(self) -> tuple[Taken, ...]:
        """All shares, as a SET or a delete takes them now."""
        return tuple(Taken(region, share.n, share.total) for region, share in self.shares())

    def take(self, takes: Iterable[Taken]) -> list[Taken]:
        """Take what an effect had observed; return what ends shares by that."""
        gone = []
        for taken in takes:
            share = self._shares.get(taken.region)
            if share is not None:
                share.take(taken.n, taken.total)
                if share.taken_n >= share.n:
                    gone.append(taken)
        if gone:
            ended = {taken.region for taken in gone}
            self.replace_shares(
                {region: share for region, share in self._shares.items() if region not in ended}
            )
        return gone

    def replace_shares(self, shares: dict[RegionId, Share]) -> None:
        """Replace all shares by these."""
        self._shares = shares or NO_SHARES

    # --- What a checkpoint has ----------------------------------------------------------------

    def restore(self, dot: Dot, data: bytes, expiry: dict[Dot, Millis | None]) -> None:
        """Put back a value that ``values`` returned."""
        self._values[dot] = value = StringValue(data)
        value.expiry.values = expiry
