"""``crdtstream status``: shows every region and its links, as the region reports them."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from google.protobuf.message import Message
from rich.table import Table

from crdtstream.admin.client import Survey, ends_of, lacking, link_state, vv_of
from crdtstream.cli.tables import new_table, print_table, print_text
from crdtstream.command_line.exit import FAILED
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.printable import printable, printable_lines
from crdtstream.command_line.reach import Reach, find_regions
from crdtstream.command_line.watching import WatchOption, print_json, watched
from crdtstream.core.clock import format_vv
from crdtstream.core.ids import RegionId
from crdtstream.secrets.password_marks import do_passwords_differ
from crdtstream.v1 import admin_pb2, effects_pb2


@with_groups
def status(
    reach: Reach,
    as_json: JsonOption = False,
    streams: Annotated[
        bool, typer.Option("--with-streams", help="Streams and groups too; reads every key.")
    ] = False,
    watch: WatchOption = None,
) -> None:
    """Show regions, and links with their lag in milliseconds and effects.

    Example: crdtstream status --address 127.0.0.1:7381

    Exit status: 0 every region answered, 1 at least one did not.
    """
    addresses, login = reach.addresses(), reach.login()

    def show() -> None:
        found = find_regions(addresses, login, with_streams=streams)
        if as_json:
            print_json(_plain(found), watch=watch)
        else:
            for table in tables(found, streams=streams):
                print_table(table)
            for reason in reasons(found):
                print_text(reason)
        for why in found.unreachable.values():
            typer.echo(f"error: {printable_lines(why)}", err=True)
        raise typer.Exit(code=FAILED if found.unreachable else 0)

    watched(watch, show, as_json=as_json)


def tables(found: Survey, *, streams: bool) -> Iterator[Table]:
    """All tables, in their order."""
    yield _regions(found)
    yield _links(found)
    yield _storage(found)
    if any(is_shown(reply.bootstrap) for reply in found.replies.values()):
        yield _bootstraps(found)
    if streams:
        yield _streams(found)


def _regions(found: Survey) -> Table:
    uids = sorted(
        {reply.database_uid or "without identity yet" for reply in found.replies.values()}
    )
    table = new_table(
        f"regions of database {' and of '.join(uids)}" if uids else "regions",
        ">region", "RESP", "gRPC", "state", "version vector", ">lacks", ">keys", ">clients",
    )  # fmt: skip
    vvs = {region: vv_of(reply.vv) for region, reply in found.replies.items()}
    ends = ends_of(found)
    members = [region for region in vvs if region not in ends]
    lacks = lacking(vvs, regions=members, peers=members, ends=ends)
    for region, reply in found.replies.items():
        table.add_row(
            str(region),
            reply.resp_address,
            reply.grpc_address,
            _state(reply, is_removed=RegionId(region) in ends),
            # As in tokens: for a region that goes on in another folder, with its incarnation.
            reply.token.rpartition("/")[2] or format_vv(vvs[region]) or "-",
            str(sum(lacks.get(region, {}).values())),
            str(reply.keys),
            str(reply.clients),
        )
    for address in found.unreachable:
        table.add_row("?", "", address, "unreachable", "", "", "", "")
    return table


def _state(reply: admin_pb2.StatusReply, *, is_removed: bool) -> str:
    """State of a region for its clients, in a word or two."""
    if is_removed or reply.member_status == admin_pb2.MemberStatus.Status.REMOVED:
        return "removed"
    if reply.member_status == admin_pb2.MemberStatus.Status.JOINING:
        return "joins"
    return "refuses writes" if reply.fault else "ok"


def _links(found: Survey) -> Table:
    table = new_table(
        "links (from → to)",
        "link", "state", ">lag ms", ">p99", ">lag effects", ">effects", ">batches", ">KiB", "note",
    )  # fmt: skip
    for region, reply in found.replies.items():
        for link in reply.links:
            relayed = ", ".join(map(str, link.relayed_origins))
            table.add_row(
                f"{link.peer} → {region}",
                link_state(link),
                str(link.lag_ms),
                str(link.lag_ms_p99),
                str(link.lag_effects),
                str(link.effects_received),
                str(link.batches_received),
                f"{link.bytes_received / 1024:.0f}",
                f"relays {relayed}" if relayed else "",
            )
    return table


def reasons(found: Survey) -> Iterator[str]:
    """Problems, each in full: a column of a table would be too narrow for sentences."""
    for region, reply in found.replies.items():
        if reply.fault:
            yield f"region {region} refuses writes: {reply.fault}"
        if reply.bootstrap.failure:
            yield (
                f"region {region} could not get the state of a peer; it tries again by itself: "
                f"{reply.bootstrap.failure}"
            )
        for leaving in reply.leaving:
            silent = ", ".join(map(str, leaving.silent))
            waits = f"; not heard yet: region {silent}" if silent else ""
            yield (
                f"region {leaving.region} was removed, and region {region} still looks for its last"
                f" effects in the others{waits}"
            )
        for link in reply.links:
            if link.error:
                yield f"link {link.peer} → {region} ({link_state(link)}): {link.error}"
    yield from _differing_users(found)
    if do_passwords_differ(*(reply.password_mark for reply in found.replies.values())):
        regions = ", ".join(map(str, sorted(found.replies)))
        yield (
            f"regions {regions} do not all take the same password, so clients that move to another "
            "region may be refused; set the same requirepass in all"
        )


def _differing_users(found: Survey) -> Iterator[str]:
    """Regions whose users are not the same, by their hashes; a node that says none agrees."""
    by_hash: dict[str, list[str]] = {}
    for region, reply in found.replies.items():
        if reply.users_hash:
            shown = f"{region} (epoch {reply.users_epoch})" if reply.users_epoch else str(region)
            by_hash.setdefault(reply.users_hash, []).append(shown)
    if len(by_hash) > 1:
        told = "; ".join(f"{users}: region {', '.join(of)}" for users, of in by_hash.items())
        yield (
            f"users and rights differ between the regions ({told}): "
            "give all the same by `crdtstream crdb acl push FILE`"
        )


def is_shown(bootstrap: admin_pb2.BootstrapStatus) -> bool:
    """True if a region gets the state of another one, or tried to."""
    return bool(bootstrap.source or bootstrap.failure or bootstrap.taken_over)


def _bootstraps(found: Survey) -> Table:
    """Table of regions that get the state of another one, as they cannot catch up by logs."""
    table = new_table(
        "state of another region (bootstrap), MiB",
        "from → to", "phase", ">images", ">done", ">of", ">MiB/s", ">s left", ">taken over",
        ">failed",
    )  # fmt: skip
    for region, reply in found.replies.items():
        one = reply.bootstrap
        if not is_shown(one):
            continue
        table.add_row(
            f"{one.source or '-'} → {region}",
            admin_pb2.BootstrapStatus.Phase.Name(one.phase).lower(),
            f"{one.images_done} of {one.images}",
            _mebibytes(one.bytes_done),
            _mebibytes(one.bytes),
            _mebibytes(one.bytes_per_s),
            str(one.seconds_left or "-"),
            str(one.taken_over),
            str(one.failures),
        )
    return table


def _storage(found: Survey) -> Table:
    """Table of each region's memory and disk, and the regions that its log is kept for."""
    table = new_table(
        "memory and disk, MiB",
        ">region", ">memory", ">folder", ">log", ">checkpoints", "checkpoint", "log is kept for",
    )  # fmt: skip
    for region, reply in found.replies.items():
        storage = reply.storage
        table.add_row(
            str(region),
            _of(storage.used_memory, storage.maxmemory),
            _of(storage.disk_bytes, storage.maxdisk),
            _mebibytes(reply.log_bytes),
            _mebibytes(storage.checkpoint_bytes),
            _checkpoint(reply),
            "\n".join(_kept(kept, reply.now_ms) for kept in storage.kept) or "-",
        )
    return table


