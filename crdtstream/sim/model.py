"""Model of a region: its content as a function of the set of effects applied, without any order.

The model knows only the effects that were issued, each with its dot and context, and which of them
a region has applied.  It shares no code with the replica.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from crdtstream.core.effects import (
    AckFrontier,
    AddToString,
    Append,
    ChangeMembers,
    CreateGroup,
    DeleteKey,
    DeleteString,
    DestroyGroup,
    Effect,
    EffectBatch,
    ExpireKey,
    IdempotentId,
    Mode,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetStreamConfig,
    SetString,
    SetStringExpiry,
    Trim,
)
from crdtstream.core.ids import StreamId, make_id
from crdtstream.core.member_changes import encode_change

# Reading of each kind of effect by the model: what it is about, or why it is not looked at.
READ_AS: Final[dict[type[Effect], str]] = {
    Append: "entries, last_ids",
    Remove: "entries",
    Trim: "entries",
    DeleteKey: "entries, groups, last_ids, registers, strings",
    ExpireKey: "entries, groups, last_ids, registers",
    CreateGroup: "groups",
    DestroyGroup: "groups",
    AckFrontier: "acked",
    SetLastId: "last_ids",
    SetExpiry: "registers",
    SetStreamConfig: "registers",
    SetGroupMode: "modes",
    SetString: "strings",
    SetStringExpiry: "strings",
    DeleteString: "strings",
    AddToString: "strings",
    # About the database, and no key.
    ChangeMembers: "",
}


class Issued:
    """An effect with its dot, and the context that its issuer had observed.

    Attributes:
        effect: of any kind; code that reads a field of it has checked the kind.
        key: what it is about; None: no key.
        is_numbered: an append of a numbered producer.
    """

    effect: Any

    def __init__(
        self, batch: EffectBatch, offset: int, effect: Effect, *, is_numbered: bool = False
    ) -> None:
        assert type(effect) in READ_AS, "say in the model what it means"
        self.is_numbered = is_numbered
        self.origin, self.n = batch.origin, batch.first_n + offset
        self.effect = effect
        self.key = None if isinstance(effect, ChangeMembers) else effect.key
        self.context = {**batch.context, batch.origin: self.n - 1}

    def observed(self, other: "Issued") -> bool:
        return other.n <= self.context.get(other.origin, 0)


def unfold(batch: EffectBatch) -> Iterator[Issued]:
    others = dict(batch.others)
    append_at = fields_at = 0
    columns = batch.appends
    for offset in range(batch.count):
        if offset in others:
            yield Issued(batch, offset, others[offset])
            continue
        fields = columns.fields[fields_at : fields_at + columns.lengths[append_at]]
        key = columns.keys[columns.key_index[append_at]]
        entry_id = make_id(columns.ms[append_at], columns.seq[append_at])
        idempotent = columns.idempotent.get(append_at)
        rows = [run for run in columns.numbered if run.at <= append_at < run.at + run.count]
        for run in rows:
            idempotent = run.first.name(append_at - run.at)
        append = Append(key, entry_id, bytes(fields), idempotent)
        yield Issued(batch, offset, append, is_numbered=bool(rows))
        fields_at += columns.lengths[append_at]
        append_at += 1


def removes(issued: Issued, entry: Issued) -> bool:
    """True if an effect removes an entry: it names it, and had observed it."""
    if not issued.observed(entry) or issued.key != entry.key:
        return False
    assert isinstance(entry.effect, Append)
    match issued.effect:
        case DeleteKey() | ExpireKey():
            return True
        case Remove(_, ids):
            return entry.effect.id in ids.get(entry.origin, ())
        case Trim(_, up_to):
            return entry.effect.id <= up_to.get(entry.origin, -1)
    return False


def loses(entry: Issued, applied: list[Issued]) -> bool:
    """True if a concurrent append of the same idempotent id has a smaller dot."""
    effect = entry.effect
    assert isinstance(effect, Append)
    return effect.idempotent is not None and any(
        isinstance(other.effect, Append)
        and (other.key, other.effect.idempotent) == (entry.key, effect.idempotent)
        # A copy that RENAME made of a row is no row: it has the name, and settles with copies.
        and other.is_numbered == entry.is_numbered
        and (other.origin, other.n) < (entry.origin, entry.n)
        and not entry.observed(other)
        and not other.observed(entry)
        for other in applied
    )


def recognised(
    applied: list[Issued], key: bytes
) -> dict[IdempotentId, tuple[tuple[int, int], StreamId]]:
    """Entry that a retry stands for, by idempotent id.

    It is the one that had observed the others, of those that did not lose and that no delete of the
    key removed.
    """
    mine = [one for one in applied if one.key == key]
    deletes = [one for one in mine if isinstance(one.effect, DeleteKey | ExpireKey)]
    found: dict[IdempotentId, tuple[tuple[int, int], StreamId]] = {}
    for one in sorted(mine, key=lambda one: sum(one.context.values())):
        effect = one.effect
        if (
            isinstance(effect, Append)
            and effect.idempotent is not None
            and not one.is_numbered
            and not loses(one, mine)
            and not any(delete.observed(one) for delete in deletes)
        ):
            found[effect.idempotent] = ((one.origin, one.n), effect.id)
    return found


def skipped(applied: list[Issued], key: bytes) -> list[str]:
    """Entries that groups never deliver although they are not acknowledged: they lie in a run that
    counts, and the issuer of that run had not observed them."""
    mine = [one for one in applied if one.key == key]
    runs = [one for one in mine if isinstance(one.effect, AckFrontier)]
    if not runs:
        return []
    creates = live_creates(mine)
    entries = [one for one in mine if isinstance(one.effect, Append) and lives(one, mine)]
    return [
        f"{entry.origin}:{entry.n} lies in {interval} of {run.effect.group!r}, told by"
        f" {run.origin}:{run.n} without having observed it"
        for run in runs
        if any(run.observed(create) for create in creates.get(run.effect.group, []))
        for lane, interval in run.effect.intervals.items()
        for entry in entries
        if entry.origin == lane
        and interval[0] < entry.effect.id <= interval[1]
        and not run.observed(entry)
    ]


def lives(entry: Issued, mine: list[Issued]) -> bool:
    """True if nothing that was applied removes an entry."""
    return not any(removes(other, entry) for other in mine) and not loses(entry, mine)


def live_creates(mine: list[Issued]) -> dict[bytes, list[Issued]]:
    """Creates that had observed every destroy, and that no expiry had observed, by group."""
    expiries = [one for one in mine if isinstance(one.effect, ExpireKey)]
    found: dict[bytes, list[Issued]] = {}
    for one in mine:
        if isinstance(one.effect, CreateGroup):
            name = one.effect.group
            is_destroyed = any(
                not one.observed(other)
                for other in mine
                if isinstance(other.effect, DeleteKey)
                or (isinstance(other.effect, DestroyGroup) and other.effect.group == name)
            )
            if not is_destroyed and not any(expiry.observed(one) for expiry in expiries):
                found.setdefault(name, []).append(one)
    return found


def register(
    mine: list[Issued], deletes: list[Issued], values: dict[tuple[int, int], object]
) -> list[tuple[tuple[int, int], object]]:
    """Values that none of the others had observed, of those that had observed every delete, and
    that no expiry had observed."""
    expiries = [one for one in mine if isinstance(one.effect, ExpireKey)]
    setters = [one for one in mine if (one.origin, one.n) in values]
    alive = [
        one
        for one in setters
        if all(one.observed(delete) for delete in deletes)
        and not any(expiry.observed(one) for expiry in expiries)
    ]
    return sorted(
        ((one.origin, one.n), values[one.origin, one.n])
        for one in alive
        if not any(other.observed(one) for other in alive if other is not one)
    )


def registers(mine: list[Issued], deletes: list[Issued]) -> dict[str, object]:
    expiry: dict[tuple[int, int], object] = {}
    duration: dict[tuple[int, int], object] = {}
    maxsize: dict[tuple[int, int], object] = {}
    for one in mine:
        match one.effect:
            case SetExpiry(_, deadline):
                expiry[one.origin, one.n] = deadline
            case SetStreamConfig(_, seconds, size):
                if seconds is not None:
                    duration[one.origin, one.n] = seconds
                if size is not None:
                    maxsize[one.origin, one.n] = size
    return {
        "expiry": register(mine, deletes, expiry),
        "duration": register(mine, deletes, duration),
        "maxsize": register(mine, deletes, maxsize),
    }


def members_told(
    applied: Iterable[Issued],
) -> list[tuple[bytes, tuple[int, int]]]:
    """Hash of each epoch that is in an effect, and the smallest dot of the effects that have it."""
    found: dict[int, tuple[bytes, tuple[int, int]]] = {}
    for one in applied:
        if isinstance(one.effect, ChangeMembers):
            effect, dot = one.effect, (one.origin, one.n)
            hashed = sha256(effect.previous + encode_change(effect.change)).digest()
            _, before = found.get(effect.epoch, (hashed, dot))
            found[effect.epoch] = (hashed, min(before, dot))
    return [told for _, told in sorted(found.items())]


def strings(mine: list[Issued]) -> dict[str, object]:
    """Values of the string that no effect which had observed them replaced or deleted, what regions
    added to it, and what clients see of all that."""
    enders = [one for one in mine if isinstance(one.effect, SetString | DeleteString | DeleteKey)]
    alive = [one for one in mine if not any(end.observed(one) for end in enders)]
    values = {(one.origin, one.n): one for one in alive if isinstance(one.effect, SetString)}
    shares: dict[int, tuple[object, int, int, object]] = {}
    for origin in sorted({one.origin for one in mine}):
        added = [
            one for one in mine if one.origin == origin and isinstance(one.effect, AddToString)
        ]
        # A region adds to one value at a time; what it had added to another one is dropped.
        base = added[-1].effect.base if added else None
        while any(one.effect.base != base for one in added):
            added.pop(0)
        counts = [one for one in added if one in alive]
        if counts:
            last, total = counts[-1], sum(one.effect.by for one in counts)
            shares[origin] = (base, last.n, total, deadlines_of(last, mine))
    shown: object = None
    if values:
        dot, value = min(values.items())
        shown = value.effect.value
        sums = [total for base, _, total, _ in shares.values() if base == dot]
        if sums:
            shown = b"%d" % shortened(int(value.effect.value) + sum(sums))
    elif shares:
        shown = b"%d" % shortened(sum(total for _, _, total, _ in shares.values()))
    return {
        "shown": shown,
        "values": [
            (dot, one.effect.value, deadlines_of(one, mine)) for dot, one in sorted(values.items())
        ],
        "shares": shares,
    }


def shortened(number: int) -> int:
    """The number that has 64 bits and is next to it."""
    return sorted((-(2**63), number, 2**63 - 1))[1]


def deadlines_of(one: Issued, mine: list[Issued]) -> list[tuple[tuple[int, int], int | None]]:
    """The deadlines of a value, or of what a region added last, that none of the others had
    observed."""
    later = [
        other for other in mine if isinstance(other.effect, SetStringExpiry) and other.observed(one)
    ]
    own = [] if one.effect.deadline is None else [one]
    return sorted(
        ((each.origin, each.n), each.effect.deadline)
        for each in [*own, *later]
        if not any(other.observed(each) for other in later)
    )


def model(applied: list[Issued], key: bytes) -> dict[str, object]:
    """Content that a region must show for a key if it applied exactly these effects."""
    mine = [one for one in applied if one.key == key]
    deletes = [one for one in mine if isinstance(one.effect, DeleteKey)]
    expiries = [one for one in mine if isinstance(one.effect, ExpireKey)]
    entries = [one for one in mine if isinstance(one.effect, Append) and lives(one, mine)]
    creates = live_creates(mine)
    acked: dict[bytes, dict[int, list[tuple[StreamId, StreamId]]]] = {name: {} for name in creates}
    modes: dict[bytes, tuple[int, int, Mode, int | None]] = dict.fromkeys(
        creates, (0, 0, Mode.AT_LEAST_ONCE, None)
    )
    for one in mine:
        if isinstance(one.effect, SetGroupMode):
            effect, name = one.effect, one.effect.group
            if any(one.observed(create) for create in creates.get(name, [])):
                mode = (effect.epoch, one.origin, effect.mode, effect.home)
                modes[name] = max(mode, modes[name], key=lambda mode: (mode[0], -mode[1]))
        if isinstance(one.effect, AckFrontier):
            for create in creates.get(one.effect.group, []):
                if one.observed(create):
                    for lane, interval in one.effect.intervals.items():
                        acked[one.effect.group].setdefault(lane, []).append(interval)
                    break
    last_ids: dict[int, Issued] = {}
    for one in sorted(mine, key=lambda one: one.n):
        if isinstance(one.effect, Append | SetLastId):
            last_ids[one.origin] = one
    live_last_ids = {
        origin: (one.effect.id, one.n)
        for origin, one in last_ids.items()
        if not any(delete.observed(one) for delete in [*deletes, *expiries])
    }
    return {
        "entries": sorted(
            (one.origin, one.n, one.effect.id, one.effect.fields, one.effect.idempotent or ())
            for one in entries
        ),
        "groups": {
            name: sorted((one.origin, one.n) for one in alive) for name, alive in creates.items()
        },
        "acked": {
            name: {lane: union(intervals) for lane, intervals in lanes.items()}
            for name, lanes in acked.items()
        },
        "modes": modes,
        "last_ids": live_last_ids,
        "exists": bool(entries or creates or live_last_ids),
        "registers": registers(mine, deletes),
        "strings": strings(mine),
    }


def union(intervals: list[tuple[StreamId, StreamId]]) -> list[tuple[StreamId, StreamId]]:
    joined: list[tuple[StreamId, StreamId]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
