"""Numbered producers: rows that arrive in batches, each row with a number, each added once.

A program like Spark writes the rows 0, 1, 2 … of its batch 7.  It writes all or some of them again
when a task is tried again, when a copy of it runs elsewhere, when it starts from a checkpoint.
Which rows a region has is then a few ranges, however many rows there are:

    producer "q1:0"   batch 6   [0, 52000)    region 1, dots 311…   causally stable
                      batch 7   [0, 8000)     region 1, dots 911…   not known to be everywhere
                                [8000, 9000)  region 2, dots 17…

So unlike the window of XADD's idempotent ids these have no size and no duration.  The rows of a
batch are remembered until they are causally stable, and the producer has appended for the batch
after the next: that begins only when the next one was committed.  An append for an older batch is
refused: which of its rows were appended is forgotten.

A run keeps its dots for as long as its batch is known, also when it is causally stable: by them two
states are merged (``merge/``).  Rows without dots could not be distinguished from rows that the
other region has deleted.

Rows that two regions appended without knowing of each other are settled as every idempotent append
is: those with the smaller dot stay, in every region.  As they are of different origins, the smaller
region's stay.

Source: ``rules`` 20 and 21.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Final, TypeAlias

from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.effects import Numbered
from crdtstream.core.ids import RegionId
from crdtstream.core.ranges import Ranges
from crdtstream.core.size import Scope, Size

# How many producers of a stream are remembered.  When there are more, those that have been silent
# the longest are forgotten.
PRODUCERS_MAX: Final = Size(10_000, least=1, scope=Scope.REGIONS)
# How many runs of an origin one call forgets.
FORGOTTEN_RUNS_MAX: Final = Size(1_000, least=1)

# Rows from the first up to but without the second number.
Rows: TypeAlias = tuple[int, int]


class StaleBatchError(Exception):
    """The batch is too old: its appended rows are forgotten; the text names the batch."""


@dataclass(frozen=True, slots=True)
class Losing:
    """Appends to be removed as concurrent ones of the same rows stay: ``count`` from a dot on."""

    first: Dot
    count: int


class Run:
    """Rows that one batch of effects brought: row ``start + i`` has the dot ``first.n + i``.

    Attributes:
        known: whether a retry is recognised; not after a DEL that had observed them.
        is_stable: whether it is causally stable, and kept for its dots only.
    """

    __slots__ = ("first", "is_stable", "known", "start", "stop")

    def __init__(self, start: int, stop: int, first: Dot) -> None:
        self.start = start
        self.stop = stop
        self.first = first
        self.known = True
        self.is_stable = False

    @property
    def last(self) -> Dot:
        return Dot(self.first.region, self.first.n + self.stop - self.start - 1)

    def loser(self, rival: "Run") -> Losing | None:
        """Part that two concurrent runs share, of the run with the greater dots."""
        start, stop = max(self.start, rival.start), min(self.stop, rival.stop)
        if start >= stop:
            return None
        loser = max(self, rival, key=lambda one: one.first)
        n = loser.first.n + start - loser.start
        assert loser.first.n <= n <= loser.last.n
        return Losing(Dot(loser.first.region, n), stop - start)


class Batch:
    """The rows of one batch that are here.

    Attributes:
        known: the rows that a retry need not bring; empty in a batch that is so old that its rows
            are forgotten.
        runs: per origin, in the order of their dots, the runs that are known or not causally
            stable.
    """

    __slots__ = ("known", "runs")

    def __init__(self) -> None:
        self.known: Ranges[int] = Ranges()
        self.runs: dict[RegionId, deque[Run]] = {}

    @property
    def is_empty(self) -> bool:
        return not self.known and not any(self.runs.values())

    def concurrent(self, run: Run, context: VersionVector) -> Iterator[Run]:
        """Runs of other origins that the context does not cover: of each origin the last ones.

        Either the whole run was observed or nothing of it, as batches are never split.
        """
        for region, runs in self.runs.items():
            if region != run.first.region:
                yield from takewhile(
                    lambda rival: not covers_dot(context, rival.last), reversed(runs)
                )

    def all_runs(self) -> Iterator[Run]:
        return chain.from_iterable(self.runs.values())

    def live_runs(self) -> list[Run]:
        return [run for run in self.all_runs() if run.known]

    @property
    def has_unstable_runs(self) -> bool:
        return any(runs and not runs[-1].is_stable for runs in self.runs.values())

    def know(self, *, forgets: bool) -> None:
        """Rows are known by the runs that are; stable runs that are not known are of no use.

        Args:
            forgets: the batch is so old that none of its rows is known any more.
        """
        self.known = Ranges()
        for region, runs in self.runs.items():
            self.runs[region] = deque(
                run for run in runs if not run.is_stable or (run.known and not forgets)
            )
        if not forgets:
            for run in self.live_runs():
                self.known.add(run.start, run.stop)


class Producer:
    """The batches of one producer: the last two, and what is not causally stable of older ones.

    Attributes:
        newest: the highest batch that has a known row, -1 if none has.
    """

    __slots__ = ("batches", "newest")

    def __init__(self) -> None:
        self.batches: dict[int, Batch] = {}
        self.newest = -1

    @property
    def oldest_known(self) -> int:
        """Batches below this one are forgotten: a later one has been committed."""
        return self.newest - 1

    @property
    def has_unstable_runs(self) -> bool:
        return any(batch.has_unstable_runs for batch in self.batches.values())

    def add(self, number: int, run: Run) -> None:
        batch = self.batches.setdefault(number, Batch())
        runs = batch.runs.setdefault(run.first.region, deque())
        assert not runs or runs[-1].last.n < run.first.n, "runs of an origin ascend"
        runs.append(run)
        if number >= self.oldest_known:
            batch.known.add(run.start, run.stop)
        if number > self.newest:
            before, self.newest = self.newest, number
            # No others have known rows.
            for old in (before - 1, before):
                if old < self.oldest_known and old in self.batches:
                    self.batches[old].know(forgets=True)
                    assert not self.batches[old].known
                    self.drop_if_empty(old)

    def forget_covered_by(self, context: VersionVector) -> None:
        """The key was deleted: rows that its deleter had observed are known no more.

        All causally stable rows are among them: every later delete has observed them.
        """
        for batch in self.batches.values():
            for run in batch.live_runs():
                run.known = not covers_dot(context, run.last)
        self.follow_runs()

    def follow_runs(self) -> None:
        """Runs were added, dropped or forgotten: what is known follows from the known ones."""
        live = [number for number, batch in self.batches.items() if batch.live_runs()]
        self.newest = max(live, default=-1)
        for number in list(self.batches):
            self.batches[number].know(forgets=number < self.oldest_known)
            self.drop_if_empty(number)
        assert self.newest == -1 or self.newest in self.batches

    def runs_of(self, number: int) -> Iterator[Run]:
        """The runs of a batch, those of each origin in the order of their dots."""
        batch = self.batches.get(number)
        return iter(()) if batch is None else batch.all_runs()

    def set_runs(self, number: int, runs: Iterable[Run]) -> None:
        """A batch has these runs, in the order of their dots; ``follow_runs`` when all have."""
        batch = self.batches.setdefault(number, Batch())
        batch.runs = {}
        for run in runs:
            batch.runs.setdefault(run.first.region, deque()).append(run)

    def drop_if_empty(self, number: int) -> None:
        if self.batches[number].is_empty:
            del self.batches[number]


class NumberedRecords:
    """The rows of every numbered producer, by key."""

    __slots__ = ("_by_key", "queues")

    def __init__(self) -> None:
        self._by_key: dict[bytes, OrderedDict[bytes, Producer]] = {}
        # What is not stable, in the order of each origin's dots.
        self.queues: dict[RegionId, deque[tuple[bytes, Numbered, Run]]] = {}

    def __len__(self) -> int:
        """Runs that are not causally stable."""
        return sum(map(len, self.queues.values()))

    def missing(self, key: bytes, rows: Numbered, count: int) -> list[Rows]:
        """Rows, of ``count`` from ``rows.row`` on, that are not here, ascending.

        Raises:
            StaleBatchError: what was here of the batch is forgotten.
        """
        producers = self._by_key.get(key)
        producer = None if producers is None else producers.get(rows.producer)
        start, stop = rows.row, rows.row + count
        if producer is None:
            return [(start, stop)]
        if rows.batch < producer.oldest_known:
            raise StaleBatchError(
                f"batch {rows.batch} of producer {rows.producer!r} is over: batch"
                f" {producer.newest} of it was written to {key!r} since"
            )
        batch = producer.batches.get(rows.batch)
        return [(start, stop)] if batch is None else batch.known.missing(start, stop)

    def add(
        self, key: bytes, rows: Numbered, count: int, first: Dot, context: VersionVector
    ) -> list[Losing]:
        """Remember rows that were just appended, from the dot ``first`` on.

        Returns:
            What is to be removed of them, and of concurrent appends of the same rows.
        """
        lost = self.losing(key, rows, count, first, context)
        producers = self._by_key.setdefault(key, OrderedDict())
        producer = producers.setdefault(rows.producer, Producer())
        producers.move_to_end(rows.producer)
        run = Run(rows.row, rows.row + count, first)
        producer.add(rows.batch, run)
        self.queues.setdefault(first.region, deque()).append((key, rows, run))
        self._forget_the_silent(producers)
        return lost

    def losing(
        self, key: bytes, rows: Numbered, count: int, first: Dot, context: VersionVector
    ) -> list[Losing]:
        """Rows that ``add`` would return.  Only the origin of ``first`` counts, not its number."""
        producers = self._by_key.get(key)
        producer = None if producers is None else producers.get(rows.producer)
        batch = None if producer is None else producer.batches.get(rows.batch)
        if batch is None:
            return []
        run = Run(rows.row, rows.row + count, first)
        return [
            lost
            for rival in batch.concurrent(run, context)
            if (lost := run.loser(rival)) is not None
        ]

    def _forget_the_silent(self, producers: OrderedDict[bytes, Producer]) -> None:
        while len(producers) > PRODUCERS_MAX.value:
            name = next(iter(producers))
            if producers[name].has_unstable_runs:
                return
            del producers[name]

    def forget_covered_by(self, key: bytes, context: VersionVector) -> None:
        """The key was deleted: forget what the deleter had observed."""
        producers = self._by_key.get(key, OrderedDict())
        for name, producer in list(producers.items()):
            producer.forget_covered_by(context)
            self._drop_if_empty(key, name)

    def forget_stable(self, stable: VersionVector, note: Callable[[bytes], object]) -> None:
        """Runs that are causally stable are kept only while their batch is known.

        At most ``FORGOTTEN_RUNS_MAX`` runs of each origin; the next call goes on.

        Args:
            note: called with each key, before something of it is dropped.
        """
        for region, queue in self.queues.items():
            n_stable = stable.get(region, 0)
            for _ in range(FORGOTTEN_RUNS_MAX.value):
                if not queue or queue[0][2].last.n > n_stable:
                    break
                key, rows, run = queue.popleft()
                note(key)
                producer = self._by_key[key][rows.producer]
                run.is_stable = True
                if not run.known or rows.batch < producer.oldest_known:
                    producer.batches[rows.batch].runs[region].remove(run)
                    producer.drop_if_empty(rows.batch)
                self._drop_if_empty(key, rows.producer)

    def _drop_if_empty(self, key: bytes, name: bytes) -> None:
        producers = self._by_key[key]
        if not producers[name].batches:
            del producers[name]
            if not producers:
                del self._by_key[key]

    def forget_key(self, key: bytes) -> None:
        """Nothing counts that was remembered of the key; ``restore_order`` then."""
        self._by_key.pop(key, None)

    def producer_or_new(self, key: bytes, name: bytes) -> Producer:
        """A producer of a key, whose runs are about to be replaced; ``follow_runs`` then."""
        return self._by_key.setdefault(key, OrderedDict()).setdefault(name, Producer())

    def follow_runs(self, key: bytes) -> None:
        """Runs of a key's producers were replaced; ``restore_order`` once all were."""
        for name in list(self._by_key.get(key, ())):
            self._by_key[key][name].follow_runs()
            self._drop_if_empty(key, name)

    # --- What a checkpoint has ----------------------------------------------------------------

    def __contains__(self, key: bytes) -> bool:
        """True if there are rows of the key."""
        return key in self._by_key

    def of(self, key: bytes) -> Iterator[tuple[bytes, Producer]]:
        """The producers of a key; those that have been silent the longest come first."""
        return iter(self._by_key.get(key, {}).items())

    def restore(self, key: bytes, name: bytes, producer: Producer) -> None:
        """Put back what ``of`` returned, one producer after the other."""
        self._by_key.setdefault(key, OrderedDict())[name] = producer

    def restore_order(self) -> None:
        """All producers of all keys were put back."""
        queues: dict[RegionId, list[tuple[bytes, Numbered, Run]]] = {}
        for key, producers in self._by_key.items():
            for name, producer in producers.items():
                for number, batch in producer.batches.items():
                    for run in batch.all_runs():
                        if not run.is_stable:
                            row = key, Numbered(name, number, run.start), run
                            queues.setdefault(run.first.region, []).append(row)
        self.queues = {
            region: deque(sorted(rows, key=lambda row: row[2].first.n))
            for region, rows in queues.items()
        }