def _checkpoint(reply: admin_pb2.StatusReply) -> str:
    """Age of the checkpoint, and the number of records since."""
    storage = reply.storage
    if storage.checkpoint_in_progress:
        return "being written"
    if not storage.checkpoint_ms:
        return "none"
    age_s = max(0, reply.now_ms - storage.checkpoint_ms) // 1000
    return f"{age_s} s ago, {storage.last_seq - storage.checkpoint_seq} records since"


def keeping_word(kept: admin_pb2.Kept) -> str:
    """Words for what the log is kept for, for one region."""
    if kept.keeping == admin_pb2.Kept.Keeping.NOTHING:
        return "has all"
    return admin_pb2.Kept.Keeping.Name(kept.keeping).lower().replace("_", " ")


def _kept(kept: admin_pb2.Kept, now_ms: int) -> str:
    """Text for one region for which the log is kept, or which has all."""
    word = keeping_word(kept)
    if kept.keeping == admin_pb2.Kept.Keeping.NOTHING:
        return f"{kept.region}: {word}"
    since_s = max(0, now_ms - kept.since_ms) // 1000
    return f"{kept.region}: {word}, {_mebibytes(kept.bytes)}, for {since_s} s"


def _of(size: int, most: int) -> str:
    return f"{_mebibytes(size)} of {_mebibytes(most)}" if most else _mebibytes(size)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f}"


def _streams(found: Survey) -> Table:
    table = new_table("streams", "stream", ">region", ">entries", "by lane", "groups: pending, lag")
    rows = [
        (stream.key, region, stream)
        for region, reply in found.replies.items()
        for stream in reply.streams
    ]
    for key, region, stream in sorted(rows, key=lambda row: row[:2]):
        groups = [f"{printable(g.name)}: {g.pending}, {g.lag}" for g in stream.groups]
        table.add_row(
            printable(key),
            str(region),
            str(stream.entries),
            " ".join(f"{lane.origin}:{lane.entries}" for lane in stream.lanes),
            "\n".join(groups),
        )
    return table


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _plain(found: Survey) -> dict[str, Any]:
    return {
        "regions": [_plain_message(reply) for reply in found.replies.values()],
        "unreachable": found.unreachable,
    }


def _plain_message(message: Message) -> Any:
    """A message as JSON has it: every field by name, version vectors as objects."""
    if isinstance(message, effects_pb2.VersionVector):
        return dict(vv_of(message))
    return {
        field.name: _plain_field(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
    }


def _plain_field(field: Any, value: Any) -> Any:
    if field.is_repeated:
        return [_plain_value(field, one) for one in value]
    return _plain_value(field, value)


def _plain_value(field: Any, value: Any) -> Any:
    match value:
        case Message():
            return _plain_message(value)
        case bytes():
            return _text(value)
        case int() if field.enum_type is not None:
            return field.enum_type.values_by_number[value].name.lower()
        case _:
            return value
