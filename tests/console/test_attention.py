"""Conditions to act on: each has its alert's name, and holds where the alert's expression does."""

from typing import Any

import pytest
import yaml

from crdtstream.console.attention import Notice, notices_of
from crdtstream.console.picture import NodeFigures
from crdtstream.v1 import admin_pb2 as pb
from tests.conftest import ROOT
from tests.console.shown import link, members, status
from tests.console.test_picture import picture

State = pb.LinkStatus.State
ALERTS = {
    rule["alert"]: rule["labels"]["severity"]
    for group in yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}


def own(**storage: Any) -> dict[str, Any]:
    return {"own": status(1, storage=pb.Storage(**storage))}


def into_1(**figures: Any) -> dict[str, Any]:
    return {"own": status(1, link(2, **figures), link(3))}


def node(**figures: Any) -> dict[str, Any]:
    return {"node": NodeFigures(**figures)}


ONLY_COPY = pb.Kept(region=3, keeping=pb.Kept.Keeping.ONLY_COPY)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("CrdtstreamRegionDown", {"others": {2: "no answer"}}),
    (
        "CrdtstreamRegionIsolated",
        {"own": status(1, link(2, state=State.BACKOFF), link(3, state=State.BACKOFF))},
    ),
    ("CrdtstreamUnreplicated", node(lag_effects=10_001)),
    ("CrdtstreamUnreplicated", node(lag_ms=60_001)),
    ("CrdtstreamReplicationLagExceeded", node(lag_exceeded=True)),
    ("CrdtstreamCheckpointFails", node(checkpoint_failure="no space")),
    ("CrdtstreamCertificateRefused", node(certificate_trouble="it has expired")),
    ("CrdtstreamLogOnlyCopy", own(kept=[ONLY_COPY])),
    ("CrdtstreamWritesRefused", {"own": status(1, fault="the disk is full")}),
    ("CrdtstreamMemoryFull", own(used_memory=5, maxmemory=5)),
    ("CrdtstreamFolderFull", own(disk_bytes=6, maxdisk=5)),
    (
        "CrdtstreamBootstrapFails",
        {"own": status(1, bootstrap=pb.BootstrapStatus(failure="the call broke"))},
    ),
    ("CrdtstreamLinkRefused", into_1(state=State.REFUSED)),
    ("CrdtstreamLinkPaused", into_1(state=State.PAUSED)),
    ("CrdtstreamLinkNeedsBootstrap", into_1(state=State.NEEDS_BOOTSTRAP)),
    ("CrdtstreamLinkDown", into_1(state=State.BACKOFF)),
    ("CrdtstreamLinkBehind", into_1(lag_effects=10_001)),
    ("CrdtstreamLinkLagging", into_1(behind_ms=5_001)),
    ("CrdtstreamClockSkew", into_1(clock_skew_ms=-2_001)),
]
AWAITED = members()
AWAITED.members[1].status = pb.MemberStatus.Status.JOINING
QUIET: list[dict[str, Any]] = [
    {
        "known": AWAITED,
        "others": {2: "no answer"},
        "own": status(1, link(2, state=State.BACKOFF), link(3)),
    },
    node(lag_effects=10_000, lag_ms=60_000),
    own(used_memory=4, maxmemory=5, disk_bytes=4, maxdisk=5),
    own(used_memory=4, disk_bytes=4),
    into_1(lag_effects=10_000),
    into_1(behind_ms=5_000, lag_ms=9_000),
    into_1(clock_skew_ms=2_000),
]


def notices(given: dict[str, Any]) -> list[Notice]:
    return notices_of(picture(**given))


@pytest.mark.parametrize(("alert", "given"), CASES)
def test_a_condition_is_named_by_its_alert(alert: str, given: dict[str, Any]) -> None:
    found = notices(given)
    assert alert in [one.alert for one in found]
    assert all(one.text and one.advice for one in found)


@pytest.mark.parametrize("given", QUIET)
def test_at_the_bound_of_its_alert_nothing_is_wrong(given: dict[str, Any]) -> None:
    assert notices(given) == []


@pytest.mark.parametrize(("_alert", "given"), CASES)
def test_each_notice_is_an_alert_and_as_severe(_alert: str, given: dict[str, Any]) -> None:
    for one in notices(given):
        assert one.severity == ALERTS[one.alert]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (into_1(state=State.PAUSED), "Resume… in the table of links below"),
        (
            {"others": {2: status(2, link(1, state=State.PAUSED), link(3))}},
            "Resume… in the console of region 2, or crdtstream sync resume --region 2,",
        ),
    ],
)
def test_a_paused_link_is_resumed_where_it_pulls(given: dict[str, Any], says: str) -> None:
    assert says in notices(given)[0].advice


def test_links_with_the_same_trouble_are_one_notice() -> None:
    (found,) = notices({"own": status(1, link(2, behind_ms=5_001), link(3, behind_ms=9_001))})
    assert found.alert == "CrdtstreamLinkLagging"
    assert [line[:14] for line in found.text.splitlines()] == ["The link 2 → 1", "The link 3 → 1"]


def test_the_most_severe_comes_first() -> None:
    down = notices({"others": {2: "no answer"}, **into_1(state=State.PAUSED)})
    assert [one.severity for one in down] == ["critical", "warning"]
