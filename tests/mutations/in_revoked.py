"""Planted bugs in revoked certificates: the list, and who is refused by it."""

from typing import Final

from tests.mutations.mutation import Mutation

ENCODING: Final = "crdtstream/core/membership/encoding.py"
CERTIFIED: Final = "crdtstream/access/certified.py"
BOUNDED: Final = (
    "                async with self._running.bounded(caller.serial, until=caller.not_after):\n"
)
OF_BYTES: Final = "tests/membership/test_encoding.py::"

REVOKED: Final = (
    Mutation(
        "revoked-certificates-are-not-kept",
        ENCODING,
        "            revoked=members.revoked,\n",
        "",
        (OF_BYTES + "test_members_are_read_as_they_were_kept",),
        "a restart, a bootstrap or a region that joins forgets which certificates were stolen",
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
)
