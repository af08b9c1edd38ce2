"""Share of the folder: what one part of the region keeps there, by version, and what waits for it.

    note_changed ──> wanted + 1 ──> written, durably ──> note_kept ──> kept
                                                           │
    send(letters) ──> wait ────────────────────────────────┴──> the letters leave

A letter tells of what the part had when it was sent, so the folder has that first: after a power
cut the region must not deny what it has told.

Always so: kept <= wanted, and while they are equal no letter waits.
"""

from collections.abc import Iterable

from crdtstream.region.ready import AnyLetter
from crdtstream.region.tick import Tick


class FolderShare:
    """See the module's text.

    Attributes:
        wanted: number of changes to be kept since the node started.
        kept: those of them that the folder has.
    """

    def __init__(self, tick: Tick) -> None:
        self.wanted = self.kept = 0
        self._tick = tick
        self._waiting: list[tuple[int, AnyLetter]] = []

    @property
    def is_whole(self) -> bool:
        """True if the folder has all of it: no power cut takes any of it back."""
        return self.kept == self.wanted

    def note_changed(self) -> None:
        """Note that the folder is to have more, or something else."""
        self.wanted += 1
        self._tick.want_folder()

    def send(self, letters: Iterable[AnyLetter]) -> None:
        """Send letters, once the folder has what they tell of."""
        if self.is_whole:
            self._tick.send(letters)
        else:
            self._waiting += [(self.wanted, letter) for letter in letters]
            self._tick.open()

    def note_kept(self, version: int) -> None:
        """Note that the folder has it as of a version, durably; letters that tell of it leave."""
        assert self.kept <= version <= self.wanted, "the folder has a version that was not made"
        self.kept = version
        self._tick.send([letter for since, letter in self._waiting if since <= version])
        self._waiting = [one for one in self._waiting if one[0] > version]
        assert not (self.is_whole and self._waiting)
