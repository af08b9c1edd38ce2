"""The folder of a removed region: what of it is salvaged, once each, and when it may be deleted."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crdtstream.core.effects import Numbered
from crdtstream.core.histories import Difference, difference
from crdtstream.core.ids import Millis, RegionId, id_ms, id_seq
from crdtstream.core.membership.deciding import Votes
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.producers.numbered import StaleBatchError
from crdtstream.engine.folder import write_change
from crdtstream.query.append_rows import append_numbered, checked_rows
from crdtstream.region.ready import StoreMembership
from crdtstream.spark.connecting import StaleAppendError
from crdtstream.spark.nodes import Nodes
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.upkeep.counting import Beyond
from crdtstream.upkeep.folder_reading import UpkeepError, locked
from crdtstream.upkeep.membership import own_member
from crdtstream.upkeep.purge import purge, removed_region
from crdtstream.upkeep.salvage import Clone, Salvage, Salvaged
from crdtstream.upkeep.stranded import Stranded, stranded_in
from tests.harness.regions import Node
from tests.membership.world import founded, instance, removal
from tests.rules.test_numbered import append, values

R3 = RegionId(3)
UID = "5" * 32


@dataclass
class Into:
    """A region that entries are salvaged into: the query service's calls, without the network."""

    node: Node

    def append(self, request: Any) -> Any:
        first = Numbered(request.producer, request.batch, request.first_row)
        lengths = array("I")
        lengths.frombytes(request.lengths)
        rows = checked_rows(first, lengths, request.fields)
        now = Millis(self.node.now)
        self.node.replica.advance(now)
        try:
            appended = append_numbered(self.node.replica, now, request.key, first, rows)
        except StaleBatchError as error:
            raise StaleAppendError(str(error)) from error
        self.node.end_tick()
        return SimpleNamespace(appended=appended, known=len(lengths) - appended)

    def streams(self, patterns: Sequence[bytes]) -> list[Any]:
        stream = self.node.replica.stream(*patterns)
        lanes = [] if stream is None else sorted(stream.lanes)
        return [SimpleNamespace(lanes=[SimpleNamespace(origin=one) for one in lanes])]

    def scan(self, request: Any) -> Iterator[Any]:
        stream = self.node.replica.stream(request.key)
        assert stream is not None
        upto_n = request.upto_n or 1 << 62
        found = [
            (macro.n[at], entry_id, bytes(macro.fields_at(at)), macro.idempotent_at(at))
            for entry_id, macro, at in stream.lanes[RegionId(request.origin)].scan_dots(
                request.above_n
            )
            if macro.n[at] <= upto_n
        ]
        columns = {
            "n": [n for n, *_ in found],
            "ms": [id_ms(entry_id) for _, entry_id, *_ in found],
            "seq": [id_seq(entry_id) for _, entry_id, *_ in found],
            "fields": [fields for *_, fields, _ in found],
            "producer": [None if one is None else one[0] for *_, one in found],
            "idempotent_id": [None if one is None else one[1] for *_, one in found],
        }
        yield SimpleNamespace(column=lambda name: SimpleNamespace(to_pylist=lambda: columns[name]))


def own(node: Node, cut: int) -> Beyond:
    """Effects of the folder's own region beyond a cut."""
    return Beyond(RegionId(node.region), cut, node.replica.issued)


def salvaged(removed: Node, into: Node, *, cut: int = 0) -> list[Salvaged]:
    return salvaged_beyond(removed, into, own(removed, cut))


def salvaged_beyond(folder: Node, into: Node, beyond: Beyond) -> list[Salvaged]:
    salvage = Salvage(cast(Nodes, Into(into)), beyond.origin, UID, beyond.incarnation)
    found = stranded_in(folder.replica, beyond)
    return [salvage.append(key, list(all_of)) for key, all_of in found]


