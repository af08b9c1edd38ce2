"""Tables of ``rladmin status``: the columns that Redis Enterprise documents, and tables of our own.

    nodes, databases, endpoints, shards     titles and order as documented, so scripts can read them
    modules                                 empty: a region has none
    links, streams, groups                  what Redis Enterprise has no table for

A cluster of Redis Enterprise is all regions here, a node is a region, and the database has one
shard in each of them.  A column that has no meaning here keeps its place, with what is true: N/A,
or the same value everywhere.  Columns of a group are shown only if ``extra`` names it.

Always so: rows carry values, and text is made of them last (``rladmin_values.py``), so that sorting
and JSON see numbers.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crdtstream.admin.client import Survey, ends_of, link_state
from crdtstream.cli.rladmin_values import Room, Size, Value
from crdtstream.command_line.printable import printable
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb

DB_ID: Final = "db:1"
ALL: Final = "all"
# As documented; `traffic_manually_disabled` has no column of its own there either.
EXTRAS: Final = (
    *(ALL, "backups", "frag", "nodestats", "rack_id", "redis_version", "shardstats"),
    *("state_machine", "traffic_manually_disabled", "watchdog"),
    # Ours, and no part of `all`.
    "address",
)
MODULE_EXTRAS: Final = (ALL, "compatible_redis_version", "min_redis_version", "module_id")
# Columns of this group are in `extra all`, and in no other.
_ONLY_ALL: Final = "only all"
_SLOTS: Final = "0-16383"
OK: Final = "OK"
DOWN: Final = "DOWN"


class Column(NamedTuple):
    """A title, and the group of columns that shows it; empty: always shown."""

    title: str
    extra: str = ""

    @property
    def key(self) -> str:
        """Its name in JSON: ``NODE:ID`` is ``node_id``."""
        return re.sub(r"\W", "_", self.title).lower()


NODES: Final = (
    *(Column("NODE:ID"), Column("ROLE"), Column("ADDRESS"), Column("EXTERNAL_ADDRESS")),
    *(Column("HOSTNAME"), Column("MASTERS", "nodestats"), Column("SLAVES", "nodestats")),
    *(Column("OVERBOOKING_DEPTH", "nodestats"), Column("SHARDS"), Column("CORES")),
    *(Column("FREE_RAM"), Column("PROVISIONAL_RAM"), Column("VERSION"), Column("SHA", _ONLY_ALL)),
    *(Column("RACK-ID", "rack_id"), Column("STATUS")),
)
DATABASES: Final = (
    *(Column("DB:ID"), Column("NAME"), Column("TYPE"), Column("STATUS"), Column("SHARDS")),
    *(Column("PLACEMENT"), Column("REPLICATION"), Column("PERSISTENCE"), Column("ENDPOINT")),
    *(Column("EXEC_STATE", "state_machine"), Column("EXEC_STATE_MACHINE", "state_machine")),
    *(Column("BACKUP_PROGRESS", "backups"), Column("MISSING_BACKUP_TIME", "backups")),
    Column("REDIS_VERSION", "redis_version"),
)
ENDPOINTS: Final = (
    *(Column("DB:ID"), Column("NAME"), Column("ID"), Column("NODE"), Column("ROLE")),
    *(Column("SSL"), Column("WATCHDOG_STATUS", "watchdog"), Column("ADDRESS", "address")),
)
SHARDS: Final = (
    *(Column("DB:ID"), Column("NAME"), Column("ID"), Column("NODE"), Column("ROLE")),
    *(Column("SLOTS"), Column("USED_MEMORY"), Column("BACKUP_PROGRESS", "backups")),
    *(Column("RAM_FRAG", "frag"), Column("WATCHDOG_STATUS", "watchdog"), Column("STATUS")),
)
MODULES: Final = (
    *(Column("MODULE"), Column("VERSION"), Column("MIN_REDIS_VERSION", "min_redis_version")),
    *(Column("COMPATIBLE_REDIS_VERSION", "compatible_redis_version"), Column("ID", "module_id")),
)
DATABASE_MODULES: Final = (
    *(Column("DB:ID"), Column("NAME"), Column("MODULE"), Column("VERSION"), Column("ARGS")),
    Column("STATUS"),
)
LINKS: Final = (
    *(Column("FROM"), Column("TO"), Column("STATUS"), Column("LAG_MS"), Column("LAG_EFFECTS")),
    Column("ERROR"),
)
STREAMS: Final = (
    *(Column("DB:ID"), Column("NODE"), Column("STREAM"), Column("ENTRIES"), Column("LANES")),
    Column("GROUPS"),
)
GROUPS: Final = (
    *(Column("DB:ID"), Column("NODE"), Column("STREAM"), Column("GROUP"), Column("CONSUMERS")),
    *(Column("PENDING"), Column("LAG")),
)


class Row(NamedTuple):
    """Values, in the order of all columns of the table.

    Attributes:
        nodes: those that it is about; none: all.
        is_well: there is nothing to look into.
    """

    values: tuple[Value, ...]
    nodes: tuple[RegionId, ...] = ()
    is_well: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below a heading.

    Attributes:
        key: its name, as one types it and as JSON has it.
        heading: as rladmin writes it.
    """

    key: str
    heading: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """All regions, as they have just answered.

    Attributes:
        found: the answers.
        asked: the region that was asked first.
        names: of members, by region, as ``crdtstream crdb list`` shows them.
    """

    found: Survey
    asked: RegionId
    names: Mapping[RegionId, str]

    @property
    def reply(self) -> pb.StatusReply:
        """The answer of the region that was asked first."""
        return self.found.replies[self.asked]

    @property
    def down(self) -> dict[RegionId, str]:
        """Regions that do not answer, as far as others name them, and their addresses."""
        return {
            RegionId(link.peer): link.address
            for reply in self.found.replies.values()
            for link in reply.links
            if link.address in self.found.unreachable and link.peer not in self.found.replies
        }

    @property
    def nodes(self) -> list[RegionId]:
        """All regions that are known, whether they answer or not, ascending."""
        return sorted({*self.found.replies, *self.down})

    @property
    def is_well(self) -> bool:
        faults = any(reply.fault for reply in self.found.replies.values())
        return not (self.found.unreachable or faults)


