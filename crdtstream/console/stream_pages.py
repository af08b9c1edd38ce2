"""Pages about keys: all streams, one stream with its entries, the history of one entry."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final
from urllib.parse import urlencode

from crdtstream.console import words
from crdtstream.console.action_pages import pending_path
from crdtstream.console.asked import NO_RIGHT, NO_RIGHT_ADVICE
from crdtstream.console.bounded_reading import (
    GROUPS_SHOWN,
    KEYS_LOOKED_AT,
    Entry,
    EntryPage,
    GroupFacts,
    KeyPage,
    StreamFacts,
)
from crdtstream.console.figure_pages import facts_list
from crdtstream.console.layout import Column, bar, problem, region_mark, section, table
from crdtstream.core.ids import Millis, RegionId, StreamId, format_id, id_ms
from crdtstream.metrics.walk import Found
from crdtstream.page.markup import Child, Markup, element

PATTERN_LENGTH_MAX: Final = 256
TIME_LENGTH_MAX: Final = 40
LONGEST_SHOWN: Final = 5


def streams_path(**parameters: str) -> str:
    return _path("/console/streams", parameters)


def stream_path(key: bytes, **parameters: str) -> str:
    return _path("/console/stream", {"key": key, **parameters})


def entry_path(key: bytes, entry_id: StreamId) -> str:
    return _path("/console/entry", {"key": key, "id": format_id(entry_id)})


def _path(path: str, parameters: Mapping[str, str | bytes]) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path


# --- All streams ----------------------------------------------------------------------------------


def streams(
    found: KeyPage,
    most: Sequence[Child],
    *,
    pattern: str,
    is_first: bool,
    key_count: int,
    now: Millis,
) -> list[Child]:
    """A page of streams, with a search above it, and ``most`` in between."""
    return [
        _search(pattern),
        *most,
        section(
            "Streams" if not pattern else "Streams that match",
            _stream_table(found.streams, now)
            if found.streams
            else problem(*_nothing(found, pattern, is_first=is_first)),
            element("p", _looked_at(found, key_count), class_="quiet"),
            _more(found, pattern, is_first=is_first),
        ),
    ]


def _search(pattern: str) -> Markup:
    return element(
        "form",
        element("label", "Key or pattern", for_="pattern"),
        element(
            "input",
            id="pattern",
            name="pattern",
            type="search",
            value=pattern,
            maxlength=str(PATTERN_LENGTH_MAX),
            placeholder="orders:*",
            autocomplete="off",
            spellcheck="false",
        ),
        element("button", "Search", type="submit"),
        action="/console/streams",
        method="get",
        role="search",
        class_="search",
    )


def _nothing(found: KeyPage, pattern: str, *, is_first: bool) -> tuple[str, str]:
    if found.cursor:
        return (
            f"None of the {words.count(found.looked_at)} keys of this page matches.",
            "Go on to the next page, or search for the key itself.",
        )
    if found.hidden:
        return ("This user may read none of these streams.", NO_RIGHT_ADVICE)
    if pattern:
        return ("No stream matches.", "A pattern is as of KEYS: * is any text, ? one character.")
    if is_first:
        return (
            "There are no streams yet.",
            "XADD makes one: redis-cli XADD messages '*' text hello",
        )
    return ("There are no more streams.", "Go back to the first page.")


def _looked_at(found: KeyPage, key_count: int) -> str:
    text = (
        f"Looked at {words.number_of(found.looked_at, 'key')} of {words.count(key_count)},"
        f" {words.count(KEYS_LOOKED_AT.value)} at most for a page."
    )
    if found.hidden:
        text += f" {words.number_of(found.hidden, 'stream')} hidden: this user may not read them."
    return text


def _more(found: KeyPage, pattern: str, *, is_first: bool) -> Markup | None:
    links = []
    if not is_first:
        links.append(element("a", "First page", href=streams_path(pattern=pattern)))
    if found.cursor:
        further = streams_path(pattern=pattern, cursor=str(found.cursor))
        links.append(element("a", "Next page", href=further, rel="next"))
    return element("nav", links, class_="pager", aria_label="Pages of streams") if links else None


def _stream_table(found: Sequence[StreamFacts], now: Millis) -> Markup:
    columns = [
        Column("stream", "key"),
        Column("entries", "number"),
        Column("lanes", "curve"),
        Column("by region", "long"),
        Column("rate", "number"),
        Column("last entry", "number"),
        Column("groups", "number"),
    ]
    rows = [
        (
            element("a", words.name(one.key), href=stream_path(one.key)),
            words.count(one.length),
            bar([(lane.region, lane.length) for lane in one.lanes], most=one.length),
            _by_region(one),
            words.rate(one.rate),
            _age(one.last_id, now),
            words.count(one.group_count),
        )
        for one in found
    ]
    return table("Streams", columns, rows)


def _by_region(one: StreamFacts) -> Markup:
    return element(
        "span",
        [
            element("span", region_mark(lane.region), f" {words.count(lane.length)}", class_="lane")
            for lane in one.lanes
        ],
        class_="lane-list",
    )


def _age(entry_id: StreamId, now: Millis) -> str:
    """Time since the time in an ID, or the ID if it has none."""
    if not entry_id:
        return words.UNKNOWN
    if not _is_time(entry_id, now):
        return format_id(entry_id).decode()
    return words.ago(max(0, now - id_ms(entry_id)))


def _time_of(entry_id: StreamId, now: Millis) -> list[str]:
    """The time in an ID, and nothing if it has none."""
    return [words.moment(id_ms(entry_id))] if _is_time(entry_id, now) else []


def _is_time(entry_id: StreamId, now: Millis) -> bool:
    """True if the ID is likely to have been made of a clock: IDs such as 5-1 are not."""
    return now - TIME_AGO_MS_MAX < id_ms(entry_id) < now + TIME_AHEAD_MS_MAX


# IDs of another time are taken for numbers that a client chose.
TIME_AGO_MS_MAX: Final = 50 * 365 * 86_400_000
TIME_AHEAD_MS_MAX: Final = 86_400_000


def most(
    found: Found, may_read: Callable[[bytes], bool], may_open: Callable[[bytes, bytes], bool]
) -> list[Child]:
    """Streams with the most entries, and groups with the most to do, of those that may be read.

    Args:
        may_open: true of a stream and group whose page the viewer may see.
    """
    streams_ = [
        (element("a", words.name(one.key), href=stream_path(one.key)), words.count(one.entries))
        for one in found.longest_streams
        if may_read(one.key)
    ]
    groups = [
        (
            element(
                "span",
                element("a", words.name(one.key), href=stream_path(one.key)),
                " · ",
                element("a", words.name(one.name), href=pending_path(one.key, one.name))
                if may_open(one.key, one.name)
                else element("code", words.name(one.name)),
            ),
            words.UNKNOWN if one.lag is None else words.count(one.lag),
            words.count(one.pending),
            words.count(one.consumers),
        )
        for one in found.busiest_groups
        if one.unfinished and may_read(one.key)
    ]
    parts: list[Child] = []
    if streams_:
        columns = [Column("stream", "key"), Column("entries", "number")]
        parts.append(
            section("Longest", table("Longest streams", columns, streams_[:LONGEST_SHOWN]))
        )
    if groups:
        columns = [
            Column("stream · group", "key"),
            Column("to deliver", "number"),
            Column("pending", "number"),
            Column("consumers", "number"),
        ]
        parts.append(
            section("Groups with the most to do", table("Groups", columns, groups[:LONGEST_SHOWN]))
        )
    return [element("div", parts, class_="beside even")] if parts else []


# --- One stream -----------------------------------------------------------------------------------


def stream(
    facts: StreamFacts,
    groups: Sequence[GroupFacts],
    entries: EntryPage | None,
    *,
    at: str,
    is_first: bool,
    now: Millis,
    has_pending_page: bool,
) -> list[Child]:
    """One stream.

    Args:
        at: the time that was asked for, as it was written; empty: none.
        has_pending_page: the viewer may see the pending entries of its groups.
        entries: None: the viewer may not read them.
    """
    return [
        element("p", element("a", "← Streams", href="/console/streams")),
        element(
            "div",
            section("Lanes", _lanes(facts, now), note="A lane has the entries of one region."),
            section(
                "Groups",
                _groups(facts, groups, has_pending_page=has_pending_page),
                note="Delivered and pending are of this region; acknowledged runs are of all.",
            ),
            class_="beside even",
        ),
        section(
            "Entries",
            _jump(facts.key, at) if entries is not None else None,
            problem(NO_RIGHT, NO_RIGHT_ADVICE)
            if entries is None
            else _timeline(facts.key, entries, is_first=is_first, now=now),
            note="All lanes merged by ID, the newest first, as XREVRANGE.",
        ),
    ]


def _lanes(facts: StreamFacts, now: Millis) -> Markup:
    all_ = sum(lane.length for lane in facts.lanes)
    columns = [
        Column("region"),
        Column("entries", "number"),
        Column("share", "curve"),
        Column("rate", "number"),
        Column("last entry", "number"),
        Column("added ever", "number"),
    ]
    rows = [
        (
            element("span", region_mark(lane.region), f" region {lane.region}"),
            words.count(lane.length),
            bar([(lane.region, lane.length)], most=all_),
            words.rate(lane.rate),
            _age(lane.last_id, now),
            words.count(lane.added),
        )
        for lane in facts.lanes
    ]
    return table("Lanes", columns, rows)


def _groups(facts: StreamFacts, groups: Sequence[GroupFacts], *, has_pending_page: bool) -> Markup:
    if not groups:
        return element("p", "No group reads this stream.", class_="empty")
    left_out = facts.group_count - len(groups)
    return element(
        "div",
        [_group(facts.key, one, has_pending_page=has_pending_page) for one in groups],
        element("p", f"{words.number_of(left_out, 'group')} more", class_="quiet")
        if left_out > 0
        else None,
    )


def _group(key: bytes, one: GroupFacts, *, has_pending_page: bool) -> Markup:
    facts = [
        f"{words.number_of(one.consumers, 'consumer')} here",
        f"{words.count(one.undelivered)} to deliver",
        f"{words.count(one.pending)} pending",
        f"mode {one.mode}" + ("" if one.home is None else f", home in region {one.home}"),
    ]
    columns = [
        Column("lane"),
        Column("delivered up to", "number"),
        Column("acknowledged up to", "number"),
        Column("pending", "number"),
    ]
    rows = [
        (
            element("span", region_mark(lane.region)),
            element("code", _id(lane.delivered)),
            element("code", _id(lane.frontier)),
            words.count(lane.pending),
        )
        for lane in one.lanes
    ]
    name = words.name(one.name)
    return element(
        "article",
        element("h3", name),
        element("p", " · ".join(facts), class_="quiet"),
        element(
            "p",
            element(
                "a", f"Consumers and pending entries of {name}", href=pending_path(key, one.name)
            ),
        )
        if has_pending_page
        else None,
        table(f"Lanes of group {name}", columns, rows),
    )


def _jump(key: bytes, at: str) -> Markup | None:
    """A form for a time; None for a key that a form cannot send, which is sent as UTF-8."""
    try:
        name = key.decode()
    except UnicodeDecodeError:
        return None
    return element(
        "form",
        element("input", type="hidden", name="key", value=name),
        element("label", "Up to (UTC)", for_="at"),
        element(
            "input",
            id="at",
            name="at",
            value=at,
            maxlength=str(TIME_LENGTH_MAX),
            placeholder="2026-11-28 18:30",
            autocomplete="off",
            spellcheck="false",
        ),
        element("button", "Show", type="submit"),
        action="/console/stream",
        method="get",
        class_="search",
    )


def _timeline(key: bytes, page: EntryPage, *, is_first: bool, now: Millis) -> Markup:
    if not page.entries:
        return element("p", "No entries." if is_first else "No more entries.", class_="empty")
    pager = []
    if not is_first:
        pager.append(element("a", "Newest", href=stream_path(key)))
    if page.next_id is not None:
        older = stream_path(key, up_to=format_id(page.next_id).decode())
        pager.append(element("a", "Older", href=older, rel="next"))
    return element(
        "div",
        element("ol", [_entry(key, one, now) for one in page.entries], class_="timeline"),
        element("nav", pager, class_="pager", aria_label="Pages of entries") if pager else None,
    )


def _entry(key: bytes, one: Entry, now: Millis) -> Markup:
    left_out = one.fields_left_out
    return element(
        "li",
        element(
            "div",
            region_mark(one.origin),
            element("a", format_id(one.id).decode(), href=entry_path(key, one.id)),
            element("small", " · ".join([*_time_of(one.id, now), words.size(one.size)])),
            class_="entry-head",
        ),
        _fields(one, _VALUE_LENGTH),
        element("p", f"{words.number_of(left_out, 'field')} more", class_="quiet")
        if left_out
        else None,
        class_=f"entry r{one.origin % 8}",
    )


def _fields(one: Entry, value_length: int) -> Markup:
    return element(
        "dl",
        [
            element(
                "div",
                element("dt", words.name(field)),
                element("dd", words.name(value, value_length)),
            )
            for field, value in one.fields
        ],
        class_="fields",
    )


_VALUE_LENGTH: Final = 240
_WHOLE_VALUE_LENGTH: Final = 1 << 16


# --- One entry ------------------------------------------------------------------------------------


def entry(
    key: bytes,
    entry_id: StreamId,
    found: Sequence[dict[str, object]],
    entries: Sequence[Entry] | None,
) -> list[Child]:
    """The entries with one ID, by lane: what is in them, and their history.

    Args:
        entries: those that are in the stream; None: the viewer may not read them.
    """
    fields = {one.origin: one for one in entries or ()}
    back = stream_path(key, up_to=format_id(entry_id).decode())
    return [
        element("p", element("a", f"← {words.name(key)}", href=back)),
        *(
            [
                section(_entry_title(one), _history(one), _content(one, fields, entries is None))
                for one in found
            ]
            or [
                section(
                    "No such entry",
                    problem(
                        "This region has no entry with this ID, and remembers none.",
                        "It was removed, or it was never here. CRDT.WHY answers the same.",
                    ),
                )
            ]
        ),
    ]


def _content(
    one: dict[str, object], fields: Mapping[RegionId, Entry], is_hidden: bool
) -> Markup | None:
    if is_hidden:
        return problem(NO_RIGHT, NO_RIGHT_ADVICE)
    found = None if "collapsed-into" in one else fields.get(RegionId(_number(one["origin"])))
    if found is None:
        return None
    left_out = found.fields_left_out
    return element(
        "div",
        element("h3", "Fields"),
        _fields(found, _WHOLE_VALUE_LENGTH),
        element(
            "p",
            f"{words.number_of(left_out, 'field')} more; XRANGE answers with all of them.",
            class_="quiet",
        )
        if left_out
        else None,
    )


def _entry_title(one: dict[str, object]) -> str:
    what = "Collapsed entry" if "collapsed-into" in one else "Entry"
    return f"{what} of region {one['origin']}"


def _history(one: dict[str, object]) -> Markup:
    arrived = one.get("arrived")
    facts: list[tuple[str, Child]] = [
        (
            "origin",
            element(
                "span", region_mark(RegionId(_number(one["origin"]))), f" region {one['origin']}"
            ),
        ),
        ("dot", element("code", _text(one["dot"]))),
    ]
    if arrived:
        facts.append(("came to this region", words.moment(_number(arrived)) + " UTC"))
    if "bytes" in one:
        facts.append(("size", words.size(_number(one["bytes"]))))
    if one.get("producer") is not None:
        facts.append(("producer", element("code", _text(one["producer"]))))
        facts.append(("idempotent id", element("code", _text(one["idempotent-id"]))))
    if one.get("duplicates") is not None:
        facts.append(("retries recognised here", words.count(_number(one["duplicates"]))))
    if "collapsed-into" in one:
        facts.append(("collapsed into", element("code", _text(one["collapsed-into"]))))
        facts.append(("whose dot is", element("code", _text(one["collapsed-into-dot"]))))
    groups = one.get("groups")
    return element(
        "div",
        facts_list(facts),
        _states(groups) if isinstance(groups, dict) and groups else None,
    )


# State words of CRDT.WHY, in a sentence.
STATES: Final = {
    "pending": "delivered here and not acknowledged",
    "acknowledged": "acknowledged here; other regions do not know it yet",
    "covered-by-frontier": "acknowledged, and all regions learn it",
    "undelivered": "not delivered yet",
    "before-start": "older than the start of the group",
    "passed-over": "given up or jumped over",
}


def _states(groups: dict[object, object]) -> Markup:
    columns = [Column("group", "key"), Column("state", "long"), Column("details", "long")]
    rows = []
    for name, facts in islice(groups.items(), GROUPS_SHOWN):
        assert isinstance(facts, dict)
        state = _text(facts["state"])
        rows.append((str(name), STATES.get(state, state), _details(facts)))
    left_out = len(groups) - len(rows)
    return element(
        "div",
        table("State in each group", columns, rows),
        element("p", f"{words.number_of(left_out, 'group')} more", class_="quiet")
        if left_out
        else None,
    )


def _details(facts: dict[object, object]) -> str:
    parts = []
    if facts.get("consumer") is not None:
        parts.append(f"consumer {_text(facts['consumer'])}")
    if "delivery-count" in facts:
        parts.append(f"delivered {words.number_of(_number(facts['delivery-count']), 'time')}")
    idle = facts.get("idle")
    if isinstance(idle, int) and idle >= 0:
        parts.append(f"idle for {words.duration(idle)}")
    if facts.get("handed-out-by") is not None:
        parts.append(f"region {facts['handed-out-by']} delivers it")
    return ", ".join(parts)


def _id(entry_id: StreamId) -> str:
    return format_id(entry_id).decode() if entry_id else words.UNKNOWN


def _text(value: object) -> str:
    return words.name(value) if isinstance(value, bytes) else str(value)


def _number(value: object) -> int:
    assert isinstance(value, int), "CRDT.XINFO and CRDT.WHY say it so"
    return value
