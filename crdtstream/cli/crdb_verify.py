"""``crdtstream crdb verify``: checks that regions are equal, and shows where they first differ."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Annotated, Any, Final

import typer

from crdtstream.admin.client import AdminError, Survey, vv_of
from crdtstream.admin.comparing import Comparing, Difference, EntryFound, Pair, Verdict
from crdtstream.cli.crdb import GuidOption
from crdtstream.cli.tables import print_columns
from crdtstream.command_line.exit import FAILED, MISUSED, fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.reach import Reach, answering
from crdtstream.core.clock import format_vv
from crdtstream.core.comparing import PartKind
from crdtstream.core.ids import REGION_MAX, RegionId

_COLUMNS: Final = ("REGIONS", "KEYS", "DIFFERENT", "UNDECIDED", "LEFT-OUT", "STATUS")
_PARTS: Final = {
    PartKind.MEMBERS: "the members",
    PartKind.LANE: "lane {lane}",
    PartKind.LAST_ID: "last ID of lane {lane}",
    PartKind.CREATES: "creation of group {group}",
    PartKind.MODE: "mode of group {group}",
    PartKind.ACKED: "what group {group} has acknowledged of lane {lane}",
    PartKind.EXPIRY: "deadline",
    PartKind.CONFIG: "settings of XCFGSET",
    PartKind.STRING: "string",
}


@with_groups
def verify(
    reach: Reach,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Compare only this key.")
    ] = None,
    regions: Annotated[
        list[int] | None,
        typer.Option(
            "--instance-id",
            metavar="N",
            min=1,
            max=REGION_MAX,
            help="Compare only these regions; may be repeated. Default: all, which must answer.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Look into this many different keys of each pair."),
    ] = 10,
    timeout_seconds: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=0, help="How long a key that changes is compared."
        ),
    ] = 10.0,
    guid: GuidOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what the regions have, and name the first entry of a stream that differs.

    Regions go on taking writes. They are compared by digests: of 256 buckets of keys, of keys, of
    their lanes, groups and other parts, of stretches of a lane, of entries. A difference is proved
    if both regions show it twice, in turns, each after it has applied all that the other one had:
    effects on their way cannot cause that. For each such key the last lines name the command that
    rehearses its repair. A key that changes all the time is undecided; to compare
    it, stop its writers, or run CLIENT PAUSE 10000 WRITE in every region.

    Example: crdtstream crdb verify --key flights

    Exit status: 0 all are equal, 1 some differ, are undecided or do not answer, 2 misuse, or it is
    another database.
    """
    found = reach.find_regions()
    check_database(found, guid)
    chosen = _chosen(found, regions)
    with ExitStack() as stack:
        clients = {one: stack.enter_context(found.client(one)) for one in sorted(chosen)}
        comparing = Comparing(
            clients,
            differences_max=limit,
            seconds=timeout_seconds,
            key=None if key is None else key.encode("utf-8", "surrogateescape"),
        )
        try:
            pairs = comparing.pairs()
        except AdminError as error:
            fail(error)
    silent = [] if regions else list(found.unreachable.values())
    if as_json:
        typer.echo(json.dumps(_as_json(found, chosen, pairs, silent), indent=2))
    else:
        _print(found, chosen, pairs)
        for why in silent:
            typer.echo(f"not compared: {why}", err=True)
    is_equal = all(pair.verdict is Verdict.EQUAL for pair in pairs)
    raise typer.Exit(code=0 if is_equal and not silent else FAILED)


def check_database(found: Survey, guid: str | None) -> None:
    uids = {reply.database_uid for reply in found.replies.values()}
    if guid is not None and uids != {guid}:
        refuse(f"no database {guid}; there is {', '.join(sorted(uids))}")
    if len(uids) > 1:
        refuse(
            f"these regions belong to several databases, which have nothing in common:"
            f" {', '.join(sorted(uid or '(none yet)' for uid in uids))}"
        )


def _chosen(found: Survey, regions: Sequence[int] | None) -> list[RegionId]:
    """The regions to be compared, two at least."""
    chosen = (
        list(found.replies) if not regions else [RegionId(one) for one in dict.fromkeys(regions)]
    )
    for one in chosen:
        answering(found, one)
    if len(chosen) < 2:
        silent = "".join(f"\n       {why}" for why in found.unreachable.values())
        known = ", ".join(map(str, found.replies))
        # A region that is down may have differences, and one alone has nothing to be compared with.
        status = FAILED if silent else MISUSED
        fail(f"two regions are needed to compare; there is {known}{silent}", status=status)
    return chosen


# --- Telling --------------------------------------------------------------------------------------


def _print(found: Survey, chosen: Sequence[RegionId], pairs: Sequence[Pair]) -> None:
    for region in chosen:
        typer.echo(
            f"Region {region} had applied {format_vv(vv_of(found.replies[region].vv)) or '-'}"
        )
    print_columns(_COLUMNS, [_row(pair) for pair in pairs])
    for pair in pairs:
        for line in lines_of(pair):
            typer.echo(line)
    for command in repairs_of(chosen, pairs):
        typer.echo(f"Rehearse the repair: {command}")


