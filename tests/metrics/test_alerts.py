"""The alert rules: which figures make each of them fire, and which do not; by promtool."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.conftest import ROOT, program

RULES = ROOT / "deploy" / "alerts.yml"
# Of a sample that is scraped each 15 seconds.
FOUR_A_MINUTE = 4
MANY = 90_000
SELF = 'job="crdtstream",region="1"'
LINK = 'region="1",peer="2"'


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


NAMES = [rule["alert"] for rule in rules()]


class Row(NamedTuple):
    """Figures over time, and an alert that fires by them at that minute, or does not."""

    alert: str
    fires: bool
    series: Mapping[str, str]
    minute: float = 5


def steady(value: float) -> str:
    return f"{value}x200"


def growing(start: float, by: float) -> str:
    return f"{start}{by:+}x200"


def turning(before: float, after: float, *, scrapes: int) -> str:
    """One value for some scrapes, then another one."""
    return f"{before}x{scrapes} {after}x200"


def certificate(*, begins: int, ends: int) -> dict[str, str]:
    about = "tls_certificate_not"
    return {
        **of_region(f"{about}_before_timestamp_seconds", steady(begins)),
        **of_region(f"{about}_after_timestamp_seconds", steady(ends)),
    }


def link(**values: float) -> dict[str, str]:
    """A link's figures; its state is live unless that of another one is 1."""
    states = {
        state: values.pop(state.replace(" ", "_"), 0)
        for state in ("paused", "refused", "needs bootstrap")
    }
    found = {f"crdtstream_link_{name}{{{LINK}}}": steady(value) for name, value in values.items()}
    for state, value in states.items():
        found[f'crdtstream_link_state{{{LINK},state="{state}"}}'] = steady(value)
    return found


def vector(*, of_region_1: str, of_region_2: str) -> dict[str, str]:
    return {
        'crdtstream_version_vector{region="1",origin="1"}': of_region_1,
        'crdtstream_version_vector{region="2",origin="1"}': of_region_2,
    }


def buckets(
    name: str, labels: str, *, slow_per_scrape: int, fast_per_scrape: int
) -> dict[str, str]:
    """A histogram whose fast values are within 1 ms, and its slow ones within 5 s."""
    both = slow_per_scrape + fast_per_scrape
    return {
        f'{name}_bucket{{{labels},le="0.001"}}': growing(0, fast_per_scrape),
        f'{name}_bucket{{{labels},le="5"}}': growing(0, both),
        f'{name}_bucket{{{labels},le="+Inf"}}': growing(0, both),
    }


def commits(slow: int, fast: int) -> dict[str, str]:
    name = "crdtstream_commit_duration_seconds"
    return buckets(name, 'region="1"', slow_per_scrape=slow, fast_per_scrape=fast)


def delays(slow: int, fast: int) -> dict[str, str]:
    name = "crdtstream_link_delay_seconds"
    return buckets(name, LINK, slow_per_scrape=slow, fast_per_scrape=fast)


def one(name: str, labels: str, values: str) -> dict[str, str]:
    return {f"{name}{{{labels}}}": values}


def refusals(reason: str, values: str) -> dict[str, str]:
    return one("crdtstream_refusals_total", f'region="1",reason="{reason}"', values)


def logins(reason: str, values: str) -> dict[str, str]:
    labels = f'region="1",port="grpc",reason="{reason}"'
    return one("crdtstream_logins_refused_total", labels, values)


def unreplicated(*, effects: int, seconds: float) -> dict[str, str]:
    return of_region("replication_lag_effects", steady(effects)) | of_region(
        "replication_lag_seconds", steady(seconds)
    )


def lag_state(state: str, values: str) -> dict[str, str]:
    return one("crdtstream_replication_lag_state", f'region="1",state="{state}"', values)


def kept(keeping: str, size: int) -> dict[str, str]:
    """Of a backlog of 1,000 bytes."""
    return (
        one("crdtstream_log_kept_bytes", LINK, steady(size))
        | one("crdtstream_log_kept", f'{LINK},keeping="{keeping}"', steady(1))
        | of_region("backlog_max_bytes", steady(1_000))
    )


def copying(done: str, *, phase: str = "copying") -> dict[str, str]:
    return one("crdtstream_bootstrap_phase", f'region="1",phase="{phase}"', steady(1)) | of_region(
        "bootstrap_done_bytes", done
    )


