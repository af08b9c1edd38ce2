"""Actions: what the console can change, the rights that each needs, and what a page says of it.

    link      pause, resume: as crdtstream sync
    group     acknowledge, claim: XACK and XCLAIM JUSTID, in this region
    node      tune: as rladmin tune db, in this region
    members   add, remove: as crdtstream crdb add-instance and remove-instance

An action is its name and its values, in the same form in an address, in a proof and here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from crdtstream.access.rights import Rights
from crdtstream.console import words
from crdtstream.core.ids import REGION_MAX, RegionId, StreamId, format_id, parse_id

IDS_MAX: Final = 100
NAME_BYTES_MAX: Final = 1_024
TEXT_LENGTH_MAX: Final = 128
IDLE_DIGITS_MAX: Final = 15
# In a question about rights, where any value will do.
_SOME: Final = b"0"
_SOME_ID: Final = b"0-1"


class ActionError(Exception):
    """The values make no action; the text says which one is wrong, in a sentence."""


@dataclass(frozen=True, slots=True)
class SetLink:
    """The link over which this region pulls from ``peer`` is paused, or resumed."""

    peer: RegionId
    paused: bool


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Pending entries of a group are acknowledged in this region."""

    key: bytes
    group: bytes
    ids: tuple[StreamId, ...]

    @property
    def command(self) -> list[bytes]:
        """The command that does it."""
        return [b"xack", self.key, self.group, *map(format_id, self.ids)]


@dataclass(frozen=True, slots=True)
class Claim:
    """Pending entries get another consumer, if they are idle for long enough.

    JUSTID: their delivery counts stay, as nobody was given them.
    """

    key: bytes
    group: bytes
    consumer: bytes
    idle_ms: int
    ids: tuple[StreamId, ...]

    @property
    def command(self) -> list[bytes]:
        """The command that does it."""
        idle, ids = b"%d" % self.idle_ms, map(format_id, self.ids)
        return [b"xclaim", self.key, self.group, self.consumer, idle, *ids, b"justid"]


@dataclass(frozen=True, slots=True)
class Tune:
    """A tunable of this region gets another value."""

    parameter: str
    value: str


@dataclass(frozen=True, slots=True)
class Add:
    """One more region may join; empty addresses are not announced."""

    name: str
    grpc: str
    resp: str
    http: str


@dataclass(frozen=True, slots=True)
class Remove:
    """A region seals itself, hands over, and is removed from the database."""

    region: RegionId


Action: TypeAlias = SetLink | Acknowledge | Claim | Tune | Add | Remove
# By name, the values that it has, in this order.
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "pause": ("peer",),
    "resume": ("peer",),
    "acknowledge": ("key", "group", "id"),
    "claim": ("key", "group", "consumer", "idle", "id"),
    "tune": ("parameter", "value"),
    "add": ("name", "grpc", "resp", "http"),
    "remove": ("region",),
}


def action_of(name: str, given: Mapping[str, Sequence[bytes]]) -> Action:
    """The action with these values.

    Raises:
        ActionError: one is missing, or wrong.
    """
    match name:
        case "pause" | "resume":
            return SetLink(_region(given, "peer"), paused=name == "pause")
        case "acknowledge":
            return Acknowledge(_name(given, "key"), _name(given, "group"), _ids(given))
        case "claim":
            return Claim(
                _name(given, "key"),
                _name(given, "group"),
                _name(given, "consumer"),
                _idle_ms(given),
                _ids(given),
            )
        case "tune":
            return Tune(_text(given, "parameter"), _text(given, "value"))
        case "add":
            return Add(
                _text(given, "name"),
                _text(given, "grpc"),
                _text(given, "resp", least=0),
                _text(given, "http", least=0),
            )
        case "remove":
            return Remove(_region(given, "region"))
        case _:
            raise ActionError(f"There is no action {name}.")


def name_of(action: Action) -> str:
    """Its name in an address."""
    match action:
        case SetLink():
            return "pause" if action.paused else "resume"
        case Acknowledge():
            return "acknowledge"
        case Claim():
            return "claim"
        case Tune():
            return "tune"
        case Add():
            return "add"
        case Remove():
            return "remove"
        case _:
            assert_never(action)


