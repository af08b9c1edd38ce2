"""Pages of figures: overview, members, node.  Their cells change as figures do."""

from collections.abc import Callable, Sequence
from typing import Final

from crdtstream.console import words
from crdtstream.console.action_pages import ACT, act_path
from crdtstream.console.cells import Cells
from crdtstream.console.console_sources import SlowCommand
from crdtstream.console.feed import View
from crdtstream.console.layout import (
    Column,
    act_link,
    cell,
    curve,
    notice_list,
    region_mark,
    section,
    state_cell,
    table,
)
from crdtstream.console.map import region_map
from crdtstream.console.picture import LinkView, RegionView
from crdtstream.database.statistics import CallStatistics
from crdtstream.page.markup import Child, Markup, element
from crdtstream.v1 import admin_pb2 as pb

Points = Callable[[str], Sequence[float | None]]
# Bounds of the table of commands that took long.
SLOW_SHOWN: Final = 50
ARGUMENTS_SHOWN: Final = 6
ARGUMENT_LENGTH_SHOWN: Final = 40


def overview(view: View, points: Points, *, may_operate: bool) -> list[Child]:
    """The first page: is all well, and where does it not go on?

    Args:
        may_operate: the viewer may pause links.
    """
    picture, cells = view.picture, view.cells
    own = picture.own.region
    drawn = region_map(picture.regions, picture.links, cells, own=own)
    return [
        section("Attention", notice_list(view.notices), class_="card attention"),
        _tiles(cells),
        element(
            "div",
            section(
                "Map",
                drawn,
                note="Arrows are links; the numbers are their lag.",
                class_="card map-card",
            )
            if drawn
            else None,
            section("Regions", _regions(picture.regions, cells, own=own)),
            class_="beside",
        ),
        section(
            "Links",
            _links(picture.links, cells, points, here=own if may_operate else 0),
            note=_LINKS_NOTE,
        )
        if picture.links
        else section("Links", element("p", "This region has no peers.", class_="empty")),
    ]


_LINKS_NOTE: Final = (
    "A region pulls from the others: each link is shown as the region that pulls reports it."
    " Curves are the last two minutes, and fade while nothing moves."
)


def _tiles(cells: Cells) -> Markup:
    tiles = [
        ("total.regions", "regions without a fault", "total.regions.state"),
        ("total.links", "links are up", "total.links.state"),
        ("total.lag", "highest lag of a link", ""),
        ("total.writes", "effects written, all regions", ""),
        ("node.commands", "commands, this node", ""),
        ("total.keys", "keys", ""),
        ("total.clients", "clients, this node", ""),
    ]
    return element(
        "dl",
        [
            element(
                "div",
                element("dt", text),
                element("dd", cell(name, cells)),
                class_="tile",
                data_state_of=state or None,
                data_state=cells.get(state) if state else None,
            )
            for name, text, state in tiles
        ],
        class_="tiles",
    )


def _regions(regions: Sequence[RegionView], cells: Cells, *, own: int) -> Markup:
    columns = [
        Column("region"),
        Column("state"),
        Column("lacks effects", "number"),
        Column("writes", "number"),
        Column("keys", "number"),
        Column("memory", "number"),
        Column("disk", "number"),
        Column("log", "number"),
    ]
    rows = [
        (
            element(
                "span",
                region_mark(one.region),
                f" {one.name}",
                element("small", " here") if one.region == own else None,
            ),
            state_cell(f"region.{one.region}.state", cells),
            *(
                cell(f"region.{one.region}.{figure}", cells)
                for figure in ("lacks", "writes", "keys", "memory", "disk", "log")
            ),
        )
        for one in regions
    ]
    return table("Regions", columns, rows)


def _links(links: Sequence[LinkView], cells: Cells, points: Points, *, here: int) -> Markup:
    """The table of links; those by which region ``here`` pulls can be paused."""
    columns = [
        Column("link"),
        Column("state"),
        Column("lag", "number"),
        Column("lag, 2 min", "curve"),
        Column("p99", "number"),
        Column("behind", "number"),
        Column("effects", "number"),
        Column("effects, 2 min", "curve"),
        Column("bytes", "number"),
        Column("note", "long"),
    ]
    rows: list[Sequence[Child]] = []
    for link in links:
        name = f"link.{link.name}"
        figures = {
            figure: cell(f"{name}.{figure}", cells)
            for figure in ("lag", "p99", "behind", "rate", "bytes", "note")
        }
        rows.append(
            (
                element(
                    "span",
                    region_mark(link.source),
                    " → ",
                    region_mark(link.to),
                    _link_action(link, cells) if link.to == here else None,
                    class_="pair",
                ),
                state_cell(f"{name}.state", cells),
                figures["lag"],
                curve(f"{link.name}.lag", points(f"{link.name}.lag"), kind="lag"),
                figures["p99"],
                figures["behind"],
                figures["rate"],
                curve(f"{link.name}.rate", points(f"{link.name}.rate"), kind="rate"),
                figures["bytes"],
                figures["note"],
            )
        )
    return table("Links", columns, rows)


