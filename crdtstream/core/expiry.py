"""Which keys end, and when: the deadlines that count at present, and the keys that are over.

    SetExpiry ──> set ──> heap ──advance(now)──> due ──> a DeleteKey from the region that set it
    DeleteKey ──> forget

A key whose time is over stays where it is and reads as missing, until the DeleteKey of the region
whose deadline it was has come (``rules`` 7).  Which of several deadlines counts is for the
registers to say (``registers.py``); they may be there before their key, and outlive it.

Always so: of every key in ``due`` a deadline is known, and it has passed.
"""

from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from crdtstream.core.clock import Dot
from crdtstream.core.ids import Millis, Region

# Deadlines that were overwritten stay in the heap until so many more stand in it than twice the
# keys that have one: clearing them out costs a look at each of these keys.
STALE_DEADLINES_MAX: Final = 64
# Keys that one tick deletes because their time is over: a tick should take some ten milliseconds.
EXPIRED_AT_ONCE_MAX: Final = 500


class Expiry:
    """The deadlines of a replica's keys.

    Attributes:
        due: keys whose deadline has passed; one and the same set for good.
    """

    __slots__ = ("_deadlines", "_due_here", "_heap", "_lone", "_region", "_sum_ms", "due")

    def __init__(self, region: Region) -> None:
        self._region = region
        self.due: set[bytes] = set()
        # Of these, whose deadline this region set, in the order of the deadlines.
        self._due_here: dict[bytes, None] = {}
        self._deadlines: dict[bytes, tuple[Millis, Dot]] = {}
        self._sum_ms = 0
        self._heap: list[tuple[Millis, bytes]] = []
        # Keys that have a deadline and nothing else.
        self._lone: set[bytes] = set()

    def __len__(self) -> int:
        """How many keys that exist have a deadline."""
        return len(self._deadlines) - len(self._lone)

    def of(self, key: bytes) -> Millis | None:
        """When the key ends; None: it does not."""
        found = self._deadlines.get(key)
        return None if found is None else found[0]

    def mean(self) -> Millis | None:
        """The mean of the deadlines that have not passed, None if there are none.  O(due)."""
        count = len(self._deadlines) - len(self.due)
        if not count:
            return None
        return Millis((self._sum_ms - sum(self._deadlines[key][0] for key in self.due)) // count)

    def next(self) -> Millis | None:
        """When ``advance`` will find the next key; may be of a deadline long changed."""
        return self._heap[0][0] if self._heap else None

    # --- Changes ------------------------------------------------------------------------------

    def set(self, key: bytes, deadline: tuple[Millis, Dot] | None, *, exists: bool) -> None:
        """The deadline that counts from now on, and the dot that set it; None: the key stays."""
        self.forget(key)
        if deadline is None:
            return
        self._deadlines[key] = deadline
        self._sum_ms += deadline[0]
        if not exists:
            self._lone.add(key)
        if len(self._heap) > 2 * len(self._deadlines) + STALE_DEADLINES_MAX:
            self._heap = [
                (when, name) for name, (when, _) in self._deadlines.items() if name not in self.due
            ]
            heapify(self._heap)
        else:
            heappush(self._heap, (deadline[0], key))

    def forget(self, key: bytes) -> None:
        """The key has no deadline any more."""
        found = self._deadlines.pop(key, None)
        if found is not None:
            self._sum_ms -= found[0]
            self._lone.discard(key)
            self.due.discard(key)
            self._due_here.pop(key, None)

    def note_begun(self, key: bytes) -> None:
        """The key exists from now on."""
        self._lone.discard(key)

    def note_gone(self, key: bytes) -> None:
        """The key does not exist any more; its deadline may outlive it."""
        if key in self._deadlines:
            self._lone.add(key)

    # --- Time ---------------------------------------------------------------------------------

    def advance(self, now: Millis) -> list[bytes]:
        """The keys that are over by ``now`` and were not before, in the order of the deadlines."""
        over = []
        while self._heap and self._heap[0][0] <= now:
            deadline, key = heappop(self._heap)
            found = self._deadlines.get(key)
            if found is None or found[0] != deadline:
                continue
            self.due.add(key)
            if found[1].region == self._region:
                self._due_here[key] = None
            over.append(key)
        return over

    @property
    def has_due_here(self) -> bool:
        """Whether there are keys for this region to delete."""
        return bool(self._due_here)

    def next_due_here(self) -> list[bytes]:
        """Keys for this region to delete, in the order of their deadlines.

        Many keys may end at once: these are no more than EXPIRED_AT_ONCE_MAX.
        """
        return list(islice(self._due_here, EXPIRED_AT_ONCE_MAX))
