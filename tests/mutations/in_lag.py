"""Planted bugs in what bounds the replication lag."""

from typing import Final

from tests.mutations.mutation import Mutation

STALENESS: Final = "crdtstream/region/staleness.py"
TABLES: Final = "tests/region/test_staleness.py::"

LAG: Final = (
    Mutation(
        "open-tick-does-not-lag",
        STALENESS,
        "return self._replica.issued + count <= self._n_max and",
        "return self.lag._marked_n + count <= self._n_max and",
        (TABLES + "test_a_pipeline_in_one_tick_does_not_pass_the_bound",),
        "I15: a pipeline passes the bound by whatever one tick holds",
    ),
    Mutation(
        "age-is-not-bounded",
        STALENESS,
        "<= self._n_max and now <= self._until",
        "<= self._n_max",
        (TABLES + "test_the_bound_in_time_refuses_what_comes_later",),
        "I15: a region that is cut off goes on for ever",
    ),
    Mutation(
        "transaction-is-one-write",
        "crdtstream/database/database.py",
        "writes = queued_writes(session) if",
        "writes = min(1, queued_writes(session)) if",
        (TABLES + "test_a_transaction_is_admitted_whole_or_not_at_all",),
        "I15: a transaction passes the bound",
    ),
    Mutation(
        "programs-pass-the-bound",
        "crdtstream/query/service.py",
        "await self._change(append, context, writes=len(rows), adds=True)",
        "await self._change(append, context, adds=True)",
        ("tests/query/test_service.py::test_rows_beyond_the_bound_on_lag_are_refused",),
        "I15: what Spark writes is not counted before it is there",
    ),
    Mutation(
        "lost-disk-of-a-peer-is-not-noticed",
        "crdtstream/region/links/pull.py",
        "        self._own.replication_lag.note_lost(self.peer, welcome.own_n)\n",
        "",
        ("tests/region/test_pull.py::test_a_link_that_begins_again_tells_of_what_its_peer_lost",),
        "I15: what a peer had and lost counts as safe there",
    ),
    Mutation(
        "a-puller-that-has-less-is-not-noticed",
        "crdtstream/region/links/links.py",
        "        own.replication_lag.note_lost(region, opening.vv.get(own.identity.region, 0))\n",
        "",
        (TABLES + "test_a_peer_that_links_with_less_than_before_is_taken_at_its_new_word",),
        "I15: what a peer had and lost counts as safe there while only it can link",
    ),
    Mutation(
        "an-earlier-run-counts-as-known",
        "crdtstream/region/lag.py",
        "        self._has_earlier = self._marked_n > 0\n",
        "        self._has_earlier = False\n",
        (TABLES + "test_effects_of_an_earlier_run_count_as_lag_until_a_peer_reports",),
        "I15: a restart while links are cut lets the bound begin again",
    ),
    Mutation(
        "clock-set-back-makes-effects-young",
        "crdtstream/region/lag.py",
        "self._marks = deque((n, min(ms, now)) for n, ms in self._marks)",
        "pass",
        (TABLES + "test_a_clock_that_is_set_back_does_not_make_effects_younger_for_long",),
        "I15: effects of an hour that came twice are in no other region",
    ),
    Mutation(
        "acknowledging-is-refused",
        "crdtstream/commands/documentation/stream.py",
        "XACK key group id...\n    since 5.0.0; flags write fast; here despite_lag;",
        "XACK key group id...\n    since 5.0.0; flags write fast;",
        (TABLES + "test_writes_of_data_are_refused_at_the_bound_and_other_commands_run",),
        "consumers stand still while links are cut",
    ),
    Mutation(
        "throttled-write-is-forgotten",
        STALENESS,
        "if before < due <= now]",
        "if before == due]",
        (
            TABLES + "test_a_throttled_write_waits_no_longer_than_its_time",
            "tests/sim/test_histories.py::test_mended_histories_do_not_fail_again",
        ),
        "I7: a client of a throttled write is never answered",
    ),
    Mutation(
        "health-ignores-the-lag",
        "crdtstream/region/region.py",
        "        return fault if fault is not None else self.staleness.obstacle\n",
        "        return fault\n",
        (TABLES + "test_the_region_is_not_well_while_it_refuses_for_longer_than_a_moment",),
        "clients stay with a region that refuses their writes",
    ),
)