def tables_of(cluster: Cluster, key: str) -> list[Table]:
    """The tables of one name: two for ``modules``, else one."""
    heading, columns, rows = _MADE[key]
    table = Table(key, heading, columns, tuple(rows(cluster)))
    if key != "modules":
        return [table]
    return [table, Table("database_modules", "DATABASE MODULES:", DATABASE_MODULES, ())]


def shown_columns(table: Table, extras: Collection[str]) -> list[int]:
    """Places of the columns to show, in their order."""
    is_all = ALL in extras
    return [
        at
        for at, column in enumerate(table.columns)
        if not column.extra
        or column.extra in extras
        or (is_all and column.extra not in ("address", ""))
    ]


def sorted_rows(table: Table, titles: Sequence[str]) -> list[Row]:
    """Rows by the values of these columns; N/A is last, and equal ones keep their order."""
    places = [[column.title for column in table.columns].index(title) for title in titles]
    return sorted(table.rows, key=lambda row: [_rank(row.values[at]) for at in places])


def _rank(value: Value) -> tuple[int, object]:
    """A key by which values of one column can be compared: ``node:10`` is behind ``node:9``."""
    match value:
        case None:
            return (3, 0)
        case str():
            parts = re.split(r"(\d+)", value)
            return (2, [_rank_of_part(one) for one in parts])
        case Room():
            return (1, value)
        case _:
            return (0, value)


def _rank_of_part(text: str) -> tuple[int, str]:
    """Numbers by value, as by their digits: a node may report more of them than ``int`` takes."""
    if not text.isdecimal():
        return (-1, text)
    digits = text.lstrip("0")
    return (len(digits), digits)


# --- What Redis Enterprise shows ------------------------------------------------------------------


def _nodes(cluster: Cluster) -> Iterator[Row]:
    ends = ends_of(cluster.found)
    for node in cluster.nodes:
        address = cluster.found.addresses.get(node) or cluster.down[node]
        name = cluster.names.get(node) or f"region-{node}"
        reply = cluster.found.replies.get(node)
        state = _node_state(reply, is_removed=node in ends)
        room = None if reply is None else _room(reply)
        machine = pb.Machine() if reply is None else reply.machine
        yield Row(
            (
                *(f"node:{node}", "master", address.rpartition(":")[0], "", name),
                *(1, 0, None if room is None else room.free, "1/1", machine.cores or None),
                *(
                    _free_ram(machine),
                    room,
                    None if reply is None else reply.version,
                    None,
                    "-",
                    state,
                ),
            ),
            (node,),
            state == OK,
        )


def _free_ram(machine: pb.Machine) -> Room | None:
    if not machine.memory:
        return None
    return Room(Size(machine.memory_free), Size(machine.memory))


def _room(reply: pb.StatusReply) -> Room | None:
    """Memory that entries may still take; None: it has no bound."""
    most = reply.storage.maxmemory
    if not most:
        return None
    return Room(Size(most - reply.storage.used_memory), Size(most))


