"""Planted bugs in links: what is sent, asked for, taken, and acknowledged."""

from typing import Final

from tests.mutations.mutation import Mutation

LINKS: Final = "tests/replication/test_links.py::"
LINK: Final = "tests/region/test_link.py::"
REFUSALS: Final = "tests/replication/test_refusals.py::"
WIRE: Final = "tests/replication/test_wire.py::"
DURABLE: Final = "tests/replication/test_durable_version_vectors.py::"
TRAFFIC: Final = "tests/region/test_link_traffic.py::"
SERVE: Final = "tests/region/test_serve.py::"
FALSE: Final = "tests/replication/test_false_words.py::"
CLAIMS: Final = "crdtstream/region/links/claims.py"
PULL: Final = "tests/region/test_pull.py::"
FRESHNESS: Final = "tests/region/test_freshness.py::"
SESSION: Final = "tests/replication/test_session.py::"
LISTENERS: Final = "tests/region/test_listeners.py::"
PUBLICATIONS: Final = "tests/region/test_publications.py::"

REPLICATION: Final = (
    Mutation(
        "metadata-go-with-the-first-message",
        "crdtstream/replication/server.py",
        "            await context.send_initial_metadata(())\n",
        "",
        (FALSE + "test_a_link_that_fails_while_its_first_message_is_written_says_why",),
        "a peer whose first words are refused never learns that its link has ended",
    ),
    # --- Passwords that differ ---
    Mutation(
        "strangers-are-remembered-by-any-number",
        "crdtstream/replication/wire.py",
        "    region = checked_region(RegionId(message.region), message.region)\n    if",
        "    region = RegionId(message.region)\n    if",
        ("tests/replication/test_refusals.py::test_only_a_peer_of_the_same_database_is_let_in",),
        "who refuses a stranger under each of 2^32 numbers runs out of memory",
    ),
    Mutation(
        "strangers-are-remembered-by-names-of-any-length",
        "crdtstream/replication/wire.py",
        "if len(message.database_id) > DATABASE_ID_LENGTH_MAX:",
        "if False:",
        ("tests/replication/test_refusals.py::test_only_a_peer_of_the_same_database_is_let_in",),
        "a stranger fills memory and the node's log with what it calls its database",
    ),
    Mutation(
        "a-puller-says-nothing-of-its-password",
        "crdtstream/replication/puller.py",
        "str(self._password_mark)",
        "str(NOT_SAID)",
        (REFUSALS + "test_regions_with_different_passwords_both_notice",),
        "clients that move to another region are refused there, and nobody was warned",
    ),
    Mutation(
        "passwords-that-differ-are-told-at-each-open",
        "crdtstream/replication/server.py",
        "        self._peer_marks[peer] = mark\n",
        "",
        (REFUSALS + "test_a_peer_that_takes_another_password_is_let_in_and_told_of_once",),
        "a log full of one warning while a link flaps",
    ),
    Mutation(
        "a-node-that-says-nothing-has-another-password",
        "crdtstream/passwords.py",
        " - {NOT_SAID}",
        "",
        (
            "tests/test_passwords.py::test_marks_differ_if_two_nodes_say_other_ones",
            "tests/cli/test_cli.py::test_status_says_that_passwords_differ",
        ),
        "while regions are upgraded each warns of the others",
    ),
    # --- Rule 3: what a peer cannot have is not believed ---
    Mutation(
        "an-ack-of-what-was-never-sent-is-believed",
        CLAIMS,
        "        if n > most_n:\n",
        "        if n > self.logged_n:\n",
        (
            SERVE + "test_an_ack_of_what_was_never_sent_ends_the_link_and_teaches_nothing",
            FALSE + "test_an_ack_of_what_was_never_sent_ends_the_link_and_counts_for_nothing",
        ),
        "rule 3: a program that links as a peer makes WAIT count it, and the log is cut",
    ),
    Mutation(
        "an-ack-is-judged-after-it-was-learned",
        "crdtstream/region/links/serve.py",
        "        own.tick.open()\n        try:\n",
        "        own.tick.open()\n"
        "        own.replication_lag.note_durable(self.region, own.claims.own_n(ack.durable_vv))\n"
        "        try:\n",
        (SERVE + "test_an_ack_of_what_was_never_sent_ends_the_link_and_teaches_nothing",),
        "a bound on the replication lag counts what no other region has",
    ),
    Mutation(
        "a-link-that-ended-is-still-believed",
        "crdtstream/region/links/serve.py",
        "        if self.is_over:\n            return\n        own = self._own\n",
        "        own = self._own\n        if self.is_over:\n"
        "            own.learn(self.region, ack.durable_vv, by=self.region)\n            return\n",
        (SERVE + "test_an_ack_of_what_was_never_sent_ends_the_link_and_teaches_nothing",),
        "what a peer had before it lost its disk comes late, and counts",
    ),
    Mutation(
        "an-open-with-more-than-there-is-is-let-in",
        CLAIMS,
        "if self._opening.is_recovering or n <= self.logged_n:",
        "if self._opening.is_recovering or n:",
        (
            SERVE + "test_an_open_with_more_than_the_log_has_is_refused_and_teaches_nothing",
            FALSE + "test_an_open_with_more_than_the_log_has_is_refused",
        ),
        "rule 18: a region that lost the end of its log sends nothing to who has more",
    ),
    Mutation(
        "a-region-that-recovers-refuses-who-has-its-effects",
        CLAIMS,
        "if self._opening.is_recovering or n <= self.logged_n:",
        "if n <= self.logged_n:",
        (
            SERVE + "test_a_region_that_recovers_serves_peers_that_have_more_and_learns_"
            "when_it_is_back",
        ),
        "rule 18: two regions that both lost the end of their logs wait for each other",
    ),
    Mutation(
        "what-was-said-while-a-region-recovered-counts",
        CLAIMS,
        "            return n <= self.logged_n\n",
        "            return True\n",
        (
            SERVE + "test_a_region_that_recovers_serves_peers_that_have_more_and_learns_"
            "when_it_is_back",
        ),
        "rule 3: WAIT counts a peer for effects that are issued after the peer said to have them",
    ),
    Mutation(
        "an-open-is-not-judged-after-a-recovery",
        CLAIMS,
        "        if most_n > self.logged_n:\n",
        "        if most_n > 1 << 60:\n",
        (SERVE + "test_the_opening_version_vector_of_a_link_is_checked_after_recovery",),
        "rule 3: who opened a link with too much while a region recovered may acknowledge all",
    ),
    Mutation(
        "one-peer-may-have-what-was-never-sent-to-it",
        CLAIMS,
        "sent_n if self._has_one_peer else self.elsewhere_n",
        "self.elsewhere_n",
        (SERVE + "test_of_two_regions_the_other_has_what_its_own_link_brought_and_no_more",),
        "after a restart of a region the log is cut of what its only peer was not sent",
    ),
    Mutation(
        "relayed-effects-are-taken-for-a-lie",
        CLAIMS,
        "sent_n if self._has_one_peer else self.elsewhere_n",
        "sent_n",
        (SERVE + "test_a_puller_may_have_got_from_another_region_what_was_sent_there",),
        "links of peers that relay to each other end for nothing",
    ),
    Mutation(
        "gossip-of-what-was-never-sent-counts",
        "crdtstream/region/links/own_side.py",
        "if region != by and vv is not None and self.claims.is_possible(vv):",
        "if region != by and vv is not None:",
        (
            SERVE + "test_gossip_of_what_was_never_sent_is_passed_over",
            FALSE + "test_gossip_of_what_was_never_sent_counts_for_nothing",
        ),
        "rule 3: a peer speaks for regions that have nothing",
    ),
    Mutation(
        "gossip-speaks-for-who-tells-it",
        "crdtstream/region/links/own_side.py",
        "if region != by and vv is not None and self.claims.is_possible(vv):",
        "if vv is not None and self.claims.is_possible(vv):",
        (SERVE + "test_gossip_of_what_was_never_sent_is_passed_over",),
        "rule 3: what a link was never sent is acknowledged as gossip",
    ),
    Mutation(
        "a-heartbeat-is-not-judged",
        CLAIMS,
        "return self.own_n(vv) <= issued and self._check(peer, vv, self.elsewhere_n)",
        "return self.own_n(vv) <= issued",
        (PULL + "test_a_heartbeat_of_what_was_never_sent_ends_the_call_and_teaches_nothing",),
        "rule 3: the other end of a link says by heartbeats what it may not acknowledge",
    ),
    Mutation(
        "a-lost-log-is-taken-for-a-lie",
        CLAIMS,
        "return self.own_n(vv) <= issued and self._check(peer, vv, self.elsewhere_n)",
        "return self._check(peer, vv, self.elsewhere_n)",
        (
            PULL + "test_a_heartbeat_of_more_than_was_issued_makes_the_region_recover_and_"
            "teaches_no_more",
        ),
        "rule 18: a region that lost effects of its own never hears of it",
    ),
    # --- Rule 3: what is told is durable ---
    Mutation(
        "acks-from-applied",
        "crdtstream/region/links/pull.py",
        "durable_vv=own.outstanding.durable_vv,",
        "durable_vv=own.replica.vv,",
        (DURABLE + "test_an_ack_names_nothing_that_is_not_durable",),
        "rule 3: a power cut takes back what an ack has told",
    ),
    Mutation(
        "acks-from-logged",
        "crdtstream/region/links/pull.py",
        "durable_vv=own.outstanding.durable_vv,",
        "durable_vv=own.outstanding.logged_vv,",
        (DURABLE + "test_an_ack_names_nothing_that_is_not_durable",),
        "rule 3: a power cut takes back what an ack has told",
    ),
    Mutation(
        "heartbeats-from-applied",
        "crdtstream/region/links/serve.py",
        "durable_vv, is_awaited = own.outstanding.durable_vv, own.database.awaits_news",
        "durable_vv, is_awaited = dict(own.replica.vv), own.database.awaits_news",
        (DURABLE + "test_a_heartbeat_names_nothing_that_is_not_durable",),
        "rule 3: a power cut takes back what a heartbeat has told",
    ),
    Mutation(
        "gossip-not-sent",
        "crdtstream/replication/wire.py",
        "for region, vv in sorted(progress.others.items())",
        "for region, vv in sorted(progress.others.items())[:0]",
        ("tests/replication/test_progress.py::test_progress_survives_the_way_with_gossip",),
        "rule 3: nothing is ever stable where two regions have no link",
    ),
    Mutation(
        "gossip-is-told-once-for-ever",
        "crdtstream/region/links/gossip.py",
        "            self._told.clear()\n",
        "            pass\n",
        ("tests/region/test_gossip.py::test_a_peer_that_forgot_hears_it_again_after_a_while",),
        "a log is kept for ever for a region that came back with less, told of by another one",
    ),
    Mutation(
        "gossip-is-repeated",
        "crdtstream/region/links/gossip.py",
        "        told.update(news)\n",
        "",
        ("tests/region/test_gossip.py::test_only_what_has_grown_is_told_again",),
        "n regions say n version vectors of n numbers to n peers with each message",
    ),
    # --- How often ---
    Mutation(
        "links-read-what-is-for-nobody",
        "crdtstream/region/links/serve.py",
        "        if self._seq <= self._last_seq and not self.has_news:\n",
        "        if self._seq < 0 and not self.has_news:\n",
        ("tests/region/test_serve.py::test_records_for_other_pullers_are_passed_over_unread",),
        "each of n regions reads its log n - 1 times for what it received, and sends nothing of it",
    ),
    Mutation(
        "acks-repeat-heartbeats",
        "crdtstream/region/links/acks.py",
        "    if not peer_pulls:\n        return heartbeat_seconds\n",
        "    if heartbeat_seconds:\n        return heartbeat_seconds\n",
        ("tests/region/test_link_traffic.py::test_messages_and_wakes_of_an_idle_minute",),
        "two idle regions tell each other everything twice",
    ),
    # --- Links that have nothing to tell ---
    Mutation(
        "no-link-is-quiet",
        "crdtstream/region/links/serve.py",
        "            seconds = quiet_heartbeat_seconds(own.limits)\n",
        "            seconds = own.limits.heartbeat_interval_ms / 1000\n",
        (
            TRAFFIC + "test_messages_and_wakes_of_an_idle_minute",
            SERVE + "test_a_link_with_nothing_to_tell_speaks_seldom_and_says_so_beforehand",
        ),
        "idle regions send each other four heartbeats a second that say nothing",
    ),
    Mutation(
        "what-is-new-does-not-end-the-quiet",
        "crdtstream/region/links/serve.py",
        "        if self._has_something_to_tell:\n            self.is_quiet",
        "        if self.told_awaited:\n            self.is_quiet",
        (SERVE + "test_news_ends_the_quiet_of_a_link_at_once",),
        "a peer's durable effects, and who waits for them, are told up to a second late",
    ),
    Mutation(
        "a-link-is-quiet-whatever-its-puller-lacks",
        "crdtstream/region/links/serve.py",
        "            and covers(self._durable_vv, durable_vv)\n",
        "",
        (SERVE + "test_a_link_whose_puller_lacks_something_is_not_quiet",),
        "a puller that catches up hears too late that it has",
    ),
    Mutation(
        "a-promised-silence-is-not-waited-for",
        "crdtstream/region/links/acks.py",
        "    if next_ms:\n        # What is",
        "    if not next_ms:\n        # What is",
        (PULL + "test_a_peer_may_be_silent_for_as_long_as_it_said",),
        "links break again and again between nodes with different settings",
    ),
    Mutation(
        "a-welcome-in-another-protocol-is-taken",
        "crdtstream/region/links/pull.py",
        "if welcome.protocol != PROTOCOL_VERSION:",
        "if False:",
        (PULL + "test_a_peer_that_answers_in_another_protocol_is_refused",),
        "a peer of a later version is pulled from, whatever its messages mean",
    ),
    Mutation(
        "an-ack-comes-later-than-announced",
        "crdtstream/region/links/acks.py",
        "min(quiet_seconds, self._announced_seconds)",
        "quiet_seconds",
        (PULL + "test_a_puller_never_speaks_later_than_it_announced",),
        "idle links break again and again between nodes with different settings",
    ),
    Mutation(
        "an-announcement-outlives-its-link",
        "crdtstream/region/freshness.py",
        "        heard.latest = heard.latest._replace(silent_ms=silent_ms)\n",
        "",
        ("tests/region/test_freshness.py::test_an_announced_silence_ends_with_its_link",),
        "a region that comes back calls itself current before it is",
    ),
    Mutation(
        "any-promised-silence-is-waited-for",
        "crdtstream/region/links/acks.py",
        "min(next_ms, NEXT_MS_MAX) + ",
        "next_ms + ",
        (SERVE + "test_a_puller_is_waited_for_as_long_as_it_said_and_not_without_end",),
        "a broken line is never noticed",
    ),
    Mutation(
        "links-do-not-hear-that-another-is-down",
        "crdtstream/region/links/routes.py",
        "        if (route.paused, route.down_since) != before:\n",
        "        if (route.paused, route.down_since) is before:\n",
        (PULL + "test_a_link_looks_at_its_routes_only_while_time_can_change_them",),
        "effects are relayed late",
    ),
    Mutation(
        "a-promised-silence-is-a-lag",
        "crdtstream/region/freshness.py",
        "heard.due_ms = at_ms + next_ms + ",
        "heard.due_ms = at_ms + ",
        (
            FRESHNESS + "test_a_peer_that_says_when_it_speaks_next_is_silent_from_then_on",
            FRESHNESS + "test_effects_reported_within_an_announced_silence_date_from_its_report",
        ),
        "idle regions call themselves behind, and clients leave them",
    ),
    # --- What is asked for ---
    Mutation(
        "own-lost-effects-not-asked-for",
        "crdtstream/region/links/routes.py",
        "        if self.own_lost:\n",
        "        if self.own_lost and not self._routes:\n",
        (LINK + "test_own_lost_effects_are_asked_of_everybody",),
        "rule 18: a region that lost its log's end never gets it back",
    ),
    Mutation(
        "relay-never-asked-for",
        "crdtstream/region/links/routes.py",
        "            if now - direct.down_since > self._relay_after_ms:\n",
        "            if now - direct.down_since > self._relay_after_ms and other == peer:\n",
        (LINK + "test_an_origin_without_a_working_link_is_asked_of_others_after_a_while",),
        "regions without a direct link never converge",
    ),
    Mutation(
        "paused-origin-is-relayed",
        "crdtstream/region/links/routes.py",
        "            if direct.paused:\n                continue\n",
        "            if False:\n                continue\n",
        (LINK + "test_a_paused_origin_is_not_asked_of_others",),
        "what an operator stopped comes another way",
    ),
    Mutation(
        "route-down-since-the-last-failure",
        "crdtstream/region/links/routes.py",
        "        elif route.down_since is None:\n",
        "        else:\n",
        (LINK + "test_an_origin_without_a_working_link_is_asked_of_others_after_a_while",),
        "a link that fails again and again is never relayed",
    ),
    # --- Numbering: rule 18 ---
    # --- What is let in ---
    Mutation(
        "another-database-let-in",
        "crdtstream/region/links/links.py",
        "        if opening.database_id != own.database_id:\n",
        "        if not opening.database_id:\n",
        (REFUSALS + "test_only_a_peer_of_the_same_database_is_let_in",),
        "two databases run into each other",
    ),
    Mutation(
        "unknown-region-let-in",
        "crdtstream/region/links/links.py",
        "        if opening.region not in self.serve_stats:\n",
        "        if not opening.region:\n",
        (REFUSALS + "test_only_a_peer_of_the_same_database_is_let_in",),
        "a region that is no member takes part",
    ),
    Mutation(
        "second-node-of-a-region-let-in",
        "crdtstream/region/links/links.py",
        "linked.run_id != opening.run_id:",
        "linked.run_id == -1:",
        (REFUSALS + "test_while_a_region_is_linked_no_other_node_is_let_in_as_it",),
        "rule 18: two nodes give the same dots to different effects",
    ),
    Mutation(
        "peer-of-another-number-accepted",
        "crdtstream/region/links/pull.py",
        "        if welcome.region != self.peer:\n",
        "        if not welcome.region:\n",
        (LINKS + "test_a_peer_of_another_number_than_expected_is_refused",),
        "a wrong address goes unnoticed",
    ),
    Mutation(
        "origin-not-asked-for-accepted",
        "crdtstream/region/links/pull.py",
        "            if batch.origin not in self.origins:\n",
        "            if not batch.origin:\n",
        (
            "tests/region/test_pull.py::test_a_batch_of_an_origin_that_was_not_asked_for_ends_the_link",
        ),
        "a peer speaks for another region",
    ),
    Mutation(
        "fields-not-checked",
        "crdtstream/replication/wire.py",
        "    if wrong is not None:\n",
        "    if wrong == -1:\n",
        (WIRE + "test_fields_that_are_no_even_array_of_bulk_strings_are_refused",),
        "clients get replies that are no RESP",
    ),
    Mutation(
        "frame-of-any-size-unpacked",
        "crdtstream/replication/wire.py",
        "bytes_max=self._bytes_max)\n",
        "bytes_max=1 << 40)\n",
        (WIRE + "test_a_frame_that_unpacks_to_too_much_is_refused_before_it_is_unpacked",),
        "a peer fills the memory",
    ),
    # --- What is sent ---
    Mutation(
        "server-sends-what-was-not-asked-for",
        "crdtstream/region/links/serve.py",
        "            if record.batch is None or record.origin not in self.origins:\n",
        "            if record.batch is None:\n",
        ("tests/region/test_serve.py::test_only_what_is_asked_for_and_lacks_is_sent",),
        "every batch goes over every link",
    ),
    Mutation(
        "server-passes-over-single-effects",
        "crdtstream/region/links/serve.py",
        "            if record.last_n > self.sent_vv.get(record.origin, 0):\n",
        "            if record.last_n > self.sent_vv.get(record.origin, 0) + 1:\n",
        ("tests/region/test_serve.py::test_only_what_is_asked_for_and_lacks_is_sent",),
        "a puller never gets batches of a single effect",
    ),
    Mutation(
        "publication-before-its-effects",
        "crdtstream/region/links/pull.py",
        "self._publications.take(applied_n)",
        "self._publications.take(1 << 62)",
        (PUBLICATIONS + "test_a_publication_waits_for_effects_that_cannot_be_applied_yet",),
        "who hears of an entry does not find it",
    ),
    Mutation(
        "pause-lost-on-failure",
        "crdtstream/region/links/link.py",
        "    LinkState.PAUSED: {\n        Resume: LinkState.CONNECTING,\n",
        "    LinkState.PAUSED: {\n        Resume: LinkState.CONNECTING,\n"
        "        Failed: LinkState.WAITING,\n",
        (LINK + "test_an_operator_may_pause_a_link_in_any_state",),
        "a paused link comes up by itself",
    ),
    # --- Who listens in other regions ---
    Mutation(
        "listeners-outlive-their-link",
        "crdtstream/region/links/listeners.py",
        "        self._elsewhere.forget(self._peer)\n",
        "        pass\n",
        (LISTENERS + "test_a_region_is_forgotten_with_its_link_and_tells_all_again",),
        "PUBSUB counts listeners of a region that is gone",
    ),
    Mutation(
        "a-new-link-tells-changes-only",
        "crdtstream/region/links/listeners.py",
        "{kind: OrderedDict.fromkeys(channels.active(kind)) for kind in Kind}\n",
        "{kind: OrderedDict[bytes, None]() for kind in Kind}\n",
        (LISTENERS + "test_a_link_tells_all_when_it_opens_and_then_what_changes",),
        "who listened before a link opened is not counted",
    ),
    Mutation(
        "listeners-without-bound",
        "crdtstream/region/links/listeners.py",
        "            if len(name) > NAME_BYTES_MAX or size > NAMES_BYTES_MAX.value:\n"
        "                return False\n",
        "",
        (LISTENERS + "test_names_beyond_the_bounds_are_not_told",),
        "a client that subscribes to many names ends the links of its region",
    ),
    Mutation(
        "publish-counts-whom-it-does-not-reach",
        "crdtstream/region/links/links.py",
        "            if serve is not None and serve.publish(publication):\n"
        "                reached.append(peer)\n",
        "            reached.append(peer)\n"
        "            if serve is not None and serve.publish(publication):\n"
        "                pass\n",
        (LISTENERS + "test_publish_does_not_count_subscribers_behind_a_paused_link",),
        "PUBLISH counts listeners who are told nothing",
    ),
    Mutation(
        "a-failed-link-keeps-its-call",
        "crdtstream/region/links/pull.py",
        "        self._end_call()\n        self._feed(Failed(reason), now)",
        "        self._feed(Failed(reason), now)",
        (PULL + "test_a_failed_call_is_tried_again_after_a_pause_that_doubles",),
        "two calls to one peer bring the same batches",
    ),
)