def salvaged_clone(clone: Node, into: Node, apart: Difference) -> list[Salvaged]:
    """A folder that nothing but its effects tells apart."""
    mark = clone.replica.histories.mark(R3)
    salvage = Salvage(cast(Nodes, Into(into)), R3, UID, 7, Clone(apart, mark))
    found = stranded_in(clone.replica, own(clone, apart.same_n))
    return [salvage.append(key, list(all_of)) for key, all_of in found]


def stranded(node: Node, cut: int) -> dict[bytes, list[int]]:
    return {
        key: [one.n for one in entries]
        for key, entries in stranded_in(node.replica, own(node, cut))
    }


def test_own_entries_beyond_the_cut_are_stranded_if_they_still_exist() -> None:
    other, node = Node(1), Node(3)
    other("XADD x 10-1 f other")
    node.pull(other)
    for number in range(20, 26):
        node(f"XADD x {number}-3 f v{number}")
    node("XDEL x 24-3")
    node("SET k v")
    # Its time is over here, and nobody else has it.
    node("XADD y 20-3 f v")
    node("PEXPIRE y 1")
    node.end_tick()
    node.now += 10
    node("PING")
    # 3:1 and 3:2 count; 3:5 is deleted, 3:6 is beyond it.
    assert stranded(node, 2) == {b"x": [3, 4, 6], b"y": [9]}
    assert stranded(node, 99) == {}


def rows(into: Node) -> list[str]:
    return values(into)


def test_entries_are_appended_once_however_often_and_wherever() -> None:
    """M18: twice, into two regions, also after they were deleted there."""
    node, first, second = Node(3), Node(1), Node(2)
    for number in range(5):
        node(f"XADD x {20 + number}-3 f v{number}")
    assert salvaged(node, first, cut=2) == [Salvaged(b"x", appended=3)]
    assert salvaged(node, first, cut=2) == [Salvaged(b"x", known=3)]
    second.pull(first)
    second("XTRIM x MAXLEN 1")
    assert salvaged(node, second, cut=2) == [Salvaged(b"x", known=3)]
    assert rows(second) == ["v4"]


def clones(*values: str) -> list[Node]:
    """Copies of one folder with three entries, each with one more."""
    made = []
    for value in values:
        node = Node(3)
        for number in range(3):
            node.run(f"XADD x {20 + number}-3 f common{number}")
        node.run(f"XADD x * f {value}")
        made.append(node)
    return made


def test_entries_of_several_clones_are_appended_once_each() -> None:
    """They have one number, and would be one row of one producer."""
    goes_on, one, other = clones("goes-on", "one", "other")
    into = Node(1)
    into.pull(goes_on)
    apart = difference(one.replica.histories.points(), into.replica.histories.points())
    assert apart == Difference(R3, 3, 4)
    for count in (1, 0):
        for clone in (one, other):
            done = salvaged_clone(clone, into, apart)
            assert [each.appended for each in done] == [count]
    assert rows(into) == ["common0", "common1", "common2", "goes-on", "one", "other"]


def test_of_a_clone_what_both_have_is_not_appended_again() -> None:
    """The point where they part is known up to some batches only: older ones are not kept."""
    goes_on, one = clones("goes-on", "one")
    into = Node(1)
    into.pull(goes_on)
    for apart in (Difference(R3, 0, 4), Difference(R3, 1, 4)):
        salvaged_clone(one, into, apart)
    assert rows(into) == ["common0", "common1", "common2", "goes-on", "one"]


def test_rows_of_a_numbered_producer_stay_its_rows() -> None:
    """M18: its producer may append them again before the salvage, and after it."""
    node, into = Node(3), Node(1)
    append(node, *range(6), batch=7)
    append(into, 0, 1, batch=7)
    assert salvaged(node, into) == [Salvaged(b"x", appended=4, known=2)]
    assert append(into, *range(8), batch=7) == 2
    assert rows(into) == [f"7.{row}" for row in range(8)]


