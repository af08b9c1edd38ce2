"""Expectations against figures: each bound is met up to itself, and not beyond."""

import pytest

from crdtstream.drill.checks import checks
from crdtstream.drill.drill import Drill
from crdtstream.drill.outcome import (
    Alert,
    Check,
    Consumed,
    Convergence,
    Produced,
    Read,
    Stall,
)
from tests.drill.recorded import drill

DIGESTS = {1: "aa", 2: "aa"}


def rows(kind: str = "idempotent", **changes: int) -> Produced:
    given = dict.fromkeys(("unknown", "refused", "lost", "repeated", "repeated_after_unknown"), 0)
    return Produced.model_validate({"kind": kind, "acknowledged": 10, **given, **changes})


def group(mode: str = "at-least-once", **changes: object) -> Consumed:
    given = {"delivered": 10, "acknowledged": 10, "again": {}, "out_of_order": 0, "never": 0}
    return Consumed.model_validate({"group": "g", "mode": mode, **given, **changes})


def stall(**changes: object) -> Stall:
    given = {"clients": 1, "hit": 1, "recovery_s": 1.0, "longest_s": 1.0, "moves": 0, "errors": {}}
    return Stall.model_validate({"kind": "idempotent", **given, **changes})


def failed(
    wanted: Drill,
    *,
    produced: list[Produced] | None = None,
    consumed: list[Consumed] | None = None,
    read: list[Read] | None = None,
    stalls: list[Stall] | None = None,
    convergences: list[Convergence] | None = None,
    digests: dict[int, str] | None = None,
    taken_over: int = 0,
    alerts: list[Alert] | None = None,
) -> list[str]:
    """The names of the checks that are not met, where all else is well."""
    found: list[Check] = checks(
        wanted,
        produced=[rows()] if produced is None else produced,
        consumed=[group()] if consumed is None else consumed,
        read=read or [],
        stalls=[stall()] if stalls is None else stalls,
        convergences=convergences or [],
        digests=DIGESTS if digests is None else digests,
        regions=(1, 2),
        taken_over=taken_over,
        alerts=alerts,
    )
    return [check.name for check in found if not check.is_met]


def test_a_run_in_which_all_is_well_passes() -> None:
    assert failed(drill()) == []


@pytest.mark.parametrize(
    ("figures", "name"),
    [
        ({"produced": [rows(lost=1)]}, "lost"),
        ({"produced": [rows(acknowledged=0)]}, "acknowledged"),
        ({"produced": [rows(repeated=1)]}, "repeated_idempotent"),
        ({"produced": [rows("herd", repeated=1), rows()]}, "repeated_idempotent"),
        ({"produced": [rows(unknown=1)]}, "unanswered"),
        ({"produced": [rows("multidb", refused=1)]}, "unanswered"),
        ({"digests": {1: "aa", 2: "bb"}}, "digests"),
        ({"digests": {1: "aa"}}, "digests"),
        ({"stalls": [stall(deceived=1)]}, "deceived"),
        ({"consumed": [group(never=1)]}, "never_delivered (g)"),
        ({"consumed": [group(out_of_order=1)]}, "out_of_order (g)"),
        ({"consumed": [group(again={"same region": 1})]}, "again (g)"),
        ({"consumed": [group("partitioned", again={"other region": 1})]}, "again (g)"),
        (
            {"read": [Read(kind="crdt.xread", read=1, skipped=1, again=0, out_of_order=0)]},
            "skipped_by_cursors",
        ),
        ({"convergences": [Convergence(after="x", seconds=None)]}, "converges_within_s (x)"),
        ({"convergences": [Convergence(after="x", seconds=30.1)]}, "converges_within_s (x)"),
    ],
)
def test_each_thing_that_must_not_be_fails(figures: dict[str, object], name: str) -> None:
    assert failed(drill(), **figures) == [name]  # type: ignore[arg-type]


def test_behaviour_that_redis_allows_too_is_no_failure() -> None:
    """Plain producers repeat what they send again, or leave it, and XREAD may skip."""
    skipped = Read(kind="xread", read=1, skipped=5, again=0, out_of_order=0)
    again = group(again={"other region": 3, "claimed": 2})
    assert (
        failed(
            drill(),
            produced=[rows("plain", repeated=1, unknown=2)],
            read=[skipped],
            consumed=[again],
        )
        == []
    )


def test_reasons_for_again_can_be_narrowed() -> None:
    wanted = drill(must_hold={"again": ["claimed"]})
    assert failed(wanted, consumed=[group(again={"claimed": 1})]) == []
    assert failed(wanted, consumed=[group(again={"other region": 1})]) == ["again (g)"]


def test_every_client_of_a_herd_must_come_back() -> None:
    load = [{"kind": "herd", "region": 1, "clients": 11}]
    assert failed(drill(load=load), produced=[rows("herd")]) == ["herd"]
    assert failed(drill(load=load), produced=[rows("herd", acknowledged=11)]) == []


def test_recovery_is_judged_if_a_bound_is_given() -> None:
    wanted = drill(must_hold={"recovers_within_s": 2})
    slow, never = stall(recovery_s=2.1), stall(recovery_s=None)
    assert failed(wanted, stalls=[slow]) == ["recovers_within_s (idempotent)"]
    assert failed(wanted, stalls=[never]) == ["recovers_within_s (idempotent)"]
    assert failed(drill(), stalls=[never]) == []
    # Clients that stay wait for their region.
    assert failed(wanted, stalls=[stall(recovery_s=None, may_move=False)]) == []


def test_a_fault_that_nobody_felt_shows_nothing() -> None:
    wanted = drill(must_hold={"hit_at_least": 2})
    assert failed(wanted, stalls=[stall(hit=1)]) == ["hit_at_least"]
    assert failed(wanted, stalls=[stall(hit=2)]) == []


def test_a_state_must_be_taken_over_where_that_is_to_be_seen() -> None:
    wanted = drill(must_hold={"taken_over_at_least": 1})
    assert failed(wanted, taken_over=0) == ["taken_over_at_least"]
    assert failed(wanted, taken_over=1) == []


def test_a_bound_that_refused_nobody_was_not_seen() -> None:
    wanted = drill(must_hold={"refused_at_least": 3})
    assert failed(wanted, stalls=[stall(errors={"LAGGED": 2, "MISCONF": 5})]) == [
        "refused_at_least"
    ]
    assert failed(wanted, stalls=[stall(errors={"LAGGED": 3})]) == []


def alert(name: str, *, fired_at: float | None = 1.0, severity: str = "critical") -> Alert:
    return Alert(name=name, labels={"severity": severity}, is_expected=True, fired_at=fired_at)


def test_alerts_that_are_named_must_fire() -> None:
    wanted = drill(alerts=["A"])
    assert failed(wanted, alerts=[alert("B")]) == ["alert A"]
    assert failed(wanted, alerts=[alert("A", fired_at=None)]) == ["alert A"]
    assert failed(wanted, alerts=[alert("A")]) == []
    # Nobody watched.
    assert failed(wanted, alerts=None) == []


def test_no_alerts_means_that_none_that_is_critical_fires() -> None:
    quiet = drill(alerts=[])
    assert failed(quiet, alerts=[alert("A")]) == ["alerts"]
    assert failed(quiet, alerts=[alert("A", severity="warning")]) == []
    assert failed(drill(), alerts=[alert("A")]) == []
