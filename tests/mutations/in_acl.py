"""Planted bugs in users and their rights."""

from typing import Final

from tests.mutations.mutation import Mutation

DATABASE: Final = "tests/database/test_acl.py::"
LIVE: Final = "tests/live/test_users.py::"
SELECTORS: Final = "crdtstream/database/acl/selectors.py"
QUERY: Final = "crdtstream/query/service.py"

ACL: Final = (
    Mutation(
        "channels-are-not-asked",
        SELECTORS,
        "if touches.channels is not Naming.NONE and not self.all_channels:",
        "if touches.channels is Naming.NONE and not self.all_channels:",
        (DATABASE + "test_keys_and_channels_need_the_rights_of_what_is_done",),
        "anybody publishes to any channel",
    ),
    Mutation(
        "patterns-are-channels",
        SELECTORS,
        "        if as_pattern:\n            return channel in self.channel_patterns\n",
        "",
        (DATABASE + "test_keys_and_channels_need_the_rights_of_what_is_done",),
        "PSUBSCRIBE listens to more than the user may",
    ),
    Mutation(
        "bulk-reads-of-any-key",
        QUERY,
        "        if rights.is_unlimited:\n            return\n",
        "        return\n",
        (LIVE + "test_bulk_reads_and_writes_need_rights_on_their_keys",),
        "a user with few rights reads everything by Spark",
    ),
)
