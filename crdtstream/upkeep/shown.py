"""Records as JSON has them: every effect and local change with its fields, by name.

an ID            "1795241607207-1"
bytes            text if they are UTF-8, else {"base64": "..."}; so nothing is lost
by lane          an object whose names are the lanes' regions
fields           of an entry: a list of [field, value], as a field may stand there twice
none             null
"""

import base64
import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from crdtstream.core.checkpoint.contents import Id, Sum, id_of, sum_of
from crdtstream.core.effects import Append, ChangeMembers, EffectBatch, LocalChange, RareEffect
from crdtstream.core.fields import are_fields
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import StreamId, format_id, make_id
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.core.wire.local_codec import decode_local
from crdtstream.store.log import Logged

Shown = dict[str, Any]
_UNIONS: Final = (Union, types.UnionType)


def shown_record(logged: Logged, key: bytes | None = None) -> Shown | None:
    """A record with its effects and changes.

    Args:
        key: only what is about this key; None: all.

    Returns:
        None if nothing in it is about the key.

    Raises:
        BatchError: it cannot be decoded.
    """
    record = logged.record
    shown: Shown = {"kind": "record", "seq": logged.seq, "origin": record.origin}
    about: list[Shown] = []
    if record.batch is not None:
        batch = decode_batch(record.batch)
        about = [
            {"n": n, "effect": type(effect).__name__, **shown_value(effect)}
            for n, effect in effects_of(batch)
            if key is None or (not isinstance(effect, ChangeMembers) and effect.key == key)
        ]
        shown |= {
            "first_n": batch.first_n,
            "last_n": batch.last_n,
            "context": {str(region): n for region, n in sorted(batch.context.items())},
            "issued_ms": batch.issued_ms,
            "effects": about,
        }
    changes: list[Shown] = []
    if record.local is not None:
        local = decode_local(record.local)
        changes = [
            {"after_n": after_n, "change": type(change).__name__, **shown_value(change)}
            for after_n, change in local.changes
            if key in (None, change.key)
        ]
        shown["changes"] = changes
        if local.arrived:
            shown["arrived_ms"] = local.arrived
        if local.appended:
            shown["appended_ms"] = list(local.appended)
        if local.merged is not None:
            shown["merged"] = {
                "source": local.merged.source,
                "cut_id": local.merged.cut_id.hex(),
                "vv": {str(region): n for region, n in sorted(local.merged.vv.items())},
            }
    return shown if key is None or about or changes else None


def undecoded(logged: Logged, error: BatchError) -> Shown:
    """A record that cannot be decoded, as it lies there."""
    record = logged.record
    return {
        "kind": "damaged",
        "seq": logged.seq,
        "what": f"cannot be decoded: {error}",
        "origin": record.origin,
        "first_n": record.first_n,
        "last_n": record.last_n,
        "batch": None if record.batch is None else _base64(record.batch),
        "local": None if record.local is None else _base64(record.local),
    }


def effects_of(batch: EffectBatch) -> Iterator[tuple[int, Append | RareEffect]]:
    """Every effect of a batch with its dot number, in order."""
    columns = batch.appends
    others = dict(batch.others)
    names = dict(columns.idempotent)
    for run in columns.numbered:
        for offset in range(run.count):
            names[run.at + offset] = run.first.name(offset)
    at = start = 0
    for offset in range(batch.count):
        other = others.get(offset)
        if other is not None:
            yield batch.first_n + offset, other
            continue
        stop = start + columns.lengths[at]
        key = columns.keys[columns.key_index[at]]
        entry_id = make_id(columns.ms[at], columns.seq[at])
        fields = bytes(columns.fields[start:stop])
        yield batch.first_n + offset, Append(key, entry_id, fields, names.get(at))
        at, start = at + 1, stop