def test_a_numbered_producer_that_has_gone_on_lacks_nothing() -> None:
    node, into = Node(3), Node(1)
    append(node, *range(6), batch=7)
    append(into, 0, batch=7)
    append(into, 0, batch=8)
    append(into, 0, batch=9)
    before = rows(into)
    (found,) = salvaged(node, into)
    assert (found.appended + found.known, rows(into)[: len(before)]) == (6, before)


def test_an_entry_that_has_been_retried_elsewhere_is_left_out() -> None:
    """M18: by its idempotent id, which another entry of the stream has."""
    node, into = Node(3), Node(1)
    node("XADD x IDMP p a * f a")
    node("XADD x IDMP p b * f b")
    into("XADD x IDMP p b * f b")
    assert salvaged(node, into) == [Salvaged(b"x", appended=1, known=1)]
    assert rows(into) == ["b", "a"]
    assert salvaged(node, into) == [Salvaged(b"x", known=2)]


def test_a_retry_behind_the_salvage_is_a_second_entry_and_no_more() -> None:
    """M18: what has an idempotent id is salvaged under another name; each is there once."""
    node, into = Node(3), Node(1)
    for name in ("a", "b"):
        node(f"XADD x IDMP p {name} * f {name}")
    assert salvaged(node, into) == [Salvaged(b"x", appended=2)]
    for _ in range(2):
        into("XADD x IDMP p a * f again")
    assert salvaged(node, into) == [Salvaged(b"x", known=2)]
    assert rows(into) == ["a", "b", "again"]


# --- Deleting the folder ----------------------------------------------------------------------


async def folder_of(folder: Path, members: Members) -> Path:
    """A folder of region 3 that knows these members."""
    log = await SqliteLog.open(folder, region=R3, database_id="crdb", fsync=Fsync.ALWAYS)
    kept = Kept(instance(3), Votes(members.epoch + 1), members)
    await write_change(log, StoreMembership(kept, 1))
    await log.close()
    return folder


def without_3(cut: int | None) -> Members:
    return apply(founded(3), removal(3, 1)).with_cut(R3, cut)


async def test_only_the_folder_of_a_removed_region_is_deleted(tmp_path: Path) -> None:
    removed = await folder_of(tmp_path / "removed", without_3(None))
    assert removed_region(removed) == 3
    purge(removed)
    assert not removed.exists()
    others: Sequence[Members] = (Members(), founded(3), apply(founded(3), removal(2, 1)))
    for number, members in enumerate(others):
        folder = await folder_of(tmp_path / f"member-{number}", members)
        for refused in (removed_region, purge):
            with pytest.raises(UpkeepError, match="was not removed, as far as this folder knows"):
                refused(folder)
        assert folder.exists()


async def test_a_folder_that_is_open_is_not_deleted(tmp_path: Path) -> None:
    folder = await folder_of(tmp_path / "removed", without_3(None))
    with locked(folder), pytest.raises(UpkeepError):
        purge(folder)
    assert folder.exists()


@pytest.mark.parametrize("cut", [None, 0, 7])
async def test_a_folder_says_what_counts_of_its_region(tmp_path: Path, cut: int | None) -> None:
    folder = await folder_of(tmp_path / "removed", without_3(cut))
    with locked(folder):
        identity, member = own_member(folder)
    assert member is not None
    assert (identity.region, member.cut) == (3, cut)


def test_stranded_entries_keep_what_their_producer_calls_them() -> None:
    node = Node(3)
    node("XADD x IDMP p a * f a")
    append(node, 4, batch=7)
    node("XADD x 3000-3 f plain")
    (found,) = [entries for _, entries in stranded_in(node.replica, own(node, 0))]
    assert [(one.row, one.name) for one in found] == [
        (None, (b"p", b"a")),
        (Numbered(b"q:0", 7, 4), None),
        (None, None),
    ]
    assert all(isinstance(one, Stranded) for one in found)
