"""Commands on clusters, which answer that there is none.  ``pages`` explains the form."""

from typing import Final

_ASKED: Final = "Answers that this server is not part of a cluster."

TEXT: Final = f"""
ASKING
    since 3.0.0; flags fast @connection
    {_ASKED}
    O(1)

CLUSTER
    since 3.0.0
    Holds the commands on clusters.
    Depends on the subcommand.

CLUSTER|COUNTKEYSINSLOT slot=integer
    since 3.0.0; flags stale
    {_ASKED}
    O(1)

CLUSTER|GETKEYSINSLOT slot=integer count
    since 3.0.0; flags stale; tips nondeterministic_output
    {_ASKED}
    O(1)

CLUSTER|HELP
    since 5.0.0; flags loading stale
    {_ASKED}
    O(1)

CLUSTER|INFO
    since 3.0.0; flags stale; tips nondeterministic_output
    {_ASKED}
    O(1)

CLUSTER|KEYSLOT key=string
    since 3.0.0; flags stale
    {_ASKED}
    O(1)

CLUSTER|LINKS
    since 7.0.0; flags stale; tips nondeterministic_output
    {_ASKED}
    O(1)

CLUSTER|MYID
    since 3.0.0; flags stale
    {_ASKED}
    O(1)

CLUSTER|NODES
    since 3.0.0; flags stale; tips nondeterministic_output
    {_ASKED}
    O(1)

CLUSTER|SHARDS
    since 7.0.0; flags loading stale; tips nondeterministic_output
    {_ASKED}
    O(1)

CLUSTER|SLOTS
    since 3.0.0; flags loading stale; tips nondeterministic_output
    {_ASKED}
    O(1)
    4.0.0: Shows node IDs.
    7.0.0: Shows metadata of the network.
    deprecated 7.0.0: `CLUSTER SHARDS`

READONLY
    since 3.0.0; flags loading stale fast @connection
    {_ASKED}
    O(1)

READWRITE
    since 3.0.0; flags loading stale fast @connection
    {_ASKED}
    O(1)
"""