def skew(seconds: float) -> dict[str, str]:
    return one("crdtstream_peer_clock_skew_seconds", LINK, steady(seconds))


def of_region(name: str, values: str) -> dict[str, str]:
    return one(f"crdtstream_{name}", 'region="1"', values)


def answers(*, wait: float, bound: float) -> dict[str, str]:
    return {
        'crdtstream_answer_wait_seconds{region="1",part="loop"}': steady(wait),
        'crdtstream_answer_wait_seconds{region="1",part="log"}': steady(0.01),
        'crdtstream_answer_wait_bound_seconds{region="1"}': steady(bound),
    }


ROWS = [
    Row("CrdtstreamRegionDown", True, one("up", SELF, steady(0)), 1),
    Row("CrdtstreamRegionDown", False, one("up", SELF, "1 1 0 1 1x20"), 1),
    Row("CrdtstreamRegionRestarted", True,
        one("process_start_time_seconds", SELF, turning(100, 900, scrapes=8)), 3),
    Row("CrdtstreamRegionRestarted", False, one("process_start_time_seconds", SELF, steady(100))),
    Row("CrdtstreamRegionIsolated", True, of_region("peers_heard", steady(0)) | link(up=0)),
    Row("CrdtstreamRegionIsolated", False, of_region("peers_heard", steady(1)) | link(up=0)),
    # A database of one region has nobody to hear.
    Row("CrdtstreamRegionIsolated", False, of_region("peers_heard", steady(0))),
    Row("CrdtstreamRegionBehind", True, of_region("region_lag_seconds", steady(6))),
    Row("CrdtstreamRegionBehind", False, of_region("region_lag_seconds", steady(4))),
    Row("CrdtstreamRegionsDiffer", True, vector(of_region_1="9x200", of_region_2="5x200"), 20),
    Row("CrdtstreamRegionsDiffer", False, vector(of_region_1="9x200", of_region_2="9x200"), 20),
    # Slowly, but it comes.
    Row("CrdtstreamRegionsDiffer", False,
        vector(of_region_1="9+10x200", of_region_2="5+1x200"), 20),
    Row("CrdtstreamUnreplicated", True, unreplicated(effects=20_000, seconds=2)),
    Row("CrdtstreamUnreplicated", True, unreplicated(effects=1, seconds=90)),
    # One alert, though both are too high.
    Row("CrdtstreamUnreplicated", True, unreplicated(effects=20_000, seconds=90)),
    Row("CrdtstreamUnreplicated", False, unreplicated(effects=9_000, seconds=50)),
    Row("CrdtstreamReplicationLagExceeded", True, lag_state("exceeded", steady(1))),
    Row("CrdtstreamReplicationLagExceeded", False,
        lag_state("exceeded", turning(1, 0, scrapes=3))),
    Row("CrdtstreamReplicationLagExceeded", False, lag_state("within", steady(1))),
    Row("CrdtstreamDiskRefuses", True,
        one("crdtstream_writes_refused", 'region="1",reason="disk"', steady(1)), 0.25),
    Row("CrdtstreamDiskRefuses", False,
        one("crdtstream_writes_refused", 'region="1",reason="disk"', steady(0))),
    Row("CrdtstreamWritesRefused", True,
        one("crdtstream_writes_refused", 'region="1",reason="stale"', steady(1))),
    Row("CrdtstreamWritesRefused", False,
        one("crdtstream_writes_refused", 'region="1",reason="stale"', turning(1, 0, scrapes=3))),
    Row("CrdtstreamWritesLagged", True, refusals("lagged", growing(0, 5))),
    Row("CrdtstreamWritesLagged", False, refusals("lagged", steady(100))),
    Row("CrdtstreamClientsRefused", True, refusals("clients_max", growing(0, 1))),
    Row("CrdtstreamClientsRefused", True, refusals("output_buffer", growing(0, 1))),
    Row("CrdtstreamClientsRefused", False, refusals("no_auth", growing(0, 1))),
    Row("CrdtstreamWrongPasswords", True, logins("wrong", growing(0, 2))),
    Row("CrdtstreamWrongPasswords", True, logins("slowed", growing(0, 2))),
    Row("CrdtstreamWrongPasswords", False, logins("missing", growing(0, 100))),
    Row("CrdtstreamWrongPasswords", False, logins("wrong", steady(1_000))),
    Row("CrdtstreamMemoryFull", True, refusals("maxmemory", growing(0, 5))),
    Row("CrdtstreamMemoryFull", False, refusals("maxmemory", steady(100))),
    Row("CrdtstreamFolderFull", True, refusals("maxdisk", growing(0, 5))),
    Row("CrdtstreamFolderFull", False, refusals("maxdisk", steady(100))),
    Row("CrdtstreamCheckpointFails", True,
        of_region("checkpoint_failures_total", turning(0, 1, scrapes=12))),
    Row("CrdtstreamCheckpointFails", False, of_region("checkpoint_failures_total", steady(3))),
    Row("CrdtstreamBacklogFull", True, kept("away", 801)),
    Row("CrdtstreamBacklogFull", False, kept("away", 799)),
    Row("CrdtstreamBacklogFull", False, kept("kept", 5_000)),
    Row("CrdtstreamLogOnlyCopy", True, kept("only-copy", 5_000)),
    Row("CrdtstreamLogOnlyCopy", False, kept("away", 5_000)),
    Row("CrdtstreamCommitsSlow", True, commits(slow=5, fast=95), 15),
    Row("CrdtstreamCommitsSlow", False, commits(slow=0, fast=95), 15),
    Row("CrdtstreamCongested", True, of_region("congested", steady(1))),
    Row("CrdtstreamCongested", False, of_region("congested", "1 0 1 1 0 1 1 1 0 1 1 1 0x20"), 2.5),
    Row("CrdtstreamLinkDown", True, link(up=0), 1),
    Row("CrdtstreamLinkDown", False, link(up=1)),
    Row("CrdtstreamLinkDown", False, link(up=0, paused=1)),
    Row("CrdtstreamLinkDown", False, link(up=0, refused=1)),
    Row("CrdtstreamLinkDown", False, link(up=0, needs_bootstrap=1)),
    Row("CrdtstreamLinkNeedsBootstrap", True, link(up=0, needs_bootstrap=1)),
    Row("CrdtstreamLinkNeedsBootstrap", False, link(up=0)),
    Row("CrdtstreamBootstrapStands", True, copying("500x200")),
    Row("CrdtstreamBootstrapStands", False, copying("500+10x200")),
    Row("CrdtstreamBootstrapStands", False, copying("500x200", phase="idle")),
    Row("CrdtstreamBootstrapFails", True,
        of_region("bootstrap_failures_total", "0x8 1 2 3 4 5x200")),
    # One that failed once goes on from another peer.
    Row("CrdtstreamBootstrapFails", False,
        of_region("bootstrap_failures_total", turning(0, 1, scrapes=8))),
    Row("CrdtstreamLinkRefused", True, link(up=0, refused=1)),
    Row("CrdtstreamLinkRefused", False, link(up=0)),
    Row("CrdtstreamLinkPaused", True, link(up=0, paused=1), 20),
    Row("CrdtstreamLinkPaused", False, link(up=0, paused=1), 10),
    Row("CrdtstreamLinkFlapping", True,
        one("crdtstream_link_reconnects_total", LINK, growing(0, 1))),
    Row("CrdtstreamLinkFlapping", False,
        one("crdtstream_link_reconnects_total", LINK, turning(0, 1, scrapes=10))),
    Row("CrdtstreamLinkLagging", True, link(lag_seconds=6)),
    Row("CrdtstreamLinkLagging", False, link(lag_seconds=0.3)),
    Row("CrdtstreamLinkLagging", False, link(lag_seconds=600, paused=1)),
    Row("CrdtstreamLinkBehind", True, link(lag_effects=20_000)),
    Row("CrdtstreamLinkBehind", False, link(lag_effects=200)),
    Row("CrdtstreamLinkSlow", True, delays(slow=90, fast=10), 10),
    Row("CrdtstreamLinkSlow", False, delays(slow=10, fast=90), 10),
    Row("CrdtstreamClockSkew", True, skew(3_600)),
    Row("CrdtstreamClockSkew", True, skew(-3_600)),
    Row("CrdtstreamClockSkew", False, skew(0.2)),
    Row("CrdtstreamLoopStalls", True, of_region("loop_stall_max_seconds", steady(0.8)), 0.25),
    Row("CrdtstreamLoopStalls", False, of_region("loop_stall_max_seconds", steady(0.1))),
    Row("CrdtstreamAnswersSlow", True, answers(wait=0.7, bound=0.5)),
    Row("CrdtstreamAnswersSlow", False, answers(wait=0.3, bound=0.5)),
    Row("CrdtstreamAnswersSlow", False, answers(wait=0.7, bound=0)),
    Row("CrdtstreamGroupLagGrows", True, of_region("groups_lag_entries", growing(MANY, 3_000)), 20),
    # Much, but it is being read.
    Row("CrdtstreamGroupLagGrows", False, of_region("groups_lag_entries", growing(MANY, -400)), 20),
    Row("CrdtstreamGroupLagGrows", False, of_region("groups_lag_entries", growing(0, 10)), 20),
    Row("CrdtstreamPendingGrows", True, of_region("pending_entries", growing(20_000, 500)), 20),
    Row("CrdtstreamPendingGrows", False, of_region("pending_entries", steady(MANY)), 20),
    Row("CrdtstreamTombstonesKept", True, of_region("tombstones", steady(200_000)), 20),
    Row("CrdtstreamTombstonesKept", False, of_region("tombstones", steady(2_000)), 20),
    Row("CrdtstreamFilesExhausted", True,
        one("process_open_fds", SELF, steady(900)) | one("process_max_fds", SELF, steady(1_024))),
    Row("CrdtstreamFilesExhausted", False,
        one("process_open_fds", SELF, steady(90)) | one("process_max_fds", SELF, steady(1_024))),
    # The time of a test begins at 0; minute 15, since when it must hold, is second 900.
    Row("CrdtstreamCertificateExpires", True, certificate(begins=0, ends=1_100), 20),
    Row("CrdtstreamCertificateExpires", False, certificate(begins=0, ends=1_550), 20),
    Row("CrdtstreamCertificateRefused", True, of_region("tls_certificate_refused", steady(1))),
    Row("CrdtstreamCertificateRefused", False,
        of_region("tls_certificate_refused", turning(1, 0, scrapes=4))),
    Row("CrdtstreamPeersRefused", True,
        of_region("peer_auth_failures_total", turning(0, 1, scrapes=8))),
    Row("CrdtstreamPeersRefused", False, of_region("peer_auth_failures_total", steady(7))),
    Row("CrdtstreamFiguresOld", True, of_region("walk_age_seconds", steady(900))),
    Row("CrdtstreamFiguresOld", False, of_region("walk_age_seconds", steady(20))),
]  # fmt: skip


