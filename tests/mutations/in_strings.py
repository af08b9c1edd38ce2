"""Planted bugs in strings, and in the scripts that lock with them."""

from typing import Final

from tests.mutations.mutation import Mutation

STRINGS: Final = "tests/rules/test_strings.py::"
SCENARIO: Final = "tests/scenario/test_scenarios.py::test_scenario"
KNOWN: Final = "tests/like_redis/test_known_scripts.py::test_a_known_script_does_what_its_text_does"

STRING_BUGS: Final = (
    Mutation(
        "string-of-the-last-arrival-counts",
        "crdtstream/core/keyspace/strings.py",
        "        return self._values[min(self._values)].data\n",
        "        return self._values[next(reversed(self._values))].data\n",
        (STRINGS + "test_of_concurrent_values_the_lowest_dot_counts",),
        "rule 23: regions show different strings for good",
    ),
    Mutation(
        "string-keeps-only-the-winner",
        "crdtstream/core/keyspace/strings.py",
        "        self._values[dot] = value = StringValue(data)\n        if deadline",
        "        self._values = {} if not self._values or dot < self.dot else self._values\n"
        "        self._values[dot] = value = StringValue(data)\n        if deadline",
        (STRINGS + "test_no_value_is_lost_to_a_winner",),
        "I16: a value is lost before anybody has seen both",
    ),
    Mutation(
        "del-takes-strings-that-it-had-not-observed",
        "crdtstream/core/applying/apply_effect.py",
        "        string.forget_covered_by(context)\n",
        "        string.forget_covered_by(state.vv)\n",
        (STRINGS + "test_a_set_survives_a_del_that_had_not_observed_it",),
        "I16: a SET that was answered OK is gone, in some regions",
    ),
    Mutation(
        "expire-reaches-values-that-it-had-not-observed",
        "crdtstream/core/keyspace/strings.py",
        "            if covers_dot(context, value_dot):\n                value.expiry.set",
        "            if True:\n                value.expiry.set",
        (STRINGS + "test_expire_is_of_the_values_that_it_observed",),
        "I16: a value that was set without an end has one, in some regions",
    ),
    Mutation(
        "del-of-a-string-leaves-a-tombstone",
        "crdtstream/commands/keys/deleting.py",
        "        replica.issue(DeleteString(key))\n        return True\n",
        "        replica.issue(DeleteKey(key))\n        return True\n",
        (STRINGS + "test_del_of_a_string_spares_a_group_made_meanwhile",),
        "rule 23: a group that another region makes at the same time is destroyed",
    ),
    Mutation(
        "delete-key-spares-the-string",
        "crdtstream/core/applying/apply_effect.py",
        "    _delete_string(state, key, context)\n    state.tombstones",
        "    state.tombstones",
        (STRINGS + "test_a_whole_key_goes_with_both_its_parts",),
        "DEL of a name that is both leaves the string",
    ),
    Mutation(
        "strings-are-over-only-when-somebody-writes",
        "crdtstream/core/keyspace/keyspace.py",
        "        for expiry in (self.expiry, self.string_expiry):\n            expiry.now = now\n",
        "        for expiry in (self.expiry,):\n            expiry.now = now\n",
        (STRINGS + "test_the_region_that_set_the_deadline_deletes",),
        "rule 23: a lock whose holder is lost stays",
    ),
    Mutation(
        "set-leaves-a-stream-whose-time-is-over",
        "crdtstream/core/issuing/issuer.py",
        "not isinstance(effect, WITHOUT_LEFT_OVER)",
        'not type(effect).__name__.endswith(("String", "StringExpiry", "Key"))',
        (STRINGS + "test_a_write_ends_a_stream_whose_time_is_over",),
        "a clock that is set back brings the stream back in front of the string",
    ),
    Mutation(
        "a-hidden-string-is-counted-twice",
        "crdtstream/core/keyspace/keyspace.py",
        "            self.strings[key] = string = StringRegister()\n"
        "            if key not in self.streams:\n"
        "                self._order.add(key)\n",
        "            self.strings[key] = string = StringRegister()\n"
        "            self._order.add(key)\n",
        (STRINGS + "test_a_clash_shows_the_stream_and_keeps_the_string", STRINGS + "TestStrings"),
        "SCAN returns a key twice, DBSIZE counts it twice",
    ),
    Mutation(
        "keepttl-forgets",
        "crdtstream/commands/strings/setting.py",
        "        deadline = deadline_of(replica, key)\n",
        "        deadline = None\n",
        (STRINGS + "test_set_forgets_the_deadline_and_keepttl_keeps_it",),
        "a session that is renewed never ends",
    ),
    Mutation(
        "lock-is-released-by-anybody",
        "crdtstream/commands/scripts/known.py",
        '    """Lock.release: delete the lock if its token is ours; 1 if it was."""\n'
        "    token = call.get(line=2)\n"
        "    if token is None or token != call.arg(0):\n",
        '    """Lock.release: delete the lock if its token is ours; 1 if it was."""\n'
        "    token = call.get(line=2)\n"
        "    if token is None:\n",
        (KNOWN,),
        "who lost a lock releases it for who has it",
    ),
    Mutation(
        "xadd-beside-a-string",
        "crdtstream/commands/streams/xadd.py",
        "        refuse_string(replica, key)\n",
        "        pass\n",
        (SCENARIO + "[0-strings/set-replaces-a-stream]",),
        "XADD on a string answers an ID, and the string is seen no more",
    ),
)
