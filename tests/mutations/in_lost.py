"""Planted bugs in what is said of effects that a removed region lost, and in who counts."""

from typing import Final

from tests.mutations.mutation import Mutation

LOST: Final = "crdtstream/core/membership/lost.py"
REGION: Final = "crdtstream/region/region.py"
SOURCE: Final = "crdtstream/spark/stream_source.py"
FRESHNESS: Final = "crdtstream/region/freshness.py"
QUERY: Final = "crdtstream/query/service.py"
OF_QUERY: Final = "tests/query/test_removed_regions.py::"
OF_LOST: Final = "tests/membership/test_lost.py::"
OF_COMMANDS: Final = "tests/commands/test_lost.py::"
OF_REGION: Final = "tests/region/test_lost_effects.py::"
OF_MEMBERSHIP: Final = "tests/region/test_membership.py::"
OF_FRESHNESS: Final = "tests/region/test_freshness.py::"
OF_OFFSETS: Final = "tests/spark/test_stream_offsets.py::"
OF_CLI: Final = "tests/cli/test_cli.py::"
CHANGING: Final = "tests/region/test_changing_peers.py::"

LOST_EFFECTS: Final = (
    # --- Tokens and cursors ---
    Mutation(
        "a-token-of-a-removed-region-waits-for-ever",
        "crdtstream/commands/beyond_redis/tokens.py",
        "        refuse_lost(replica, token)\n",
        "",
        (OF_COMMANDS + "test_tokens_and_cursors_of_lost_effects_are_answered_at_once",),
        "M17: a client that failed over from a removed region waits for what will never come",
    ),
    Mutation(
        "a-cursor-of-a-removed-region-is-read-on",
        "crdtstream/commands/beyond_redis/cursor.py",
        "    refuse_lost(replica, cursor)\n",
        "",
        (OF_COMMANDS + "test_tokens_and_cursors_of_lost_effects_are_answered_at_once",),
        "M17: a reader never hears that what it has had exists nowhere",
    ),
    Mutation(
        "the-last-effect-that-exists-is-lost",
        LOST,
        "if vv.get(region, 0) > end.last_n\n",
        "if vv.get(region, 0) >= end.last_n\n",
        (OF_LOST + "test_effects_beyond_a_known_end_are_lost",),
        "who has had all of a removed region is told that it lost something",
    ),
    Mutation(
        "the-first-lost-effect-is-said-to-exist",
        LOST,
        "of its effects {self.end.last_n + 1}…",
        "of its effects {self.named_n}…",
        (OF_LOST + "test_effects_beyond_a_known_end_are_lost",),
        "a reader that goes on from there is told the same again",
    ),
    Mutation(
        "blocked-clients-are-not-looked-at-when-the-cut-is-final",
        REGION,
        (
            "        self.clients.serve_all(self.replica.now)\n"
            "        self.tick.open()\n"
            "\n"
            "    @property\n"
        ),
        "        self.tick.open()\n\n    @property\n",
        (OF_REGION + "test_blocked_clients_are_answered_when_the_cut_is_final",),
        "who began to wait before the cut was final waits for ever",
    ),
    Mutation(
        "readers-are-not-looked-at-when-the-cut-is-final",
        REGION,
        (
            "        self.clients.serve_all(self.replica.now)\n"
            "        self.tick.open()\n"
            "\n"
            "    @property\n"
        ),
        (
            "        self.clients.settle_acks(self.replica.now)\n"
            "        self.tick.open()\n"
            "\n"
            "    @property\n"
        ),
        (OF_REGION + "test_blocked_clients_are_answered_when_the_cut_is_final",),
        "a blocked CRDT.XREAD of a quiet stream waits for ever",
    ),
    Mutation(
        "a-restarted-node-does-not-know-what-is-lost",
        REGION,
        "        if cuts.keys() == self._cuts_noted:\n",
        "        if cuts.keys() == self._cuts_noted or not self.clients._clients:\n",
        (OF_REGION + "test_a_restarted_node_knows_what_is_lost",),
        "after a restart a lost token waits for ever again",
    ),
    # --- Spark and the CLI ---
    Mutation(
        "a-query-clamps-silently",
        SOURCE,
        'self._lost(f"{told_lost(end)}, and the checkpoint names {lost} of them")\n',
        "pass\n",
        (OF_OFFSETS + "test_a_query_ends_on_lost_effects_of_a_removed_region",),
        "M17: a query with failOnDataLoss goes on, and nobody hears that rows exist in it alone",
    ),
    Mutation(
        "a-clamped-offset-is-not-kept",
        SOURCE,
        "        if exists != above:\n",
        "        if False:\n",
        (OF_OFFSETS + "test_a_query_that_bears_losses_goes_on_from_where_the_region_ends",),
        "the checkpoint names lost effects for ever",
    ),
    Mutation(
        "a-batch-that-is-run-again-asks-for-lost-effects",
        SOURCE,
        "        above, upto = self._existing(above), self._existing(upto)\n",
        "",
        (OF_OFFSETS + "test_a_batch_that_is_run_again_ends_where_the_region_ends",),
        "a query that crashed before a removal never starts again",
    ),
    Mutation(
        "a-call-that-names-lost-effects-is-tried-until-time-is-up",
        "crdtstream/spark/attempts.py",
        "                raise DataLossError(details) from error\n",
        "                self._problems[address] = told\n",
        (OF_OFFSETS + "test_a_call_that_names_lost_effects_is_not_tried_again",),
        "each task waits a minute for what no region will ever have",
    ),
    Mutation(
        "lost-effects-count-as-lacking",
        "crdtstream/admin/client.py",
        "counted = min(n, ends[origin].last_n) if origin in ends else n",
        "counted = n",
        (OF_CLI + "test_lost_effects_of_a_removed_region_are_lacking_nowhere",),
        "`sync wait` waits, and `status` tells of a lag, for what will never come",
    ),
    Mutation(
        "a-plan-above-what-exists-is-made",
        QUERY,
        "        await self._must_know(above, context)\n",
        "",
        (OF_QUERY + "test_calls_that_name_lost_effects_are_refused_and_others_are_not",),
        "M17: a program that has read what exists nowhere never hears of it",
    ),
    Mutation(
        "what-exists-nowhere-is-only-behind",
        QUERY,
        "        await self._must_know(vector, context)\n",
        "",
        (OF_QUERY + "test_calls_that_name_lost_effects_are_refused_and_others_are_not",),
        "a program asks one region after the other for what none will ever have",
    ),
    Mutation(
        "what-others-hand-out-is-undelivered",
        QUERY,
        "undelivered=undelivered_count(region, stream, group) if",
        "undelivered=group.undelivered_count(stream.lanes.values()) if",
        (OF_QUERY + "test_entries_that_other_regions_deliver_are_not_undelivered_here",),
        "a group with a home seems to lag in every other region, more with each entry",
    ),
    # --- Who counts ---
    Mutation(
        "a-joining-region-counts-for-wait",
        "crdtstream/region/knowledge.py",
        "        active = self._peers.active\n        return sum(",
        "        active = self._peers.counting\n        return sum(",
        (CHANGING + "test_only_active_peers_count_for_wait",),
        "WAIT relies on a region that may yet be given up",
    ),
    Mutation(
        "a-joining-region-counts-itself-for-the-majority",
        FRESHNESS,
        "        own = int(self._peers.is_active_here)\n        wanted",
        "        own = 1\n        wanted",
        (OF_FRESHNESS + "test_a_region_that_joins_is_as_far_behind_as_a_majority_of_the_others",),
        "a region that joins says that it is level by the one peer that it hears",
    ),
    Mutation(
        "a-joining-region-is-half-of-two",
        FRESHNESS,
        "        own = int(self.counts_itself)\n",
        "        own = 1\n",
        (OF_FRESHNESS + "test_only_an_active_region_counts_itself_for_the_majority",),
        "a region that joins and hears nobody is available",
    ),
    Mutation(
        "a-region-counts-itself-while-it-joins",
        REGION,
        "is_active_here=self.membership.members.obstacle is None,",
        "is_active_here=True,",
        (OF_MEMBERSHIP + "test_a_region_counts_itself_only_while_it_is_active",),
        "a removed or joining region counts itself for the majority",
    ),
    Mutation(
        "a-group-may-be-given-to-a-region-that-hands-out-nothing",
        "crdtstream/commands/beyond_redis/group_modes.py",
        "if members.epoch and home not in members.active:",
        "if members.epoch and members.find(home) is None:",
        ("tests/rules/test_group_modes.py::test_a_home_is_an_active_region",),
        "the group's entries are handed out nowhere until the region has joined",
    ),
)
