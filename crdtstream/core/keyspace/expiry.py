"""Expiry of keys: the deadlines that count at present, and the keys that have expired.

    SetExpiry ──> set ──> coming ──look(now)──> due ──> an ExpireKey from the region that set it
                             ^──────────────────┘  a clock that was set back
    DeleteKey, ExpireKey ──> forget

That is for streams.  Strings have another object of this kind, and DeleteString ends them.

An expired key stays where it is and reads as missing, until the ExpireKey of the region that set
its deadline is applied (``rules`` 7).  If that region was removed, its heir issues it (4).  Keys
are judged again at each new time, so a key exists again if the clock goes back.  The registers
decide which of several deadlines counts (``registers.py``); they may exist before their key, and
outlive it.

Always so: ``due`` holds exactly the keys whose deadline is known and has passed by the last time
that was given.
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
# Expired keys that one tick deletes: a tick should take some ten milliseconds.
EXPIRED_AT_ONCE_MAX: Final = Size(500, least=1)


class Expiry:
    """The deadlines of a replica's keys.

    Attributes:
        deadlines: by key, each with the dot that set it; one and the same dictionary for good.
        due: keys whose deadline has passed; one and the same set for good.
        due_here: those of them that fall to this region to delete, in the order of the deadlines.
        coming: a heap of the deadlines that have not passed, the earliest first; some may have been
            overwritten since.
        passed: a heap of the deadlines of ``due``, negated, the latest first.
        now: the clock by which ``look`` judges; set from outside.
    """

    __slots__ = (
        "_heirs",
        "_lone",
        "_region",
        "_sum_ms",
        "coming",
        "deadlines",
        "due",
        "due_here",
        "now",
        "passed",
    )

    def __init__(self, region: RegionId, heirs: Heirs) -> None:
        self._region = region
        self._heirs = heirs
        self.due: set[bytes] = set()
        self.due_here: dict[bytes, None] = {}
        self.deadlines: dict[bytes, tuple[Millis, Dot]] = {}
        self._sum_ms = 0
        self.now = Millis(0)
        self.coming: list[tuple[int, bytes]] = []
        self.passed: list[tuple[int, bytes]] = []
        # Keys that have a deadline and nothing else.
        self._lone: set[bytes] = set()

    def __len__(self) -> int:
        """Number of existing keys that have a deadline."""
        assert len(self._lone) <= len(self.deadlines)
        return len(self.deadlines) - len(self._lone)

    def of(self, key: bytes) -> Millis | None:
        """Time at which the key ends; None: it does not."""
        found = self.deadlines.get(key)
        return None if found is None else found[0]

    def not_passed(self) -> tuple[int, int]:
        """Sum and number of the deadlines that have not passed.  O(due)."""
        passed_ms = sum(self.deadlines[key][0] for key in self.due)
        return self._sum_ms - passed_ms, len(self.deadlines) - len(self.due)

    # --- Changes ------------------------------------------------------------------------------

    def set(self, key: bytes, deadline: tuple[Millis, Dot] | None, *, exists: bool) -> None:
        """The deadline that counts from now on, and the dot that set it; None: the key stays."""
        self.forget(key)
        if deadline is None:
            return
        self.deadlines[key] = deadline
        self._sum_ms += deadline[0]
        if not exists:
            self._lone.add(key)
        heappush(self.coming, (deadline[0], key))
        bound = 2 * len(self.deadlines) + STALE_DEADLINES_MAX.value
        if len(self.coming) + len(self.passed) > bound:
            self._clear_out()

    def _clear_out(self) -> None:
        """Drop what the heaps hold of deadlines that were overwritten."""
        self.coming, self.passed = [], []
        for key, (deadline, _) in self.deadlines.items():
            if key in self.due:
                self.passed.append((-deadline, key))
            else:
                self.coming.append((deadline, key))
        heapify(self.coming)
        heapify(self.passed)

    def forget(self, key: bytes) -> None:
        """The key has no deadline any more."""
        found = self.deadlines.pop(key, None)
        if found is not None:
            self._sum_ms -= found[0]
            assert self._sum_ms >= 0, "a deadline ends that was not counted"
            self._lone.discard(key)
            self.due.discard(key)
            self.due_here.pop(key, None)

    def take_in(self, others: "Expiry") -> None:
        """Take over the deadlines of other keys, none of them judged yet; ``look`` judges them."""
        assert not others.due
        assert self.deadlines.keys().isdisjoint(others.deadlines)
        self.deadlines.update(others.deadlines)
        self._sum_ms += others._sum_ms
        self._lone.update(others._lone)
        self.coming += others.coming
        heapify(self.coming)

    def note_begun(self, key: bytes) -> None:
        """The key exists from now on."""
        self._lone.discard(key)

    def note_gone(self, key: bytes) -> None:
        """The key does not exist any more; its deadline may outlive it."""
        if key in self.deadlines:
            self._lone.add(key)

    # --- Time ---------------------------------------------------------------------------------

    def look(self) -> list[bytes]:
        """Judge what changed since the last look; return the keys that expired or exist again."""
        changed = []
        while self.coming and self.coming[0][0] <= self.now:
            deadline, key = heappop(self.coming)
            found = self.deadlines.get(key)
            if found is None or found[0] != deadline or key in self.due:
                continue
            self.due.add(key)
            heappush(self.passed, (-deadline, key))
            if self._falls_to_here(found[1]):
                self.due_here[key] = None
            changed.append(key)
        while self.passed and -self.passed[0][0] > self.now:
            negated, key = heappop(self.passed)
            found = self.deadlines.get(key)
            if found is None or found[0] != -negated or key not in self.due:
                continue
            self.due.remove(key)
            self.due_here.pop(key, None)
            heappush(self.coming, (-negated, key))
            changed.append(key)
        assert len(self.due_here) <= len(self.due) <= len(self.deadlines)
        assert len(self.due) <= len(self.passed), "an expired key could not exist again"
        return changed

    def settle_heirs(self) -> None:
        """Others may act for removed regions: some keys fall to this region now.

        Cost: O(due).
        """
        falling = [
            (self.deadlines[key][0], key)
            for key in self.due
            if self._falls_to_here(self.deadlines[key][1])
        ]
        self.due_here = {key: None for _, key in sorted(falling)}
        assert self.due_here.keys() <= self.due

    def _falls_to_here(self, setter: Dot) -> bool:
        """True if this region deletes the keys whose deadline that effect set."""
        return self._heirs.acting_for(setter.region) == self._region

    def next_due_here(self) -> list[bytes]:
        """Keys for this region to delete, in the order of their deadlines.

        At most EXPIRED_AT_ONCE_MAX, as that many keys may end at once.
        """
        return list(islice(self.due_here, EXPIRED_AT_ONCE_MAX.value))
