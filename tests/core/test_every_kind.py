"""Effects and local changes are closed unions: a kind that is added is known everywhere or fails.

What a ``match`` with ``assert_never`` does not show is here: the tables, the documentation, the
bytes on the wire - and what each effect leaves in the state, which says what a copy of the whole
state would have to hold.
"""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

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
    ExpireKey,
    LocalChange,
    RareEffect,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetStreamConfig,
    SetString,
    SetStringExpiry,
    Trim,
)
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.whole.state import State
from crdtstream.core.wire.codec import decode_batch
from crdtstream.v1 import effects_pb2, local_pb2
from tests.core import every_kind, strategies
from tests.harness.members import decide, members
from tests.membership.world import renamed

# It reads the slots of classes, and compiled ones have none.
pytestmark = pytest.mark.pure

ROOT = Path(__file__).resolve().parent.parent.parent
EFFECTS: tuple[type, ...] = get_args(RareEffect)
CHANGES: tuple[type, ...] = get_args(LocalChange)


def names(kinds: tuple[type, ...]) -> set[str]:
    return {kind.__name__ for kind in kinds}


def field_name(kind: type) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


# --- Tables -------------------------------------------------------------------------------------


def test_every_kind_is_generated() -> None:
    assert set(strategies.EFFECTS) == set(EFFECTS)
    assert set(strategies.CHANGES) == set(CHANGES)


def test_every_kind_has_an_example_and_its_bytes() -> None:
    assert {type(effect) for effect in every_kind.EFFECTS} == set(EFFECTS)
    assert {type(change) for change in every_kind.CHANGES} == set(CHANGES)
    written = json.loads((ROOT / "tests/store/format_1/bytes.json").read_text())
    assert names((*EFFECTS, *CHANGES)) <= {name.split()[0] for name in written}


def test_every_kind_has_a_field_on_the_wire() -> None:
    """Both ways: a field that no kind of ours is behind would be refused by ``decode_batch``."""
    for message, kinds in ((effects_pb2.Effect, EFFECTS), (local_pb2.LocalChange, CHANGES)):
        fields = message.DESCRIPTOR.oneofs_by_name["kind"].fields
        assert {field.name for field in fields} == set(map(field_name, kinds))


def test_every_kind_is_documented() -> None:
    """By a row of a table."""
    page = (ROOT / "docs/architecture.md").read_text()
    rows = set(re.findall(r"^\| ([A-Z][A-Za-z]+) \|", page, re.MULTILINE))
    assert rows >= {"Append"} | names((*EFFECTS, *CHANGES))


# --- What an effect leaves ----------------------------------------------------------------------


class Fate(NamedTuple):
    """Consequences of an effect.

    Attributes:
        before: lines that are run first.
        line: the one that issues it, in region 1.
        leaves: the facts that it changes.
    """

    before: tuple[str, ...]
    line: str
    leaves: set[str]


STREAM = ("XADD x 1-1 f v", "XADD x 2-1 f v")
GROUP = (*STREAM, "XGROUP CREATE x g 0")
READ = (*GROUP, "XREADGROUP GROUP g c STREAMS x >")
FATES: Mapping[type[Effect], Fate] = {
    Append: Fate((), "XADD x IDMP p a * f v", {"entries", "last IDs", "records"}),
    Remove: Fate(STREAM, "XDEL x 1-1", {"entries"}),
    Trim: Fate(STREAM, "XTRIM x MAXLEN 1", {"entries", "lost"}),
    DeleteKey: Fate(
        (*GROUP, "EXPIRE x 100"),
        "DEL x",
        {"entries", "last IDs", "creates", "registers", "tombstones", "reading", "lost"},
    ),
    ExpireKey: Fate(
        (*GROUP, "PEXPIRE x 10"),
        "expire",
        {"entries", "last IDs", "creates", "registers", "floors", "reading", "lost"},
    ),
    CreateGroup: Fate(STREAM, "XGROUP CREATE x g 0", {"creates", "reading"}),
    DestroyGroup: Fate(GROUP, "XGROUP DESTROY x g", {"creates", "tombstones", "reading"}),
    AckFrontier: Fate(READ, "XACK x g 1-1", {"creates", "reading"}),
    SetLastId: Fate(STREAM, "XSETID x 9-1", {"last IDs"}),
    SetExpiry: Fate(STREAM, "EXPIRE x 100", {"registers"}),
    SetStreamConfig: Fate(STREAM, "XCFGSET x IDMP-DURATION 7", {"registers"}),
    SetGroupMode: Fate(GROUP, "CRDT.XGROUP SETMODE x g HOME 1", {"creates", "settings"}),
    SetString: Fate(("SET x a PX 9",), "SET x b", {"strings"}),
    SetStringExpiry: Fate(("SET x a",), "EXPIRE x 100", {"strings"}),
    DeleteString: Fate(("SET x a PX 9",), "DEL x", {"strings"}),
    AddToString: Fate(("SET x 1 PX 9",), "INCRBY x 5", {"strings"}),
    ChangeMembers: Fate((), "rename", {"members"}),
}
# What the digest must see (``rules`` 22); a copy of the whole state would hold all the facts.
IN_THE_DIGEST = {"entries", "last IDs", "creates", "registers", "strings", "members"}
# What of the state no fact tells of, as no effect's meaning is in it.
BESIDES = {
    *("_peers", "region", "vv", "grown_runs", "acknowledged_count"),
    # What a checkpoint has yet to write of all this.
    *("changes", "groups_made", "parts", "root"),
    "residency",
    # They follow from the members.
    "heirs",
    # They are of batches, whatever is in these.
    "histories",
}


