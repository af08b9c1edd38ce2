"""The console: what a person sees of a database in a browser, at the HTTP port of each node.

    sources ──> feed ──> picture ──> cells ──> overview, members, node   (figures of all regions)
                 │           └─────> live: changed cells to all viewers, each second
                 └─> attention
    sources ──> bounded_reading, pending ──> streams                   (keys, entries, histories)
    sources ──> actions ──> plans ──> acting ──> outcomes                (what can be changed)

``picture``, ``attention`` and ``cells`` are functions of messages that nodes exchange anyway; they
know no socket, clock or replica.  Text is made in one place, ``cells``, for pages and for changes.

A node loads this package at the first request for a page of it.
"""
