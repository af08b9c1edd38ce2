"""Damage: copies of bytes, plain trees and protobuf messages that differ in a few places.

Numbers are replaced by such as stand at the bounds of something; parts are left out, repeated or
exchanged; bytes that hold a format of their own are damaged in that format, if a surface says how.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from tests.fuzz.surface import Damage

# Plain Python of MessagePack, JSON or TOML.
Tree: TypeAlias = Any

NUMBERS: Final = tuple(
    sorted(
        {
            sign * (1 << bits) + more
            for bits in (0, 1, 7, 8, 10, 15, 16, 24, 31, 32, 47, 60, 62, 63, 64)
            for sign in (1, -1)
            for more in (-1, 0, 1)
        }
    )
)
SMALL: Final = tuple(range(-2, 20))
_I64: Final = range(-(1 << 63), 1 << 64)


# --- Bytes --------------------------------------------------------------------------------------


def damaged_bytes(data: bytes, draw: Random) -> bytes:
    """Bytes that differ in one place; of none, a few."""
    if not data:
        return draw.randbytes(draw.randrange(1, 9))
    at = draw.randrange(len(data))
    end = min(len(data), at + draw.choice((1, 1, 2, 4, 8, 16, 64)))
    match draw.randrange(8):
        case 0:
            changed = bytes([data[at] ^ 1 << draw.randrange(8)])
            return data[:at] + changed + data[at + 1 :]
        case 1:
            return data[:at] + draw.randbytes(end - at) + data[end:]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:end] + data[at:end] * draw.choice((1, 1, 2, 50)) + data[end:]
        case 4:
            size = draw.choice((1, 2, 4, 8))
            number = draw.choice(NUMBERS) & (1 << 8 * size) - 1
            written = number.to_bytes(size, draw.choice(("little", "big")))
            return data[:at] + written + data[at + size :]
        case 5:
            return data[:at]
        case 6:
            other = draw.randrange(len(data))
            return data[:at] + data[other : other + end - at] + data[end:]
        case _:
            return data[:at] + draw.choice((b"\0", b"\xff", b"-1", b"\r\n", b"0")) + data[at:]


# --- Trees --------------------------------------------------------------------------------------


def damaged_tree(tree: Tree, draw: Random, inside: Damage = damaged_bytes) -> Tree:
    """A tree of lists, dicts and plain values that differs in one place.

    Args:
        inside: damages a value of bytes.
    """
    if isinstance(tree, list | tuple | dict) and tree and draw.random() < 0.85:
        return _damaged_within(tree, draw, inside)
    match tree:
        case bool() | None:
            return draw.choice((True, False, None, 0, b"", []))
        case int():
            return draw.choice((draw.choice(SMALL), draw.choice(NUMBERS), tree + 1, tree - 1))
        case float():
            return draw.choice((0.0, -1.0, 1e300, float("inf"), float("nan"), 7))
        case str():
            changed = damaged_bytes(tree.encode("utf-8", "surrogatepass"), draw)
            return changed.decode("utf-8", "replace")
        case bytes():
            return inside(tree, draw)
        case list() | tuple():
            return [*tree, draw.choice((0, b"", None, [], tree))]
        case dict():
            return {**tree, draw.choice((0, 1, 1024, b"x", "x")): draw.choice((0, b"", [], {}))}
        case _:
            return draw.choice((0, b"", None, [], "x"))


def _damaged_within(tree: Tree, draw: Random, inside: Damage) -> Tree:
    if isinstance(tree, dict):
        key = draw.choice(list(tree))
        match draw.randrange(10):
            case 0:
                return {name: value for name, value in tree.items() if name != key}
            case 1:
                renamed = damaged_tree(key, draw, inside)
                if isinstance(renamed, list | dict):
                    renamed = 0
                return {renamed if name == key else name: value for name, value in tree.items()}
            case _:
                return {**tree, key: damaged_tree(tree[key], draw, inside)}
    changed = list(tree)
    at = draw.randrange(len(changed))
    match draw.randrange(12):
        case 0:
            del changed[at]
        case 1:
            changed.insert(at, changed[at])
        case 2:
            other = draw.randrange(len(changed))
            changed[at], changed[other] = changed[other], changed[at]
        case _:
            changed[at] = damaged_tree(changed[at], draw, inside)
    return changed


def damaged_msgpack(data: bytes, draw: Random) -> bytes:
    """MessagePack that differs in one place; bytes in it that are MessagePack too, likewise."""
    try:
        tree = msgspec.msgpack.decode(data)
    except (ValueError, RecursionError):
        return damaged_bytes(data, draw)
    if not isinstance(tree, list | dict) or draw.random() < 0.05:
        return damaged_bytes(data, draw)
    return packed(damaged_tree(tree, draw, damaged_msgpack))


def packed(tree: Tree) -> bytes:
    return msgspec.msgpack.encode(_packable(tree))


def _packable(tree: Tree) -> Tree:
    """The same, with each number in the range that MessagePack has."""
    match tree:
        case bool():
            return tree
        case int():
            return min(max(tree, _I64.start), _I64.stop - 1)
        case list() | tuple():
            return [_packable(one) for one in tree]
        case dict():
            return {
                0 if isinstance(key, tuple) else _packable(key): _packable(value)
                for key, value in tree.items()
            }
        case _:
            return tree


# --- Stories: several inputs, one after the other -------------------------------------------------


def story(*pieces: bytes) -> bytes:
    """Pieces as one input."""
    return msgspec.msgpack.encode(pieces)


def pieces_of(data: bytes) -> list[bytes]:
    """The inverse; of other bytes, these."""
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])
    except ValueError:
        return [data]


def damaging_story(damage: Damage) -> Damage:
    """Damage to a story: to one piece, or to their order."""

    def damaged(data: bytes, draw: Random) -> bytes:
        return packed(damaged_tree(pieces_of(data), draw, damage))

    return damaged


# --- Protobuf messages ----------------------------------------------------------------------------

_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(1 << 31), (1 << 31) - 1),
}

# By full name of a field of bytes how its content is damaged.
Inside: TypeAlias = Mapping[str, Damage]
NOTHING_INSIDE: Final[Inside] = {}


def damaging(kind: type[Message], inside: Inside = NOTHING_INSIDE) -> Damage:
    """Damage to messages of this kind; bytes that are none are damaged as bytes."""

    def damaged(data: bytes, draw: Random) -> bytes:
        try:
            message = kind.FromString(data)
        except DecodeError:
            return damaged_bytes(data, draw)
        if draw.random() < 0.05:
            return damaged_bytes(data, draw)
        damage_message(message, draw, inside)
        return message.SerializeToString(deterministic=True)

    return damaged


def damage_message(message: Message, draw: Random, inside: Inside = NOTHING_INSIDE) -> None:
    """Change one field, somewhere in a message."""
    found = _messages_in(message)
    # The outermost messages would be found seldom among many entries.
    within = draw.choice(found if draw.random() < 0.7 else found[:3])
    set_fields: list[Any] = [field for field, _ in within.ListFields()]
    all_fields: list[Any] = list(within.DESCRIPTOR.fields)
    fields = set_fields if set_fields and draw.random() < 0.8 else all_fields
    if not fields:
        return
    field: FieldDescriptor = draw.choice(fields)
    if field.is_repeated:
        _damage_repeated(getattr(within, field.name), field, draw, inside)
    elif draw.random() < 0.1:
        within.ClearField(field.name)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        getattr(within, field.name).SetInParent()
    else:
        setattr(
            within, field.name, _damaged_value(getattr(within, field.name), field, draw, inside)
        )


def _messages_in(message: Message) -> list[Message]:
    found = [message]
    for field, value in message.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for one in value if field.is_repeated else (value,):
                found += _messages_in(one)
    return found


def _damage_repeated(values: Any, field: FieldDescriptor, draw: Random, inside: Inside) -> None:
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    at = draw.randrange(len(values)) if len(values) else -1
    match draw.randrange(4 if at >= 0 else 1):
        case 0:
            if is_message:
                added = values.add()
                if at >= 0:
                    added.CopyFrom(values[at])
            else:
                values.append(_damaged_value(values[at] if at >= 0 else None, field, draw, inside))
        case 1:
            del values[at]
        case 2 if is_message:
            damage_message(values[at], draw, inside)
        case _ if is_message:
            kept = list(values)
            draw.shuffle(kept)
            copies = [type(one).FromString(one.SerializeToString()) for one in kept]
            del values[:]
            values.extend(copies)
        case _:
            values[at] = _damaged_value(values[at], field, draw, inside)


def _damaged_value(value: Any, field: FieldDescriptor, draw: Random, inside: Inside) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return inside.get(field.full_name, damaged_bytes)(value or b"", draw)
        case FieldDescriptor.CPPTYPE_STRING:
            changed = damaged_bytes((value or "").encode(), draw)
            return changed.decode("utf-8", "replace")
        case FieldDescriptor.CPPTYPE_BOOL:
            return not value
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return draw.choice((0.0, -1.0, 1e300, float("inf"), float("-inf"), float("nan")))
        case kind:
            least, most = _RANGES[kind]
            number = draw.choice(
                (draw.choice(SMALL), draw.choice(NUMBERS), (value or 0) + 1, (value or 0) - 1)
            )
            return min(max(number, least), most)


# --- Choosing -------------------------------------------------------------------------------------


def one_of(*damages: Damage) -> Damage:
    """Damage of one of these kinds."""

    def damaged(data: bytes, draw: Random) -> bytes:
        return draw.choice(damages)(data, draw)

    return damaged


def remade(
    take: Callable[[bytes], bytes | None], make: Callable[[bytes], bytes], within: Damage
) -> Damage:
    """Damage to the content of a frame, whose checksum is right again.

    Args:
        take: the content of a frame; None: it is no frame.
        make: the frame of a content.
    """

    def damaged(data: bytes, draw: Random) -> bytes:
        content = None if draw.random() < 0.05 else take(data)
        return damaged_bytes(data, draw) if content is None else make(within(content, draw))

    return damaged


def chosen(draw: Random, values: Sequence[bytes]) -> bytes:
    return draw.choice(values)
