"""The verdict is computed from records alone, and each thing that must not be turns it red."""

import pytest

from crdtstream.drill import verdict
from crdtstream.drill.drill import Group
from crdtstream.drill.outcome import Consumed, Mark, MarkKind, Phase, Produced
from crdtstream.drill.records import (
    Client,
    Found,
    Given,
    How,
    Moved,
    Outcome,
    Record,
    Request,
    decode,
    encode,
)
from tests.drill.recorded import (
    acknowledged,
    client,
    drill,
    found,
    given,
    late,
    records,
    request,
    sent,
)

GROUP = Group(name="g")
FAULT = Mark(at=2.0, kind=MarkKind.FAULT, what="region 1: kill -9")
END = Mark(at=4.0, kind=MarkKind.END, what="over")


def one_produced(made: verdict.Records) -> tuple[Produced, list[str]]:
    findings: list[str] = []
    [figures] = verdict.produced(made, (1, 2), findings)
    return figures, findings


def one_consumed(*given: Record | list[Found]) -> tuple[Consumed, list[str]]:
    findings: list[str] = []
    made = records(client("c", "consumer", group="g"), client("d", "consumer", group="g"), *given)
    return verdict.consumed(made, GROUP, findings), findings


# --- Producers --------------------------------------------------------------------------------


def test_an_acknowledged_row_that_one_region_lacks_is_lost() -> None:
    figures, findings = one_produced(records(sent(1), found(1), sent(2), found(2, regions=(1,))))
    assert (figures.acknowledged, figures.lost) == (2, 1)
    assert findings == ["lost: row 2 of p: region 1 answered 1002-1 of s; missing in region 2"]


def test_an_acknowledged_row_that_no_region_has_is_lost() -> None:
    figures, findings = one_produced(records(sent(1), found(1), sent(2)))
    assert figures.lost == 1
    assert findings[0].endswith("missing in region 1, 2")


def test_a_report_says_how_many_more_findings_there_are_than_it_lists() -> None:
    lost = [f"lost: row {n}" for n in range(21)]
    other = ["never delivered to g: 1-1 of s"]
    listed = verdict.listed([*lost, *other])
    assert listed == [*lost[:12], "lost: 9 more, not listed here", *other]
    assert verdict.listed(lost[:12]) == lost[:12]


def test_a_region_in_which_nothing_is_found_has_lost_it_all() -> None:
    figures, _ = one_produced(records(sent(1), sent(2)))
    assert figures.lost == 2
    figures, findings = one_produced(records(sent(1), found(1, regions=(1,))))
    assert figures.lost == 1
    assert findings[0].endswith("missing in region 2")


def test_a_row_without_an_answer_is_not_lost_and_not_acknowledged() -> None:
    figures, _ = one_produced(
        records(
            sent(1), found(1), sent(2, outcome=Outcome.UNKNOWN), sent(3, outcome=Outcome.REFUSED)
        )
    )
    assert (figures.acknowledged, figures.unknown, figures.refused, figures.lost) == (1, 1, 1, 0)


def test_a_row_that_was_refused_after_no_answer_may_be_there() -> None:
    figures, _ = one_produced(
        records(
            sent(1), found(1), sent(2, outcome=Outcome.UNKNOWN), sent(2, outcome=Outcome.REFUSED)
        )
    )
    assert (figures.unknown, figures.refused) == (1, 0)


def test_a_row_that_stands_twice_is_repeated_and_says_whether_it_was_sent_again() -> None:
    twice = [*found(1), *found(1, lane=2)]
    figures, _ = one_produced(records(sent(1), twice))
    assert (figures.repeated, figures.repeated_after_unknown) == (1, 0)
    figures, _ = one_produced(
        records(sent(1, outcome=Outcome.UNKNOWN), sent(1, region=2, attempt=2), twice)
    )
    assert (figures.repeated, figures.repeated_after_unknown) == (1, 1)


def test_a_retry_that_was_answered_at_last_is_acknowledged() -> None:
    figures, _ = one_produced(
        records(sent(1, outcome=Outcome.UNKNOWN), sent(1, attempt=2), found(1))
    )
    assert (figures.acknowledged, figures.unknown, figures.lost) == (1, 0, 0)


# --- Consumers and readers --------------------------------------------------------------------


def test_an_entry_that_no_consumer_was_given_is_never_delivered() -> None:
    figures, findings = one_consumed(sent(1), found(1), sent(2), found(2), given(1))
    assert figures.never == 1
    assert findings == ["never delivered to g: 1002-1 of s, row ('p', 2)"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (given(1, at=2, how=How.CLAIMED, to="d"), "claimed"),
        (given(1, at=2, region=2), "other region"),
        (given(1, at=2, to="d"), "same region"),
    ],
)
def test_why_an_entry_is_delivered_again(second: Given, reason: str) -> None:
    figures, findings = one_consumed(sent(1), found(1), given(1, at=1), second)
    assert figures.again == {reason: 1}
    assert bool(findings) == (reason == "same region")


