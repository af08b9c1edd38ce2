"""Commands that only this program has.  ``pages`` explains the form; the versions are ours."""

from typing import Final

TEXT: Final = """
CRDT.DIGEST [key]
    since 0.1.0; flags readonly @stream @dangerous; keys 1 RO access
    A digest of all that is replicated, or of a key: regions with equal ones agree.
    O(N) for N entries.

CRDT.TOKEN
    since 0.1.0; flags readonly fast @connection; here names_dots
    A token for what this region has seen so far; CRDT.WAITFOR elsewhere waits for it.
    O(1)

CRDT.WAITFOR token timeout
    since 0.1.0; flags blocking @connection
    Waits until this region has seen all that a token of another region stands for.
    O(1)

CRDT.WHY key [id]
    since 0.1.0; flags readonly @stream; here names_dots; keys 1 RO access
    Tells where an entry, or without an ID a string, comes from, and what became of it here.
    O(log N) for N entries.

CRDT.XGROUP
    since 0.1.0
    Holds the commands on which regions hand out the entries of a consumer group.
    Depends on the subcommand.

CRDT.XGROUP|GETMODE key group
    since 0.1.0; flags readonly @stream; here names_dots; keys 2 RO access
    Shows which region delivers the entries of a group.
    O(1)

CRDT.XGROUP|HELP
    since 0.1.0; flags loading stale @stream
    Lists the subcommands.
    O(1)

CRDT.XGROUP|SETMODE key group <mode: AT-LEAST-ONCE | HOME region | PARTITIONED> [FORCE]
    since 0.1.0; flags write @stream @admin @dangerous; here despite_lag; keys 2 RW update
    Sets which region delivers the entries of a group: every region, one, or each its own entries.
    O(1)

CRDT.XINFO
    since 0.1.0
    Holds the commands that tell of streams and groups what Redis's XINFO has no place for.
    Depends on the subcommand.

CRDT.XINFO|GROUPS key
    since 0.1.0; flags readonly @stream; keys 2 RO access
    Shows each group's mode, and how many entries it has still to deliver in this region.
    O(1) for each group.

CRDT.XINFO|HELP
    since 0.1.0; flags loading stale @stream
    Lists the subcommands.
    O(1)

CRDT.XINFO|STREAM key
    since 0.1.0; flags readonly @stream; keys 2 RO access
    Shows the lanes of a stream, and the producers that are remembered.
    O(1) for each lane.

CRDT.XREAD key cursor=string [COUNT count] [BLOCK milliseconds]
    since 0.1.0; flags readonly blocking @stream; here names_dots; keys 1 RO access
    Shows the entries that a cursor has not had, whichever region they come from; skips none.
    O(log N) for each region, and O(M) for M entries.
"""
