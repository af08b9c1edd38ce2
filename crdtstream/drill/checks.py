"""Checks: the bounds that must hold, compared with the figures of a drill."""

from collections.abc import Sequence
from typing import Final

from crdtstream.drill.drill import Drill, Herd
from crdtstream.drill.outcome import (
    Alert,
    Check,
    Consumed,
    Convergence,
    Produced,
    Read,
    Stall,
)
from crdtstream.drill.verdict import OTHER_REGION

_RECOVERS: Final = "recovers_within_s"


def checks(
    drill: Drill,
    *,
    produced: Sequence[Produced],
    consumed: Sequence[Consumed],
    read: Sequence[Read],
    stalls: Sequence[Stall],
    convergences: Sequence[Convergence],
    regions: Sequence[int],
    digests: dict[int, str],
    taken_over: int,
    alerts: Sequence[Alert] | None,
) -> list[Check]:
    """All checks that the drill asks for, and those that every drill must meet.

    Args:
        regions: of the deployment; it may have more than the drill needs.
        taken_over: number of times that a region took over the state of another one.
        alerts: None: they were not watched.
    """
    holds = drill.must_hold
    found = [
        _something_was_added(produced),
        _at_most("lost", holds.lost, sum(each.lost for each in produced)),
        _at_most(
            "repeated_idempotent",
            holds.repeated_idempotent,
            sum(each.repeated for each in produced if each.kind != "plain"),
        ),
        _at_most(
            "unanswered",
            holds.unanswered,
            sum(each.unknown + each.refused for each in produced if each.kind != "plain"),
        ),
        *_herd_is_back(drill, produced),
        _digests_are_equal(regions, digests),
        _at_most("deceived", 0, sum(each.deceived for each in stalls)),
    ]
    for each in consumed:
        found += [
            _at_most(f"never_delivered ({each.group})", holds.never_delivered, each.never),
            _at_most(f"out_of_order ({each.group})", holds.out_of_order, each.out_of_order),
            _again(each, holds.again),
        ]
    cursors = [each for each in read if each.kind == "crdt.xread"]
    if cursors:
        skipped = sum(each.skipped for each in cursors)
        found.append(_at_most("skipped_by_cursors", holds.skipped_by_cursors, skipped))
    found += [_converges(each, holds.converges_within_s) for each in convergences]
    if holds.recovers_within_s is not None:
        movers = [each for each in stalls if each.may_move]
        found += [_recovers(each, holds.recovers_within_s) for each in movers]
    if holds.hit_at_least:
        hit = sum(each.hit for each in stalls)
        found.append(
            Check(
                name="hit_at_least",
                expected=f"at least {holds.hit_at_least} clients feel the fault",
                found=str(hit),
                is_met=hit >= holds.hit_at_least,
            )
        )
    if holds.refused_at_least:
        refused = sum(each.errors.get("LAGGED", 0) for each in stalls)
        found.append(
            Check(
                name="refused_at_least",
                expected=f"at least {holds.refused_at_least} writes refused with LAGGED",
                found=str(refused),
                is_met=refused >= holds.refused_at_least,
            )
        )
    if holds.taken_over_at_least:
        found.append(
            Check(
                name="taken_over_at_least",
                expected=f"the state of a region taken over {holds.taken_over_at_least} times",
                found=str(taken_over),
                is_met=taken_over >= holds.taken_over_at_least,
            )
        )
    if alerts is not None and drill.alerts is not None:
        found += [_fired(name, alerts) for name in drill.alerts] or [_none_fired(alerts)]
    return found


def unwell(problem: str) -> Check:
    """The one check of a drill after which regions did not return: no other can be made."""
    return Check(
        name="well",
        expected="regions take writes and hear each other when faults are over",
        found=problem.partition("\n")[0],
        is_met=False,
    )


def is_of_clients_times(check: Check) -> bool:
    """True if a check of times that is not met says nothing, as the load was not made.

    A late load makes times longer, never shorter: a time within its bound is within it all the
    more.
    """
    return check.name.startswith(_RECOVERS)


def _at_most(name: str, most: int, found: int) -> Check:
    return Check(
        name=name,
        expected=f"at most {most}" if most else "none",
        found=str(found),
        is_met=found <= most,
    )


def _something_was_added(produced: Sequence[Produced]) -> Check:
    """Check that something was acknowledged: otherwise the drill shows nothing."""
    count = sum(each.acknowledged for each in produced)
    return Check(
        name="acknowledged", expected="at least 1 entry", found=str(count), is_met=count > 0
    )


def _again(consumed: Consumed, allowed: Sequence[str] | None) -> Check:
    """Check the reasons of repeated deliveries; in a partitioned group no other region delivers."""
    forbidden = {"same region"}
    if allowed is not None:
        forbidden |= set(consumed.again) - set(allowed)
    elif consumed.mode == "partitioned":
        forbidden.add(OTHER_REGION)
    bad = sum(count for reason, count in consumed.again.items() if reason in forbidden)
    shown = ", ".join(f"{count} {reason}" for reason, count in sorted(consumed.again.items()))
    return Check(
        name=f"again ({consumed.group})",
        expected=f"none for: {', '.join(sorted(forbidden))}",
        found=shown or "none",
        is_met=bad == 0,
    )


def _herd_is_back(drill: Drill, produced: Sequence[Produced]) -> list[Check]:
    """Check that every client of a herd returned, even one that did not notice the cut."""
    asked = sum(item.clients for item in drill.load if isinstance(item, Herd))
    if not asked:
        return []
    back = sum(each.acknowledged for each in produced if each.kind == "herd")
    return [
        Check(
            name="herd",
            expected=f"all {asked} clients come back and are answered",
            found=str(back),
            is_met=back == asked,
        )
    ]


def _digests_are_equal(regions: Sequence[int], digests: dict[int, str]) -> Check:
    different = len(set(digests.values()))
    is_met = len(digests) == len(regions) and different == 1
    shown = ", ".join(f"region {region}: {digest[:8]}" for region, digest in digests.items())
    return Check(
        name="digests", expected="equal in all regions", found=shown or "none", is_met=is_met
    )


def _converges(found: Convergence, most: float) -> Check:
    seconds = found.seconds
    return Check(
        name=f"converges_within_s ({found.after})",
        expected=f"within {most:g} s",
        found="not in time" if seconds is None else f"{seconds:.2f} s",
        is_met=seconds is not None and seconds <= most,
    )


def _recovers(stall: Stall, most: float) -> Check:
    seconds = stall.recovery_s
    return Check(
        name=f"{_RECOVERS} ({stall.kind})",
        expected=f"within {most:g} s",
        found="never" if seconds is None else f"{seconds:.2f} s",
        is_met=seconds is not None and seconds <= most,
    )


def _none_fired(alerts: Sequence[Alert]) -> Check:
    critical = sorted({each.name for each in alerts if each.labels.get("severity") == "critical"})
    return Check(
        name="alerts",
        expected="none that is critical",
        found=", ".join(critical) or "none",
        is_met=not critical,
    )


def _fired(name: str, alerts: Sequence[Alert]) -> Check:
    moments = [
        alert.fired_at for alert in alerts if alert.name == name and alert.fired_at is not None
    ]
    return Check(
        name=f"alert {name}",
        expected="fires",
        found=f"after {min(moments):.1f} s" if moments else "did not",
        is_met=bool(moments),
    )
