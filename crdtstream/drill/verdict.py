"""Figures from records: the losses, repetitions and delays, and how long they lasted.

A pure function of the clients' records.  Words:

    row       (producer, n): an entry that a producer wanted in the stream
    entry     an entry in a stream: (stream, ID); it names its row
    good      answered, and not by an error

Reasons why an entry is delivered more than once:

    claimed        XAUTOCLAIM took it over from a consumer that did not acknowledge it in time
    other region   a region delivered it that had not yet heard of the acknowledgement: the mode
                   at-least-once, or a home that moved
    same region    one region delivered it twice as new; nothing explains that
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from crdtstream.drill.drill import Drill, Group, Herd, Producers
from crdtstream.drill.outcome import (
    Consumed,
    Latency,
    LoadMade,
    Mark,
    MarkKind,
    Phase,
    Produced,
    Read,
    Stall,
    Throughput,
)
from crdtstream.drill.plan import LAGGED, MISCONF
from crdtstream.drill.records import (
    Acknowledged,
    Client,
    Found,
    Given,
    How,
    Late,
    Moved,
    Outcome,
    Record,
    Request,
    Sent,
    lane_of,
)

CLAIMED: Final = "claimed"
OTHER_REGION: Final = "other region"
SAME_REGION: Final = "same region"
PRODUCERS: Final = ("plain", "idempotent", "multidb")
# Lateness of the load's own loop, for one in a hundred looks, beyond which latencies are its own.
LATE_MS_MAX: Final = 50.0
# A client without a good answer for longer than this has felt the fault.
HIT_SECONDS: Final = 1.0
BIN_SECONDS: Final = 0.5
FINDINGS_MAX: Final = 12
# Of the rows that are due while all is well, at least this share is sent while it is.
BEGUN_SHARE_MIN: Final = 0.9

Row = tuple[str, int]
Entry = tuple[str, str]


@dataclass(slots=True)
class Records:
    """All records of a drill, by kind, in the order in which each client wrote them."""

    clients: dict[str, Client] = field(default_factory=dict)
    requests: dict[str, list[Request]] = field(default_factory=lambda: defaultdict(list))
    sent: dict[Row, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    given: dict[str, list[Given]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: dict[str, list[Acknowledged]] = field(default_factory=lambda: defaultdict(list))
    moves: dict[str, list[Moved]] = field(default_factory=lambda: defaultdict(list))
    late: list[Late] = field(default_factory=list)
    found: dict[int, dict[Entry, Row]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Records":
        made = cls()
        for record in records:
            made._add(record)
        return made

    def _add(self, record: Record) -> None:
        match record:
            case Client():
                self.clients[record.name] = record
            case Request():
                self.requests[record.client].append(record)
            case Sent():
                self.sent[record.client, record.n].append(record)
            case Given():
                self.given[record.client].append(record)
            case Acknowledged():
                self.acknowledged[record.client].append(record)
            case Moved():
                self.moves[record.client].append(record)
            case Late():
                self.late.append(record)
            case Found():
                row = (record.producer, record.n)
                self.found[record.region][record.stream, record.entry_id] = row

    @property
    def entries(self) -> dict[Entry, Row]:
        """Content of the streams of any region at the end."""
        return {entry: row for region in self.found.values() for entry, row in region.items()}

    def of_kind(self, *kinds: str) -> list[Client]:
        return [client for client in self.clients.values() if client.kind in kinds]


def listed(findings: Iterable[str]) -> list[str]:
    """The findings that a report lists: of each kind, up to its colon, the first ones.

    The number of further ones is a finding of its own.
    """
    by_kind: dict[str, list[str]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.partition(":")[0]].append(finding)
    found: list[str] = []
    for kind, each in by_kind.items():
        found += each[:FINDINGS_MAX]
        if len(each) > FINDINGS_MAX:
            found.append(f"{kind}: {len(each) - FINDINGS_MAX} more, not listed here")
    return found


def seconds_of(marks: Iterable[Mark], kind: MarkKind) -> list[float]:
    return [mark.at for mark in marks if mark.kind is kind]


# --- Producers --------------------------------------------------------------------------------


def produced(records: Records, regions: Iterable[int], findings: list[str]) -> list[Produced]:
    """Fate of the rows, by kind of producer; finds for each lost row where it had been.

    Args:
        regions: whose streams were read, in which each acknowledged row must be.
    """
    # Not only regions in which something was found: a region without entries lost everything.
    standing = {region: Counter(records.found[region].values()) for region in sorted(regions)}
    everywhere = Counter(records.entries.values())
    figures: dict[str, Counter[str]] = defaultdict(Counter)
    for row, attempts in sorted(records.sent.items()):
        figure = figures[records.clients[row[0]].kind]
        answered = [attempt for attempt in attempts if attempt.outcome == Outcome.OK]
        if answered:
            figure["acknowledged"] += 1
            missing = [region for region, rows in standing.items() if not rows[row]]
            if missing:
                figure["lost"] += 1
                findings.append(
                    f"lost: row {row[1]} of {row[0]}: region {answered[0].region} answered"
                    f" {answered[0].entry_id} of {answered[0].stream};"
                    f" missing in region {', '.join(map(str, missing))}"
                )
        elif all(attempt.outcome == Outcome.REFUSED for attempt in attempts):
            figure["refused"] += 1
        else:
            figure["unknown"] += 1
        again = everywhere[row] - 1
        if again > 0:
            figure["repeated"] += again
            if any(attempt.outcome == Outcome.UNKNOWN for attempt in attempts[:-1]):
                figure["repeated_after_unknown"] += again
    names = list(Produced.model_fields)[1:]
    return [
        Produced(kind=kind, **{name: figure[name] for name in names})
        for kind, figure in sorted(figures.items())
    ]


# --- Consumers and readers --------------------------------------------------------------------


def consumed(records: Records, group: Group, findings: list[str]) -> Consumed:
    """Deliveries to the consumers of one group."""
    members = [each for each in records.of_kind("consumer") if each.group == group.name]
    deliveries: dict[Entry, list[Given]] = defaultdict(list)
    disorder = 0
    acknowledged: set[Entry] = set()
    for member in members:
        given = records.given[member.name]
        for each in given:
            deliveries[each.stream, each.entry_id].append(each)
        disorder += _out_of_order(each for each in given if each.how == How.NEW)
        for ack in records.acknowledged[member.name]:
            if ack.outcome == Outcome.OK:
                acknowledged.update((ack.stream, entry_id) for entry_id in ack.entry_ids)
    again: Counter[str] = Counter()
    for entry, found in deliveries.items():
        reasons = _reasons(found)
        again.update(reasons)
        if SAME_REGION in reasons:
            findings.append(
                f"delivered twice as new in one region: {entry[1]} of {entry[0]}, to "
                + ", ".join(f"{each.client} in region {each.region}" for each in found)
            )
    never = [entry for entry in records.entries if entry not in deliveries]
    findings += [
        f"never delivered to {group.name}: {entry_id} of {stream},"
        f" row {records.entries[stream, entry_id]}"
        for stream, entry_id in sorted(never)
    ]
    return Consumed(
        group=group.name,
        mode=group.mode if group.home is None else f"home {group.home}",
        delivered=sum(map(len, deliveries.values())),
        acknowledged=len(acknowledged),
        again=dict(again),
        out_of_order=disorder,
        never=len(never),
    )


def _reasons(deliveries: Sequence[Given]) -> list[str]:
    """Reason why an entry came again, for each time after the first."""
    found = []
    regions: set[int] = set()
    for at, each in enumerate(sorted(deliveries, key=lambda given: given.at)):
        if at:
            if each.how == How.CLAIMED:
                found.append(CLAIMED)
            else:
                found.append(SAME_REGION if each.region in regions else OTHER_REGION)
        if each.how == How.NEW:
            regions.add(each.region)
    return found


def _out_of_order(given: Iterable[Given]) -> int:
    """Number of entries behind a later one of the same producer, lane and stream, in one region."""
    last: dict[tuple[int, str, str, int], int] = {}
    count = 0
    for each in given:
        key = (each.region, each.stream, each.producer, lane_of(each.entry_id))
        if each.n < last.get(key, 0):
            count += 1
        last[key] = max(each.n, last.get(key, 0))
    return count


def read(records: Records, kind: str, findings: list[str]) -> Read:
    """Entries that the readers of one kind read, all together."""
    count = skipped = again = disorder = 0
    for reader in records.of_kind(kind):
        given = records.given[reader.name]
        times = Counter((each.stream, each.entry_id) for each in given)
        missing = sorted(entry for entry in records.entries if entry not in times)
        count += len(given)
        skipped += len(missing)
        again += len(given) - len(times)
        disorder += _out_of_order(given)
        if kind == "crdt.xread":
            findings += [
                f"skipped by {reader.name}: {entry_id} of {stream}" for stream, entry_id in missing
            ]
    return Read(kind=kind, read=count, skipped=skipped, again=again, out_of_order=disorder)


# --- Times ------------------------------------------------------------------------------------


def stall(records: Records, kind: str, marks: Sequence[Mark], began: float) -> Stall:
    """Time that clients of one kind were without a good answer."""
    # A herd's way is cut until the fault ends; what the herd waits for begins then.
    from_kind = MarkKind.END if kind == "herd" else MarkKind.FAULT
    faults = [began + at for at in seconds_of(marks, from_kind)]
    hit = 0
    longest = 0.0
    recovery: float | None = 0.0
    errors: Counter[str] = Counter()
    clients = records.of_kind(kind)
    may_move = any(client.moves for client in clients)
    for client in clients:
        requests = records.requests[client.name]
        good = sorted(each.ended for each in requests if each.outcome == Outcome.OK)
        gaps = [later - earlier for earlier, later in pairwise(good)]
        longest = max([longest, *gaps])
        errors.update(each.error for each in requests if each.outcome != Outcome.OK)
        hit += _is_hit(requests, good, faults)
        if client.moves == may_move:
            recovery = _worse(recovery, _recovery(requests, faults))
    return Stall(
        kind=kind,
        clients=len(clients),
        hit=hit,
        may_move=may_move,
        recovery_s=None if recovery is None else round(recovery, 3),
        longest_s=round(longest, 3),
        moves=sum(len(records.moves[client.name]) for client in clients),
        deceived=sum(_deceived(records, client) for client in clients),
        errors=dict(errors),
    )


def _deceived(records: Records, client: Client) -> int:
    """Times that it returned home because home had said that it was well, and was refused at once.

    LAGGED counts from the second time in a row: a bound comes and goes with the load, and may be
    reached in the moment between home's word and the request.
    """
    count = lagged = 0
    requests = iter(records.requests[client.name])
    for move in records.moves[client.name]:
        if move.trusts_health:
            first = next((each for each in requests if each.began >= move.at), None)
            error = "" if first is None else first.error
            lagged = lagged + 1 if error == LAGGED else 0
            count += error == MISCONF or lagged > 1
    return count


def _is_hit(requests: Sequence[Request], good: Sequence[float], faults: Sequence[float]) -> bool:
    if not faults:
        return False
    first = min(faults)
    failed = any(each.outcome != Outcome.OK and each.ended >= first for each in requests)
    return failed or any(
        later - earlier > HIT_SECONDS and later > first for earlier, later in pairwise(good)
    )


def _recovery(requests: Sequence[Request], faults: Sequence[float]) -> float | None:
    """The longest time without a good answer since faults had begun; None: the last had no end.

    It begins with the fault, or with the last good answer since: some time may pass until a client
    feels a fault (a rolling restart, a stop in good order), and good answers right after it do not
    mean that it has ended.  Only answers to requests begun after the fault count: others say
    nothing of what follows.
    """
    worst = 0.0
    last_good: Request | None = None
    since: float | None = None
    for each in requests:
        begun = [fault for fault in faults if fault <= each.ended]
        if not begun:
            continue
        fault = max(begun)
        is_good = each.outcome == Outcome.OK
        if since is None:
            if last_good is None or last_good.began < fault:
                since = fault
            else:
                # A client that had nothing to ask for a while did not wait.
                since = each.began if is_good else last_good.ended
        if is_good and each.began >= fault:
            worst = max(worst, each.ended - since)
            last_good, since = each, None
    # A client that had nothing more to ask is not without an answer.
    return worst if since is None or not _asked_after(requests, since) else None


def _asked_after(requests: Sequence[Request], moment: float) -> bool:
    return any(each.began >= moment for each in requests)


def _worse(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def latencies(records: Records, marks: Sequence[Mark], began: float) -> list[Latency]:
    """Latencies of producers' good answers, by the phase in which the request was due."""
    faults, ends = seconds_of(marks, MarkKind.FAULT), seconds_of(marks, MarkKind.END)
    first, last = min(faults, default=math.inf), max(ends, default=math.inf)
    found: dict[tuple[str, Phase], list[float]] = defaultdict(list)
    for client in records.of_kind(*PRODUCERS):
        for each in records.requests[client.name]:
            if each.outcome == Outcome.OK:
                due = each.due - began
                phase = Phase.AFTER if due > last else Phase.DURING
                phase = Phase.BEFORE if due < first else phase
                found[client.kind, phase].append((each.ended - each.due) * 1e3)
    return [
        Latency(
            kind=kind,
            phase=phase,
            count=len(values),
            p50_ms=percentile(values, 0.5),
            p99_ms=percentile(values, 0.99),
            p999_ms=percentile(values, 0.999),
            max_ms=round(max(values), 2),
        )
        for (kind, phase), values in sorted(
            found.items(), key=lambda item: (item[0][0], list(Phase).index(item[0][1]))
        )
    ]


