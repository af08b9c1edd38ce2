"""Transactions.  ``pages`` explains the form."""

from typing import Final

TEXT: Final = """
DISCARD
    since 2.0.0; flags noscript loading stale fast allow_busy; here immediate
    Drops a transaction, and what is being watched.
    O(N) for N commands in it.

EXEC
    since 1.2.0; flags noscript loading stale skip_slowlog; here immediate
    Runs the commands of a transaction.
    That of the commands.

MULTI
    since 1.2.0; flags noscript loading stale fast allow_busy; here immediate
    Begins a transaction: what follows is queued until EXEC.
    O(1)

UNWATCH
    since 2.2.0; flags noscript loading stale fast allow_busy
    Watches no key any more.
    O(N) for N watched keys.

WATCH key...
    since 2.2.0; flags noscript loading stale fast allow_busy; here immediate; keys 1.. RO
    Lets the next EXEC do nothing if one of the keys has changed by then.
    O(N) for N keys.
"""
