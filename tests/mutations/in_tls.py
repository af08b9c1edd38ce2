"""Planted bugs in TLS for clients: who gets in, what runs, and what a crowd can do."""

from typing import Final

from tests.mutations.mutation import Mutation

TRANSPORT: Final = "crdtstream/resp/transport/"
HANDSHAKES: Final = "tests/resp/test_tls_handshakes.py::"
LIKE_REDIS: Final = "tests/resp/test_tls_like_redis.py::"
OF_TRANSPORT: Final = "tests/resp/test_tls_transport.py::"

TLS: Final = (
    Mutation(
        "plain-bytes-run-behind-the-end-of-tls",
        TRANSPORT + "tls.py",
        "        if not data:\n            self._end_reading()\n\n    # --- Writing",
        "        if data:\n            self._protocol.data_received(data)\n        else:\n"
        "            self._end_reading()\n\n    # --- Writing",
        (OF_TRANSPORT + "test_the_protocol_gets_nothing_behind_the_end_of_tls",),
        "somebody on the wire adds commands to a connection that TLS no longer protects",
    ),
    Mutation(
        "a-bug-in-one-handshake-ends-all",
        TRANSPORT + "handshakes.py",
        "                except Exception as bug:  # noqa: BLE001 - the others go on\n"
        "                    self._fail(handshake, bug)\n        finally:\n",
        "                except MemoryError as bug:\n"
        "                    self._fail(handshake, bug)\n        except MemoryError:\n"
        "            pass\n        else:\n",
        (HANDSHAKES + "test_a_handshake_that_breaks_ends_no_others",),
        "one client that finds a bug closes the TLS port for all until the node starts again",
    ),
    Mutation(
        "any-name-logs-in",
        "crdtstream/resp/server.py",
        "        if user is not None and user.is_on:\n",
        "        user = user or self.database.users.default\n        if user.is_on:\n",
        (LIKE_REDIS + "test_a_certificate_of_no_user_logs_nobody_in",),
        "every certificate of the authority is the user default",
    ),
)
