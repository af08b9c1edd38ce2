"""Planted bugs in what a node tells about itself."""

from typing import Final

from tests.mutations.mutation import Mutation

PAGE: Final = "tests/metrics/test_page.py::"
WALK: Final = "tests/metrics/test_walk.py::"
FIGURES: Final = "crdtstream/metrics/figures.py"

METRICS: Final = (
    Mutation(
        "lag-of-a-silent-peer-is-zero",
        "crdtstream/region/region.py",
        "return pull.silent_ms(now) if lag_ms is None else lag_ms",
        "return 0 if lag_ms is None else lag_ms",
        (PAGE + "test_a_peer_that_was_never_heard_lags_since_the_start",),
        "a peer that never answered looks up to date, and no alert fires",
    ),
    Mutation(
        "refused-transactions-are-not-counted",
        FIGURES,
        "Reading(self._region.staleness.refused, (REFUSED_AS_LAGGED,))",
        'Reading(statistics.errors_by_kind().get("LAGGED", 0), (REFUSED_AS_LAGGED,))',
        (PAGE + "test_replication_lag_and_its_bounds_are_in_the_page",),
        "nobody hears that producers with transactions are refused",
    ),
    Mutation(
        "slow-commands-count-as-fast",
        FIGURES,
        "        while at < len(d.COMMAND_NS_BOUNDS) and level > d.COMMAND_NS_BOUNDS[at]:",
        "        if at < len(d.COMMAND_NS_BOUNDS) and level > d.COMMAND_NS_BOUNDS[at]:",
        (PAGE + "test_a_duration_stands_in_the_bucket_that_holds_it",),
        "a command that takes seconds is shown to take microseconds",
    ),
    Mutation(
        "refusals-of-a-stale-region-blame-the-disk",
        "crdtstream/region/write_gate.py",
        "            REFUSED_AS_STALE if self.fault is None else REFUSED_BY_DISK\n",
        "            REFUSED_BY_DISK\n",
        (PAGE + "test_writes_that_a_stale_region_refuses_are_told_as_such",),
        "operators look for a full disk while a region waits for its peers",
    ),
    Mutation(
        "effects-of-peers-count-as-issued",
        "crdtstream/core/replica.py",
        "        self.applied_counts.note(batch.count, batch.others)",
        "        self.issued_counts.note(batch.count, batch.others)",
        ("tests/metrics/test_page.py::test_effects_of_peers_are_told_as_applied",),
        "each effect is counted as issued in every region",
    ),
    Mutation(
        "removes-count-as-appends",
        "crdtstream/core/effect_counts.py",
        "            self._appends -= 1\n",
        "",
        (PAGE + "test_effects_and_commits_are_counted",),
        "the kinds add up to more than there were effects",
    ),
    Mutation(
        "walk-without-rests",
        "crdtstream/metrics/walk.py",
        "                await asyncio.sleep(REST_SECONDS)\n",
        "                pass\n",
        (WALK + "test_the_walk_rests_after_each_slice",),
        "a scrape of a region with 100,000 streams holds all clients up for a second",
    ),
    Mutation(
        "page-in-one-piece",
        "crdtstream/metrics/page.py",
        "                await asyncio.sleep(0)\n",
        "                pass\n",
        (PAGE + "test_others_have_their_turn_while_a_page_is_written",),
        "clients wait while a long page is written",
    ),
    Mutation(
        "heading-above-each-piece",
        "crdtstream/metrics/page.py",
        "            yield text if is_first else _without_heading(text)",
        "            yield text",
        (PAGE + "test_a_metric_of_many_samples_has_one_heading",),
        "Prometheus refuses a page whose metric has two TYPE lines",
    ),
    Mutation(
        "series-of-every-stream",
        "crdtstream/metrics/walk.py",
        "        if len(self._heap) < self._count:",
        "        if self._count:",
        (WALK + "test_only_the_longest_and_busiest_are_named",),
        "100,000 streams make 100,000 series at each scrape",
    ),
    Mutation(
        "alert-fires-once-only",
        "crdtstream/drill/prometheus.py",
        "            self._states = now\n",
        "            self._states |= now\n",
        ("tests/drill/test_prometheus.py::test_changes_of_alerts_are_reported_once_in_order",),
        "a drill that makes a fault twice hears of its alert once",
    ),
)