def test_the_order_of_deliveries_is_their_time_not_that_of_the_clients() -> None:
    """The claim came first, by its time, and the region delivers it as new after that."""
    figures, _ = one_consumed(
        sent(1), found(1), given(1, at=5, region=2), given(1, at=1, to="d", region=1)
    )
    assert figures.again == {"other region": 1}


def test_only_answered_acknowledgements_count() -> None:
    figures, _ = one_consumed(
        sent(1), found(1), given(1), acknowledged(1), acknowledged(2, outcome=Outcome.UNKNOWN)
    )
    assert figures.acknowledged == 1


def test_a_lane_that_is_delivered_backwards_is_out_of_order() -> None:
    figures, _ = one_consumed(sent(1), sent(2), found(1), found(2), given(2), given(1))
    assert figures.out_of_order == 1


def test_lanes_that_overtake_each_other_are_not() -> None:
    """A producer that moved: its later row was there first, in another region's lane."""
    figures, _ = one_consumed(given(2, lane=2), given(1, lane=1))
    assert figures.out_of_order == 0


def test_a_lower_delivery_by_another_region_is_not_out_of_order() -> None:
    figures, _ = one_consumed(given(2, region=1), given(1, region=2))
    assert figures.out_of_order == 0


def test_readers_skip_and_repeat() -> None:
    findings: list[str] = []
    made = records(
        client("r", "crdt.xread"), found(1), found(2), given(2, to="r"), given(2, to="r")
    )
    figures = verdict.read(made, "crdt.xread", findings)
    assert (figures.read, figures.skipped, figures.again) == (2, 1, 1)
    assert findings == ["skipped by r: 1001-1 of s"]


# --- Times ------------------------------------------------------------------------------------


def test_recovery_is_from_the_fault_to_the_first_good_answer_to_a_later_request() -> None:
    made = records(
        request(1.0, 1.1),
        # Under way when the fault came: its answer says nothing of what follows.
        request(1.9, 2.1),
        request(2.2, 3.2, Outcome.UNKNOWN, error="TimeoutError"),
        request(3.3, 3.5),
        request(4.5, 4.6),
    )
    figures = verdict.stall(made, "idempotent", [FAULT, END], 0.0)
    assert figures.recovery_s == 1.5
    assert figures.longest_s == pytest.approx(1.4)
    assert (figures.hit, figures.errors) == (1, {"TimeoutError": 1})


def test_good_answers_right_after_a_fault_do_not_mean_that_it_is_over() -> None:
    """A restart in good order is felt some time after it has begun."""
    made = records(
        request(1.0, 1.1),
        request(2.1, 2.2),
        request(3.0, 4.0, Outcome.UNKNOWN, error="TimeoutError"),
        request(4.1, 5.1, Outcome.UNKNOWN, error="TimeoutError"),
        request(5.2, 5.3),
    )
    assert verdict.stall(made, "idempotent", [FAULT], 0.0).recovery_s == 3.1
    never = verdict.Records.of(
        [client("p", "idempotent"), *made.requests["p"], request(6.0, 7.0, Outcome.UNKNOWN)]
    )
    assert verdict.stall(never, "idempotent", [FAULT], 0.0).recovery_s is None


def test_a_client_that_has_little_to_ask_does_not_wait() -> None:
    made = records(request(2.1, 2.2), request(7.0, 7.1), request(12.0, 12.4))
    assert verdict.stall(made, "idempotent", [FAULT], 0.0).recovery_s == 0.4


def test_a_client_that_is_never_answered_again_never_recovers() -> None:
    made = records(request(1.0, 1.1), request(2.2, 3.2, Outcome.UNKNOWN, error="TimeoutError"))
    assert verdict.stall(made, "idempotent", [FAULT, END], 0.0).recovery_s is None


def test_one_slow_client_is_what_counts_of_many() -> None:
    made = records(
        client("q", "idempotent"),
        request(2.1, 2.2),
        request(2.1, 5.0, by="q"),
        Moved("q", 2.5, 1, 2),
    )
    figures = verdict.stall(made, "idempotent", [FAULT, END], 0.0)
    assert (figures.recovery_s, figures.moves, figures.clients) == (3.0, 1, 2)


def test_clients_that_stay_do_not_count_where_others_move() -> None:
    stays = Client("q", "idempotent", 1, "", moves=False)
    made = records(stays, request(2.1, 2.2), request(2.1, 9.0, by="q"))
    figures = verdict.stall(made, "idempotent", [FAULT, END], 0.0)
    assert (figures.recovery_s, figures.may_move) == (0.2, True)
    alone = verdict.Records.of([stays, request(2.1, 9.0, by="q")])
    figures = verdict.stall(alone, "idempotent", [FAULT, END], 0.0)
    assert (figures.recovery_s, figures.may_move) == (7.0, False)


def test_a_silence_of_a_client_is_felt_even_without_an_error() -> None:
    made = records(request(1.0, 1.1), request(2.2, 3.8))
    assert verdict.stall(made, "idempotent", [FAULT, END], 0.0).hit == 1
    # Without a fault it is nobody's.
    assert verdict.stall(made, "idempotent", [], 0.0).hit == 0


