"""Planted bugs in revoked certificates: the list, and who is refused by it."""

from typing import Final

from tests.mutations.mutation import Mutation

LIST: Final = "crdtstream/core/membership/revoked.py"
MEMBERS: Final = "crdtstream/core/membership/members.py"
ENCODING: Final = "crdtstream/core/membership/encoding.py"
CERTIFIED: Final = "crdtstream/access/certified.py"
BOUNDED: Final = (
    "                async with self._running.bounded(caller.serial, until=caller.not_after):\n"
)
RUNNING: Final = "crdtstream/access/running.py"
SHOWN: Final = "crdtstream/access/shown.py"
OF_SHOWN: Final = "tests/access/test_shown.py::"
RESP: Final = "crdtstream/resp/server.py"
OF_LIST: Final = "tests/membership/test_revoked.py::"
OF_BYTES: Final = "tests/membership/test_encoding.py::"
OF_TLS: Final = "tests/replication/test_mutual_tls.py::"
OF_CLIENTS: Final = "tests/resp/test_revoked_certificates.py::"
LIVE: Final = "tests/live/test_mutual_tls.py::"

REVOKED: Final = (
    Mutation(
        "a-revoked-certificate-calls",
        "crdtstream/access/callers.py",
        "if self.is_revoked(certificate.serial):",
        "if False:",
        (OF_TLS + "test_a_revoked_certificate_opens_nothing_and_ends_only_its_own_calls",),
        "a stolen certificate is good until it expires",
    ),
    Mutation(
        "a-link-outlives-its-certificate-that-is-revoked",
        RUNNING,
        "if is_revoked(serial)",
        "if False",
        (OF_TLS + "test_a_link_ends_when_its_certificate_is_revoked_and_a_new_one_opens_it",),
        "a thief who is connected stays connected",
    ),
    Mutation(
        "a-revoked-certificate-ends-the-calls-of-others",
        RUNNING,
        "[one for one, serial in self._scopes.items() if is_revoked(serial)], within=0",
        "self._scopes, within=0 if is_revoked else 0",
        (OF_TLS + "test_a_revoked_certificate_opens_nothing_and_ends_only_its_own_calls",),
        "each certificate that is revoked ends all calls of all nodes",
    ),
    Mutation(
        "a-redis-client-with-a-revoked-certificate",
        RESP,
        "        if self._is_revoked(own):\n            raise",
        "        if False:\n            raise",
        (OF_CLIENTS + "test_a_revoked_certificate_is_refused_and_its_clients_are_cut_off",),
        "the same certificate is refused by gRPC and opens the port of Redis clients",
    ),
    Mutation(
        "a-redis-client-stays-when-its-certificate-is-revoked",
        RESP,
        "            if is_revoked:\n                connection.abort()",
        "            if is_revoked:\n                pass",
        (OF_CLIENTS + "test_a_revoked_certificate_is_refused_and_its_clients_are_cut_off",),
        "a thief who is connected stays connected",
    ),
    Mutation(
        "who-revokes-cuts-off-the-own-node",
        "crdtstream/admin/members.py",
        "        _check_is_not_used_here(request.revoke, calls)\n",
        "        pass\n",
        (LIVE + "test_a_certificate_in_use_is_revoked_by_another_region_and_by_force_only",),
        "a slip of an operator takes a region off the others until it has a new certificate",
    ),
    Mutation(
        "who-revokes-cuts-off-another-node",
        "crdtstream/admin/service.py",
        '        return b"" if used is None else serial_bytes(used.current.serial)\n',
        '        return b"" if used is None else b""\n',
        (LIVE + "test_a_certificate_in_use_is_revoked_by_another_region_and_by_force_only",),
        "a slip of an operator takes a region off the others until it has a new certificate",
    ),
    Mutation(
        "a-node-whose-certificate-is-revoked-seems-well",
        "crdtstream/http/health.py",
        "is_revoked(certificates.current.serial):",
        "is_revoked(0):",
        ("tests/http/test_pages.py::test_a_revoked_certificate_of_the_node_degrades_its_health",),
        "nobody looks at a region that the others refuse",
    ),
    Mutation(
        "revoked-certificates-leave-before-they-expire",
        LIST,
        "return one.not_after + KEEP_SECONDS < at",
        "return one.at + KEEP_SECONDS < at",
        (OF_LIST + "test_expired_certificates_leave_with_the_next_change_that_revokes",),
        "a stolen certificate is good again after the next one is revoked",
    ),
    Mutation(
        "revoked-certificates-stay-for-good",
        LIST,
        "if not is_dropped(one, change.at)]",
        "]",
        (OF_LIST + "test_expired_certificates_leave_with_the_next_change_that_revokes",),
        "the list fills up, and then no certificate can be revoked any more",
    ),
    Mutation(
        "revoked-certificates-without-number",
        LIST,
        "    if len(kept) >= REVOKED_MAX:",
        "    if False:",
        (OF_LIST + "test_the_list_is_bounded_and_says_what_to_do",),
        "each link sends a list of any length when it opens",
    ),
    Mutation(
        "a-list-that-lost-certificates-is-followed",
        MEMBERS,
        "if wrong or not goes_on(mine.revoked, other.revoked, mine.epoch):",
        "if wrong:",
        (OF_LIST + "test_a_longer_history_keeps_what_was_revoked",),
        "a stolen region tells the others that its certificate was never revoked",
    ),
    Mutation(
        "revoked-certificates-are-not-kept",
        ENCODING,
        "            revoked=members.revoked,\n",
        "",
        (OF_BYTES + "test_members_are_read_as_they_were_kept",),
        "a restart, a bootstrap or a region that joins forgets which certificates were stolen",
    ),
    Mutation(
        "a-list-of-revoked-certificates-in-any-order",
        ENCODING,
        "    if not all(a.serial < b.serial for a, b in pairwise(revoked)):",
        "    if False:",
        (OF_BYTES + "test_members_that_cannot_be_are_refused",),
        "equal lists have different bytes, and a serial number stands in a list twice",
    ),
    Mutation(
        "a-call-that-waits-for-its-login-is-forgotten",
        CERTIFIED,
        BOUNDED + "                    await self._admit(caller, context, right, method.path)\n",
        "                await self._admit(caller, context, right, method.path)\n" + BOUNDED,
        (
            "tests/access/test_certified.py::test_a_call_that_waits_for_its_login_ends_with_its_certificate",
        ),
        "a stolen certificate that is revoked while its login is slowed down copies the database",
    ),
    Mutation(
        "the-query-port-does-not-know-the-list",
        "crdtstream/node/ports.py",
        "        interceptors.insert(0, shown)\n",
        "        pass\n",
        ("tests/query/test_service.py::test_a_port_of_its_own_refuses_a_revoked_certificate",),
        "a stolen reader's certificate reads all streams by the query port after it was revoked",
    ),
    Mutation(
        "a-revoked-certificate-calls-by-the-query-port",
        SHOWN,
        "            if self._is_revoked(shown.serial):",
        "            if False:",
        (OF_SHOWN + "test_a_call_with_a_revoked_certificate_is_refused_unread",),
        "a stolen reader's certificate reads all streams by the query port after it was revoked",
    ),
    Mutation(
        "a-scan-outlives-its-certificate",
        SHOWN,
        "        self._running.end_of(self._is_revoked)",
        "        pass",
        (OF_SHOWN + "test_a_call_that_goes_on_ends_when_its_certificate_is_revoked",),
        "a scan that has begun reads on with a certificate that was revoked",
    ),
    Mutation(
        "any-clock-revokes",
        "crdtstream/admin/members.py",
        "    if abs(skew_ms) > SKEW_MS_MAX:",
        "    if False:",
        ("tests/admin/test_revoking.py::test_a_clock_that_is_far_from_a_peers_revokes_nothing",),
        "a node whose clock is months ahead drops revoked certificates that are still valid",
    ),
)
