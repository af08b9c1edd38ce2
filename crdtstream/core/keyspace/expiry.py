"""Which keys end, and when: the deadlines that count at present, and the keys that are over.

    SetExpiry ──> set ──> coming ──look(now)──> due ──> an ExpireKey from the region that set it
                             ^──────────────────┘  a clock that was set back
    DeleteKey, ExpireKey ──> forget

That is for streams.  Strings have another object of this kind, and DeleteString ends them.

A key whose time is over stays where it is and reads as missing, until the ExpireKey of the region
whose deadline it was has come (``rules`` 7), or of its heir if that region was removed (4).  It is
judged again whenever somebody tells the time, so a key comes back when the clock goes back.  Which
of several deadlines counts is for the registers to say (``registers.py``); they may be there before
their key, and outlive it.

Always so: ``due`` holds exactly the keys whose deadline is known and has passed by the last clock
that was told.
"""

from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from crdtstream.core.clock import Dot
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.heirs import Heirs
from crdtstream.core.size import Size

# Deadlines that were overwritten stay in the heap.  They are cleared out when it holds this many
# more than twice the keys with a deadline, because clearing looks at each of these keys.
STALE_DEADLINES_MAX: Final = Size(64, least=0)
# Keys that one tick deletes because their time is over: a tick should take some ten milliseconds.
EXPIRED_AT_ONCE_MAX: Final = Size(500, least=1)


class Expiry:
    """The deadlines of a replica's keys.

    Attributes:
        due: keys whose deadline has passed; one and the same set for good.
    """

    __slots__ = (
        "_coming",
        "_deadlines",
        "_due_here",
        "_heirs",
        "_lone",
        "_now",
        "_passed",
        "_region",
        "_sum_ms",
        "due",
    )

    def __init__(self, region: RegionId, heirs: Heirs) -> None:
        self._region = region
        self._heirs = heirs
        self.due: set[bytes] = set()
        # Those of them that fall to this region to delete, in the order of the deadlines.
        self._due_here: dict[bytes, None] = {}
        self._deadlines: dict[bytes, tuple[Millis, Dot]] = {}
        self._sum_ms = 0
        self._now = Millis(0)
        # By deadline, the earliest first; and those of ``due``, negated, the latest first.
        self._coming: list[tuple[int, bytes]] = []
        self._passed: list[tuple[int, bytes]] = []
        # Keys that have a deadline and nothing else.
        self._lone: set[bytes] = set()

    def __len__(self) -> int:
        """How many keys that exist have a deadline."""
        return len(self._deadlines) - len(self._lone)

    def of(self, key: bytes) -> Millis | None:
        """When the key ends; None: it does not."""
        found = self._deadlines.get(key)
        return None if found is None else found[0]

    def not_passed(self) -> tuple[int, int]:
        """Of the deadlines that have not passed the sum, and how many they are.  O(due)."""
        passed_ms = sum(self._deadlines[key][0] for key in self.due)
        return self._sum_ms - passed_ms, len(self._deadlines) - len(self.due)

    def next(self) -> Millis | None:
        """When ``look`` will find the next key; may be of a deadline long changed."""
        return Millis(self._coming[0][0]) if self._coming else None

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
        heappush(self._coming, (deadline[0], key))
        bound = 2 * len(self._deadlines) + STALE_DEADLINES_MAX.value
        if len(self._coming) + len(self._passed) > bound:
            self._clear_out()

    def _clear_out(self) -> None:
        """Drop what the heaps hold of deadlines that were overwritten."""
        self._coming, self._passed = [], []
        for key, (deadline, _) in self._deadlines.items():
            if key in self.due:
                self._passed.append((-deadline, key))
            else:
                self._coming.append((deadline, key))
        heapify(self._coming)
        heapify(self._passed)

    def forget(self, key: bytes) -> None:
        """The key has no deadline any more."""
        found = self._deadlines.pop(key, None)
        if found is not None:
            self._sum_ms -= found[0]
            self._lone.discard(key)
            self.due.discard(key)
            self._due_here.pop(key, None)

    def take_in(self, others: "Expiry") -> None:
        """Have the deadlines of other keys, none of which was judged yet; ``look`` judges them."""
        assert not others.due
        self._deadlines.update(others._deadlines)
        self._sum_ms += others._sum_ms
        self._lone.update(others._lone)
        self._coming += others._coming
        heapify(self._coming)

    def note_begun(self, key: bytes) -> None:
        """The key exists from now on."""
        self._lone.discard(key)

    def note_gone(self, key: bytes) -> None:
        """The key does not exist any more; its deadline may outlive it."""
        if key in self._deadlines:
            self._lone.add(key)

    # --- Time ---------------------------------------------------------------------------------

    def advance(self, now: Millis) -> list[bytes]:
        """Judge by another clock; returns the keys that went or came back by it."""
        self._now = now
        return self.look()

    def look(self) -> list[bytes]:
        """Judge what changed since the last look; returns the keys that went or came back."""
        changed = []
        while self._coming and self._coming[0][0] <= self._now:
            deadline, key = heappop(self._coming)
            found = self._deadlines.get(key)
            if found is None or found[0] != deadline or key in self.due:
                continue
            self.due.add(key)
            heappush(self._passed, (-deadline, key))
            if self._falls_to_here(found[1]):
                self._due_here[key] = None
            changed.append(key)
        while self._passed and -self._passed[0][0] > self._now:
            negated, key = heappop(self._passed)
            found = self._deadlines.get(key)
            if found is None or found[0] != -negated or key not in self.due:
                continue
            self.due.remove(key)
            self._due_here.pop(key, None)
            heappush(self._coming, (-negated, key))
            changed.append(key)
        return changed

    def settle_heirs(self) -> None:
        """Others may act for removed regions: some keys fall to this region now.

        Cost: O(due).
        """
        falling = [
            (self._deadlines[key][0], key)
            for key in self.due
            if self._falls_to_here(self._deadlines[key][1])
        ]
        self._due_here = {key: None for _, key in sorted(falling)}

    def _falls_to_here(self, setter: Dot) -> bool:
        """Whether this region deletes the keys whose deadline that effect set."""
        return self._heirs.acting_for(setter.region) == self._region

    @property
    def has_due_here(self) -> bool:
        """Whether there are keys for this region to delete."""
        return bool(self._due_here)

    def next_due_here(self) -> list[bytes]:
        """Keys for this region to delete, in the order of their deadlines.

        At most EXPIRED_AT_ONCE_MAX, as many keys may end at once.
        """
        return list(islice(self._due_here, EXPIRED_AT_ONCE_MAX.value))
