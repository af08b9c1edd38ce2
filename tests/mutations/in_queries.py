"""Planted bugs in plans and scans: what pipelines read."""

from typing import Final

from tests.mutations.mutation import Mutation

PLANNING: Final = "tests/query/test_planning.py::"
BOUNDS: Final = "tests/query/test_plan_bounds.py::"
DURABLE: Final = "tests/query/test_durable_reads.py::"

QUERIES: Final = (
    Mutation(
        "plan-skips-a-dot-between-ranges",
        "crdtstream/query/planning.py",
        "above_n, taken = end_n, lane.counts[at]",
        "above_n, taken = end_n + 1, lane.counts[at]",
        (BOUNDS + "test_a_range_begins_where_the_one_before_ends",),
        "I14: an entry is in no range",
    ),
    Mutation(
        "plan-repeats-a-dot-between-ranges",
        "crdtstream/query/planning.py",
        "above_n, taken = end_n, lane.counts[at]",
        "above_n, taken = end_n - 1, lane.counts[at]",
        (BOUNDS + "test_a_range_begins_where_the_one_before_ends",),
        "I14: an entry is in two ranges",
    ),
    Mutation(
        "plan-ends-one-entry-late",
        "crdtstream/query/planning.py",
        "return behind[left] - 1 if 0 <= left < len(behind) else cuts[low]",
        "return behind[left] if 0 <= left < len(behind) else cuts[low]",
        (BOUNDS + "test_an_end_is_just_before_the_first_entry_too_many",),
        "a micro-batch has more entries than it may have",
    ),
    Mutation(
        "small-origin-left-behind",
        "crdtstream/query/planning.py",
        "        if shares[richest] > 1:\n",
        "        if shares[richest] > 1 << 62:\n",
        (PLANNING + "test_an_origin_that_has_little_is_not_left_behind",),
        "a region that writes little is never read",
    ),
    Mutation(
        "losses-told-again",
        "crdtstream/query/planning.py",
        "if asked and lost_n > bounds.above.get(origin, 0):",
        "if asked and lost_n >= bounds.above.get(origin, 0):",
        (PLANNING + "test_entries_trimmed_or_deleted_unread_are_losses",),
        "a pipeline stops for entries that it has read",
    ),
    Mutation(
        "expired-stream-not-read-to-its-end",
        "crdtstream/query/planning.py",
        "def _lane(replica: Replica, key: bytes, origin: RegionId) -> Lane | None:\n"
        "    stream = replica.held_stream(key)\n",
        "def _lane(replica: Replica, key: bytes, origin: RegionId) -> Lane | None:\n"
        "    stream = replica.stream(key)\n",
        (PLANNING + "test_a_stream_whose_time_is_over_is_read_until_its_delete_tells_the_loss",),
        "entries of an expired stream that lives on are skipped",
    ),
    Mutation(
        "plan-past-durable",
        "crdtstream/query/service.py",
        "durable: VersionVector = dict(self._durable)\n        upto",
        "durable: VersionVector = dict(self._region.replica.vv)\n        upto",
        (DURABLE + "test_a_plan_ends_at_what_is_durable",),
        "rule 18: an offset names dots that a power cut gives to other entries",
    ),
    Mutation(
        "scan-past-durable",
        "crdtstream/query/service.py",
        "upto_n = request.upto_n or self._durable.get(origin, 0)",
        "upto_n = request.upto_n or region.replica.vv.get(origin, 0)",
        (DURABLE + "test_a_scan_ends_at_what_is_durable",),
        "rule 18: a reader has entries that a power cut takes back",
    ),
    Mutation(
        "behind-goes-unnoticed",
        "crdtstream/query/service.py",
        "        durable = self._durable\n",
        "        durable = self._region.replica.vv\n",
        (DURABLE + "test_requests_for_effects_that_are_not_durable_are_refused",),
        "rule 18: a region answers for dots that it may lose",
    ),
)
