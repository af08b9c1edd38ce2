"""Commands on strings.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
DECR key
    since 1.0.0; flags write denyoom fast; keys 1 RW access update
    Takes one from a number; of a missing key, from 0.
    O(1)

DECRBY key decrement=integer
    since 1.0.0; flags write denyoom fast; keys 1 RW access update
    Takes from a number; of a missing key, from 0.
    O(1)

GET key
    since 1.0.0; flags readonly fast; keys 1 RO access
    Shows a string.
    O(1)

GETDEL key
    since 6.2.0; flags write fast; keys 1 RW access delete
    Shows a string and deletes it.
    O(1)

GETEX key [expiration: EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT
        unix-time-milliseconds | PERSIST]
    since 6.2.0; flags write fast; keys 1 RW access update
    Shows a string and sets when it expires.
    O(1)

GETSET key value
    since 1.0.0; flags write denyoom fast; keys 1 RW access update
    Sets a string and shows what it was before.
    O(1)
    deprecated 6.2.0: `SET` with the `!GET` argument

INCR key
    since 1.0.0; flags write denyoom fast; keys 1 RW access update
    Adds one to a number; of a missing key, to 0.
    O(1)

INCRBY key increment=integer
    since 1.0.0; flags write denyoom fast; keys 1 RW access update
    Adds to a number; of a missing key, to 0.
    O(1)

MGET key...
    since 1.0.0; flags readonly fast; keys 1.. RO access; tips request_policy:multi_shard
    Shows several strings.
    O(N) for N keys.

MSET (data: key value)...
    since 1.0.1; flags write denyoom; keys 1../2 OW update; tips request_policy:multi_shard,
        response_policy:all_succeeded
    Sets several strings at once.
    O(N) for N keys.

MSETNX (data: key value)...
    since 1.0.1; flags write denyoom; keys 1../2 OW insert
    Sets several strings at once, if none of the keys is there.
    O(N) for N keys.

PSETEX key milliseconds value
    since 2.6.0; flags write denyoom; keys 1 OW update
    Sets a string that expires after some milliseconds.
    O(1)
    deprecated 2.6.12: `SET` with the `PX` argument

SET key value [condition: NX | XX]@2.6.12 [GET@6.2.0] [expiration: EX seconds@2.6.12 | PX
        milliseconds@2.6.12 | EXAT unix-time-seconds@6.2.0 | PXAT unix-time-milliseconds@6.2.0 |
        KEEPTTL@6.0.0]
    since 1.0.0; flags write denyoom; keys 1 RW access update variable_flags
    Sets a string, in the place of whatever the key holds.
    O(1)
    2.6.12: EX, PX, NX and XX.
    6.0.0: KEEPTTL.
    6.2.0: GET, EXAT and PXAT.
    7.0.0: NX and GET together.

SETEX key seconds value
    since 2.0.0; flags write denyoom; keys 1 OW update
    Sets a string that expires after some seconds.
    O(1)
    deprecated 2.6.12: `SET` with the `EX` argument

SETNX key value
    since 1.0.0; flags write denyoom fast; keys 1 OW insert
    Sets a string if the key is not there.
    O(1)
    deprecated 2.6.12: `SET` with the `NX` argument

STRLEN key
    since 2.2.0; flags readonly fast; keys 1 RO
    Counts the bytes of a string.
    O(1)
"""
