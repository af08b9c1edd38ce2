"""Planted bugs in links: what is sent, asked for, taken, and acknowledged."""

from typing import Final

from tests.mutations.mutation import Mutation

LINKS: Final = "tests/replication/test_links.py::"
LINK: Final = "tests/region/test_link.py::"
REFUSALS: Final = "tests/replication/test_refusals.py::"
WIRE: Final = "tests/replication/test_wire.py::"
DURABLE: Final = "tests/replication/test_durable_version_vectors.py::"
SESSION: Final = "tests/replication/test_session.py::"
LISTENERS: Final = "tests/region/test_listeners.py::"
PUBLICATIONS: Final = "tests/region/test_publications.py::"

REPLICATION: Final = (
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
        "durable_vv=own.outstanding.durable_vv,",
        "durable_vv=own.replica.vv,",
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
        "            if not 0 <= size <= self._bytes_max:\n",
        "            if size < 0:\n",
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
        "            if len(name) > NAME_BYTES_MAX or size > NAMES_BYTES_MAX:\n"
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
        (LISTENERS + "test_who_is_told_nothing_is_not_counted_by_publish",),
        "PUBLISH counts listeners who are told nothing",
    ),
)