def shown_bytes(data: bytes) -> Any:
    """Text where it is UTF-8, else an object with base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": _base64(data)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def shown_value(value: Append | RareEffect | LocalChange) -> Shown:
    """An effect's or change's fields by name."""
    kind: Any = type(value)
    shown: Shown = _converter_of(kind)(value)
    return shown


@cache
def _converter_of(kind: type[object]) -> Callable[[Any], Any]:
    return converter(kind)


def converter(hint: Any) -> Callable[[Any], Any]:
    """Function that makes JSON of values of a type."""
    if hint is StreamId:
        return lambda entry_id: format_id(entry_id).decode("ascii")
    if hint == Ids:
        of_id = converter(StreamId)
        return lambda ids: [of_id(entry_id) for entry_id in ids]
    if hint is bytes:
        return shown_bytes
    if hint == Sum:
        return sum_of
    if hint == Id:
        return lambda content: format_id(id_of(content)).decode("ascii")
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _of_struct(hint)
    if dataclasses.is_dataclass(hint):
        return _of_dataclass(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda member: member.value
    if isinstance(hint, type) and issubclass(hint, tuple):  # a NamedTuple
        parts = {name: converter(part) for name, part in get_type_hints(hint).items()}
        return lambda one: {name: part(getattr(one, name)) for name, part in parts.items()}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Final:
        return converter(arguments[0])
    if origin in _UNIONS:
        return _of_union(arguments)
    if origin is tuple:
        return _of_tuple(arguments)
    if origin is list:
        of_one = converter(arguments[0])
        return lambda found: [of_one(one) for one in found]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_value = converter(arguments[1])
        return lambda found: {str(name): of_value(one) for name, one in sorted(found.items())}
    return lambda plain: plain


def _of_dataclass(kind: Any) -> Callable[[Any], Shown]:
    hints = get_type_hints(kind)
    parts = {one.name: converter(hints[one.name]) for one in dataclasses.fields(kind)}
    if kind is Append:
        parts["fields"] = shown_fields
    return lambda value: {name: part(getattr(value, name)) for name, part in parts.items()}


def _of_struct(kind: type[msgspec.Struct]) -> Callable[[Any], Shown]:
    hints = get_type_hints(kind, include_extras=True)
    parts = {name: converter(hints[name]) for name in kind.__struct_fields__}
    return lambda value: {name: part(getattr(value, name)) for name, part in parts.items()}


def shown_fields(data: bytes) -> Any:
    """The fields of an entry, each with its value."""
    if not are_fields(data, 0, len(data)):
        return shown_bytes(data)
    flat = [shown_bytes(one) for one in _bulk_strings(data)]
    return [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)]


def _bulk_strings(data: bytes) -> Iterator[bytes]:
    """Strings of a RESP array; the data must be one."""
    at = data.index(b"\r\n") + 2
    while at < len(data):
        start = data.index(b"\r\n", at) + 2
        stop = start + int(data[at + 1 : start - 2])
        yield data[start:stop]
        at = stop + 2


def _of_tuple(arguments: tuple[Any, ...]) -> Callable[[Any], list[Any]]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        of_one = converter(arguments[0])
        return lambda found: [of_one(one) for one in found]
    parts = [converter(argument) for argument in arguments]
    return lambda found: [part(one) for part, one in zip(parts, found, strict=True)]


def _of_union(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    """None, one by lane, or the one that is left; or one of several kinds, with its name."""
    by_lane = [one for one in arguments if _is_mapping(one)]
    plain = [one for one in arguments if one is not types.NoneType and not _is_mapping(one)]
    if len(plain) > 1:
        assert not by_lane
        by_kind = {kind: converter(kind) for kind in plain}
        return lambda one: {"kind": type(one).__name__, **by_kind[type(one)](one)}
    assert len(by_lane) <= 1
    of_plain = converter(plain[0])
    of_lanes = converter(by_lane[0]) if by_lane else of_plain

    def convert(value: Any) -> Any:
        if value is None:
            return None
        return of_lanes(value) if isinstance(value, Mapping) else of_plain(value)

    return convert


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)
