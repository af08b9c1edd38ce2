"""Cutting the log: it finds what each member lacks, asks the region what may go, and cuts that."""

from collections.abc import Awaitable, Callable
from typing import Final

from crdtstream.core.clock import VersionVector, covers, format_vv
from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.region import Region
from crdtstream.region.retention import Lack
from crdtstream.store.errors import StoreError
from crdtstream.store.layout import ABSENCES_KEY, parse_vv
from crdtstream.store.log import Log

# Fewer records than this are not worth a write to the disk.
CUT_RECORDS_MIN: Final = 64


async def read_absences(region: Region, log: Log) -> None:
    """Load the absences of members from before the start of a region.

    Raises:
        StoreError: what was stored is damaged.
    """
    text = await log.get_meta(ABSENCES_KEY) or ""
    try:
        region.retention.note_absences(parse_vv(text))
    except ValueError as error:
        raise StoreError(f"the log's setting {ABSENCES_KEY} is damaged: {error}") from error


async def _keep_absences(region: Region, log: Log) -> None:
    """Store the absences when they have changed: a member disconnected, or returned."""
    text = format_vv(region.retention.absences)
    if text != (await log.get_meta(ABSENCES_KEY) or ""):
        await log.set_meta(ABSENCES_KEY, text)


async def look_at_log(region: Region, log: Log, now: Millis) -> int:
    """Look what the log is kept for; return the last record that may be cut.

    Cost: one look-up of the log for each member and origin of which it lacks effects, and one more
    for each origin with effects that no member has.

    Raises:
        StoreError: the log cannot be read.
    """
    retention = region.retention
    lacks: dict[RegionId, Lack] = {}
    for member, durable_vv in retention.will_have_vvs.items():
        seq = await _first_beyond(durable_vv, region, log)
        # If a member lacks something it is never 0, which would mean that it has all.
        size = max(1, await log.bytes_from(seq)) if seq <= log.last_seq else 0
        lacks[member] = Lack(seq, size)
    retention.log_bytes = await log.bytes_from(log.first_seq)
    only_copy_seq = await _first_beyond(retention.elsewhere_vv, region, log)
    return retention.cut_upto(lacks, region.links.serves, now, only_copy_seq=only_copy_seq)


async def _first_beyond(vv: VersionVector, region: Region, log: Log) -> int:
    """First record with effects that ``vv`` does not cover, else the next one to be written."""
    if not covers(vv, log.begins):
        # Some of what ``vv`` lacks was cut: where it begins to lack records is unknown by now.
        return log.first_seq
    outstanding = region.outstanding
    lacking = [origin for origin, n in outstanding.logged_vv.items() if n > vv.get(origin, 0)]
    # While nothing lacks anywhere, as in a region that rests, the log is not asked at all.
    return await log.seek(vv, lacking) if lacking else outstanding.logged_seq + 1


async def cut_log(
    region: Region,
    log: Log,
    cut: Callable[[int], Awaitable[None]],
    now: Millis,
    *,
    records_min: int = CUT_RECORDS_MIN,
) -> int:
    """Cut records that are not needed; return their number.

    The region hears of it before the cut begins, so that no link reads what is being cut; and then
    of its outcome.

    Args:
        cut: removes the records up to one, durably, and frees their space; if it fails, it may be
            called again.
        records_min: a smaller number is not cut.

    Raises:
        StoreError: the log cannot be read, or cut, or the absences cannot be stored.
    """
    retention = region.retention
    upto_seq = await look_at_log(region, log, now)
    await _keep_absences(region, log)
    first_seq = log.first_seq
    if upto_seq - first_seq + 1 < records_min:
        return 0
    retention.cutting_seq = upto_seq
    try:
        await cut(upto_seq)
    finally:
        region.log.note_beginning(log.first_seq, log.begins)
    return log.first_seq - first_seq
