"""Delivery: what a group's mode lets this region do (``rules`` 13).

With ``home`` one region alone delivers new entries and passes pending ones on; elsewhere the error
names that region.  ``partitioned``: each region delivers its own lane.  What is pending in a region
is read again, acknowledged and given back there in any mode.
"""

from collections.abc import Iterable

from crdtstream.commands.arguments import as_sent
from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import Mode
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import RegionId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane


def require_home(region: RegionId, key: bytes, name: bytes, group: Group) -> None:
    """Refuse what only the home may do.

    Raises:
        CommandError: NOTHOME, if another region alone delivers the group.
    """
    home = group.home
    if group.mode.mode is Mode.HOME and home != region:
        group_name, key_name = as_sent(name), as_sent(key)
        raise CommandError(
            f"NOTHOME Group '{group_name}' of key '{key_name}' is handed out by region {home} "
            f"only: read it there, or move it with CRDT.XGROUP SETMODE {key_name} {group_name} "
            f"home {region} (there, or here with FORCE if region {home} is lost)"
        )


def lanes_handed_out(region: RegionId, stream: Stream, group: Group) -> Iterable[Lane]:
    """The lanes whose new entries this region delivers."""
    if group.mode.mode is Mode.AT_LEAST_ONCE:
        return stream.lanes.values()
    return [lane for lane in stream.lanes.values() if group.hands_out(lane.region)]


def undelivered_count(region: RegionId, stream: Stream, group: Group) -> int:
    """Number of entries that ``>`` would still deliver here; exact, unlike Redis's lag."""
    return group.undelivered_count(lanes_handed_out(region, stream, group))