def values_of(action: Action) -> list[tuple[str, bytes]]:
    """Its values, as ``action_of`` takes them."""
    match action:
        case SetLink():
            return [("peer", b"%d" % action.peer)]
        case Acknowledge():
            return [("key", action.key), ("group", action.group), *_id_values(action.ids)]
        case Claim():
            return [
                ("key", action.key),
                ("group", action.group),
                ("consumer", action.consumer),
                ("idle", b"%d" % action.idle_ms),
                *_id_values(action.ids),
            ]
        case Tune():
            return [("parameter", action.parameter.encode()), ("value", action.value.encode())]
        case Add():
            values = zip(
                VALUES["add"], (action.name, action.grpc, action.resp, action.http), strict=True
            )
            return [(name, value.encode()) for name, value in values]
        case Remove():
            return [("region", b"%d" % action.region)]
        case _:
            assert_never(action)


def title_of(action: Action) -> str:
    """The action in a few words."""
    match action:
        case SetLink():
            return f"{'Pause' if action.paused else 'Resume'} the link from region {action.peer}"
        case Acknowledge():
            return f"Acknowledge {_entries(action.ids)} of group {words.name(action.group)}"
        case Claim():
            consumer = words.name(action.consumer)
            return f"Claim {_entries(action.ids)} for consumer {consumer}"
        case Tune():
            return f"Set {action.parameter} to {action.value}"
        case Add():
            return f"Add region {action.name}"
        case Remove():
            return f"Remove region {action.region}"
        case _:
            assert_never(action)


# --- Rights ---------------------------------------------------------------------------------------


def may_act(rights: Rights, action: Action) -> bool:
    """True if a user may do it, by Redis's port or the commands of operators as well."""
    match action:
        case Acknowledge() | Claim():
            return rights.may_call(action.command)
        case SetLink() | Tune() | Add() | Remove():
            return may_operate(rights)
        case _:
            assert_never(action)


def may_operate(rights: Rights) -> bool:
    """True if a user may change links, tunables and members."""
    return rights.may_administer()


def may_acknowledge(rights: Rights, key: bytes) -> bool:
    """True if a user may acknowledge entries of a stream."""
    return rights.may_call([b"xack", key, _SOME, _SOME_ID])


def may_claim(rights: Rights, key: bytes) -> bool:
    """True if a user may claim entries of a stream."""
    return rights.may_call([b"xclaim", key, _SOME, _SOME, _SOME, _SOME_ID])


# --- Values ---------------------------------------------------------------------------------------


def _one(given: Mapping[str, Sequence[bytes]], name: str) -> bytes:
    values = given.get(name, ())
    if len(values) != 1:
        raise ActionError(f"The value {name} is missing, or there twice.")
    return values[0]


def _name(given: Mapping[str, Sequence[bytes]], name: str) -> bytes:
    found = _one(given, name)
    if not 0 < len(found) <= NAME_BYTES_MAX:
        raise ActionError(f"The value {name} has 1 to {NAME_BYTES_MAX} bytes here.")
    return found


def _text(given: Mapping[str, Sequence[bytes]], name: str, *, least: int = 1) -> str:
    found = _one(given, name)
    if not least <= len(found) <= TEXT_LENGTH_MAX or not found.isascii():
        raise ActionError(f"The value {name} has {least} to {TEXT_LENGTH_MAX} characters of ASCII.")
    return found.decode()


def _region(given: Mapping[str, Sequence[bytes]], name: str) -> RegionId:
    found = _one(given, name)
    if not found.isdigit() or len(found) > 4 or not 0 < int(found) <= REGION_MAX:
        raise ActionError(f"The value {name} is the number of a region.")
    return RegionId(int(found))


def _idle_ms(given: Mapping[str, Sequence[bytes]]) -> int:
    found = _one(given, "idle")
    if not found.isdigit() or len(found) > IDLE_DIGITS_MAX:
        raise ActionError("The time for which entries are idle is a number of milliseconds.")
    return int(found)


def _ids(given: Mapping[str, Sequence[bytes]]) -> tuple[StreamId, ...]:
    texts = given.get("id", ())
    if not texts:
        raise ActionError("No entry was chosen.")
    if len(texts) > IDS_MAX:
        raise ActionError(f"At most {IDS_MAX} entries at a time.")
    found = []
    for text in texts:
        entry_id = parse_id(text, missing_seq=0)
        if entry_id is None:
            raise ActionError("An ID is two numbers with a dash between them.")
        found.append(entry_id)
    return tuple(sorted(set(found)))


def _id_values(ids: Sequence[StreamId]) -> list[tuple[str, bytes]]:
    return [("id", format_id(one)) for one in ids]


def _entries(ids: Sequence[StreamId]) -> str:
    return words.number_of(len(ids), "entry", "entries")
