"""Publishing and subscribing.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
PSUBSCRIBE pattern...
    since 2.0.0; flags pubsub noscript loading stale
    Listens to the channels that match patterns.
    O(N) for N patterns.

PUBLISH channel message
    since 2.0.0; flags pubsub loading stale fast; here may_replicate
    Tells a message to those who listen to a channel.
    O(N+M) for N listeners and M patterns.

PUBSUB
    since 2.8.0
    Holds the commands on channels and who listens to them.
    Depends on the subcommand.

PUBSUB|CHANNELS [pattern]
    since 2.8.0; flags pubsub loading stale
    Lists the channels that have subscribers.
    O(N) for N channels.

PUBSUB|HELP
    since 6.2.0; flags loading stale
    Lists the subcommands.
    O(1)

PUBSUB|NUMPAT
    since 2.8.0; flags pubsub loading stale
    Counts the patterns that have subscribers.
    O(1)

PUBSUB|NUMSUB [channel...]
    since 2.8.0; flags pubsub loading stale
    Counts who listens to channels.
    O(N) for N channels.

PUBSUB|SHARDCHANNELS [pattern]
    since 7.0.0; flags pubsub loading stale
    Lists the shard channels that have subscribers.
    O(N) for N channels.

PUBSUB|SHARDNUMSUB [shardchannel...]
    since 7.0.0; flags pubsub loading stale
    Counts who listens to shard channels.
    O(N) for N channels.

PUNSUBSCRIBE [pattern...]
    since 2.0.0; flags pubsub noscript loading stale
    Listens no more to patterns, or to none at all.
    O(N) for N patterns.

SPUBLISH shardchannel message
    since 7.0.0; flags pubsub loading stale fast; here may_replicate; keys 1 not_key
    Tells a message to those who listen to a shard channel.
    O(N) for N listeners.

SSUBSCRIBE shardchannel...
    since 7.0.0; flags pubsub noscript loading stale; keys 1.. not_key
    Listens to shard channels.
    O(N) for N channels.

SUBSCRIBE channel...
    since 2.0.0; flags pubsub noscript loading stale
    Listens to channels.
    O(N) for N channels.

SUNSUBSCRIBE [shardchannel...]
    since 7.0.0; flags pubsub noscript loading stale; keys 1.. not_key
    Listens no more to shard channels, or to none at all.
    O(N) for N channels.

UNSUBSCRIBE [channel...]
    since 2.0.0; flags pubsub noscript loading stale
    Listens no more to channels, or to none at all.
    O(N) for N channels.
"""
