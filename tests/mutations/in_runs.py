"""Planted bugs in runs of XADDs and of XACKs."""

from typing import Final

from tests.mutations.mutation import Mutation

TESTS: Final = "tests/resp/test_xadd_runs.py::"
STOPS: Final = TESTS + "test_events_before_a_run_may_stop_it"
IDS: Final = "tests/resp/test_id_runs.py::"
BOUNDS: Final = "tests/core/test_lane_bounds.py::"

RUNS: Final = (
    Mutation(
        "run-passes-who-waits",
        "crdtstream/database/runs.py",
        "            and not self._serving.waiting.has_any(run.key)\n",
        "",
        (STOPS,),
        "a blocked XREAD gets all entries of a pipeline, where Redis gives it the first",
    ),
    Mutation(
        "a-node-grows-beyond-its-entries",
        "crdtstream/core/lanes/lane.py",
        "            or (node.added >= limits.entries_max > 0)\n",
        "",
        (BOUNDS + "test_a_node_is_closed_when_it_is_full",),
        "stream-node-max-entries is not kept",
    ),
    Mutation(
        "a-node-grows-beyond-its-bytes",
        "crdtstream/core/lanes/lane.py",
        "            or (len(columns.fields) + length > limits.bytes_max > 0)\n",
        "",
        (BOUNDS + "test_a_node_is_closed_when_it_is_full",),
        "stream-node-max-bytes is not kept",
    ),
    Mutation(
        "a-run-goes-into-a-node-that-a-cut-needs",
        "crdtstream/core/lanes/lane.py",
        "        if node.open_in != limits.changes.cut_number:\n            return False\n",
        "",
        (BOUNDS + "test_a_cut_closes_the_last_node",),
        "a checkpoint has entries of a run that came after its cut",
    ),
    Mutation(
        "run-inside-a-transaction",
        "crdtstream/database/runs.py",
        "            and session.queue is None\n",
        "",
        (STOPS,),
        "XADDs are answered with IDs inside MULTI",
    ),
    Mutation(
        "run-hidden-from-monitor",
        "crdtstream/database/runs.py",
        "            and host.on_call is None\n",
        "",
        (STOPS,),
        "MONITOR does not show a pipeline",
    ),
    Mutation(
        "xdel-run-beside-who-waits",
        "crdtstream/database/runs.py",
        "            and not self._is_seen(run.key)\n",
        "",
        (IDS + "test_events_before_a_run_may_stop_it",),
        "a client that watches the stream, or waits for it, sees several commands as one",
    ),
    Mutation(
        "xdel-run-overfills-the-batch",
        "crdtstream/database/runs.py",
        "            and self._host.has_room_in_batch(run.batch_bytes)\n",
        "",
        (IDS + "test_a_run_that_the_batch_has_no_room_for_is_called_one_by_one",),
        "a batch is larger than what peers take",
    ),
    Mutation(
        "run-passes-the-bound-on-lag",
        "crdtstream/database/runs.py",
        "            and host.limit is None\n",
        "",
        (TESTS + "test_a_run_stops_at_the_bound_on_replication_lag",),
        "I15: a pipeline of 400 is taken where 50 may be lost with the region",
    ),
    Mutation(
        "run-without-the-password",
        "crdtstream/database/runs.py",
        "            (session.authenticated or not host.users.ask)\n"
        "            and not session.subscriptions\n",
        "            not session.subscriptions\n",
        (IDS + "test_a_run_behind_a_reset_wants_the_password_again",),
        "a client that has not authenticated deletes entries by a pipeline",
    ),
    Mutation(
        "run-on-a-full-disk",
        "crdtstream/database/runs.py",
        "            and host.fault is None\n",
        "",
        (TESTS + "test_xadds_refused_one_by_one_are_refused_in_a_run",),
        "a pipeline is written where single commands are refused with MISCONF",
    ),
)
