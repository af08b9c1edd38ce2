"""Planted bugs in limits: what strangers may take, and what clients may."""

from typing import Final

from tests.mutations.mutation import Mutation

NEWCOMERS: Final = "tests/resp/test_newcomers.py::"
NEWCOMERS_PY: Final = "crdtstream/resp/clients/newcomers.py"
CONNECTION: Final = "crdtstream/resp/clients/connection.py"
LOGINS: Final = "tests/access/test_logins.py::"
SLOWING: Final = "tests/access/test_slowing.py::"
CALLS: Final = "tests/access/test_calls.py::"
MESSAGES: Final = "tests/access/test_first_messages.py::"
MESSAGES_PY: Final = "crdtstream/access/first_messages.py"
PAGES: Final = "tests/http/test_server.py::"
WRITERS: Final = "tests/resp/test_writing_first.py::"
CLIENTS: Final = "tests/resp/test_client_limits.py::"
FLOODS: Final = "tests/live/test_floods.py::"

LIMITS: Final = (
    Mutation(
        "strangers-stay-for-ever",
        NEWCOMERS_PY,
        "self._timer = asyncio.get_running_loop().call_at(due_s, self._end_late)",
        "self._timer = asyncio.get_running_loop().call_at(due_s + 1e6, self._end_late)",
        (NEWCOMERS + "test_a_client_that_does_not_log_in_is_ended",),
        "connections that never log in are kept without end",
    ),
    Mutation(
        "logged-in-clients-are-ended",
        NEWCOMERS_PY,
        "            if not one.connection.is_trusted\n",
        "            if one.connection is not None\n",
        (NEWCOMERS + "test_a_client_with_a_login_stays",),
        "every client is cut off ten seconds after it came",
    ),
    Mutation(
        "reset-frees-of-the-login",
        "crdtstream/resp/server.py",
        "        if not session.authenticated:\n            self.newcomers.add(connection)\n",
        "",
        (NEWCOMERS + "test_after_reset_a_client_has_to_log_in_again_in_time",),
        "a connection that was reset is kept without end",
    ),
    Mutation(
        "newest-stranger-makes-room",
        NEWCOMERS_PY,
        "self.end(next(iter(self._newcomers.values())).connection, why)",
        "self.end(next(reversed(self._newcomers.values())).connection, why)",
        (NEWCOMERS + "test_the_one_that_has_waited_longest_makes_room",),
        "strangers that hold all places keep out clients that would log in at once",
    ),
    Mutation(
        "strangers-take-all-places",
        NEWCOMERS_PY,
        "return min(limits.newcomers_max, max(1, limits.clients_max // PART))",
        "return limits.clients_max",
        (NEWCOMERS + "test_strangers_take_no_places_of_clients_with_a_login",),
        "strangers reach maxclients, and clients with a password are refused",
    ),
    Mutation(
        "refusals-are-kept-for-strangers",
        CONNECTION,
        "        if not self.is_trusted and written > UNTRUSTED_UNREAD_BYTES_MAX:\n",
        "        if written < 0:\n",
        (NEWCOMERS + "test_a_client_that_leaves_its_refusals_unread_is_cut_off",),
        "each connection without a password makes the node keep a mebibyte of errors",
    ),
    Mutation(
        "requests-are-parsed-before-the-login-in-front-of-them",
        CONNECTION,
        "            requests = self._trusting(iter(requests))\n",
        "            requests = iter(list(self._trusting(iter(requests))))\n",
        ("tests/resp/test_protocol.py::test_authenticating_and_sending_much_may_be_one_pipeline",),
        "a client that logs in and writes in one pipeline is cut off",
    ),
    Mutation(
        "each-stranger-has-a-line-in-the-log",
        NEWCOMERS_PY,
        "        if now_s >= self._log_from_s:\n",
        "        if now_s:\n",
        (NEWCOMERS + "test_the_log_has_few_lines_about_many_strangers",),
        "a flood of connections fills the disk with log lines",
    ),
    Mutation(
        "an-old-password-slows-its-neighbours",
        "crdtstream/access/slowing.py",
        "        if digest and digest in found.digests:\n            return\n",
        "",
        (LOGINS + "test_a_program_that_repeats_an_old_password_slows_nobody_down",),
        "one program with an old password keeps out all that share its address",
    ),
    Mutation(
        "logged-in-connections-wait-with-guessers",
        "crdtstream/access/logins.py",
        "        if proven is not None and hmac.compare_digest(proven, digest):\n",
        "        if proven is not None and not digest:\n",
        (LOGINS + "test_a_connection_with_a_right_login_is_not_slowed_down_by_others",),
        "guesses behind one router stop the programs that are served there",
    ),
    Mutation(
        "a-proven-connection-guesses-freely",
        "crdtstream/access/logins.py",
        "        if proven is not None and hmac.compare_digest(proven, digest):\n",
        "        if proven is not None:\n",
        (LOGINS + "test_a_connection_with_a_right_login_is_no_way_to_guess",),
        "one who gets the port of another program guesses as fast as the node answers",
    ),
    Mutation(
        "an-ipv6-site-guesses-from-each-of-its-networks",
        "crdtstream/access/slowing.py",
        "    return own, (str(site), SITE_FREE_MAX.value)\n",
        "    return (own,) if site else ()\n",
        (SLOWING + "test_a_site_of_many_ipv6_networks_has_more_free_guesses_and_not_without_end",),
        "the 65,536 networks of one customer have ten free guesses each",
    ),
    Mutation(
        "second-login-counts",
        "crdtstream/access/basic.py",
        "    if len(values) > 1:\n        return _SEVERAL\n    value = values[0]\n",
        "    value = values[-1]\n",
        (CALLS + "test_two_logins_in_one_call_are_a_wrong_one",),
        "a proxy checks one login, and the node another",
    ),
    Mutation(
        "messages-are-waited-for-without-end",
        MESSAGES_PY,
        "        scope = asyncio.timeout(seconds)\n",
        "        scope = asyncio.timeout(seconds + 1e6)\n",
        (MESSAGES + "test_a_call_whose_message_does_not_come_ends",),
        "calls that never send their message hold their slots",
    ),
    Mutation(
        "open-calls-wait-without-a-bound",
        MESSAGES_PY,
        "        if len(self._waiting) >= PLACES.value:\n",
        "        if len(self._waiting) < 0:\n",
        (MESSAGES + "test_one_more_ends_the_call_that_has_waited_longest",),
        "callers without a login make the node keep any number of half messages",
    ),
    Mutation(
        "half-requests-hold-all-places-of-http",
        "crdtstream/http/server.py",
        "            longest.transport.abort()\n",
        "            pass\n",
        (PAGES + "test_a_connection_too_many_ends_the_one_that_has_asked_nothing_for_longest",),
        "64 half requests make a region look unavailable",
    ),
    Mutation(
        "large-bodies-are-read",
        "crdtstream/http/bodies.py",
        "int(announced) <= BODY_BYTES_MAX:",
        "int(announced) >= 0:",
        (PAGES + "test_a_large_body_is_refused_before_it_is_sent",),
        "anybody sends bodies of any size",
    ),
    Mutation(
        "large-membership-in-open",
        "crdtstream/replication/wire.py",
        "        if size > SAID_BYTES_MAX:\n",
        "        if size < 0:\n",
        ("tests/replication/test_wire.py::test_words_of_an_open_are_bounded",),
        "a stranger makes the node decode megabytes about members",
    ),
    Mutation(
        "smallest-client-is-evicted",
        "crdtstream/resp/clients/memory_bound.py",
        "key=self._weights.__getitem__, reverse=True):",
        "key=self._weights.__getitem__):",
        (CLIENTS + "test_the_largest_clients_are_evicted_until_the_rest_is_below_the_bound",),
        "one client that takes all memory has the others thrown out",
    ),
    Mutation(
        "no-evict-is-ignored",
        "crdtstream/resp/clients/memory_bound.py",
        "            is_spared = connection.no_evict or session_id in spared\n",
        "            is_spared = session_id in spared\n",
        (CLIENTS + "test_no_evict_spares_a_client_and_reset_ends_that",),
        "the operator who looks for the cause is thrown out",
    ),
    Mutation(
        "strangers-have-clients-evicted",
        "crdtstream/resp/clients/memory_bound.py",
        "        bytes_max += sum(map(_bytes_of, newcomers))\n",
        "",
        (NEWCOMERS + "test_strangers_have_no_client_with_a_login_evicted",),
        "connections without a password have the programs that are served thrown out",
    ),
    Mutation(
        "strangers-are-not-evicted",
        "crdtstream/resp/clients/memory_bound.py",
        "        for connection in sorted(newcomers, key=_bytes_of, reverse=True):\n",
        "        for connection in ():\n",
        (NEWCOMERS + "test_strangers_have_no_client_with_a_login_evicted",),
        "the bound on the memory of all clients is none for strangers",
    ),
    Mutation(
        "more-strangers-are-evicted-than-needed",
        "crdtstream/resp/clients/memory_bound.py",
        "        self._ended.add(connection.session.id)\n",
        "        pass\n",
        (NEWCOMERS + "test_strangers_have_no_client_with_a_login_evicted",),
        "one stranger too many, and all that are about to log in are thrown out",
    ),
    Mutation(
        "a-client-that-need-not-log-in-is-late",
        NEWCOMERS_PY,
        "            if not one.connection.is_trusted\n",
        "            if not one.connection.session.authenticated\n",
        (NEWCOMERS + "test_a_client_that_need_not_log_in_any_more_stays",),
        "ten seconds after the password was taken away its clients are cut off",
    ),
    Mutation(
        "reset-looks-before-the-login-has-ended",
        "crdtstream/resp/commands/connection/hello.py",
        "        session.authenticated = not self._users.ask\n"
        "        # The server looks at whether the client has to log in again.\n"
        "        self._on_reset(session)\n",
        "        self._on_reset(session)\n        session.authenticated = not self._users.ask\n",
        (
            NEWCOMERS + "test_after_reset_a_client_has_to_log_in_again_in_time",
            NEWCOMERS + "test_reset_takes_a_place_of_those_without_a_login",
        ),
        "a client that was reset needs no place and has no end of its time",
    ),
    Mutation(
        "transactions-weigh-nothing",
        "crdtstream/database/database.py",
        "        session.queue_bytes += sum(map(len, argv))\n",
        "",
        (
            CLIENTS + "test_whatever_a_client_takes_counts",
            CLIENTS + "test_a_client_that_sends_without_end_is_cut_off_without_an_answer",
        ),
        "a transaction that never ends takes all memory",
    ),
    Mutation(
        "half-requests-weigh-nothing",
        "crdtstream/resp/clients/connection.py",
        "        return parsed + self._arrivals.size + self._parser.pending_bytes\n",
        "        return parsed + self._arrivals.size\n",
        (CLIENTS + "test_whatever_a_client_takes_counts",),
        "requests that are never complete take memory that no bound counts",
    ),
    Mutation(
        "few-arguments",
        "crdtstream/settings.py",
        "request_arguments_max: int = Field(default=I32_MAX, ge=16, le=I32_MAX)",
        "request_arguments_max: int = Field(default=1 << 20, ge=16, le=I32_MAX)",
        ("tests/like_redis/test_limits.py::test_limits_of_requests_are_those_of_redis",),
        "a large request that Redis takes ends the connection",
    ),
    Mutation(
        "absolute-targets-are-unknown",
        "crdtstream/http/app.py",
        "            Middleware(PlainTargets),\n",
        "",
        (
            "tests/http/test_guard.py::test_health_asks_nobody",
            "tests/http/test_guard.py::test_a_port_of_this_machine_asks_nobody",
        ),
        "a load balancer that sends the absolute form takes the region for dead",
    ),
    Mutation(
        "late-messages-are-skew",
        "crdtstream/region/links/pull.py",
        "            skew_ms = min(0, skew_ms + under_way_ms)\n",
        "            skew_ms = min(0, skew_ms)\n",
        (
            (
                "tests/region/test_pull.py::"
                "test_a_message_that_comes_late_is_no_sign_of_a_clock_that_differs"
            ),
        ),
        "operators look for a wrong clock where a machine was busy",
    ),
    Mutation(
        "caching-is-accepted",
        "crdtstream/resp/commands/connection/client.py",
        "                raise CommandError(NO_CACHING_YES)\n",
        "                return OK\n",
        (
            (
                "tests/resp/test_client_commands.py::"
                "test_tracking_may_be_on_as_long_as_nothing_is_cached"
            ),
        ),
        "a program reads from a cache that is never told what changed",
    ),
    Mutation(
        "what-is-held-weighs-nothing",
        CONNECTION,
        "        return parsed + self._arrivals.size + self._parser.pending_bytes\n",
        "        return parsed + self._parser.pending_bytes\n",
        (
            WRITERS + "test_input_behind_a_blocked_read_is_bounded_as_redis_bounds_it",
            WRITERS + "test_input_behind_a_blocked_read_counts_for_the_memory_of_clients",
        ),
        "what a client sends behind a blocked read takes all memory",
    ),
    Mutation(
        "requests-wait-for-their-client-to-read",
        CONNECTION,
        "            or self._region.is_congested\n",
        "            or self._region.is_congested\n            or self._write_paused\n",
        (
            WRITERS + "test_a_client_may_write_everything_before_it_reads",
            WRITERS + "test_a_client_may_write_everything_before_it_reads_over_tls",
        ),
        "a client that writes its pipeline before it reads, and the node, wait for each other",
    ),
    Mutation(
        "the-end-of-a-client-drops-its-requests",
        CONNECTION,
        "        if self._waits() or not self._holds():\n",
        "        if self._sends_no_more:\n",
        (WRITERS + "test_all_that_was_received_is_run_however_the_client_leaves",),
        "the last commands of a program that writes and closes are lost without a word",
    ),
    Mutation(
        "a-reset-drops-requests",
        CONNECTION,
        "        if self._holds() and self.is_trusted and not self._waits():\n",
        "        if self._holds() and not self.is_trusted:\n",
        (WRITERS + "test_all_that_was_received_is_run_however_the_client_leaves",),
        "the last commands of a program that writes and exits are lost without a word",
    ),
    Mutation(
        "a-client-that-has-gone-waits",
        CONNECTION,
        "        if self._waits() or not self._holds():\n",
        "        if not self._holds():\n",
        (
            WRITERS + "test_a_client_that_has_left_is_run_up_to_a_command_that_waits",
            WRITERS + "test_a_blocked_client_that_leaves_takes_what_is_behind_with_it",
        ),
        "an entry goes to a consumer that is no more",
    ),
    Mutation(
        "held-input-is-run-in-one-piece",
        "crdtstream/resp/clients/arrivals.py",
        "        if not self._pieces or len(last) + len(data) > PIECE_BYTES.value:\n",
        "        if not self._pieces:\n",
        (
            WRITERS + "test_others_come_between_the_turns_of_what_was_held",
            WRITERS + "test_input_that_waits_is_kept_whole_and_in_order",
        ),
        "megabytes behind a blocked read hold up all other clients when it ends",
    ),
    Mutation(
        "short-replies-overtake",
        CONNECTION,
        "        if self._unwritten or self._write_paused or parcel.size > PIECE_BYTES.value:\n",
        "        if parcel.size > PIECE_BYTES.value:\n",
        (
            WRITERS + "test_many_short_replies_that_are_not_read_arrive_in_order",
            WRITERS + "test_a_client_may_write_everything_before_it_reads",
        ),
        "a client takes one reply for that of another command",
    ),
    Mutation(
        "soft-limit-waits-for-more",
        "crdtstream/resp/clients/connection.py",
        "rest_s + SOFT_SPARE_SECONDS.value, self._look_at_unread_again",
        "rest_s + 1e6, self._look_at_unread_again",
        (
            CLIENTS
            + "test_a_client_with_much_unread_is_ended_after_the_time_though_nothing_more_is_sent",
        ),
        "a client that stopped reading keeps its replies in memory without end",
    ),
    Mutation(
        "a-timer-each-time-that-much-is-unread",
        "crdtstream/resp/clients/connection.py",
        "elif bound.much_since is not None and self._unread_timer is None:",
        "elif bound.much_since is not None:",
        (CLIENTS + "test_a_client_has_one_timer_however_often_it_leaves_much_unread",),
        "a client that reads in bursts makes the node keep a timer for each",
    ),
    Mutation(
        "a-timer-outlives-its-client",
        "crdtstream/resp/clients/connection.py",
        "            self._unread_timer.cancel()\n",
        "            pass\n",
        (CLIENTS + "test_a_client_has_one_timer_however_often_it_leaves_much_unread",),
        "clients that come and go take memory until the time of the soft bound has passed",
    ),
    Mutation(
        "the-rest-of-the-soft-time-is-not-waited-for",
        "crdtstream/resp/clients/connection.py",
        "        self._unread_timer = None\n        self._check_unread()\n",
        "        self._check_unread()\n",
        (CLIENTS + "test_a_client_that_fetched_its_replies_is_judged_again_later",),
        "a client that once read in time keeps its replies in memory without end",
    ),
    Mutation(
        "listeners-have-the-bounds-of-others",
        "crdtstream/resp/clients/connection.py",
        "limit = limits.pubsub if self.session.subscriptions else limits.normal",
        "limit = limits.normal",
        (CLIENTS + "test_a_listener_has_the_bounds_of_its_class",),
        "slow subscribers are not bounded by what CONFIG shows",
    ),
    Mutation(
        "grpc-keeps-connections-without-a-call",
        "crdtstream/node/ports.py",
        '    ("grpc.max_connection_idle_ms", WITHOUT_CALL_MS_MAX),\n',
        "",
        (FLOODS + "test_half_requests_end_and_take_little_memory",),
        "connections that never call anything hold the places of a gRPC port",
    ),
    Mutation(
        "metadata-of-any-size",
        "crdtstream/node/ports.py",
        '    ("grpc.max_metadata_size", METADATA_BYTES_MAX),\n'
        '    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),\n',
        "",
        (
            FLOODS + "test_metadata_and_messages_of_strangers_are_bounded",
            "tests/live/test_mutual_tls.py::test_headers_of_a_call_are_bounded",
        ),
        "each call without a login makes the node keep what gRPC takes by default",
    ),
)
