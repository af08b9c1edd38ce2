"""Commands that Redis does not have: CRDT.*."""