def _row(pair: Pair) -> Sequence[str]:
    different = pair.keys_different
    undecided = {one.key for one in pair.differences} - different
    return (
        f"{pair.left} - {pair.right}",
        str(pair.keys),
        str(len(different)),
        str(len(undecided)),
        str(pair.keys_left_out),
        pair.verdict.value,
    )


def lines_of(pair: Pair) -> Iterator[str]:
    """Every difference of two regions, and what to do about it."""
    for one in pair.differences:
        yield f"{pair.left} - {pair.right}  {one.verdict.value}: {_where(one)}"
        if one.stretch is not None:
            yield f"       entry {one.lane}:{one.n}: {_entries(pair, one)}"
    if pair.obstacle:
        yield f"{pair.left} - {pair.right}  {pair.obstacle}"
    if any(one.verdict is Verdict.UNDECIDED for one in pair.differences):
        yield (
            f"{pair.left} - {pair.right}  undecided keys were changed all the time: stop their"
            " writers, or run CLIENT PAUSE 10000 WRITE in every region, and verify again with --key"
        )


def repairs_of(regions: Sequence[RegionId], pairs: Sequence[Pair]) -> list[str]:
    """Commands that rehearse the repair of each key that is proved unequal.

    The region that differs from all others, which are equal, is the one to be repaired.  Where
    there is no such region, as with two, each repair is named, both ways.
    """
    unequal: dict[bytes, set[tuple[RegionId, RegionId]]] = {}
    for pair in pairs:
        for key in pair.keys_different - {b""}:
            unequal.setdefault(key, set()).add((pair.left, pair.right))
    return [
        f"crdtstream crdb repair {shlex.quote(shown(key))} --instance-id {region} --source {source}"
        " --dry-run"
        for key, differing in unequal.items()
        for region, source in _repairs(regions, differing)
    ]


def _repairs(
    regions: Sequence[RegionId], differing: set[tuple[RegionId, RegionId]]
) -> Iterator[tuple[RegionId, RegionId]]:
    """The regions to be repaired for one key, each with its source."""
    for odd in regions:
        others = [one for one in regions if one != odd]
        if len(others) > 1 and differing == {(min(odd, one), max(odd, one)) for one in others}:
            yield odd, others[0]
            return
    for left, right in sorted(differing):
        yield right, left
        yield left, right


def part_name(part: PartKind, group: bytes, lane: int) -> str:
    """Name of a part."""
    return _PARTS[part].format(lane=lane, group=shown(group))


def _where(one: Difference) -> str:
    name = part_name(one.part, one.group, one.lane)
    if one.part is PartKind.MEMBERS:
        return name
    stretch = "" if one.stretch is None else ", dots {}-{}".format(*one.stretch)
    return f"key {shown(one.key)}: {name}{stretch}"


def _entries(pair: Pair, one: Difference) -> str:
    left, right = one.left, one.right
    if left is None or right is None:
        has, lacks = (pair.left, pair.right) if right is None else (pair.right, pair.left)
        there = left or right
        assert there is not None
        return f"region {has} has {there.id} ({there.fields_bytes} bytes), region {lacks} does not"
    if left.id != right.id:
        return f"region {pair.left} has {left.id}, region {pair.right} {right.id}"
    return f"both have {left.id}, with unequal fields or producer"


def shown(name: bytes) -> str:
    """A key, or the name of a group, in a line of text."""
    return name.decode("utf-8", "backslashreplace")


def _as_json(
    found: Survey, chosen: Sequence[RegionId], pairs: Sequence[Pair], silent: Sequence[str]
) -> dict[str, Any]:
    return {
        "regions": [
            {
                "id": region,
                "vv": {str(one): n for one, n in vv_of(found.replies[region].vv).items()},
            }
            for region in chosen
        ],
        "pairs": [pair_as_json(pair) for pair in pairs],
        "repairs": repairs_of(chosen, pairs),
        "unreachable": list(silent),
    }


def pair_as_json(pair: Pair) -> Mapping[str, Any]:
    return {
        "regions": [pair.left, pair.right],
        "status": pair.verdict.value,
        "keys": pair.keys,
        "keys_left_out": pair.keys_left_out,
        "obstacle": pair.obstacle,
        "differences": [_difference_as_json(pair, one) for one in pair.differences],
    }


def _difference_as_json(pair: Pair, one: Difference) -> Mapping[str, Any]:
    told: dict[str, Any] = {
        "status": one.verdict.value,
        "key": shown(one.key),
        "part": one.part.name.lower(),
        "lane": one.lane,
        "group": shown(one.group),
    }
    if one.stretch is not None:
        sides = {str(pair.left): one.left, str(pair.right): one.right}
        told["dots"] = list(one.stretch)
        told["entry"] = {
            "dot": f"{one.lane}:{one.n}",
            "regions": {region: _entry_as_json(side) for region, side in sides.items()},
        }
    return told


def _entry_as_json(entry: EntryFound | None) -> Mapping[str, Any] | None:
    return None if entry is None else {"id": entry.id, "fields_bytes": entry.fields_bytes}
