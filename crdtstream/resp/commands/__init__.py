"""Commands that need to know the connections or the node, in packages as Redis groups them."""
