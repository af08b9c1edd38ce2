"""Commands on streams.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
XACK key group id...
    since 5.0.0; flags write fast; here despite_lag; keys 1 RW update
    Acknowledges entries: takes them off the list of what a group has pending.
    O(N) for N IDs.

XACKDEL key group [condition: KEEPREF | DELREF | ACKED] IDS (ids: numids id...)
    since 8.2.0; flags write fast; keys 1 RW update delete
    Acknowledges entries and deletes them from the stream.
    O(N) for N IDs.

XADD key [NOMKSTREAM@6.2.0] [condition: KEEPREF | DELREF | ACKED]
        [idmp: IDMPAUTO producer-id | IDMP (idmp: producer-id idempotent-id)]@8.6.0
        [trim: <strategy: MAXLEN | MINID@6.2.0> [operator: = | ~] threshold [LIMIT count@6.2.0]]
        <id-selector: * | id> (data: field value)...
    since 5.0.0; flags write denyoom fast; keys 1 RW update; tips nondeterministic_output
    Appends an entry to a stream, which is created if it does not exist.
    O(log N) for N entries, and O(M) for M that are trimmed.
    6.2.0: NOMKSTREAM, MINID and LIMIT.
    7.0.0: IDs of the form `<ms>-*`.
    8.2.0: KEEPREF, DELREF and ACKED.
    8.6.0: IDMPAUTO and IDMP.

XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
    since 6.2.0; flags write fast; here despite_lag; keys 1 RW delete; tips nondeterministic_output
    Takes over entries that were pending for long, from any consumer.
    O(N) for N entries looked at.
    7.0.0: Tells which of the entries no longer exist.

XCFGSET key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]
    since 8.6.0; flags write fast; keys 1 RW update
    Sets for how long, and for how many entries of each, a stream remembers its producers.
    O(1)

XCLAIM key group consumer min-idle-time id... [IDLE ms] [TIME unix-time-milliseconds]
        [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]
    since 5.0.0; flags write fast; here despite_lag; keys 1 RW update; tips nondeterministic_output
    Takes over pending entries, from any consumer.
    O(log N) for each ID and N pending entries.

XDEL key id...
    since 5.0.0; flags write fast; keys 1 RW delete
    Removes entries from a stream.
    O(M log N) for M IDs and N entries.

XDELEX key [condition: KEEPREF | DELREF | ACKED] IDS (ids: numids id...)
    since 8.2.0; flags write fast; keys 1 RW delete
    Removes entries from a stream, and says what becomes of references to them.
    O(M log N) for M IDs and N entries.

XGROUP
    since 5.0.0
    Holds the commands on consumer groups.
    Depends on the subcommand.

XGROUP|CREATE key group <id-selector: id | $> [MKSTREAM] [ENTRIESREAD entriesread/entries-read]
    since 5.0.0; flags write denyoom; keys 2 RW insert
    Creates a consumer group.
    O(1)
    7.0.0: ENTRIESREAD.

XGROUP|CREATECONSUMER key group consumer
    since 6.2.0; flags write denyoom; here despite_lag; keys 2 RW insert
    Creates a consumer in a group.
    O(1)

XGROUP|DELCONSUMER key group consumer
    since 5.0.0; flags write; here despite_lag; keys 2 RW delete
    Deletes a consumer, and with it what it has pending.
    O(N) for N pending entries.

XGROUP|DESTROY key group
    since 5.0.0; flags write; keys 2 RW delete
    Destroys a consumer group.
    O(N) for N pending entries.

XGROUP|HELP
    since 5.0.0; flags loading stale
    Lists the subcommands.
    O(1)

XGROUP|SETID key group <id-selector: id | $> [ENTRIESREAD entriesread/entries-read]
    since 5.0.0; flags write; keys 2 RW update
    Sets the ID after which a group reads on.
    O(1)
    7.0.0: ENTRIESREAD.

XINFO
    since 5.0.0
    Holds the commands that describe streams.
    Depends on the subcommand.

XINFO|CONSUMERS key group
    since 5.0.0; flags readonly; keys 2 RO access; tips nondeterministic_output
    Describes the consumers of a group.
    O(N) for N consumers.
    7.2.0: Tells `inactive` apart from `idle`.

XINFO|GROUPS key
    since 5.0.0; flags readonly; keys 2 RO access
    Describes the groups of a stream.
    O(N) for N groups.
    7.0.0: Shows `entries-read` and `lag`.

XINFO|HELP
    since 5.0.0; flags loading stale
    Lists the subcommands.
    O(1)

XINFO|STREAM key [full-block: FULL [COUNT count]]
    since 5.0.0; flags readonly; keys 2 RO access
    Describes a stream.
    O(1), and O(N) for N entries and pending entries that FULL shows.
    6.0.0: FULL.
    7.0.0: Shows `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read`
        and `lag`.
    7.2.0: Tells `active-time` apart from `seen-time`.
    8.6.0: Shows the producers that are remembered.

XLEN key
    since 5.0.0; flags readonly fast; keys 1 RO
    Counts the entries of a stream.
    O(1)

XNACK key group <mode: SILENT | FAIL | FATAL> IDS (ids: numids id...) [RETRYCOUNT count] [FORCE]
    since 8.8.0; flags write fast; here despite_lag; keys 1 RW update
    Gives pending entries back to the group, so that others can have them at once.
    O(N) for N IDs.

XPENDING key group [filters: [IDLE min-idle-time=integer@6.2.0] start end count [consumer]]
    since 5.0.0; flags readonly; keys 1 RO access; tips nondeterministic_output
    Shows what a group has pending.
    O(N) for N entries shown; of IDLE, for those looked at.
    6.2.0: IDLE, and ranges that leave out their ends.

XRANGE key start end [COUNT count]
    since 5.0.0; flags readonly; keys 1 RO access
    Shows the entries between two IDs.
    O(log N) for N entries, and O(M) for M that are shown.
    6.2.0: Ranges that leave out their ends.

XREAD [COUNT count] [MAXCOUNT maxcount@8.10.0] [MAXSIZE maxsize@8.10.0] [BLOCK milliseconds]
        STREAMS (streams: key... id...)
    since 5.0.0; flags readonly blocking movablekeys; keys STREAMS@1 RO access
    Shows the entries of streams after given IDs, or waits for some.
    O(log N) for each stream, and O(M) for M entries.
    7.4.0: The ID `+`, the last entry.
    8.10.0: MAXCOUNT and MAXSIZE.

XREADGROUP GROUP (group-block: group consumer) [COUNT count] [MAXCOUNT maxcount@8.10.0]
        [MAXSIZE maxsize@8.10.0] [BLOCK milliseconds] [CLAIM min-idle-time=integer@8.4.0] [NOACK]
        STREAMS (streams: key... id...)
    since 5.0.0; flags write blocking movablekeys; here despite_lag; keys STREAMS@4 RO access
    Hands out entries that the group has not had yet, or shows what a consumer has pending.
    O(log N) for each stream, and O(M) for M entries.
    8.4.0: CLAIM.
    8.10.0: MAXCOUNT and MAXSIZE.

XREVRANGE key end start [COUNT count]
    since 5.0.0; flags readonly; keys 1 RO access
    Shows the entries between two IDs, the latest first.
    O(log N) for N entries, and O(M) for M that are shown.
    6.2.0: Ranges that leave out their ends.

XSETID key last-id [ENTRIESADDED entries-added@7.0.0] [MAXDELETEDID max-deleted-id@7.0.0]
    since 5.0.0; flags write denyoom fast; keys 1 RW update
    Sets the last ID of a stream, and its counters.
    O(1)
    7.0.0: ENTRIESADDED and MAXDELETEDID.

XTRIM key
        (trim: <strategy: MAXLEN | MINID@6.2.0> [operator: = | ~] threshold [LIMIT count@6.2.0]
        [condition: KEEPREF | DELREF | ACKED])
    since 5.0.0; flags write; keys 1 RW delete; tips nondeterministic_output
    Removes the oldest entries of a stream.
    O(N) for N entries removed.
    6.2.0: MINID and LIMIT.
    8.2.0: KEEPREF, DELREF and ACKED.
"""
