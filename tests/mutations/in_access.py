"""Planted bugs in access: ports, passwords, and those who guess them."""

from typing import Final

from tests.mutations.mutation import Mutation

LIVE_TLS: Final = "tests/live/test_mutual_tls.py::"

OF_FILES: Final = "tests/live/test_secrets.py::"


ACCESS: Final = (
    Mutation(
        "a-backup-for-all-users",
        "crdtstream/cli/backup.py",
        "            private_files(),\n",
        "",
        (OF_FILES + "test_a_folder_and_its_backups_are_for_the_node_alone_whatever_the_umask",),
        "a backup that is packed or moved can be read by every user",
    ),
    Mutation(
        "a-token-alone-joins",
        "crdtstream/replication/membership_server.py",
        "        if expected is not None:\n",
        "        if expected is None:\n",
        (LIVE_TLS + "test_regions_converge_restart_join_and_leave",),
        "a thief of the token binds it to another folder, and the region cannot join",
    ),
    Mutation(
        "any-password-over-tls",
        "crdtstream/access/admitting.py",
        "    if verdict is not Verdict.ADMITTED:\n"
        "        await context.abort(_CODES[verdict], REASONS[verdict])\n"
        '    assert rights is not None, "abort raises"\n'
        "    CALLER_RIGHTS.set(rights)\n",
        "    if rights is not None:\n        CALLER_RIGHTS.set(rights)\n",
        (LIVE_TLS + "test_a_user_with_the_password_is_an_operator_with_any_certificate",),
        "a reader's certificate and any password remove regions",
    ),
    Mutation(
        "plain-port-in-spite-of-the-setting",
        "crdtstream/node/ports.py",
        "        if callers is None:\n            server.add_insecure_port",
        "        if callers is not None:\n            server.add_insecure_port",
        (LIVE_TLS + "test_commands_present_a_certificate",),
        "an operator writes tls_replication, and links stay readable",
    ),
)
