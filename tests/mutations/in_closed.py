"""Planted bugs in closed set-ups: pages by TLS, and programs around the node."""

from typing import Final

from tests.mutations.mutation import Mutation

HTTPS: Final = "crdtstream/http/tls.py"
OF_HTTPS: Final = "tests/http/test_tls.py::"
JOINING: Final = "tests/live/test_closed_joining.py::"
RIGHTS: Final = "tests/live/test_closed_rights.py::"
WATCHING: Final = "tests/live/test_closed_watching.py::"

CLOSED: Final = (
    Mutation(
        "pages-are-plain-in-spite-of-the-setting",
        "crdtstream/node/ports.py",
        "    if settings.tls_http:\n",
        "    if False:\n",
        (WATCHING + "test_no_page_is_served_without_tls",),
        "an operator writes tls_http, and passwords of pages stay readable on the wire",
    ),
    Mutation(
        "pages-show-the-certificate-of-before",
        HTTPS,
        "if self._made is None or self._made[0] != current.version:",
        "if self._made is None:",
        (OF_HTTPS + "test_a_renewed_certificate_is_shown_to_new_connections",),
        "Prometheus sees an expired certificate, although it was renewed weeks ago",
    ),
    Mutation(
        "half-handshakes-of-pages-stay",
        HTTPS,
        "        oldest.cancel()\n",
        "",
        (OF_HTTPS + "test_strangers_who_begin_handshakes_keep_nobody_out",),
        "a stranger opens connections to the HTTP port until the node has no file left",
    ),
    Mutation(
        "handshakes-of-pages-take-their-time",
        HTTPS,
        "                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,\n",
        "",
        (OF_HTTPS + "test_half_a_handshake_ends_by_itself",),
        "a stranger who only connects is kept for a minute",
    ),
    Mutation(
        "a-login-that-was-right-is-not-judged-again",
        "crdtstream/access/logins.py",
        "        if self.rights(header, judge) is None:\n            self.slowing",
        "        was_right = self._proven.get(connection) == digest\n"
        "        if not was_right and self.rights(header, judge) is None:\n"
        "            self.slowing",
        (RIGHTS + "test_pages_are_refused_once_the_password_has_changed",),
        "a stolen password is changed, and its thief reads on",
    ),
    Mutation(
        "spark-reads-without-rights",
        "crdtstream/query/service.py",
        "        if rights.is_unlimited:\n            return\n        asked",
        "        if not rights.may_call([b'nosuch']):\n            return\n        asked",
        (RIGHTS + "test_a_reader_whose_right_is_taken_away_reads_no_more",),
        "key patterns hold for Redis clients, and Spark reads everything",
    ),
    Mutation(
        "who-is-no-operator-sets-parameters",
        "crdtstream/commands/documentation/server.py",
        "CONFIG|SET (data: parameter value)...\n    since 2.0.0; flags admin noscript",
        "CONFIG|SET (data: parameter value)...\n    since 2.0.0; flags noscript",
        ("tests/resp/test_protected_config.py::test_a_user_without_admin_sets_nothing",),
        "an application switches client certificates off, or has a file of its own read",
    ),
    Mutation(
        "a-thief-uses-a-token-up",
        "crdtstream/replication/membership_server.py",
        'await check_region(self._callers, context, expected, "the token")',
        "pass",
        (JOINING + "test_a_thief_of_the_token_does_not_use_it_up",),
        "a stolen token binds a region's number to the thief's folder: its owner cannot join",
    ),
    Mutation(
        "a-prepared-file-is-written-over",
        "crdtstream/node/joining.py",
        "                )\n            return\n        check_settings(wanted, path)",
        "                )\n        check_settings(wanted, path)",
        (JOINING + "test_a_region_joins_with_settings_that_were_written_before",),
        "a region joins with a plain port, although its file says that it has none",
    ),
)
