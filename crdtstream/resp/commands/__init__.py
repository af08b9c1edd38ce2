"""Commands that need to know the connections or the node, in rooms as Redis groups them."""
