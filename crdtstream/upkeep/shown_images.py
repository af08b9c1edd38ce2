"""Images of a checkpoint as JSON has them: the state of each part, by name.

Keys and consumers, which are numbers in the images, are shown by name.  Entries and pending entries
are shown one by one.  IDs and bytes are shown as in ``shown.py``.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from crdtstream.core.checkpoint.contents import (
    GroupContent,
    KeyContent,
    ProducersContent,
    RootContent,
    unpacked,
)
from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.groups.pel_chunk import NOBODY, Consumer, Owner, PelChunk
from crdtstream.core.ids import Millis, RegionId, format_id
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.upkeep.shown import Shown, converter, shown_bytes, shown_fields

# In this order each one knows the names of what it belongs to.
KINDS: Final = (Kind.ROOT, Kind.KEY, Kind.WINDOW, Kind.GROUP, Kind.PENDING, Kind.NODE)
_NO_LANE: Final = Lane(RegionId(1), NodeLimits())


class _Owners(dict[int, Owner]):
    """The consumers of a group by number; an unknown one has an empty name."""

    def __contains__(self, number: object) -> bool:
        return True

    def __missing__(self, number: int) -> Owner:
        return Owner(NOBODY) if number == NOBODY else Consumer(number, b"", Millis(0))


class ImagesShown:
    """Shows images; those of keys and groups come before those that belong to them.

    Args:
        key: only what is about this key; None: all.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._keys: dict[int, bytes] = {}
        self._groups: dict[int, tuple[bytes, bytes, _Owners]] = {}

    def show(self, image: Image) -> Iterator[Shown]:
        """One line; none for what is about another key.

        Raises:
            ValueError: it does not say what such an image says.
        """
        shown = _SHOWING[image.kind](self, image)
        if shown is not None:
            yield {
                "kind": "image",
                "image": image.number,
                "part": image.kind.name.lower(),
                **shown,
            }

    def _root(self, image: Image) -> Shown | None:
        content = unpacked(image.head, RootContent)
        return shown_content(content) if self._key is None else None

    def _of_key(self, image: Image) -> Shown | None:
        content = unpacked(image.head, KeyContent)
        self._keys[content.number] = content.key
        return shown_content(content) if self._key in (None, content.key) else None

    def _window(self, image: Image) -> Shown | None:
        key = self._wanted(image.owner)
        content = unpacked(image.head, ProducersContent)
        return None if key is None else {"key": shown_bytes(key), **shown_content(content)}

    def _group(self, image: Image) -> Shown | None:
        content = unpacked(image.head, GroupContent)
        key = self._wanted(image.owner)
        if key is None:
            return None
        owners = _Owners(
            (one.number, Consumer(one.number, one.name, one.seen_ms)) for one in content.consumers
        )
        self._groups[content.number] = key, content.name, owners
        return {"key": shown_bytes(key), **shown_content(content)}

    def _pending(self, image: Image) -> Shown | None:
        if image.owner not in self._groups and self._key is not None:
            return None
        key, group, owners = self._groups.get(image.owner, (b"", b"", _Owners()))
        chunk = PelChunk.decode(image, owners)
        return {
            "key": shown_bytes(key),
            "group": shown_bytes(group),
            "lane": image.lane,
            "pending": [
                {
                    "id": format_id(nack.id).decode("ascii"),
                    "consumer": None if nack.consumer is None else shown_bytes(nack.consumer.name),
                    "delivered_ms": nack.delivered_ms,
                    "delivery_count": nack.delivery_count,
                }
                for nack in chunk.nacks(0, len(chunk))
            ],
        }

    def _node(self, image: Image) -> Shown | None:
        key = self._wanted(image.owner)
        if key is None:
            return None
        node = MacroNode.restored(image.number, image.head, _NO_LANE)
        assert node.cold is not None
        node.put_columns(decode_body(image.body, node.cold))
        return {
            "key": shown_bytes(key),
            "lane": image.lane,
            "added": node.added,
            "entries": [_entry(node, index) for index in range(len(node))],
        }

    def _wanted(self, number: int) -> bytes | None:
        """The name of a key, if it is to be shown."""
        key = self._keys.get(number, b"")
        return key if self._key in (None, key) else None


_SHOWING: Final[dict[Kind, Callable[[ImagesShown, Image], Shown | None]]] = {
    Kind.ROOT: ImagesShown._root,
    Kind.KEY: ImagesShown._of_key,
    Kind.WINDOW: ImagesShown._window,
    Kind.GROUP: ImagesShown._group,
    Kind.PENDING: ImagesShown._pending,
    Kind.NODE: ImagesShown._node,
}


def _entry(node: MacroNode, index: int) -> Shown:
    name = node.idempotent_at(index)
    shown: Shown = {
        "n": node.n[index],
        "id": format_id(node.id_at(index)).decode("ascii"),
        "fields": shown_fields(bytes(node.fields_at(index))),
        "arrived_ms": node.arrived_at(index),
    }
    if name is not None:
        shown["idempotent"] = {
            "producer": shown_bytes(name.producer),
            "id": shown_bytes(name.id),
        }
    return shown


def shown_content(content: msgspec.Struct) -> Shown:
    """The attributes of what an image says, by name."""
    shown: Shown = _converter_of(type(content))(content)
    return shown


@cache
def _converter_of(kind: type[msgspec.Struct]) -> Callable[[Any], Any]:
    return converter(kind)
