"""The way in and out: streams and strings of one server are brought to another, and checked.

An *end* is a Redis, a Valkey, or a region; the *source* is read, and the *target* written.  One
program moves in both directions, since both ends speak the same protocol:

    address.py      the URL of an end, and its login
    connection.py   one connection: pipelines, bounded replies
    ends.py         both ends, and trying again
    records.py      the record at the target: the keys that this move has begun
    survey.py       the keys of the source, and the reasons not to begin
    gone.py         keys and entries that only the target has
    pages.py        entries in pages, bounded by bytes
    streams.py      a stream: facts, copying
    groups.py       groups, positions and pending entries
    strings.py      strings and deadlines
    fence.py        the source refuses writes
    checking.py     both ends compared, entry by entry
    moving.py       the order of the steps

Always so: an entry keeps its ID, and IDs are added in ascending order.  So the target's last ID is
how far a stream has come, and an entry that is sent twice is refused the second time.  A move may
be killed anywhere; the next run goes on.
"""
