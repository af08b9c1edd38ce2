"""Settings of a node at its start."""
