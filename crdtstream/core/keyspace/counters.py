"""Counters: what each region added to a string (``rules`` 24).

    SET k 10       dot 1:1                 the base: a value of the string
    INCRBY k 5     dot 1:2   share of R1   base 1:1, n 2, total 5
    INCRBY k 3     dot 2:1   share of R2   base 1:1, n 1, total 3         GET k: 10 + 5 + 3

A region has one share of a key.  It counts on from the first INCR of a *run*: a run ends where a
SET or a delete took all that the region had added, or where another value counts.

A SET or a delete takes what it had observed, and says how much that was (``Taken``).  So what a
region adds at the same time stays, and two deletes take nothing twice:

    R1    n 2, total 5      DEL k takes (R1, n 2, total 5), (R2, n 1, total 3)
    R2    INCR k, dot 2:2   its share has n 2, total 4 then, and 3 of these are taken: GET k: 1

A share of which all is taken is gone.  How far it was taken is remembered until that is causally
stable (``EndedShares``), for merges: another region's state may have the same share with what it
added since.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from crdtstream.core.clock import Dot, MutableVersionVector
from crdtstream.core.effects import AddToString, Taken
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.registers import MultiValue, deadline_that_counts

I64_MIN: Final = -(1 << 63)
I64_MAX: Final = (1 << 63) - 1


class Share:
    """All that one region added to a string, in its present run.

    Attributes:
        base: the value of the string that it is added to; None: there was none.
        n: number of the region's last effect that added.
        total: all that the run added.
        taken_n: what was added up to this number is taken.
        taken: how much of the total that is.
        expiry: deadlines; the counter ends by them where no value of the string is left.
    """

    __slots__ = ("base", "expiry", "n", "taken", "taken_n", "total")

    def __init__(self, base: Dot | None, n: int, total: int, taken_n: int, taken: int) -> None:
        self.base = base
        self.n = n
        self.total = total
        self.taken_n = taken_n
        self.taken = taken
        self.expiry: MultiValue[Millis | None] = MultiValue()

    @property
    def live(self) -> int:
        """All of it that is not taken."""
        return self.total - self.taken

    def deadline(self) -> tuple[Millis, Dot] | None:
        """As of a value."""
        return deadline_that_counts(self.expiry)

    def take(self, n: int, total: int) -> None:
        """All up to the number ``n``, ``total`` together, is taken."""
        if n > self.taken_n:
            self.taken_n, self.taken = n, total

    def facts(self) -> tuple[Dot | None, int, int, int, int]:
        """All of it but its deadlines."""
        return self.base, self.n, self.total, self.taken_n, self.taken


def share_after(share: Share | None, dot: Dot, effect: AddToString) -> Share:
    """The share of the effect's region when the effect is applied."""
    if effect.after_n and share is not None and share.n == effect.after_n:
        after = Share(share.base, dot.n, share.total + effect.by, share.taken_n, share.taken)
    elif effect.after_n:
        # All that its run had added before is taken here.
        total = effect.before + effect.by
        after = Share(effect.base, dot.n, total, effect.after_n, effect.before)
    else:
        after = Share(effect.base, dot.n, effect.by, dot.n - 1, 0)
    if effect.deadline is not None:
        after.expiry.values = {dot: effect.deadline}
    return after


def limited(number: int) -> int:
    """The number as it is shown: beyond 64 bits the nearest one that has 64 bits."""
    return max(I64_MIN, min(I64_MAX, number))


def parse_i64(text: bytes) -> int | None:
    """A signed 64-bit decimal as Redis takes it: no plus, no blanks, no leading zeros."""
    digits = text[1:] if text[:1] == b"-" else text
    if not digits.isdigit() or len(digits) > 19 or (digits[0] == 0x30 and len(text) > 1):
        return None
    value = int(text)
    return value if I64_MIN <= value <= I64_MAX else None


class Ended(NamedTuple):
    """A share that is gone.

    Attributes:
        n, total: as in ``Taken``.
        takers: by issuer the last effect that took it.
    """

    n: int
    total: int
    takers: MutableVersionVector


NO_ENDED: Final[Mapping[RegionId, Ended]] = {}


class EndedShares:
    """The shares that are gone and not causally stable as such, by key and region."""

    __slots__ = ("_by_key", "_queues")

    def __init__(self) -> None:
        self._by_key: dict[bytes, dict[RegionId, Ended]] = {}
        # In the order of each issuer's dots, so that forgetting costs what is forgotten.
        self._queues: dict[RegionId, deque[tuple[int, bytes, RegionId]]] = {}

    def __len__(self) -> int:
        """Number of keys."""
        return len(self._by_key)

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def of(self, key: bytes) -> Mapping[RegionId, Ended]:
        return self._by_key.get(key, NO_ENDED)

    def add(self, key: bytes, taken: Taken, taker: Dot) -> None:
        """A share is gone, by the effect with the dot ``taker``."""
        self.unite(key, taken.region, Ended(taken.n, taken.total, {taker.region: taker.n}))

    def unite(self, key: bytes, region: RegionId, ended: Ended) -> None:
        """The one that took more counts.  After others than ``add``: ``restore_order``."""
        of_key = self._by_key.setdefault(key, {})
        before = of_key.get(region)
        takers: MutableVersionVector = {}
        if before is not None:
            takers = before.takers
            if before.n > ended.n:
                ended = before._replace(takers=ended.takers)
        for issuer, n in ended.takers.items():
            if takers.get(issuer, 0) < n:
                takers[issuer] = n
                self._queues.setdefault(issuer, deque()).append((n, key, region))
        of_key[region] = Ended(ended.n, ended.total, takers)

    def forget(self, key: bytes) -> None:
        """Nothing counts that was remembered of the key."""
        self._by_key.pop(key, None)

    def forget_stable(
        self, stable: Mapping[RegionId, int], note: Callable[[bytes], object]
    ) -> None:
        """Forget what only causally stable effects took; ``note`` each key before."""
        for issuer, queue in self._queues.items():
            n_stable = stable.get(issuer, 0)
            while queue and queue[0][0] <= n_stable:
                n, key, region = queue.popleft()
                ended = self.of(key).get(region)
                if ended is not None and ended.takers.get(issuer) == n:
                    note(key)
                    del ended.takers[issuer]
                    if not ended.takers:
                        self._drop(key, region)

    def _drop(self, key: bytes, region: RegionId) -> None:
        of_key = self._by_key[key]
        del of_key[region]
        if not of_key:
            del self._by_key[key]

    def restore_order(self) -> None:
        """Put the takers in order, once all is united."""
        for issuer, queue in self._queues.items():
            self._queues[issuer] = deque(sorted(queue, key=lambda row: row[0]))