def _node_state(reply: pb.StatusReply | None, *, is_removed: bool) -> str:
    if reply is None:
        return DOWN
    if is_removed or reply.member_status == pb.MemberStatus.Status.REMOVED:
        return "REMOVED"
    if reply.member_status == pb.MemberStatus.Status.JOINING:
        return "JOINING"
    return f"FAULT: {reply.fault}" if reply.fault else OK


def _databases(cluster: Cluster) -> Iterator[Row]:
    reply = cluster.reply
    status = "active" if cluster.is_well else "degraded"
    yield Row(
        (
            *(DB_ID, reply.database_id, "redis", status, 1, "dense"),
            *("enabled" if len(cluster.nodes) > 1 else "disabled", "aof", reply.resp_address),
            *(None, None, None, None, tunable(reply, "redis-version")),
        ),
        is_well=cluster.is_well,
    )


def _endpoints(cluster: Cluster) -> Iterator[Row]:
    for node in cluster.nodes:
        reply = cluster.found.replies.get(node)
        state = _watchdog(reply)
        yield Row(
            (
                *(DB_ID, cluster.reply.database_id, f"endpoint:1:{node}", f"node:{node}"),
                *("all-nodes", None if reply is None else reply.resp_tls, state),
                None if reply is None else reply.resp_address,
            ),
            (node,),
            state == OK,
        )


def _shards(cluster: Cluster) -> Iterator[Row]:
    for node in cluster.nodes:
        reply = cluster.found.replies.get(node)
        state = _watchdog(reply)
        used = None if reply is None else Size(reply.storage.used_memory)
        yield Row(
            (
                *(DB_ID, cluster.reply.database_id, f"redis:{node}", f"node:{node}", "master"),
                *(_SLOTS, used, None, None, state, state),
            ),
            (node,),
            state == OK,
        )


def _watchdog(reply: pb.StatusReply | None) -> str:
    if reply is None:
        return DOWN
    return "FAULT" if reply.fault else OK


def _modules(_cluster: Cluster) -> Iterator[Row]:
    return iter(())


# --- What only we have ----------------------------------------------------------------------------


def _links(cluster: Cluster) -> Iterator[Row]:
    for node, reply in cluster.found.replies.items():
        for link in reply.links:
            state = link_state(link)
            yield Row(
                (
                    *(f"node:{link.peer}", f"node:{node}", state, link.lag_ms, link.lag_effects),
                    link.error or "-",
                ),
                (RegionId(link.peer), node),
                state == "up",
            )


def _streams(cluster: Cluster) -> Iterator[Row]:
    for node, stream in _all_streams(cluster):
        lanes = " ".join(f"{lane.origin}:{lane.entries}" for lane in stream.lanes)
        yield Row(
            (
                *(DB_ID, f"node:{node}", printable(stream.key), stream.entries, lanes or "-"),
                len(stream.groups),
            ),
            (node,),
        )


def _groups(cluster: Cluster) -> Iterator[Row]:
    for node, stream in _all_streams(cluster):
        for group in stream.groups:
            yield Row(
                (
                    *(DB_ID, f"node:{node}", printable(stream.key), printable(group.name)),
                    *(group.consumers, group.pending, group.lag),
                ),
                (node,),
            )


def _all_streams(cluster: Cluster) -> Iterator[tuple[RegionId, pb.StreamStatus]]:
    """By key, then by region: rows of one stream stand together."""
    found = [
        (stream.key, node, stream)
        for node, reply in cluster.found.replies.items()
        for stream in reply.streams
    ]
    for _, node, stream in sorted(found, key=lambda one: one[:2]):
        yield node, stream


def tunable(reply: pb.StatusReply, name: str) -> str | None:
    return next((one.value for one in reply.tunables if one.name == name), None)


_MADE: Final[Mapping[str, tuple[str, tuple[Column, ...], Callable[[Cluster], Iterator[Row]]]]] = {
    "nodes": ("CLUSTER NODES:", NODES, _nodes),
    "databases": ("DATABASES:", DATABASES, _databases),
    "endpoints": ("ENDPOINTS:", ENDPOINTS, _endpoints),
    "shards": ("SHARDS:", SHARDS, _shards),
    "modules": ("CLUSTER MODULES:", MODULES, _modules),
    "links": ("LINKS:", LINKS, _links),
    "streams": ("STREAMS:", STREAMS, _streams),
    "groups": ("GROUPS:", GROUPS, _groups),
}
TABLES: Final = tuple(_MADE)
# Of `status` without a table: those that Redis Enterprise shows, and the links.
USUAL_TABLES: Final = ("nodes", "databases", "endpoints", "shards", "links")
TITLES: Final = {
    key: tuple(column.title for column in columns) for key, (_, columns, _) in _MADE.items()
}
