"""The digest: keys that differ in one replicated fact have different digests (``rules`` 22).

One table, a changed fact each.  In regions that live, hardly a fact differs alone: another lane
comes with another last-ID register.  Whatever else differs would hide a digest that leaves one of
them out, so the keys are built by hand here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from crdtstream.core.clock import Dot
from crdtstream.core.effects import AddToString, IdempotentId, Mode
from crdtstream.core.fields import encode_fields
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.ids import Millis, RegionId, StreamId, make_id
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.whole.digest import digest_key, digest_keyspace
from crdtstream.core.whole.state import State
from tests.membership.world import founded, removal, renamed

R1, R2 = RegionId(1), RegionId(2)
FIELDS = encode_fields([b"f", b"v"])
HOME = ModeRegister(1, R1, Mode.HOME, R1)


@dataclass(frozen=True, slots=True)
class Facts:
    """Replicated facts of a key with one entry and one group.

    Attributes:
        lane, n, entry_id, fields, idempotent: of the entry.
        last_id: region, ID and dot number of a last-ID register.
        start: ID for all lanes, or IDs by lane.
        interval: lane, from and to of what is acknowledged; from is not in it.
        expiry, duration, maxsize: dot and value of a register's only value.
        string: dot and value of a string's only value, and its deadline, with its dot if that is
            another one.
        added: what made a share of a counter; None: there is none.
    """

    lane: RegionId = R1
    n: int = 7
    entry_id: StreamId = StreamId(make_id(5, 1))  # noqa: RUF009
    fields: bytes = FIELDS
    idempotent: IdempotentId | None = None
    last_id: tuple[RegionId, int, int] = (R1, 9, 8)
    group: bytes = b"g"
    create: Dot = Dot(R1, 2)  # noqa: RUF009
    start: int | Mapping[RegionId, StreamId] = 3
    mode: ModeRegister = HOME
    interval: tuple[RegionId, int, int] = (R1, 3, 5)
    expiry: tuple[Dot, Millis | None] = (Dot(R1, 4), Millis(100))
    duration: tuple[Dot, int] = (Dot(R1, 5), 60)
    maxsize: tuple[Dot, int] = (Dot(R1, 6), 70)
    string: tuple[Dot, bytes, tuple[Dot | None, Millis | None]] = (Dot(R1, 7), b"v", (None, None))
    added: tuple[Dot, AddToString] | None = None

    def digest(self) -> bytes:
        state = State(R1, (), NodeLimits())
        stream = state.keys.stream_or_new(b"x")
        lane = stream.lane(self.lane)
        lane.append(self.entry_id, self.n, self.fields, Millis(0))
        if self.idempotent is not None:
            lane.mark_idempotent(self.entry_id, self.n, self.idempotent)
        region, last_id, last_n = self.last_id
        stream.set_last_id(region, StreamId(last_id), last_n)

        group = state.new_group(stream.part, self.group)
        stream.add_group(self.group, group)
        start = StreamId(self.start) if isinstance(self.start, int) else self.start
        group.add_create(self.create, start, None, stream.lanes)
        context = {self.create.region: self.create.n}
        group.creates.set_mode(self.mode, context)
        acknowledged_lane, low, high = self.interval
        group.unite(acknowledged_lane, StreamId(low), StreamId(high), context, None, {})

        registers = KeyRegisters()
        registers.expiry.set(*self.expiry, {})
        registers.idmp_duration_s.set(*self.duration, {})
        registers.idmp_maxsize.set(*self.maxsize, {})
        string = StringRegister()
        dot, value, deadline = self.string
        string.set(dot, value, deadline[1], {})
        if deadline[0] is not None:
            string.set_expiry(deadline[0], deadline[1], {dot.region: dot.n})
        if self.added is not None:
            string.add(*self.added)
        return digest_key(stream, registers, string)


def added(
    *,
    dot: Dot = Dot(R1, 9),  # noqa: B008
    by: int = 2,
    base: Dot | None = Dot(R1, 7),  # noqa: B008
    deadline: Millis | None = None,
) -> Facts:
    """A key with a share of a counter."""
    effect = AddToString(b"x", by, base, 8, 1, deadline)
    return replace(KEY, added=(dot, effect))


KEY = Facts()
# A name is hashed with its dot number, so most keys here have none.
NAMED = replace(KEY, idempotent=IdempotentId(b"p", b"a"))
CHANGED = {
    "an entry's lane": replace(KEY, lane=R2),
    "an entry's dot number": replace(KEY, n=6),
    "an ID's ms": replace(KEY, entry_id=make_id(6, 1)),
    "an ID's seq": replace(KEY, entry_id=make_id(5, 2)),
    "fields": replace(KEY, fields=encode_fields([b"f", b"w"])),
    "that an entry has a name": NAMED,
    "a producer": replace(KEY, idempotent=IdempotentId(b"q", b"a")),
    "an idempotent id": replace(KEY, idempotent=IdempotentId(b"p", b"b")),
    "where a producer's name ends": replace(KEY, idempotent=IdempotentId(b"pa", b"")),
    "a last-ID register's region": replace(KEY, last_id=(R2, 9, 8)),
    "a last-ID register's ID": replace(KEY, last_id=(R1, 10, 8)),
    "a last-ID register's dot number": replace(KEY, last_id=(R1, 9, 9)),
    "a group's name": replace(KEY, group=b"h"),
    "a create's region": replace(KEY, create=Dot(R2, 2)),
    "a create's dot number": replace(KEY, create=Dot(R1, 3)),
    "a start": replace(KEY, start=2),
    "a start by lane": replace(KEY, start={R1: StreamId(3)}),
    "the lane of a start": replace(KEY, start={R2: StreamId(3)}),
    "a mode": replace(KEY, mode=ModeRegister(1, R1, Mode.PARTITIONED, R1)),
    "a mode's epoch": replace(KEY, mode=ModeRegister(2, R1, Mode.HOME, R1)),
    "a mode's issuer": replace(KEY, mode=ModeRegister(1, R2, Mode.HOME, R1)),
    "a home": replace(KEY, mode=ModeRegister(1, R1, Mode.HOME, R2)),
    "an interval's lane": replace(KEY, interval=(R2, 3, 5)),
    "an interval's from": replace(KEY, interval=(R1, 4, 5)),
    "an interval's to": replace(KEY, interval=(R1, 3, 6)),
    "a deadline": replace(KEY, expiry=(Dot(R1, 4), Millis(101))),
    "PERSIST": replace(KEY, expiry=(Dot(R1, 4), None)),
    "a deadline's region": replace(KEY, expiry=(Dot(R2, 4), Millis(100))),
    "a deadline's dot number": replace(KEY, expiry=(Dot(R1, 3), Millis(100))),
    "a duration": replace(KEY, duration=(Dot(R1, 5), 61)),
    "a size": replace(KEY, maxsize=(Dot(R1, 6), 71)),
    "a string": replace(KEY, string=(Dot(R1, 7), b"w", (None, None))),
    "a string's region": replace(KEY, string=(Dot(R2, 7), b"v", (None, None))),
    "a string's dot number": replace(KEY, string=(Dot(R1, 8), b"v", (None, None))),
    "a string's deadline": replace(KEY, string=(Dot(R1, 7), b"v", (None, Millis(9)))),
    "the dot of a string's deadline": replace(
        KEY, string=(Dot(R1, 7), b"v", (Dot(R2, 9), Millis(9)))
    ),
    "a share": added(),
    "a share's region": added(dot=Dot(R2, 9)),
    "a share's dot number": added(dot=Dot(R1, 10)),
    "a share's base": added(base=None),
    "a share's sum": added(by=3),
    "a share's deadline": added(deadline=Millis(9)),
    "PERSIST of a string": replace(KEY, string=(Dot(R1, 7), b"v", (Dot(R2, 9), None))),
}


@pytest.mark.parametrize("what", CHANGED)
def test_the_digest_sees_every_replicated_fact(what: str) -> None:
    others = [KEY, *(facts for name, facts in CHANGED.items() if name != what)]
    assert CHANGED[what].digest() == CHANGED[what].digest(), "the same facts, the same digest"
    assert CHANGED[what].digest() not in {facts.digest() for facts in others}


def test_the_name_of_a_key_is_part_of_its_digest() -> None:
    stream = State(R1, (), NodeLimits()).keys.stream_or_new(b"x")
    stream.set_last_id(R1, StreamId(1), 1)
    assert digest_keyspace({b"x": stream}, {}, {}, Members()) != digest_keyspace(
        {b"y": stream}, {}, {}, Members()
    )


def test_a_string_counts_without_a_stream() -> None:
    string = StringRegister()
    string.set(Dot(R1, 1), b"v", None, {})
    digests = {
        digest_keyspace({}, {}, {}, Members()),
        digest_keyspace({}, {}, {b"x": string}, Members()),
        digest_keyspace({}, {}, {b"y": string}, Members()),
    }
    assert len(digests) == 3


def test_the_members_are_in_the_digest() -> None:
    """Each change, and which effect told of it."""
    members = founded(3)
    changed = [
        members,
        founded(2),
        apply(members, renamed(1, "x")),
        apply(members, renamed(1, "y")),
        apply(members, renamed(1, "x"), Dot(R1, 5)),
        apply(members, renamed(1, "x"), Dot(R1, 6)),
        apply(members, renamed(1, "x"), Dot(R2, 5)),
    ]
    digests = {digest_keyspace({}, {}, {}, one) for one in changed}
    assert len(digests) == len(changed)
    # Local knowledge does not.
    removed = apply(members, removal(3, heir=1))
    known = removed.with_cut(RegionId(3), 9)
    assert digest_keyspace({}, {}, {}, removed) == digest_keyspace({}, {}, {}, known)
