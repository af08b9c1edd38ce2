"""Commands on the connection and on others.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
AUTH [username@6.0.0] password
    since 1.0.0; flags noscript loading stale fast no_auth allow_busy
    Logs the connection in.
    O(N) for N passwords of the user.
    6.0.0: The user's name.

CLIENT
    since 2.4.0
    Holds the commands on connections.
    Depends on the subcommand.

CLIENT|CACHING <mode: YES | NO>
    since 6.0.0; flags noscript loading stale
    Says whether the keys of the next command are tracked.
    O(1)

CLIENT|GETNAME
    since 2.6.9; flags noscript loading stale
    Tells the connection's name.
    O(1)

CLIENT|GETREDIR
    since 6.0.0; flags noscript loading stale
    Tells to which connection invalidations go.
    O(1)

CLIENT|HELP
    since 5.0.0; flags loading stale
    Lists the subcommands.
    O(1)

CLIENT|ID
    since 5.0.0; flags noscript loading stale
    Tells the connection's ID.
    O(1)

CLIENT|INFO
    since 6.2.0; flags noscript loading stale; tips nondeterministic_output
    Describes this connection.
    O(1)

CLIENT|KILL <filter: old-format/ip:port!2.8.12
        | <new-format: [ID client-id@2.8.12]
        | [TYPE <client-type: NORMAL | MASTER@3.2.0 | SLAVE | REPLICA@5.0.0 | PUBSUB>@2.8.12]
        | [USER username] | [ADDR addr/ip:port] | [LADDR laddr/ip:port@6.2.0]
        | [SKIPME <skipme: YES | NO>] | [MAXAGE maxage@7.4.0]>...>
    since 2.4.0; arity -3; flags admin noscript loading stale
    Closes connections.
    O(N) for N connections.
    2.8.12: The filters.
    6.2.0: LADDR.
    7.4.0: MAXAGE.

CLIENT|LIST [TYPE <client-type: NORMAL | MASTER | REPLICA | PUBSUB>@5.0.0] [ID client-id...@6.2.0]
    since 2.4.0; flags admin noscript loading stale; tips nondeterministic_output
    Describes all connections, or some.
    O(N) for N connections.
    5.0.0: TYPE.
    6.2.0: ID.

CLIENT|NO-EVICT <enabled: ON | OFF>
    since 7.0.0; flags admin noscript loading stale
    Exempts the connection from being closed when memory is short; here none is.
    O(1)

CLIENT|NO-TOUCH <enabled: ON | OFF>
    since 7.2.0; flags noscript loading stale
    Keeps the connection's commands from counting as uses of keys.
    O(1)

CLIENT|PAUSE timeout [mode: WRITE | ALL]@6.2.0
    since 3.0.0; flags admin noscript loading stale
    Makes the commands of all clients wait.
    O(1)
    6.2.0: The mode.

CLIENT|REPLY <action: ON | OFF | SKIP>
    since 3.2.0; flags noscript loading stale
    Switches the replies to this connection off and on.
    O(1)

CLIENT|SETINFO <attr: LIB-NAME libname | LIB-VER libver>
    since 7.2.0; flags noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Tells the server which client library this is.
    O(1)

CLIENT|SETNAME connection-name
    since 2.6.9; flags noscript loading stale; tips request_policy:all_nodes,
        response_policy:all_succeeded
    Gives the connection a name.
    O(1)

CLIENT|TRACKING <status: ON | OFF> [REDIRECT client-id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT]
        [NOLOOP]
    since 6.0.0; flags noscript loading stale
    Switches client-side caching on and off; here it stays off.
    O(1)

CLIENT|TRACKINGINFO
    since 6.2.0; flags noscript loading stale
    Shows what is tracked for this connection.
    O(1)

CLIENT|UNBLOCK client-id [unblock-type: TIMEOUT | ERROR]
    since 5.0.0; flags admin noscript loading stale
    Ends another connection's waiting.
    O(1)

CLIENT|UNPAUSE
    since 6.2.0; flags admin noscript loading stale
    Ends what CLIENT PAUSE began.
    O(N) for N clients that wait.

ECHO message
    since 1.0.0; flags loading stale fast
    Answers what it was given.
    O(1)

HELLO [arguments: protover [AUTH (auth: username password)] [SETNAME clientname]]
    since 6.0.0; flags noscript loading stale fast no_auth allow_busy
    Chooses the version of the protocol, and may log in and name the connection.
    O(1)
    6.2.0: Without a version it describes the connection.

PING [message]
    since 1.0.0; flags fast; tips request_policy:all_shards, response_policy:all_succeeded
    Answers PONG, or what it was given.
    O(1)

QUIT
    since 1.0.0; arity -1; flags noscript loading stale fast no_auth allow_busy; here immediate
    Closes the connection after the reply.
    O(1)
    deprecated 7.2.0: just closing the connection

RESET
    since 6.2.0; flags noscript loading stale fast no_auth allow_busy; here immediate
    Makes the connection as new: protocol, name, login, transaction, subscriptions.
    O(1)

SELECT index
    since 1.0.0; flags loading stale fast
    Chooses the database.
    O(1)
"""
