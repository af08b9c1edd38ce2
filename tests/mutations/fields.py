"""Plant away each field of each MessagePack image once: see that restoring without it is noticed.

    python -m tests.mutations.fields

A state in which every field says something (``known``) is written as images.  Then, for each field,
the images are read as if it had not been written, and the state that they make is written again: it
must be another one, or be refused.  A field that this does not notice is one that a restart loses
without a word, or one that no state here has; both are listed.

The columns of a PENDING image, and what its head says of them, are fields as well.  NODE images are
columns, too; ``tests/core`` has their round trips, and ``steps.py`` plants away what reads them.
"""

import sys
from collections.abc import Iterator
from enum import Enum
from itertools import accumulate, pairwise, starmap
from struct import Struct
from typing import Any, Final

import msgspec
import pytest

from crdtstream.core.checkpoint import contents
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.effects import Mode
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.whole import restoring
from tests.harness.checkpoints import parts_of
from tests.harness.regions import Node
from tests.mutations.known import known

CONTENTS: Final[dict[Kind, type[msgspec.Struct]]] = {
    Kind.ROOT: contents.RootContent,
    Kind.KEY: contents.KeyContent,
    Kind.WINDOW: contents.ProducersContent,
    Kind.GROUP: contents.GroupContent,
}
# A struct, or PENDING, and its field.
Field = tuple[str, str]
PENDING: Final = Kind.PENDING.name
# How a PENDING image begins (``pel_chunk.py``): is_wide, base_ms, how many entries and stretches.
PENDING_HEAD: Final = Struct("<BQII")


def all_fields() -> list[Field]:
    """Every field that an image may have."""
    return sorted(
        [
            (name, field)
            for name, struct in vars(contents).items()
            if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
            for field in struct.__struct_fields__
        ]
        + [(PENDING, column) for column in ("is_wide", "base_ms", *_columns(bytes(17)))]
    )


def said(images: list[Image]) -> set[Field]:
    """The fields that say something in one of the images at least."""
    found: set[Field] = set()
    for image in images:
        if image.kind in CONTENTS:
            found.update(_said(contents.unpacked(image.head, CONTENTS[image.kind])))
        elif image.kind is Kind.PENDING:
            found.update(
                field for field in all_fields() if _pending_without(image.body, field) != image.body
            )
    return found


def _columns(body: bytes) -> dict[str, slice]:
    """Places of the columns of a PENDING image."""
    is_wide, _, entries, stretches = PENDING_HEAD.unpack_from(body)
    sizes = {
        "keys": (16 if is_wide else 8) * entries,
        "stretches": 4 * stretches,
        **dict.fromkeys(("owners", "turns", "counts"), 8 * stretches),
    }
    ends = accumulate(sizes.values(), initial=PENDING_HEAD.size)
    return dict(zip(sizes, starmap(slice, pairwise(ends)), strict=True))


def _pending_without(body: bytes, field: Field) -> bytes:
    """A PENDING image as it is read if nobody had written the column."""
    struct, name = field
    if struct != PENDING:
        return body
    is_wide, base_ms, entries, stretches = PENDING_HEAD.unpack_from(body)
    columns = bytearray(body)
    if name in ("is_wide", "base_ms"):
        kept = (0, base_ms) if name == "is_wide" else (is_wide, 0)
        PENDING_HEAD.pack_into(columns, 0, *kept, entries, stretches)
    else:
        at = _columns(body)[name]
        columns[at] = bytes(at.stop - at.start)
    return bytes(columns)


def _said(value: object) -> Iterator[Field]:
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            inner = getattr(value, field)
            if inner != _nothing(inner):
                yield type(value).__name__, field
            yield from _said(inner)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _said(one)
    elif isinstance(value, dict):
        yield from _said(list(value.values()))


def _nothing(value: Any) -> Any:
    """The value in place of one that was not written."""
    match value:
        case None | bool():
            return None if value is None else False
        case Enum():
            return Mode.AT_LEAST_ONCE
        case bytes() if len(value) == contents.ID_BYTES:
            return bytes(contents.ID_BYTES)
        case msgspec.Struct():
            return None
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*map(_nothing, value))
        case tuple():
            return None
        case _:
            return type(value)()


def _without(value: Any, field: Field) -> Any:
    """A content as it is read if nobody had written the field."""
    if isinstance(value, msgspec.Struct):
        changed = {
            name: _nothing(inner)
            if (type(value).__name__, name) == field
            else _without(inner, field)
            for name in value.__struct_fields__
            for inner in [getattr(value, name)]
        }
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, list):
        return [_without(one, field) for one in value]
    if type(value) is tuple:
        return tuple(_without(one, field) for one in value)
    if isinstance(value, dict):
        return {key: _without(one, field) for key, one in value.items()}
    return value


def images_of(node: Node) -> list[Image]:
    """All that a checkpoint would have of a region now, without nodes that are on disk only."""
    return [
        Image(number, part.kind, *part.encode())
        for number, part in enumerate(parts_of(node.replica), 1)
        if not (isinstance(part, MacroNode) and part.cold is not None)
    ]


def restored(node: Node, images: list[Image]) -> list[Image]:
    """Images that a region would write which begins with these."""
    again = Node(node.region, node.mode)
    again.replica.restore(images)
    return images_of(again)


def is_noticed(node: Node, images: list[Image], field: Field) -> bool:
    """True if a region restored without the field differs, or refuses to be restored."""
    without = [
        image._replace(body=_pending_without(image.body, field))
        if image.kind is Kind.PENDING
        else image
        for image in images
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            restoring,
            "unpacked",
            lambda data, content: _without(contents.unpacked(data, content), field),
        )
        try:
            again = restored(node, without)
        except (ContentError, AssertionError):
            return True
    return told(again) != told(images)


def told(images: list[Image]) -> list[tuple[Any, ...]]:
    return sorted(tuple(image)[1:] for image in images if image.kind is not Kind.NODE)


def unnoticed() -> list[Field]:
    """The fields that may be planted away and nothing is noticed."""
    node = known()
    images = images_of(node)
    return [field for field in all_fields() if not is_noticed(node, images, field)]


def main() -> int:
    """Exit status: 0 each field is noticed, 1 one is not."""
    left = unnoticed()
    for struct, name in left:
        print(f"SURVIVED  {struct}.{name}")
    print(f"{len(all_fields()) - len(left)} of {len(all_fields())} noticed")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