def _link_action(link: LinkView, cells: Cells) -> Markup:
    # The state may change while the page is open: its address serves both.
    path = act_path("link", [("peer", f"{link.source}")])
    text = cell(f"link.{link.name}.action", cells)
    return act_link(text, f"the link from region {link.source}", path)


# --- Members --------------------------------------------------------------------------------------


def members(view: View, *, may_operate: bool) -> list[Child]:
    """Members of the database, their changes, and states that regions take over.

    Args:
        may_operate: the viewer may add and remove members.
    """
    picture, cells = view.picture, view.cells
    known = picture.members
    facts = [
        ("database", known.database_id),
        (
            "identity",
            element("code", known.database_uid) if known.database_uid else "not agreed yet",
        ),
        ("epoch of the members", _epoch(known)),
        ("regions that can still be added", words.count(known.numbers_left)),
    ]
    by_region = {one.region: one for one in known.members}
    rows = [
        (
            element(
                "span",
                region_mark(one.region),
                f" {one.name}",
                _removal(one, own=picture.own.region) if may_operate else None,
            ),
            one.member,
            state_cell(f"region.{one.region}.state", cells),
            by_region[one.region].grpc_address or words.UNKNOWN,
            cell(f"region.{one.region}.resp", cells),
            _changed(by_region[one.region]),
            cell(f"region.{one.region}.version", cells),
            cell(f"region.{one.region}.up", cells),
        )
        for one in picture.regions
    ]
    columns = [
        Column("region"),
        Column("status"),
        Column("state"),
        Column("gRPC", "key"),
        Column("RESP", "key"),
        Column("changed", "long"),
        Column("version"),
        Column("runs for", "number"),
    ]
    return [
        section("Database", facts_list(facts)),
        section(
            "Regions",
            table("Members", columns, rows),
            element("p", element("a", "Add a region…", href=f"{ACT}add")) if may_operate else None,
        ),
        section(
            "Bootstraps",
            _bootstraps(picture.regions, cells),
            note="A region that was away for too long takes over the state of another one.",
        ),
        section("Log kept for others", _kept(picture.own, cells), note=_KEPT_NOTE),
    ]


def _removal(one: RegionView, *, own: int) -> Markup | None:
    if one.region == own or one.member == "removed":
        return None
    path = act_path("remove", [("region", f"{one.region}")])
    return act_link("Remove…", f"region {one.region}", path)


_KEPT_NOTE: Final = (
    "The log of this node keeps what a region lacks, so that it can catch up without a bootstrap."
)


def _epoch(known: pb.MembersReply) -> str:
    if known.pending_epoch:
        return f"{known.epoch}, decided and not durable here yet"
    return f"{known.epoch}, known everywhere" if known.is_everywhere else f"{known.epoch}"


def _changed(one: pb.MemberStatus) -> str:
    statuses = pb.MemberStatus.Status
    if one.status == statuses.JOINING:
        until = words.moment(one.token_expires_ms)[:16]
        return f"added in epoch {one.added_epoch}; its token is good until {until} UTC"
    if one.status == statuses.REMOVED:
        counted = f"; {_counted(one.cut)}" if one.HasField("cut") else ""
        return f"removed in epoch {one.changed_epoch}{counted}"
    return f"added in epoch {one.added_epoch}"


def _counted(effects: int) -> str:
    return f"{words.number_of(effects, 'effect')} count{'s' if effects == 1 else ''}"


def _bootstraps(regions: Sequence[RegionView], cells: Cells) -> Markup:
    columns = [
        Column("region"),
        Column("phase"),
        Column("from"),
        Column("copied", "number"),
        Column("share", "number"),
        Column("time left", "number"),
        Column("taken over", "number"),
        Column("failed", "number"),
    ]
    figures = ("phase", "source", "done", "share", "left", "count", "failures")
    rows = [
        (
            element("span", region_mark(one.region), f" {one.name}"),
            *(cell(f"region.{one.region}.bootstrap.{figure}", cells) for figure in figures),
        )
        for one in regions
        if one.member != "removed"
    ]
    return table("Bootstraps", columns, rows)


def _kept(own: pb.StatusReply, cells: Cells) -> Markup:
    if not own.storage.kept:
        return element("p", "This region has no peers.", class_="empty")
    rows = [
        (element("span", region_mark(kept.region)), cell(f"node.kept.{kept.region}", cells))
        for kept in own.storage.kept
    ]
    return table("Log kept for others", [Column("region"), Column("what is kept", "long")], rows)


def facts_list(facts: Sequence[tuple[str, Child]]) -> Markup:
    """Names and values below each other."""
    return element(
        "dl",
        [element("div", element("dt", name), element("dd", value)) for name, value in facts],
        class_="facts",
    )


# --- Node -----------------------------------------------------------------------------------------

# Names of MEMORY STATS, as people say them.
MEMORY_PARTS: Final = {
    "base": "the program",
    "nodes": "entries",
    "keys": "keys and groups",
    "log": "end of the log",
    "inbox": "batches that wait",
    "clients": "buffers of clients",
    "overhead": "gaps between objects",
}


