"""Commands of consumer groups."""
