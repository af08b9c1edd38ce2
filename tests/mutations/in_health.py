"""Planted bugs in what a region tells of itself: that it is current, level, available."""

from typing import Final

from tests.mutations.mutation import Mutation

FRESH: Final = "tests/region/test_freshness.py::"
GATE: Final = "tests/region/test_write_gate.py::"
LEVEL: Final = "tests/region/test_catching_up.py::"
PAGES: Final = "tests/http/test_pages.py::"
SERVER: Final = "tests/http/test_server.py::"
PROGRESS: Final = "tests/replication/test_progress.py::"

HEALTH: Final = (
    # --- Writes ---
    Mutation(
        "the-last-reason-for-refusing-is-told",
        "crdtstream/region/write_gate.py",
        "reasons[min(reasons)]",
        "reasons[max(reasons)]",
        (GATE + "test_of_several_reasons_the_first_cause_is_told",),
        "a full disk is told as a lag that ends by itself",
    ),
    Mutation(
        "one-reason-less-opens-the-gate",
        "crdtstream/region/write_gate.py",
        "            del reasons[cause]\n",
        "            reasons.clear()\n",
        (GATE + "test_writes_are_taken_again_when_no_reason_is_left",),
        "a region that is to be removed takes writes once it has caught up",
    ),
    Mutation(
        "writes-are-taken-again-unnoticed",
        "crdtstream/region/write_gate.py",
        "            self.takes_again = True\n",
        "            pass\n",
        (GATE + "test_writes_are_taken_again_when_no_reason_is_left",),
        "keys that expired while writes were refused stay until somebody asks",
    ),
    # --- Lag ---
    Mutation(
        "a-silent-peer-has-the-lag-of-its-last-word",
        "crdtstream/region/freshness.py",
        "return (at_ms if is_quiet else latest.heard_ms) - latest.as_of_ms",
        "return latest.heard_ms - latest.as_of_ms",
        (FRESH + "test_the_lag_grows_while_a_peer_is_silent",),
        "a region that hears nothing any more calls itself current",
    ),
    Mutation(
        "what-lacks-is-no-lag",
        "crdtstream/region/freshness.py",
        "        if heard.ahead:\n            lacks_ms",
        "        if heard.ahead and not latest:\n            lacks_ms",
        (FRESH + "test_the_lag_grows_from_the_first_effect_that_lacks_until_it_is_applied",),
        "a region that is behind calls itself current, and clients come back to it",
    ),
    Mutation(
        "a-silence-is-forgotten",
        "crdtstream/region/freshness.py",
        "at_ms - (latest.as_of_ms if was_silent else lacks_ms)",
        "at_ms - lacks_ms",
        (FRESH + "test_a_silence_counts_until_what_happened_meanwhile_is_applied",),
        "a region that is an hour behind is available when its line is mended",
    ),
    Mutation(
        "an-echo-of-the-future-is-believed",
        "crdtstream/region/freshness.py",
        "min(echo_ms, at_ms) if echo_ms else at_ms",
        "echo_ms or at_ms",
        (FRESH + "test_a_peer_cannot_make_a_region_look_current_by_an_echo_of_the_future",),
        "a peer that is wrong about the time makes a region current for ever",
    ),
    Mutation(
        "all-peers-count",
        "crdtstream/region/freshness.py",
        "wanted = min((len(active) + own) // 2 + 1 - own, len(known))",
        "wanted = len(known)",
        (FRESH + "test_a_majority_of_regions_counts",),
        "one frozen region makes all others unavailable",
    ),
    Mutation(
        "a-survivor-of-two-is-a-minority",
        "crdtstream/region/freshness.py",
        "return 2 * (self.linked + own) < self.peers + own",
        "return 2 * (self.linked + own) <= self.peers + own",
        (FRESH + "test_a_majority_of_regions_counts",),
        "when one of two regions is lost, clients are sent away from the other one too",
    ),
    Mutation(
        "peers-that-are-gone-count",
        "crdtstream/region/freshness.py",
        "for peer in active.intersection(linked)]",
        "for peer in self._peers]",
        (FRESH + "test_a_peer_that_is_not_heard_any_more_does_not_count",),
        "the loss of one region makes the survivor of two unavailable",
    ),
    Mutation(
        "a-stamp-of-any-size-is-taken",
        "crdtstream/replication/wire.py",
        "    if stamp_ms > STAMP_MS_MAX:\n",
        "    if stamp_ms < 0:\n",
        (
            "tests/replication/test_progress.py::test_a_stamp_that_could_not_be_sent_back_is_refused",
        ),
        "a peer that is wrong about the time ends this node",
    ),
    Mutation(
        "an-echo-without-the-time-between",
        "crdtstream/region/links/messages.py",
        "return self._theirs_ms + max(0, int((at - self._came_at) * 1000))",
        "return self._theirs_ms",
        (PROGRESS + "test_a_stamp_is_sent_back_with_the_time_that_passed_since",),
        "a region that is current calls itself behind, by a heartbeat",
    ),
    # --- Coming back ---
    Mutation(
        "first-answer-opens",
        "crdtstream/region/catching_up.py",
        "self.is_level = not self._unanswered or",
        "self.is_level = bool(self._answers) or",
        (LEVEL + "test_it_asks_all_peers_and_takes_writes_once_they_have_answered",),
        "a region takes writes while the peer that has more has still to say so",
    ),
    Mutation(
        "silent-peers-hold-back-for-ever",
        "crdtstream/region/catching_up.py",
        "not self._unanswered or now >= self._asks_until",
        "not self._unanswered",
        (LEVEL + "test_peers_that_do_not_answer_hold_it_back_only_so_long",),
        "a lone survivor that is started again never takes writes",
    ),
    Mutation(
        "a-clock-set-back-holds-back",
        "crdtstream/region/catching_up.py",
        "        self._asks_until = min(self._asks_until, Millis(now + self._answer_ms_max))\n",
        "",
        (LEVEL + "test_a_clock_that_is_set_back_makes_it_wait_no_longer",),
        "a region of a machine whose clock was ahead at its start takes no writes for hours",
    ),
    Mutation(
        "each-answer-moves-the-goal",
        "crdtstream/region/catching_up.py",
        "if before is None or before.run_id != run_id:",
        "if before is None or before.vv != vv:",
        (LEVEL + "test_effects_that_peers_get_during_catch_up_are_not_waited_for",),
        "under load a region that came back never takes writes",
    ),
    Mutation(
        "held-effects-are-waited-for",
        "crdtstream/region/catching_up.py",
        "for origin, n in goal.items() if not self._peer_runs.is_held(origin)}",
        "for origin, n in goal.items()}",
        (LEVEL + "test_effects_of_a_region_that_recovers_are_not_waited_for",),
        "two regions wait for a third one that waits for a fourth",
    ),
    Mutation(
        "what-cannot-come-is-waited-for",
        "crdtstream/region/catching_up.py",
        "elif now >= self._moved_ms + self._stall_ms_max:",
        "elif now < 0:",
        (LEVEL + "test_it_gives_up_when_nothing_has_come_for_long",),
        "a region whose peer dies while it catches up never takes writes",
    ),
    Mutation(
        "ping-answers-while-writes-are-refused",
        "crdtstream/database/database.py",
        'return handler.name == b"ping" and not session.subscriptions',
        "return False",
        ("tests/resp/test_protocol.py::test_ping_tells_that_writes_are_refused",),
        "clients that check by PING come back to a region that refuses their writes",
    ),
    # --- Pages ---
    Mutation(
        "silent-connections-stay",
        "crdtstream/http/server.py",
        "        if not self._is_answering():\n",
        "        if self.cycle and not self._is_answering():\n",
        (SERVER + "test_a_connection_with_an_unfinished_request_is_closed",),
        "connections that ask for nothing fill the HTTP port, and the region looks unavailable",
    ),
    Mutation(
        "lag-is-not-looked-at",
        "crdtstream/http/bdbs.py",
        "        if fresh.lag_ms > tolerance_ms:\n",
        "        if fresh.lag_ms > tolerance_ms + 3_600_000:\n",
        (PAGES + "test_a_region_behind_the_tolerated_lag_is_unavailable",),
        "health says yes while the region is stale",
    ),
    Mutation(
        "a-minority-is-available",
        "crdtstream/http/bdbs.py",
        'fresh.is_minority and self._settings.availability_in_minority == "unavailable"',
        'fresh.is_minority and self._settings.availability_in_minority == "never"',
        (PAGES + "test_a_region_in_a_minority_is_unavailable_in_the_lag_check_only",),
        "health says yes in a region that is cut off from the others",
    ),
)