def node(
    view: View,
    points: Points,
    commands: Sequence[tuple[bytes, CallStatistics]],
    slow: Sequence[SlowCommand] | None,
    *,
    now_s: int,
    may_operate: bool,
) -> list[Child]:
    """This node: clients, memory, disk, commands.

    Args:
        slow: commands that took long; None: the viewer has no right to see them.
        may_operate: the viewer may tune.
    """
    cells, picture = view.cells, view.picture
    memory = [
        (MEMORY_PARTS.get(part, part), cell(f"node.memory.{part}", cells))
        for part in picture.node.memory
    ]
    return [
        element(
            "div",
            section(
                "Clients",
                curve("node.commands", points("node.commands"), kind="rate wide"),
                facts_list(
                    [
                        ("commands", cell("node.commands", cells)),
                        ("clients", cell("node.clients", cells)),
                        ("blocked", cell("node.blocked", cells)),
                        ("received from clients", cell("node.received", cells)),
                        ("sent to clients", cell("node.sent", cells)),
                    ]
                ),
            ),
            section(
                "Memory",
                curve("node.memory", points("node.memory"), kind="lag wide"),
                facts_list([("used", cell("node.memory", cells)), *memory]),
            ),
            section(
                "Disk",
                facts_list(
                    [
                        ("folder", cell("node.disk", cells)),
                        ("log", cell("node.disk.log", cells)),
                        ("write-ahead log", cell("node.disk.wal", cells)),
                        ("checkpoints", cell("node.disk.checkpoints", cells)),
                        ("last checkpoint", cell("node.checkpoint", cells)),
                        ("in no other region yet", cell("node.unreplicated", cells)),
                        ("batches that wait for others", cell("node.inbox", cells)),
                    ]
                ),
            ),
            class_="thirds",
        ),
        section(
            "Slow commands",
            _slow(slow, now_s),
            note="The newest first: those that took longer than slowlog-log-slower-than.",
        ),
        section(
            "Commands",
            _commands(commands),
            note="Since the start, or CONFIG RESETSTAT. Reload the page for new figures.",
        ),
        section(
            "Settings that can be tuned",
            _tunables(picture.own, may_operate=may_operate),
            note="Of this region; rladmin tune db --all changes those of all regions.",
        ),
    ]


def _slow(slow: Sequence[SlowCommand] | None, now_s: int) -> Markup:
    if slow is None:
        return element("p", "This user has no right to SLOWLOG GET (+slowlog|get).", class_="empty")
    if not slow:
        return element("p", "None.", class_="empty")
    columns = [
        Column("when"),
        Column("took", "number"),
        Column("command", "long"),
        Column("client", "key"),
    ]
    rows = [
        (
            words.ago(max(0, now_s - one.unix_s) * 1_000),
            words.microseconds(one.usec),
            element("code", _command_line(one.arguments)),
            words.name(one.client_name or one.address, ARGUMENT_LENGTH_SHOWN),
        )
        for one in slow[:SLOW_SHOWN]
    ]
    return table("Slow commands", columns, rows)


def _command_line(arguments: Sequence[bytes]) -> str:
    shown = [words.name(one, ARGUMENT_LENGTH_SHOWN) for one in arguments[:ARGUMENTS_SHOWN]]
    more = len(arguments) - len(shown)
    return " ".join(shown) + (f" … {more} more" if more > 0 else "")


def _commands(commands: Sequence[tuple[bytes, CallStatistics]]) -> Markup:
    used = [(name, calls) for name, calls in commands if calls.calls]
    if not used:
        return element("p", "No command has run yet.", class_="empty")
    columns = [
        Column("command"),
        Column("calls", "number"),
        Column("mean", "number"),
        Column("p50", "number"),
        Column("p99", "number"),
        Column("total time", "number"),
        Column("failed", "number"),
        Column("rejected", "number"),
    ]
    rows = []
    for name, calls in sorted(used, key=lambda one: -one[1].usec):
        half, most = calls.percentiles((50, 99))
        rows.append(
            (
                element("code", words.name(name).upper().replace("|", " ")),
                words.count(calls.calls),
                words.microseconds(calls.usec / calls.calls),
                words.microseconds(half / 1_000),
                words.microseconds(most / 1_000),
                words.microseconds(calls.usec),
                words.count(calls.failed),
                words.count(calls.rejected),
            )
        )
    return table("Commands", columns, rows)


def _tunables(own: pb.StatusReply, *, may_operate: bool) -> Markup:
    rows = [
        (
            element("code", one.name),
            element(
                "span",
                one.value,
                " ",
                act_link("Change…", one.name, act_path("tune", [("parameter", one.name)]))
                if may_operate and one.allowed
                else None,
            ),
            ", ".join(one.allowed) or words.UNKNOWN,
        )
        for one in own.tunables
    ]
    return table("Tunables", [Column("name"), Column("value"), Column("allowed", "long")], rows)
