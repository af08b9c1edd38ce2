"""The load generator: a process of its own, the same for every system, and as cheap as may be.

    python -m benchmarks.load PROGRAM '{"port": 6379, …}'

Requests are encoded before the clock starts, or are a template with a stamp; replies are parsed by
hiredis, whose cost is the same for all.  There is no garbage collection while it measures.  What
is found goes to stdout as JSON, with the generator's own processor time beside it.
"""
