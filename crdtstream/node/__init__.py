"""A node: a region, its engine and all of its shells, put together from its settings."""
