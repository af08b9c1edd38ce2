"""The texts of a picture, each by a name: a page shows them, and a browser replaces what changes.

    link.2-1.lag        12 ms             region.1.state     ok
    link.2-1.rate       1 204/s           node.memory.nodes  10.2 MiB

Curves are numbers by the name of a cell's subject: ``2-1.lag`` in ms, ``2-1.rate`` in effects per
second.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from crdtstream.console import words
from crdtstream.console.picture import LinkView, Picture, RegionView
from crdtstream.v1 import admin_pb2 as pb

Cells: TypeAlias = dict[str, str]
_Phase: TypeAlias = pb.BootstrapStatus.Phase
_PERCENT: Final = 100


def cells_of(picture: Picture) -> Cells:
    """All texts of a picture."""
    return {
        **dict(_totals(picture)),
        **dict(_of_node(picture)),
        **{name: text for one in picture.regions for name, text in _of_region(one)},
        # For a page whose node is silent.
        **{
            f"region.{one.region}.url": one.console_url
            for one in picture.regions
            if one.console_url and one.region != picture.own.region
        },
        **{name: text for link in picture.links for name, text in _of_link(link)},
    }


def curves_of(picture: Picture) -> dict[str, float | None]:
    """The newest point of each curve; None: unknown."""
    found: dict[str, float | None] = {}
    for link in picture.links:
        found[f"{link.name}.lag"] = None if link.status is None else link.lag_ms
        rate = link.effects_rate
        found[f"{link.name}.rate"] = None if rate is None else round(rate, 1)
    rate = picture.commands_rate
    found["node.commands"] = None if rate is None else round(rate, 1)
    found["node.memory"] = picture.own.storage.used_memory
    return found


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """Values that are new or other ones."""
    return {name: value for name, value in after.items() if before.get(name, _NONE) != value}


_NONE: Final = object()
# Of a region, unknown without its report.
_REGION_FIGURES: Final = (
    *("keys", "clients", "writes", "memory", "disk", "log", "lacks", "version", "up"),
)


def _totals(picture: Picture) -> Iterator[tuple[str, str]]:
    live = [one for one in picture.regions if one.member != "removed"]
    well = sum(one.state == "ok" for one in live)
    links = picture.links
    up = sum(link.state == "up" for link in links)
    lags_ms = [link.lag_ms for link in links if link.status is not None]
    writes = [one.writes_rate for one in live if one.writes_rate is not None]
    yield "total.regions", f"{well} of {len(live)}"
    yield "total.regions.state", "ok" if well == len(live) else "bad"
    yield "total.links", f"{up} of {len(links)}"
    yield "total.links.state", "ok" if up == len(links) else "warn"
    yield "total.lag", words.duration(max(lags_ms)) if lags_ms else words.UNKNOWN
    yield "total.writes", words.rate(sum(writes) if writes else None)
    yield "total.keys", words.count(picture.own.keys)
    yield "total.clients", words.count(picture.own.clients)
    yield "at", words.clock(picture.own.now_ms)


def _of_region(one: RegionView) -> Iterator[tuple[str, str]]:
    name, status = f"region.{one.region}", one.status
    yield f"{name}.state", one.state
    yield f"{name}.resp", one.resp_address or words.UNKNOWN
    if status is None:
        for figure in _REGION_FIGURES:
            yield f"{name}.{figure}", words.UNKNOWN
        yield f"{name}.note", one.reason
        return
    storage = status.storage
    yield f"{name}.keys", words.count(status.keys)
    yield f"{name}.clients", words.count(status.clients)
    yield f"{name}.writes", words.rate(one.writes_rate)
    yield f"{name}.memory", words.size_of(storage.used_memory, storage.maxmemory)
    yield f"{name}.disk", words.size_of(storage.disk_bytes, storage.maxdisk)
    yield f"{name}.log", words.size(status.log_bytes)
    yield f"{name}.lacks", words.count(one.lacks)
    yield f"{name}.version", status.version
    yield f"{name}.up", words.uptime(max(0, status.now_ms - status.started_ms))
    yield f"{name}.note", status.fault
    yield from _of_bootstrap(name, status.bootstrap)


def _of_bootstrap(name: str, one: pb.BootstrapStatus) -> Iterator[tuple[str, str]]:
    is_copying = one.phase == _Phase.COPYING
    share = _PERCENT * one.bytes_done // one.bytes if one.bytes else 0
    yield f"{name}.bootstrap.phase", _Phase.Name(one.phase).lower() if one.source else "idle"
    yield f"{name}.bootstrap.source", f"region {one.source}" if one.source else words.UNKNOWN
    yield f"{name}.bootstrap.done", words.size_of(one.bytes_done, one.bytes)
    yield f"{name}.bootstrap.share", f"{share} %" if one.bytes else words.UNKNOWN
    yield (
        f"{name}.bootstrap.left",
        words.duration(one.seconds_left * 1_000)
        if is_copying and one.seconds_left
        else words.UNKNOWN,
    )
    yield f"{name}.bootstrap.count", words.count(one.taken_over)
    yield f"{name}.bootstrap.failures", words.count(one.failures)


def _of_link(link: LinkView) -> Iterator[tuple[str, str]]:
    name, status = f"link.{link.name}", link.status
    yield f"{name}.state", link.state
    yield f"{name}.action", "Resume…" if link.state == "paused" else "Pause…"
    if status is None:
        for figure in ("lag", "label", "p99", "behind", "rate", "bytes"):
            yield f"{name}.{figure}", words.UNKNOWN
        yield f"{name}.note", f"region {link.to} does not report it"
        return
    yield f"{name}.lag", words.duration(link.lag_ms)
    yield f"{name}.label", words.in_one_unit(link.lag_ms)
    yield f"{name}.p99", words.duration(status.lag_ms_p99)
    yield f"{name}.behind", words.count(status.lag_effects)
    yield f"{name}.rate", words.rate(link.effects_rate)
    yield f"{name}.bytes", words.size_rate(link.bytes_rate)
    yield f"{name}.note", _note(status)


def _note(status: pb.LinkStatus) -> str:
    if status.error:
        return status.error
    if status.relayed_origins:
        return f"relays {', '.join(map(str, status.relayed_origins))}"
    return ""


def _of_node(picture: Picture) -> Iterator[tuple[str, str]]:
    own, node = picture.own, picture.node
    storage = own.storage
    yield "node.commands", words.rate(picture.commands_rate)
    yield "node.received", words.size_rate(picture.received_rate)
    yield "node.sent", words.size_rate(picture.sent_rate)
    yield "node.clients", f"{words.count(own.clients)} of {words.count(node.clients_max)}"
    yield "node.blocked", words.count(node.clients_blocked)
    yield "node.memory", words.size_of(storage.used_memory, storage.maxmemory)
    for part, bytes_ in node.memory.items():
        yield f"node.memory.{part}", words.size(bytes_)
    yield "node.disk", words.size_of(storage.disk_bytes, storage.maxdisk)
    yield "node.disk.log", words.size(own.log_bytes)
    yield "node.disk.checkpoints", words.size(storage.checkpoint_bytes)
    yield "node.disk.wal", words.size(node.wal_bytes)
    yield "node.checkpoint", _checkpoint(own)
    yield "node.unreplicated", _unreplicated(picture)
    yield "node.inbox", f"{words.count(own.inbox_batches)} ({words.size(own.inbox_bytes)})"
    for kept in storage.kept:
        yield f"node.kept.{kept.region}", _kept(kept, own.now_ms)


def _checkpoint(own: pb.StatusReply) -> str:
    storage = own.storage
    if storage.checkpoint_in_progress:
        return "being written"
    if not storage.checkpoint_ms:
        return "none yet"
    age_ms = max(0, own.now_ms - storage.checkpoint_ms)
    since = words.number_of(storage.last_seq - storage.checkpoint_seq, "record")
    return f"{words.ago(age_ms)}, {since} since"


def _unreplicated(picture: Picture) -> str:
    node = picture.node
    if not node.lag_effects:
        return "none"
    return f"{words.number_of(node.lag_effects, 'effect')}, for {words.duration(node.lag_ms)}"


def _kept(kept: pb.Kept, now_ms: int) -> str:
    if kept.keeping == pb.Kept.Keeping.NOTHING:
        return "has all"
    word = pb.Kept.Keeping.Name(kept.keeping).lower().replace("_", " ")
    return f"{word}, {words.size(kept.bytes)}, for {words.duration(max(0, now_ms - kept.since_ms))}"
