"""Planted bugs in limits: what strangers may take, and what clients may."""

from typing import Final

from tests.mutations.mutation import Mutation

NEWCOMERS: Final = "tests/resp/test_newcomers.py::"
CONNECTION: Final = "crdtstream/resp/clients/connection.py"
LOGINS: Final = "tests/access/test_logins.py::"
CALLS: Final = "tests/access/test_calls.py::"
WRITERS: Final = "tests/resp/test_writing_first.py::"
FLOODS: Final = "tests/live/test_floods.py::"

LIMITS: Final = (
    Mutation(
        "reset-frees-of-the-login",
        "crdtstream/resp/server.py",
        "        if not session.authenticated:\n            self.newcomers.add(connection)\n",
        "",
        (NEWCOMERS + "test_after_reset_a_client_has_to_log_in_again_in_time",),
        "a connection that was reset is kept without end",
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
        "second-login-counts",
        "crdtstream/access/basic.py",
        "    if len(values) > 1:\n        return _SEVERAL\n    value = values[0]\n",
        "    value = values[-1]\n",
        (CALLS + "test_two_logins_in_one_call_are_a_wrong_one",),
        "a proxy checks one login, and the node another",
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
        "requests-wait-for-their-client-to-read",
        CONNECTION,
        "            or self._region.log.is_congested\n",
        "            or self._region.log.is_congested\n            or self._write_paused\n",
        (
            WRITERS + "test_a_client_may_write_everything_before_it_reads",
            WRITERS + "test_a_client_may_write_everything_before_it_reads_over_tls",
        ),
        "a client that writes its pipeline before it reads, and the node, wait for each other",
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
