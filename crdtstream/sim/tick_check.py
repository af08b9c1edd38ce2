"""Judges the end of a tick: ``Region.ready`` calls only parts that have marked something.

A part that forgets its mark is left alone for as long as nothing else happens: a reply, a deadline
or news would come too late, or never.  Here all parts are asked, whatever they have marked.
"""

from collections.abc import Iterator

from crdtstream.core.ids import Millis
from crdtstream.region.ready import Ready
from crdtstream.region.region import Region


def forgotten(
    region: Region, ready: Ready, before: Ready, now: Millis, *, was_open: bool
) -> list[str]:
    """Names of what a tick that has just ended left undone, or did without having been opened.

    Args:
        before: the Ready before this one.
        was_open: a part opened the tick: a node would have asked for its Ready.
    """
    found = list(_undone(region, ready, now))
    # Once a deadline has passed, a node would have passed the time, whatever else happens.
    is_due = before.deadline is not None and before.deadline <= now
    if not was_open and not is_due:
        found += _unopened(ready, before)
        # The bound of the lag sets its deadline as each tick ends, by a size that is drawn again
        # when another node starts.
        if ready.deadline != region.staleness.deadline.at and _is_earlier(ready, before):
            found.append("an earlier deadline")
    return found


def _undone(region: Region, ready: Ready, now: Millis) -> Iterator[str]:
    database, replica, tick = region.database, region.replica, region.tick
    if region.folder.next_change != ready.folder:
        yield "folder"
    if replica.has_untaken_records or replica.take_cold():
        yield "records, or what they need from disk"
    if database.open_writes.sessions and not replica.has_open_changes:
        yield "clients whose writes are to be measured"
    if region.staleness.lag.now != now:
        yield "lag"
    for serve in region.links.serves.values():
        if serve.is_quiet and not tick.has_quiet_links:
            yield "a quiet link"
        if database.awaits_news and not serve.told_awaited:
            yield "news that are awaited"
    times = [*region.deadlines.all_set(), *_times_of_clients(region)]
    if times and (ready.deadline is None or ready.deadline > min(times)):
        yield "deadline"


def _times_of_clients(region: Region) -> Iterator[Millis]:
    """Times at which a client that waits, or a key, has something to do."""
    for waiter in region.database.waiting.all():
        if waiter.scheduled_at is not None:
            yield waiter.scheduled_at
    replica = region.replica
    for deadlines in (replica.stream_deadlines, replica.string_deadlines):
        for at, _ in deadlines.values():
            if at > replica.keys.now:
                yield at


def _unopened(ready: Ready, before: Ready) -> Iterator[str]:
    if ready.records or ready.parcels or ready.woken or ready.links or ready.notices:
        yield "something to hand on"
    if ready.letters:
        yield "letters"
    if ready.applies and not before.applies:
        yield "batches to apply"


def _is_earlier(ready: Ready, before: Ready) -> bool:
    if ready.deadline is None:
        return False
    return before.deadline is None or ready.deadline < before.deadline