def percentile(values: Sequence[float], rank: float) -> float:
    """The smallest value that at least this share of all does not exceed; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(rank * len(ordered)) - 1)], 2)


def throughput(records: Records, began: float, seconds: float) -> Throughput:
    """Throughput per second, in intervals of ``BIN_SECONDS``."""
    bins = max(1, math.ceil(seconds / BIN_SECONDS))

    def place(at: float) -> int:
        return min(bins - 1, max(0, int((at - began) / BIN_SECONDS)))

    acknowledged: dict[int, list[float]] = defaultdict(lambda: [0.0] * bins)
    for attempts in records.sent.values():
        for sent in attempts:
            if sent.outcome == Outcome.OK:
                acknowledged[sent.region][place(sent.ended)] += 1 / BIN_SECONDS
    delivered = [0.0] * bins
    for each in (each for found in records.given.values() for each in found):
        delivered[place(each.at)] += 1 / BIN_SECONDS
    return Throughput(
        at=[round((at + 1) * BIN_SECONDS, 2) for at in range(bins)],
        acknowledged=dict(sorted(acknowledged.items())),
        delivered=delivered,
    )


def load_made(
    records: Records, drill: Drill, marks: Iterable[Mark], began: float, seconds: float
) -> LoadMade:
    """Comparison of the load that was made with the one that the drill names.

    Args:
        seconds: time that it has lasted, waiting included.
    """
    producers = [item for item in drill.load if isinstance(item, Producers)]
    quiet = min([*seconds_of(marks, MarkKind.FAULT), drill.seconds, seconds])
    due, begun = _rows_due(producers, quiet), _rows_begun(records, began, quiet)
    asked = sum(item.clients * item.per_second for item in producers)
    herd = {client.name for client in records.of_kind("herd")}
    made = len([row for row in records.sent if row[0] not in herd]) / drill.seconds
    late_ms = percentile([late.seconds * 1e3 for late in records.late], 0.99)
    problem = ""
    if late_ms > LATE_MS_MAX:
        problem = (
            f"the load's own loop was late by {late_ms:.0f} ms (p99; at most {LATE_MS_MAX:.0f} is"
            " right): this machine is too busy for this load, so latencies are left out. Lower"
            " per_second or clients, or stop what else runs here"
        )
    elif any(records.requests.values()) and begun < BEGUN_SHARE_MIN * due:
        problem = (
            f"of {due} rows that were due before the first fault only {begun} were sent by then: a"
            " client sends one row at a time, and cannot make this rate here, so latencies are"
            " left out. Lower per_second, or take more clients"
        )
    elif any(isinstance(item, Herd) for item in drill.load) and not herd:
        problem = "the herd did not come back, so it was no herd"
    return LoadMade(
        asked_per_s=round(asked, 1),
        made_per_s=round(made, 1),
        late_ms_p99=late_ms,
        is_made=not problem,
        problem=problem,
    )


def _rows_due(producers: Iterable[Producers], seconds: float) -> int:
    """Number of rows that all producers should have begun, except each one's last, which may be
    late."""
    return sum(item.clients * max(0, int(seconds * item.per_second) - 1) for item in producers)


def _rows_begun(records: Records, began: float, seconds: float) -> int:
    """Number of rows begun by then; each row's requests are due at one moment."""
    return len(
        {
            (client.name, each.due)
            for client in records.of_kind(*PRODUCERS)
            for each in records.requests[client.name]
            if each.began < began + seconds
        }
    )
