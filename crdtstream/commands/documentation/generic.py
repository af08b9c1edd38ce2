"""Commands on keys, whatever they hold.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
COPY source destination [DB destination-db] [REPLACE]
    since 6.2.0; flags write denyoom; keys 1 RO access, 2 OW update
    Copies the value of a key to another key.
    O(N) for N entries.

DEL key...
    since 1.0.0; flags write; keys 1.. RM delete; tips request_policy:multi_shard,
        response_policy:agg_sum
    Deletes keys.
    O(N) for N keys and the entries in them.

DUMP key
    since 2.6.0; flags readonly; keys 1 RO access; tips nondeterministic_output
    Turns the value of a key into bytes from which RESTORE makes it again.
    O(N) for N entries.

EXISTS key...
    since 1.0.0; flags readonly fast; keys 1.. RO; tips request_policy:multi_shard,
        response_policy:agg_sum
    Counts the keys that exist, each as often as it is named.
    O(N) for N keys.
    3.0.3: Takes several keys.

EXPIRE key seconds [condition: NX | XX | GT | LT]@7.0.0
    since 1.0.0; flags write fast; keys 1 RW update
    Lets a key expire after some seconds.
    O(1)
    7.0.0: NX, XX, GT and LT.

EXPIREAT key unix-time-seconds [condition: NX | XX | GT | LT]@7.0.0
    since 1.2.0; flags write fast; keys 1 RW update
    Lets a key expire at a time, in seconds.
    O(1)
    7.0.0: NX, XX, GT and LT.

EXPIRETIME key
    since 7.0.0; flags readonly fast; keys 1 RO access
    Tells when a key expires, in seconds.
    O(1)

KEYS pattern
    since 1.0.0; flags readonly @dangerous @keyspace; tips request_policy:all_shards,
        nondeterministic_output_order
    Lists the keys that match a pattern.
    O(N) for N keys.

MOVE key db
    since 1.0.0; flags write fast; keys 1 RW access update
    Moves a key to another database.
    O(1)

OBJECT
    since 2.2.3
    Holds the commands on how values are stored.
    Depends on the subcommand.

OBJECT|ENCODING key
    since 2.2.3; flags readonly; keys 2 RO; tips nondeterministic_output
    Tells how the value of a key is stored.
    O(1)

OBJECT|FREQ key
    since 4.0.0; flags readonly; keys 2 RO; tips nondeterministic_output
    Tells how often a key is used, as a logarithm.
    O(1)

OBJECT|HELP
    since 6.2.0; flags loading stale
    Lists the subcommands.
    O(1)

OBJECT|IDLETIME key
    since 2.2.3; flags readonly; keys 2 RO; tips nondeterministic_output
    Tells for how many seconds a key was not used.
    O(1)

OBJECT|REFCOUNT key
    since 2.2.3; flags readonly; keys 2 RO; tips nondeterministic_output
    Tells how many references to the value of a key there are.
    O(1)

PERSIST key
    since 2.2.0; flags write fast; keys 1 RW update
    Lets a key expire no more.
    O(1)

PEXPIRE key milliseconds [condition: NX | XX | GT | LT]@7.0.0
    since 2.6.0; flags write fast; keys 1 RW update
    Lets a key expire after some milliseconds.
    O(1)
    7.0.0: NX, XX, GT and LT.

PEXPIREAT key unix-time-milliseconds [condition: NX | XX | GT | LT]@7.0.0
    since 2.6.0; flags write fast; keys 1 RW update
    Lets a key expire at a time, in milliseconds.
    O(1)
    7.0.0: NX, XX, GT and LT.

PEXPIRETIME key
    since 7.0.0; flags readonly fast; keys 1 RO access
    Tells when a key expires, in milliseconds.
    O(1)

PTTL key
    since 2.6.0; flags readonly fast; keys 1 RO access; tips nondeterministic_output
    Tells in how many milliseconds a key expires.
    O(1)
    2.8.0: Tells a key that is not there from one that does not expire.

RANDOMKEY
    since 1.0.0; flags readonly; tips request_policy:all_shards, response_policy:special,
        nondeterministic_output
    Names any one of the keys.
    O(1)

RENAME key newkey
    since 1.0.0; flags write; keys 1 RW access delete, 2 OW update
    Renames a key; a key that has the new name is replaced.
    O(N) for N entries.

RENAMENX key newkey
    since 1.0.0; flags write fast; keys 1 RW access delete, 2 OW insert
    Renames a key unless the new name is taken.
    O(N) for N entries.
    3.2.0: Both names may be the same.

RESTORE key ttl serialized-value [REPLACE@3.0.0] [ABSTTL@5.0.0] [IDLETIME seconds@5.0.0] [FREQ
        frequency@5.0.0]
    since 2.6.0; flags write denyoom @dangerous @keyspace; keys 1 OW update
    Makes a key from the bytes of DUMP.
    O(N) for N entries.
    3.0.0: REPLACE.
    5.0.0: ABSTTL, IDLETIME and FREQ.

SCAN cursor [MATCH pattern] [COUNT count] [TYPE type@6.0.0]
    since 2.8.0; flags readonly; tips nondeterministic_output, request_policy:special,
        response_policy:special
    Walks through the keys, some with every call.
    O(1) for a call, O(N) for all N keys.
    6.0.0: TYPE.

TOUCH key...
    since 3.2.1; flags readonly fast; keys 1.. RO; tips request_policy:multi_shard,
        response_policy:agg_sum
    Counts the keys that exist, and counts that as a use of them.
    O(N) for N keys.

TTL key
    since 1.0.0; flags readonly fast; keys 1 RO access; tips nondeterministic_output
    Tells in how many seconds a key expires.
    O(1)
    2.8.0: Tells a key that is not there from one that does not expire.

TYPE key
    since 1.0.0; flags readonly fast; keys 1 RO
    Tells the type of the value of a key.
    O(1)

UNLINK key...
    since 4.0.0; flags write fast; keys 1.. RM delete; tips request_policy:multi_shard,
        response_policy:agg_sum
    Deletes keys, as DEL does.
    O(N) for N keys and the entries in them.

WAIT numreplicas timeout
    since 3.0.0; flags blocking @connection; tips request_policy:all_shards, response_policy:agg_min
    Waits until enough other regions have durably what this connection wrote.
    O(1)

WAITAOF numlocal numreplicas timeout
    since 7.2.0; flags blocking @connection; tips request_policy:all_shards, response_policy:agg_min
    Waits until the log here, and enough other regions, have what this connection wrote.
    O(1)
"""
