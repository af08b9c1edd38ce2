"""Planted bugs in closed set-ups: pages by TLS, and programs around the node."""

from typing import Final

from tests.mutations.mutation import Mutation

HTTPS: Final = "crdtstream/http/tls.py"
OF_HTTPS: Final = "tests/http/test_tls.py::"
RIGHTS: Final = "tests/live/test_closed_rights.py::"

CLOSED: Final = (
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
        "who-is-no-operator-sets-parameters",
        "crdtstream/commands/documentation/server.py",
        "CONFIG|SET (data: parameter value)...\n    since 2.0.0; flags admin noscript",
        "CONFIG|SET (data: parameter value)...\n    since 2.0.0; flags noscript",
        ("tests/resp/test_protected_config.py::test_a_user_without_admin_sets_nothing",),
        "an application switches client certificates off, or has a file of its own read",
    ),
)
