"""The record at the target: the keys that this move has begun there.

It is a stream of its own at the target, one entry for each key.  A key is in the record before
anything of it is written.  So the next run, of whichever machine, tells a key that a move brought
from one that an application made: the former it may change, add to and delete; the latter it leaves
alone.  A move that was checked deletes the record, and leaves a string that says when.

Other entries are notes, of which the last one of a name counts:

    stream orders:eu      a key with its type
    earlier orders:eu     the target had the key already: an earlier copy (--continue)
    run-id 5f1c…          the run of the source in which the move began
    fence 1 10            what the source had before the fence was raised
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from crdtstream.move.ends import Ends, Pair
from crdtstream.move.pages import Pages, shown

PREFIX: Final = b"crdtstream:move:"
FINISHED_PREFIX: Final = b"crdtstream:moved:"
FINISHED_DAYS: Final = 90
_WRITTEN_AT_A_TIME: Final = 500
STREAM: Final = b"stream"
STRING: Final = b"string"
EARLIER: Final = b"earlier"
RUN_ID: Final = b"run-id"
FENCE: Final = b"fence"


class Record:
    """The keys that a move from this source has begun at the target, with their types.

    Attributes:
        kinds: by key its type.
        earlier: keys that the target had before the move, as earlier copies.
        notes: by name.
        finished: time at which a move from this source was finished; empty: none was.
    """

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._key = PREFIX + ends.source.name.encode()
        self._finished_key = FINISHED_PREFIX + ends.source.name.encode()
        self.finished = ""
        self.kinds: dict[bytes, bytes] = {}
        self.earlier: set[bytes] = set()
        self.notes: dict[bytes, bytes] = {}

    @property
    def name(self) -> str:
        """Its key, for people."""
        return shown(self._key)

    async def read(self) -> None:
        for name, value in await self._ends.work(self._read):
            if name in (STREAM, STRING):
                self.kinds[value] = name
            elif name == EARLIER:
                self.earlier.add(value)
            else:
                self.notes[name] = value

        note = await self._ends.work(lambda pair: pair.target.call("GET", self._finished_key))
        self.finished = shown(note or b"")

    async def _read(self, pair: Pair) -> list[list[bytes]]:
        return [fields async for page in Pages(pair.target, self._key) for _, fields in page]

    async def note(self, name: bytes, value: bytes) -> None:
        await self._ends.work(lambda pair: self._add(pair, [(name, value)]))
        self.notes[name] = value

    async def add(self, kinds: Mapping[bytes, bytes], earlier: Iterable[bytes]) -> None:
        """Record keys, by key the type; those that are there already are not repeated.

        Args:
            earlier: those among them that the target has already.
        """
        await self._add_all([(EARLIER, key) for key in earlier if key not in self.earlier])
        self.earlier.update(earlier)
        new = [(kind, key) for key, kind in kinds.items() if self.kinds.get(key) != kind]
        await self._add_all(new)
        self.kinds.update((key, kind) for kind, key in new)

    async def _add_all(self, new: Sequence[tuple[bytes, bytes]]) -> None:
        for begin in range(0, len(new), _WRITTEN_AT_A_TIME):
            part = new[begin : begin + _WRITTEN_AT_A_TIME]
            await self._ends.work(partial(self._add, new=part))

    async def _add(self, pair: Pair, new: Iterable[tuple[bytes, bytes]]) -> None:
        # After a lost reply some are there twice, which says the same.
        commands = [(b"XADD", self._key, b"*", kind, key) for kind, key in new]
        for command, reply in zip(commands, await pair.target.run(commands), strict=True):
            pair.target.checked(reply, command)

    async def end(self) -> None:
        """Delete the record, and say when; a note, which goes by itself."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        seconds = FINISHED_DAYS * 24 * 3600
        commands = [("SET", self._finished_key, now, "EX", seconds), ("DEL", self._key)]
        await self._ends.work(lambda pair: pair.target.call_all(commands))
