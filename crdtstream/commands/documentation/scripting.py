"""Scripts.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
EVAL script numkeys [key...] [arg...]
    since 2.6.0; flags noscript stale skip_monitor no_mandatory_keys movablekeys; here runs_script;
        keys 2# RW access update
    Runs a script, if it is one of those known here: a lock's of redis-py or walrus, or RStream's.
    That of the script.

EVALSHA sha1 numkeys [key...] [arg...]
    since 2.6.0; flags noscript stale skip_monitor no_mandatory_keys movablekeys; here runs_script;
        keys 2# RW access update
    Runs a known script by the SHA-1 of its text.
    That of the script.

FUNCTION
    since 7.0.0
    Holds the commands on functions, of which there are none.
    Depends on the subcommand.

FUNCTION|HELP
    since 7.0.0; flags loading stale
    Lists the subcommands.
    O(1)

FUNCTION|LIST [LIBRARYNAME library-name-pattern] [WITHCODE]
    since 7.0.0; flags noscript; tips nondeterministic_output_order
    Lists the libraries of functions: there are none.
    O(1)

FUNCTION|STATS
    since 7.0.0; flags noscript allow_busy; tips nondeterministic_output,
        request_policy:all_shards, response_policy:special
    Shows that no function runs, and that there is none.
    O(1)

SCRIPT
    since 2.6.0
    Holds the commands on scripts.
    Depends on the subcommand.

SCRIPT|EXISTS sha1...
    since 2.6.0; flags noscript; tips request_policy:all_shards, response_policy:agg_logical_and
    Tells which scripts are known.
    O(N) for N scripts.

SCRIPT|FLUSH [flush-type: ASYNC | SYNC]@6.2.0
    since 2.6.0; flags noscript; tips request_policy:all_nodes, response_policy:all_succeeded
    Does nothing, as known scripts stay.
    O(1)
    6.2.0: ASYNC and SYNC.

SCRIPT|HELP
    since 5.0.0; flags loading stale
    Lists the subcommands.
    O(1)

SCRIPT|KILL
    since 2.6.0; flags noscript allow_busy; tips request_policy:all_shards,
        response_policy:one_succeeded
    Answers that no script is running.
    O(1)

SCRIPT|LOAD script
    since 2.6.0; flags noscript stale; tips request_policy:all_nodes, response_policy:all_succeeded
    Tells the SHA-1 of a script, if it is one of those known here.
    O(N) for N bytes of the script.
"""
