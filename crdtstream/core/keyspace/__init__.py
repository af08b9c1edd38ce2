"""Keys: what exists, their registers, when they expire, what of them is remembered."""