def facts(replica: Replica) -> dict[str, Any]:
    """Everything in the state that effects change."""
    state = replica._state
    streams = state.keys.streams
    groups = [
        (key, name, group)
        for key, stream in streams.items()
        for name, group in sorted(stream.groups.items())
    ]
    told: dict[str, Any] = {
        "entries": [
            (key, region, node.n[index], entry_id, bytes(node.fields_at(index)))
            for key, stream in streams.items()
            for entry_id, region, node, index in stream.scan()
        ],
        "last IDs": [
            (key, region, register.id, register.n)
            for key, stream in streams.items()
            for region, register in stream.last_ids.items()
        ],
        "lost": [(key, replica.keys.lost(key)) for key in (b"x", b"y")],
        "creates": [
            (key, name, list(group.creates.items()), group.mode, _intervals(group))
            for key, name, group in groups
        ],
        "settings": [
            (key, name, sorted(group.settings)) for key, name, group in groups if group.settings
        ],
        "reading": [
            (key, name, region, progress.last_delivered, progress.run_from, list(progress.pel))
            for key, name, group in groups
            for region in (RegionId(1), RegionId(2))
            for progress in [group.progress(region)]
        ],
        "registers": [
            (key, registers.expiry.values, registers.idmp_duration_s.values)
            for key, registers in sorted(state.keys.registers.items())
        ],
        "strings": [
            (
                key,
                [(dot, value.data, value.expiry.values) for dot, value in string.values()],
                [(one, share.facts(), share.expiry.values) for one, share in string.shares()],
            )
            for key, string in sorted(state.keys.strings.items())
        ],
        "tombstones": {
            part.key: state.tombstones.of(part.key)
            for part in state.parts
            if part.key in state.tombstones
        },
        "floors": state.floors.by_key,
        "ended_shares": {
            part.key: dict(state.ended_shares.of(part.key))
            for part in state.parts
            if part.key in state.ended_shares
        },
        "records": (
            {
                part.key: list(state.idempotency.of(part.key))
                for part in state.parts
                if part.key in state.idempotency
            },
            len(state.numbered),
        ),
        "members": state.members,
    }
    return deepcopy(told)


@pytest.mark.parametrize("kind", [Append, *EFFECTS], ids=lambda kind: kind.__name__)
def test_each_kind_of_effect_changes_its_own_facts_and_no_others(kind: type[Effect]) -> None:
    fate = FATES[kind]
    node, peer, late, fresh = members(4)
    # Another region is known of; what is kept for its sake is kept.
    peer.run("XADD y 1-2 f v")
    node.pull(peer)
    node.run("PING", *fate.before)
    # One copies the state before the effect as well, the other only after it.
    late.merge(node)
    before, digest, issued = facts(node.replica), node.digest, node.replica.issued
    if fate.line == "expire":
        node.now += 1000
        node.expire()
    elif fate.line == "rename":
        decide(node, renamed(1, "eu"))
    else:
        node.run(fate.line)

    batch = next(
        decode_batch(record.batch)
        for record in reversed(node.log)
        if record.batch is not None and record.origin == 1
    )
    assert batch.first_n == issued + 1
    kinds = {type(effect) for _, effect in batch.others}
    assert kinds == (set() if kind is Append else {kind})
    assert bool(batch.appends.ms) is (kind is Append)

    after = facts(node.replica)
    assert {fact for fact in after if after[fact] != before[fact]} == fate.leaves
    assert (node.digest != digest) is bool(fate.leaves & IN_THE_DIGEST)
    # And a region that only hears of it has the same (I1).
    peer.pull(node)
    assert peer.digest == node.digest
    # So has one that copies the state (rules 5).
    for copy in (late, fresh):
        copy.merge(node)
        assert copy.digest == node.digest


def _intervals(group: Group) -> list[tuple[int, Any]]:
    return [(region, list(run)) for region, run in group.intervals.items()]


def test_no_fact_of_the_state_is_forgotten() -> None:
    """A new part of the state is told of in ``facts``, or says in ``BESIDES`` why not."""
    told = {"members", "keys", "tombstones", "ended_shares", "floors", "idempotency", "numbered"}
    told |= {"settings"}
    assert set(State.__slots__) == told | BESIDES
    assert set(FATES) == {Append, *EFFECTS}