def test_every_alert_is_shown_to_fire_and_not_to_fire() -> None:
    assert sorted({row.alert for row in ROWS if row.fires}) == sorted(NAMES)
    assert sorted({row.alert for row in ROWS if not row.fires}) == sorted(NAMES)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_every_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["description"]) > 100


def test_promtool_takes_the_rules_and_the_scrape_configuration() -> None:
    promtool = program("promtool")
    check(promtool, "check", "rules", RULES)
    check(promtool, "check", "config", ROOT / "deploy" / "prometheus.yml")


def check(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_fire_by_the_figures_that_are_wrong_and_by_no_others(tmp_path: Path) -> None:
    """All rows in one run, each with regions of its own: promtool takes a while to begin."""
    promtool = program("promtool")
    series: list[dict[str, str]] = []
    expected: list[dict[str, object]] = []
    for number, row in enumerate(ROWS, start=1):
        series += [
            {"series": own_regions(name, number), "values": values}
            for name, values in row.series.items()
        ]
        expected.append(expectation(row, number))
    path = tmp_path / "alerts-test.yml"
    test = {
        "interval": f"{60 // FOUR_A_MINUTE}s",
        "input_series": series,
        "promql_expr_test": expected,
    }
    content = {"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    check(promtool, "test", "rules", path)


def own_regions(name: str, number: int) -> str:
    """Regions 1 and 2 of row 7 are 701 and 702."""
    return re.sub(r'(region|origin)="(\d)"', rf'\1="{number}0\2"', name)


def expectation(row: Row, number: int) -> dict[str, object]:
    """The alerts that promtool must find at that time; else it names this expression."""
    which = "origin" if 'origin="' in str(row.series) else "region"
    alerts = f'ALERTS{{alertname="{row.alert}",alertstate="firing",{which}="{number}01"}}'
    return {
        "expr": f"count by (alertname) ({alerts})",
        "eval_time": f"{round(row.minute * 60)}s",
        "exp_samples": [{"labels": f'{{alertname="{row.alert}"}}', "value": 1}]
        if row.fires
        else [],
    }