def test_latency_counts_from_when_the_request_was_due() -> None:
    held_up = Request("p", 1, 2.0, 3.0, 3.1, Outcome.OK, "")
    [figures] = verdict.latencies(records(held_up), [FAULT, END], 0.0)
    assert (figures.phase, figures.max_ms) == (Phase.DURING, 1100.0)


def test_phases_are_before_during_and_after() -> None:
    made = records(request(1.0, 1.1), request(3.0, 3.2), request(5.0, 5.3))
    figures = verdict.latencies(made, [FAULT, END], 0.0)
    assert [(each.phase, each.count, each.p50_ms) for each in figures] == [
        (Phase.BEFORE, 1, 100.0),
        (Phase.DURING, 1, 200.0),
        (Phase.AFTER, 1, 300.0),
    ]


@pytest.mark.parametrize(
    ("values", "rank", "expected"),
    [
        ([], 0.5, 0.0),
        ([1.0], 0.999, 1.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
        ([1.0, 2.0], 0.99, 2.0),
    ],
)
def test_percentiles(values: list[float], rank: float, expected: float) -> None:
    assert verdict.percentile(values, rank) == expected


def test_a_load_whose_own_loop_was_late_says_so() -> None:
    made = verdict.load_made(records(*[late(0.2)] * 5), drill(), [FAULT], 0.0, 10.0)
    assert not made.is_made
    assert "this machine is too busy for this load" in made.problem
    assert verdict.load_made(records(*[late(0.001)] * 5), drill(), [FAULT], 0.0, 10.0).is_made


@pytest.mark.parametrize(("every_s", "is_made"), [(0.1, True), (0.15, False)])
def test_a_rate_that_clients_could_not_make_says_so(every_s: float, is_made: bool) -> None:
    """Ten rows a second are due, and the fault comes after two."""
    asked = [
        Request("p", 1, at / 10, at * every_s, at * every_s, Outcome.OK, "") for at in range(100)
    ]
    made = verdict.load_made(records(*asked), drill(), [FAULT], 0.0, 10.0)
    assert made.is_made == is_made
    assert made.problem == "" or "of 19 rows that were due before the first fault" in made.problem
    # What a fault holds up is no fault of the load.
    assert verdict.load_made(records(*asked[:20]), drill(), [FAULT], 0.0, 10.0).is_made == is_made


def test_throughput_counts_what_regions_answered() -> None:
    figures = verdict.throughput(
        records(sent(1), sent(2), sent(8, region=2), given(1, at=0.9)), 0.0, 1.0
    )
    assert figures.at == [0.5, 1.0]
    assert figures.acknowledged == {1: [4.0, 0.0], 2: [0.0, 2.0]}
    assert figures.delivered == [0.0, 2.0]


def test_a_client_that_comes_home_and_is_refused_was_deceived() -> None:
    """Home had said that it was well: whoever believes it is sent away again."""
    away, back = Moved("p", 2.0, 1, 2), Moved("p", 4.0, 2, 1, trusts_health=True)
    refused = request(4.1, 4.2, Outcome.REFUSED, error="MISCONF")
    made = records(request(1.0, 1.1), away, request(2.1, 2.2), back, refused)
    assert verdict.stall(made, "idempotent", [FAULT, END], 0.0).deceived == 1
    lagged = request(4.1, 4.2, Outcome.REFUSED, error="LAGGED")
    for there, then in [
        (back, [request(4.1, 4.2), refused]),
        # Another region had sent it there, and not home's health.
        (Moved("p", 4.0, 2, 1), [refused]),
        # A bound that was reached in that moment.
        (back, [lagged]),
    ]:
        made = records(request(1.0, 1.1), away, request(2.1, 2.2), there, *then)
        assert verdict.stall(made, "idempotent", [FAULT, END], 0.0).deceived == 0
    again: list[Record] = [
        Moved("p", 4.3, 1, 2),
        Moved("p", 6.0, 2, 1, trusts_health=True),
        request(6.1, 6.2, Outcome.REFUSED, error="LAGGED"),
    ]
    made = records(request(1.0, 1.1), away, request(2.1, 2.2), back, lagged, *again)
    assert verdict.stall(made, "idempotent", [FAULT, END], 0.0).deceived == 1


# --- Records ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        client("c", "consumer", group="g"),
        request(1.0, 2.0, Outcome.UNKNOWN, error="TimeoutError"),
        sent(1),
        given(1),
        acknowledged(1, 2),
        Moved("p", 1.0, 1, 2),
        late(0.1),
        *found(1),
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_are_read_as_they_were_written(record: Record) -> None:
    line = encode(record)
    assert line.endswith("\n")
    assert encode(decode(line)) == line


def test_an_unknown_record_is_refused() -> None:
    with pytest.raises(ValueError, match="no record is called 'nonsense'"):
        decode('["nonsense", 1]\n')
