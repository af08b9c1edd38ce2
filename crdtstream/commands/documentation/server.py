"""Commands on the server as a whole.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
ACL
    since 6.0.0
    Holds the commands on users; here there is one, who may do everything.
    Depends on the subcommand.

ACL|CAT [category]
    since 6.0.0; flags noscript loading stale
    Lists the categories, or the commands of one.
    O(1)

ACL|DELUSER username...
    since 6.0.0; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Removes users, and closes their connections.
    O(1) for each user.

ACL|DRYRUN username command [arg...]
    since 7.0.0; flags admin noscript loading stale
    Tells whether a user may run a command, without running it.
    O(1)

ACL|GENPASS [bits]
    since 6.0.0; flags noscript loading stale
    Makes a password that cannot be guessed.
    O(1)

ACL|GETUSER username
    since 6.0.0; flags admin noscript loading stale
    Shows the rules of a user.
    O(N) for N rules.
    6.2.0: Shows channel patterns.
    7.0.0: Shows selectors, and patterns as rules.

ACL|HELP
    since 6.0.0; flags loading stale
    Lists the subcommands.
    O(1)

ACL|LIST
    since 6.0.0; flags admin noscript loading stale
    Shows all users as rules, in the form of the ACL file.
    O(N) for N users.

ACL|LOAD
    since 6.0.0; flags admin noscript loading stale
    Reads the users from the aclfile.
    O(N) for N users.

ACL|LOG [operation: count | RESET]
    since 6.0.0; flags admin noscript loading stale
    Shows who was refused of late, or forgets it.
    O(N) for N entries shown.
    7.2.0: Shows IDs and times of the entries.

ACL|SAVE
    since 6.0.0; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Writes the users into the aclfile.
    O(N) for N users.

ACL|SETUSER username [rule...]
    since 6.0.0; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Creates a user, or changes its rights.
    O(N) for N rules.
    6.2.0: Patterns of channels.
    7.0.0: Selectors and key permissions.

ACL|USERS
    since 6.0.0; flags admin noscript loading stale
    Lists the names of the users.
    O(N) for N users.

ACL|WHOAMI
    since 6.0.0; flags noscript loading stale
    Tells as which user this connection is logged in.
    O(1)

BGSAVE [SCHEDULE@3.2.2]
    since 1.0.0; flags admin noscript no_async_loading
    Begins a checkpoint in the background.
    O(1)
    3.2.2: SCHEDULE.

COMMAND
    since 2.8.13; arity -1; flags loading stale @connection; tips nondeterministic_output_order
    Describes all commands.
    O(N) for N commands.

COMMAND|COUNT
    since 2.8.13; flags loading stale @connection
    Tells how many commands there are.
    O(1)

COMMAND|DOCS [command-name...]
    since 7.0.0; flags loading stale @connection; tips nondeterministic_output_order
    Explains commands: what they are for, their arguments, their history.
    O(N) for N commands.

COMMAND|GETKEYS command [arg...]
    since 2.8.13; flags loading stale @connection
    Finds the keys among the arguments of a command.
    O(N) for N arguments.

COMMAND|GETKEYSANDFLAGS command [arg...]
    since 7.0.0; flags loading stale @connection
    Finds the keys among the arguments of a command, and what is done to them.
    O(N) for N arguments.

COMMAND|HELP
    since 5.0.0; flags loading stale @connection
    Lists the subcommands.
    O(1)

COMMAND|INFO [command-name...]
    since 2.8.13; flags loading stale @connection; tips nondeterministic_output_order
    Describes some commands.
    O(N) for N commands.
    7.0.0: Without a name, all are described.

COMMAND|LIST [FILTERBY <filterby: MODULE module-name | ACLCAT category | PATTERN pattern>]
    since 7.0.0; flags loading stale @connection; tips nondeterministic_output_order
    Lists the names of the commands, or of some.
    O(N) for N commands.

CONFIG
    since 2.0.0
    Holds the commands on the server's parameters.
    Depends on the subcommand.

CONFIG|GET parameter...
    since 2.0.0; flags admin noscript loading stale
    Shows the parameters that match patterns.
    O(N) for N parameters.
    7.0.0: Takes several patterns.

CONFIG|HELP
    since 5.0.0; flags loading stale
    Lists the subcommands.
    O(1)

CONFIG|RESETSTAT
    since 2.0.0; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Sets the counters of INFO to zero.
    O(1)

CONFIG|REWRITE
    since 2.8.0; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Writes the parameters as they are now to the configuration file.
    O(1)

CONFIG|SET (data: parameter value)...
    since 2.0.0; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Changes parameters: all of them or, if one is refused, none.
    O(N) for N parameters.
    7.0.0: Takes several parameters.

DBSIZE
    since 1.0.0; flags readonly fast @keyspace; tips request_policy:all_shards,
        response_policy:agg_sum
    Counts the keys.
    O(1)

DEBUG
    since 1.0.0; arity -2; flags admin noscript loading stale; doc syscmd
    Holds commands for those who work on the server itself.
    Depends on the subcommand.

FLUSHALL [flush-type: ASYNC@4.0.0 | SYNC@6.2.0]
    since 1.0.0; flags write @dangerous @keyspace; tips request_policy:all_shards,
        response_policy:all_succeeded
    Deletes all keys.
    O(N) for N keys.
    4.0.0: ASYNC.
    6.2.0: SYNC.

FLUSHDB [flush-type: ASYNC@4.0.0 | SYNC@6.2.0]
    since 1.0.0; flags write @dangerous @keyspace; tips request_policy:all_shards,
        response_policy:all_succeeded
    Deletes all keys of the database.
    O(N) for N keys.
    4.0.0: ASYNC.
    6.2.0: SYNC.

INFO [section...]
    since 1.0.0; flags loading stale @dangerous; tips nondeterministic_output,
        request_policy:all_shards, response_policy:special
    Describes the server: versions, counters, memory, regions.
    O(1)
    7.0.0: Takes several sections.

LASTSAVE
    since 1.0.0; flags loading stale fast @admin @dangerous; tips nondeterministic_output
    Tells when the last checkpoint was written.
    O(1)

LATENCY
    since 2.8.13
    Holds the commands on how long the server takes.
    Depends on the subcommand.

LATENCY|DOCTOR
    since 2.8.13; flags admin noscript loading stale; tips nondeterministic_output,
        request_policy:all_nodes, response_policy:special
    Judges for people what was slow.
    O(1)

LATENCY|GRAPH event
    since 2.8.13; flags admin noscript loading stale; tips nondeterministic_output,
        request_policy:all_nodes, response_policy:special
    Draws the latest delays of an event.
    O(1)

LATENCY|HELP
    since 2.8.13; flags loading stale
    Lists the subcommands.
    O(1)

LATENCY|HISTOGRAM [command...]
    since 7.0.0; flags admin noscript loading stale; tips nondeterministic_output,
        request_policy:all_nodes, response_policy:special
    Shows how the times of commands are distributed.
    O(N) for N commands.

LATENCY|HISTORY event
    since 2.8.13; flags admin noscript loading stale; tips nondeterministic_output,
        request_policy:all_nodes, response_policy:special
    Shows the latest delays of an event.
    O(1)

LATENCY|LATEST
    since 2.8.13; flags admin noscript loading stale; tips nondeterministic_output,
        request_policy:all_nodes, response_policy:special
    Shows the latest delay of every event.
    O(1)

LATENCY|RESET [event...]
    since 2.8.13; flags admin noscript loading stale; tips request_policy:all_nodes,
        response_policy:agg_sum
    Forgets the delays of events.
    O(1)

LOLWUT [VERSION version]
    since 5.0.0; flags readonly fast
    Shows the name and the version of the server.
    O(1)

MEMORY
    since 4.0.0
    Holds the commands on memory.
    Depends on the subcommand.

MEMORY|DOCTOR
    since 4.0.0; tips nondeterministic_output, request_policy:all_shards, response_policy:special
    Judges for people how memory is used.
    O(1)

MEMORY|HELP
    since 4.0.0; flags loading stale
    Lists the subcommands.
    O(1)

MEMORY|MALLOC-STATS
    since 4.0.0; tips nondeterministic_output, request_policy:all_shards, response_policy:special
    Shows what the allocator tells.
    Depends on the allocator.

MEMORY|PURGE
    since 4.0.0; tips request_policy:all_shards, response_policy:all_succeeded
    Asks the allocator to give memory back.
    Depends on the allocator.

MEMORY|STATS
    since 4.0.0; tips nondeterministic_output, request_policy:all_shards, response_policy:special
    Shows what memory is used for.
    O(1)

MEMORY|USAGE key [SAMPLES count]
    since 4.0.0; flags readonly; keys 2 RO
    Estimates the memory that a key takes.
    O(N) for N samples.

MODULE
    since 4.0.0
    Holds the commands on modules.
    Depends on the subcommand.

MODULE|HELP
    since 5.0.0; flags loading stale
    Lists the subcommands.
    O(1)

MODULE|LIST
    since 4.0.0; flags admin noscript; tips nondeterministic_output_order
    Lists the loaded modules.
    O(N) for N modules.

MONITOR
    since 1.0.0; flags admin noscript loading stale
    Shows every command that the server runs, as it runs it.
    O(1) for every command.

ROLE
    since 2.8.12; flags noscript loading stale fast @admin @dangerous
    Tells the server's role in replication.
    O(1)

SAVE
    since 1.0.0; flags admin noscript no_async_loading no_multi
    Writes a checkpoint, and answers when that is done.
    O(N) for N bytes that changed since the last one.

SHUTDOWN [save-selector: NOSAVE | SAVE] [NOW@7.0.0] [FORCE@7.0.0] [ABORT@7.0.0]
    since 1.0.0; flags admin noscript loading stale no_multi allow_busy
    Stops the server.
    O(N) for N bytes that are not yet on disk.
    7.0.0: NOW, FORCE and ABORT.

SLOWLOG
    since 2.2.12
    Holds the commands on commands that took long.
    Depends on the subcommand.

SLOWLOG|GET [count]
    since 2.2.12; flags admin loading stale; tips request_policy:all_nodes, nondeterministic_output
    Shows the latest commands that took long.
    O(N) for N entries shown.
    4.0.0: Shows the client's address and name.

SLOWLOG|HELP
    since 6.2.0; flags loading stale
    Lists the subcommands.
    O(1)

SLOWLOG|LEN
    since 2.2.12; flags admin loading stale; tips request_policy:all_nodes, response_policy:agg_sum,
        nondeterministic_output
    Counts the entries of the log.
    O(1)

SLOWLOG|RESET
    since 2.2.12; flags admin loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Empties the log.
    O(N) for N entries.

SWAPDB index1 index2
    since 4.0.0; flags write fast @dangerous @keyspace
    Exchanges two databases.
    O(N) for N clients that watch or wait for keys.

TIME
    since 2.6.0; flags loading stale fast; tips nondeterministic_output
    Tells the server's time: seconds, and microseconds within the second.
    O(1)
"""
