"""The page of a group: its consumers, and its pending entries.

Chosen by marks, entries are acknowledged or claimed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from crdtstream.console import words
from crdtstream.console.action_pages import ACT, packed, pending_path
from crdtstream.console.layout import Column, region_mark, section, table
from crdtstream.console.pending import ConsumerFacts, PendingEntry, PendingPage
from crdtstream.console.stream_pages import entry_path, stream_path
from crdtstream.core.ids import ID_MIN, RegionId, StreamId, format_id
from crdtstream.page.markup import Child, Markup, element
from crdtstream.v1 import admin_pb2 as pb

# In an address: all entries of the page are marked.
ALL: Final = b"all"


def pending(
    key: bytes,
    group: bytes,
    found: PendingPage,
    consumers: Sequence[ConsumerFacts] | None,
    progress: Mapping[int, pb.GroupProgress | str] | None,
    *,
    here: RegionId,
    start: StreamId,
    are_chosen: bool,
    may_acknowledge: bool,
    may_claim: bool,
) -> list[Child]:
    """The page; buttons for what the viewer may do.

    Args:
        consumers: the first of ``found.consumer_count``; None: the viewer may not see them.
        progress: of the group by region, or why it is not known; None: the viewer may not see it.
        start: the ID from which on it shows entries.
        are_chosen: all of them are marked.
    """
    is_home = found.home is None or found.home == here
    buttons: list[Child] = []
    if may_acknowledge:
        buttons.append(_button("Acknowledge…", "acknowledge"))
    if may_claim and is_home:
        buttons.append(_button("Claim…", "claim"))
    can_choose = bool(buttons and found.entries)
    rows = [_row(key, one, can_choose=can_choose, is_chosen=are_chosen) for one in found.entries]
    entries: Child = element("p", "Nothing is pending in this region.", class_="empty")
    if rows:
        entries = table("Pending entries", _COLUMNS, rows)
    if can_choose:
        entries = element(
            "form",
            packed([("key", key), ("group", group)]),
            _choosing(key, group, start, are_chosen=are_chosen),
            entries,
            element("p", "Chosen entries: ", buttons, class_="decide"),
            method="get",
        )
    return [
        element("p", element("a", f"← {words.name(key)}", href=stream_path(key))),
        section(
            f"{words.number_of(found.count, 'entry', 'entries')} pending in region {here}",
            _home(found, here),
            entries,
            _pager(key, group, found, is_first=start == ID_MIN),
            note="Delivered in this region and not acknowledged, by ID, as XPENDING.",
        ),
        None
        if consumers is None
        else section(
            f"{words.number_of(found.consumer_count, 'consumer')} in region {here}",
            _consumers(consumers, found.consumer_count),
            note="As XINFO CONSUMERS; other regions have consumers of their own.",
        ),
        None
        if progress is None
        else section(
            "Progress in all regions",
            _progress(progress),
            note="What each region has still to deliver, and has pending with its consumers.",
        ),
    ]


def _progress(progress: Mapping[int, pb.GroupProgress | str]) -> Markup:
    regions = [
        Column("region"),
        Column("consumers", "number"),
        Column("to deliver", "number"),
        Column("pending", "number"),
    ]
    lanes = [
        Column("region"),
        Column("lane"),
        Column("delivered up to", "number"),
        Column("acknowledged up to", "number"),
        Column("pending", "number"),
    ]
    found = sorted((one, of) for one, of in progress.items() if isinstance(of, pb.GroupProgress))
    unknown = sorted((one, why) for one, why in progress.items() if isinstance(why, str))
    return element(
        "div",
        table(
            "Progress of the regions",
            regions,
            [
                (
                    region_mark(region),
                    words.count(of.consumers),
                    words.count(of.undelivered),
                    words.count(sum(lane.pending for lane in of.lanes)),
                )
                for region, of in found
            ],
        ),
        element("h3", "In each lane"),
        table(
            "Progress in the lanes",
            lanes,
            [
                (
                    region_mark(region),
                    region_mark(lane.lane),
                    _id(lane.delivered),
                    _id(lane.acknowledged),
                    words.count(lane.pending),
                )
                for region, of in found
                for lane in of.lanes
            ],
        ),
        [
            element("p", f"Region {region} is not known: {why}.", class_="quiet")
            for region, why in unknown
        ],
    )


def _id(text: bytes) -> Child:
    return words.UNKNOWN if text == format_id(ID_MIN) else element("code", text.decode())


def _consumers(consumers: Sequence[ConsumerFacts], count: int) -> Markup:
    if not consumers:
        return element("p", "No consumer has read in this region.", class_="empty")
    columns = [
        Column("consumer", "key"),
        Column("pending", "number"),
        Column("asked", "number"),
        Column("got entries", "number"),
    ]
    rows = [
        (
            words.name(one.name),
            words.count(one.pending),
            _ago(one.idle_ms),
            "never" if one.inactive_ms is None else _ago(one.inactive_ms),
        )
        for one in consumers
    ]
    left_out = count - len(consumers)
    return element(
        "div",
        table("Consumers", columns, rows),
        element("p", f"{words.number_of(left_out, 'consumer')} more", class_="quiet")
        if left_out
        else None,
    )


def _ago(ms: int) -> str:
    return f"{words.duration(ms)} ago"


_COLUMNS = [
    Column("entry"),
    Column("lane"),
    Column("consumer", "key"),
    Column("idle for", "number"),
    Column("delivered", "number"),
]


def _choosing(key: bytes, group: bytes, start: StreamId, *, are_chosen: bool) -> Markup:
    """A way to mark all entries of the page, which works without scripts."""
    further = {} if start == ID_MIN else {"start": format_id(start).decode()}
    if are_chosen:
        link = element("a", "Choose none", href=pending_path(key, group, **further))
    else:
        path = pending_path(key, group, **further, choose=ALL.decode())
        link = element("a", "Choose all of this page", href=path)
    return element("p", link)


def _row(key: bytes, one: PendingEntry, *, can_choose: bool, is_chosen: bool) -> list[Child]:
    text = format_id(one.id).decode()
    link = element("a", text, href=entry_path(key, one.id))
    mark = element(
        "input",
        type="checkbox",
        name="id",
        value=text,
        checked="" if is_chosen else None,
        aria_label=f"Choose {text}",
    )
    return [
        element("span", mark if can_choose else None, link, class_="choice"),
        region_mark(one.lane),
        "none" if one.consumer is None else words.name(one.consumer),
        words.UNKNOWN if one.consumer is None else words.duration(one.idle_ms),
        words.number_of(one.delivery_count, "time"),
    ]


def _button(text: str, action: str) -> Markup:
    return element("button", text, type="submit", formaction=f"{ACT}{action}")


def _home(found: PendingPage, here: RegionId) -> Markup | None:
    if found.home is None or found.home == here:
        return None
    return element(
        "p",
        f"Region {found.home} delivers this group alone. What is pending here can be acknowledged"
        " here; entries are claimed in the console of that region.",
    )


def _pager(key: bytes, group: bytes, found: PendingPage, *, is_first: bool) -> Markup | None:
    links = []
    if not is_first:
        links.append(element("a", "First page", href=pending_path(key, group)))
    if found.next_id is not None:
        further = pending_path(key, group, start=format_id(found.next_id).decode())
        links.append(element("a", "Next page", href=further, rel="next"))
    if not links:
        return None
    return element("nav", links, class_="pager", aria_label="Pages of pending entries")
