"""Commands on strings: SET, GET and their like, for locks, caches and results."""
