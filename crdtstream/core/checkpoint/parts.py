"""Parts: the pieces of the state that a checkpoint writes, and which of them changed.

A checkpoint is a consistent cut of the state, written in the background while writers go on.  It
writes only the parts that changed since the cut before:

    changed since the last cut ──cut()──> to be written ──take()──> images, as at the cut
             ^                                 │
             └── a part changes: ``note`` ─────┘  if it was not written yet, it is encoded first

So a cut costs nothing, whatever the size of the state, and a writer pays for one part at most:
*before* it changes a part for the first time since the cut, it calls ``Changes.note``.  That part
is encoded then, as it was at the cut.

Always so:
  * A part's ``changed_after`` is the number of the last cut before its last change.  If it is not
    ``Changes.cut_number``, ``note`` is called before the change.
  * A part that is small enough to be encoded in about a millisecond may stand in ``changed``; what
    grows without bound is spread over parts.
  * ``image`` is the number of the part's image, from the newest cut in which it was encoded; 0
    without any.  A number never names two images.
  * A part that is gone is kept only while the cut under way needs it; of all others the numbers of
    their images are enough, and their memory is free at once.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

from mypy_extensions import mypyc_attr

from crdtstream.core.size import Size

# What is taken between two looks at the clock: a few small images, or a large one.
BYTES_PER_LOOK: Final = Size(2 << 10, least=0)
NO_IMAGE: Final = 0
# The number of the image of a macro node that is read from the staging: this, and its number there.
# (A staging holds the images that another region sent; ``store/staging.py``.)  No table of this
# region's checkpoints has such an image.
STAGED: Final = 1 << 62


class Kind(IntEnum):
    """Kinds of parts; the numbers are in the files."""

    ROOT = 0
    KEY = 1
    GROUP = 2
    WINDOW = 3
    PENDING = 4
    NODE = 5


class Encoded(NamedTuple):
    """A part's content.

    Attributes:
        owner: of a GROUP or NODE or WINDOW the number of its key, of PENDING that of its group.
        lane: of PENDING and NODE the origin region; else 0.
        head: what is read at start, also of a NODE.
        body: of a NODE its entries, read when they are first needed; else empty or read with it.
        is_packed: the body is a packed frame already, as it came from a staging; of a NODE only.
    """

    owner: int
    lane: int
    head: bytes
    body: bytes
    is_packed: bool = False


class Image(NamedTuple):
    """A part as a checkpoint keeps it, under a number that no other image ever has."""

    number: int
    kind: Kind
    owner: int
    lane: int
    head: bytes
    body: bytes
    is_packed: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Part:
    """A piece of the state.  Subclasses say what they are (``kind``) and encode themselves."""

    __slots__ = ("changed_after", "image")

    kind: ClassVar[Kind]

    def __init__(self) -> None:
        self.changed_after = 0
        self.image = NO_IMAGE

    def encode(self) -> Encoded:
        """The part as it is now, as bytes that do not change any more."""
        raise NotImplementedError


class Changes:
    """The parts that changed since the last cut; one object for a whole replica.

    Attributes:
        cut_number: of the last cut, which are counted from 2; 1: none was made.
        images_made: the number of the last image.
    """

    __slots__ = ("_changed", "_cut", "_dropped", "_dropped_in_cut", "cut_number", "images_made")

    def __init__(self) -> None:
        self.cut_number = 1
        self.images_made = 0
        self._changed: dict[Part, None] = {}
        # Images of parts that are gone.
        self._dropped = array("Q")
        # Parts that are gone and that the cut under way needs: it says which image they have.
        self._dropped_in_cut: list[Part] = []
        self._cut: Cut | None = None

    @property
    def count(self) -> int:
        """Number of parts that changed or were dropped since the last cut."""
        return len(self._changed) + len(self._dropped) + len(self._dropped_in_cut)

    def note(self, part: Part) -> None:
        """The part is about to change, for the first time since the last cut, or is new."""
        if part.changed_after == self.cut_number:
            return
        assert part.changed_after < self.cut_number, "it changed after a cut that is to come"
        if self._cut is not None:
            self._cut.keep(part)
        part.changed_after = self.cut_number
        self._changed[part] = None

    def drop(self, part: Part) -> None:
        """The part is gone: the state no longer has it.

        It must not change any more while a cut may still need it.
        """
        self._changed.pop(part, None)
        if self._cut is not None and self._cut.needs(part):
            self._dropped_in_cut.append(part)
        elif part.image:
            self._dropped.append(part.image)

    def cut(self) -> "Cut":
        """Begin to write what changed, as it is now.

        O(1).  The one before must have been finished or abandoned.
        """
        assert self._cut is None
        self._cut = Cut(self, self._changed, self._dropped)
        self._changed = {}
        self._dropped = array("Q")
        self.cut_number += 1
        return self._cut

    # --- What is built while the state is shown without it --------------------------------------

    def aside(self, parts: "dict[Part, None]") -> "_Aside":
        """Context for parts that are not of the state yet: no cut has them before ``take_in``.

        Args:
            parts: those noted so far; it grows.
        """
        return _Aside(self, parts)

    def take_in(self, parts: "dict[Part, None]") -> None:
        """Parts that were noted aside are of the state from now on."""
        self._changed.update(parts)

    # --- What a cut calls ---------------------------------------------------------------------

    def next_number(self) -> int:
        self.images_made += 1
        return self.images_made

    def end(self) -> None:
        assert self._cut is not None, "no cut is under way"
        self._cut = None
        self._dropped.extend([part.image for part in self._dropped_in_cut if part.image])
        self._dropped_in_cut = []

    def put_back(self, parts: Iterable[Part], dropped: "array[int]") -> None:
        """The cut failed: what it was to write has still to be written."""
        gone = set(self._dropped_in_cut)
        for part in parts:
            if part not in gone:
                self._changed.setdefault(part)
        self._dropped = dropped + self._dropped
        self.end()


class _Aside:
    """:meth:`Changes.aside`, for a ``with``; no generator, as those in ``Residency``."""

    def __init__(self, changes: Changes, parts: dict[Part, None]) -> None:
        self._changes = changes
        self._parts = parts
        self._shown = parts

    def __enter__(self) -> None:
        changes = self._changes
        self._shown, changes._changed = changes._changed, self._parts

    def __exit__(self, *_exc: object) -> None:
        self._changes._changed = self._shown


class Cut:
    """The parts that one checkpoint has to write."""

    __slots__ = ("_before", "_changes", "_dropped", "_kept", "_waiting")

    def __init__(self, changes: Changes, changed: dict[Part, None], dropped: "array[int]") -> None:
        self._changes = changes
        self._waiting = changed
        self._dropped = dropped
        self._kept: list[tuple[Part, Image]] = []
        # What was encoded, with the images that the checkpoint before has of it.
        self._before: dict[Part, int] = {}

    @property
    def left(self) -> int:
        """Number of parts still to be taken."""
        return len(self._waiting) + len(self._kept)

    def needs(self, part: Part) -> bool:
        """True if the cut encodes the part: it still has to, or already did."""
        return part in self._waiting or part in self._before

    def keep(self, part: Part) -> None:
        """The part is about to change: encode it as it is, if that has still to be done."""
        if part in self._waiting:
            self._kept.append((part, self._encode(part)))
            del self._waiting[part]
        assert part.changed_after < self._changes.cut_number, "it is encoded before it changes"

    def take(self) -> tuple[Part, Image] | None:
        """The next part and its image; None when all were taken."""
        if self._kept:
            return self._kept.pop()
        if not self._waiting:
            return None
        # Popped: a dictionary keeps the places of what is deleted in another way, and asking for
        # its last key passes all of them.
        part, _ = self._waiting.popitem()
        try:
            return part, self._encode(part)
        except BaseException:
            # It stays to be written, as its body cannot be read.
            self._waiting[part] = None
            raise

    def take_some(
        self, bytes_max: int, is_over: Callable[[], bool]
    ) -> tuple[list[tuple[Part, Image]], int]:
        """As ``take``, many at a time.

        Args:
            bytes_max: of heads and bodies; the last one may go beyond.
            is_over: asked whether to stop, behind each few bytes that were taken.

        Returns:
            The parts with their images, and the bytes of these; none only when all were taken.
        """
        some: list[tuple[Part, Image]] = []
        size = asked_at = 0
        while size < bytes_max and (taken := self.take()) is not None:
            some.append(taken)
            image = taken[1]
            size += len(image.head) + len(image.body)
            # Asked behind the first one: on a busy machine a turn may be over before it has begun.
            if not asked_at or size - asked_at > BYTES_PER_LOOK.value:
                if is_over():
                    break
                asked_at = size
        return some, size

    def _encode(self, part: Part) -> Image:
        assert part not in self._before, "a cut encodes each part once"
        owner, lane, head, body, is_packed = part.encode()
        self._before[part] = part.image
        part.image = self._changes.next_number()
        return Image(part.image, part.kind, owner, lane, head, body, is_packed)

    def replaced(self) -> Iterator[int]:
        """All was taken: the earlier images that a checkpoint of this cut does not need.

        Of a part without one, and of one that was in the staging, it is NO_IMAGE, so that no step
        visits many parts.  The cut stays as it is from then on, and a reader of its parts may stop
        in between.
        """
        assert not self.left
        for number in self._before.values():
            yield number if number < STAGED else NO_IMAGE
        for number in self._dropped:
            yield number if number < STAGED else NO_IMAGE

    def finish(self) -> None:
        """The checkpoint is committed."""
        assert not self.left
        self._changes.end()

    def abandon(self) -> None:
        """The checkpoint failed: the one before counts, and what changed has to be written."""
        for part, number in self._before.items():
            part.image = number
        self._changes.put_back([*self._waiting, *self._before], self._dropped)
