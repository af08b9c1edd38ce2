"""The state of a replica as a whole: what it is made of, from which images it is put together, and
its digests."""
