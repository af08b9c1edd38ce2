"""Planted bugs in what a node tells of itself: keyspace notifications, its log, doctor."""

from typing import Final

from tests.mutations.mutation import Mutation

LIKE_REDIS: Final = "tests/like_redis/test_scripts.py::"
NODE: Final = "tests/resp/test_notifications.py::"

NOTIFICATIONS: Final = (
    Mutation(
        "notification-before-the-log",
        "crdtstream/region/region.py",
        "        if database.notifications.is_on:\n"
        "            database.notifications.tell()\n"
        "        records = replica.take_records(now)\n",
        "        records = replica.take_records(now)\n"
        "        if database.notifications.is_on:\n"
        "            database.notifications.tell()\n"
        "            parcels = self.tick._parcels\n"
        "            self.log.told += [parcel for parcel in parcels if not parcel.replies]\n"
        "            self.tick._parcels = [parcel for parcel in parcels if parcel.replies]\n",
        (NODE + "test_a_notification_waits_for_the_log",),
        "a client hears of a change that a crash takes back",
    ),
    Mutation(
        "notifications-pile-up",
        "crdtstream/database/notifications.py",
        "        noted = self._replica.take_noted()\n        channels = self._channels\n"
        "        if not channels.session_count:\n            return\n",
        "        channels = self._channels\n"
        "        if not channels.session_count:\n            return\n"
        "        noted = self._replica.take_noted()\n",
        (NODE + "test_without_subscribers_nothing_piles_up",),
        "without subscribers memory grows with every write",
    ),
    Mutation(
        "flush-tells-of-every-key",
        "crdtstream/commands/keys/deleting.py",
        "    with replica.announcing():\n        if replica.is_string_only(key):",
        "    if True:\n        if replica.is_string_only(key):",
        (LIKE_REDIS + "test_a_node_answers_as_redis",),
        "FLUSHALL sends a notification for every key",
    ),
    Mutation(
        "a-run-of-xdels-notifies-once",
        "crdtstream/database/runs.py",
        "            and not self._host.replica.is_noting\n",
        "",
        (NODE + "test_pipelined_xdels_notify_one_by_one",),
        "a client that counts deletes counts one of many",
    ),
    Mutation(
        "what-happened-before-they-are-off-is-lost",
        "crdtstream/database/notifications.py",
        "        if self.is_on:\n            self.tell()\n",
        "",
        (NODE + "test_changes_before_they_are_switched_off_are_told",),
        "a client misses changes that were made just before somebody changed the classes",
    ),
)
