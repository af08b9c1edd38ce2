"""Planted bugs in strings, and in the scripts that lock with them."""

from typing import Final

from tests.mutations.mutation import Mutation

STRINGS: Final = "tests/rules/test_strings.py::"

STRING_BUGS: Final = (
    Mutation(
        "delete-key-spares-the-string",
        "crdtstream/core/applying/apply_effect.py",
        "    _delete_string(state, key, effect.takes, dot, context)\n    state.tombstones",
        "    state.tombstones",
        (STRINGS + "test_a_whole_key_goes_with_both_its_parts",),
        "DEL of a name that is both leaves the string",
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
)
