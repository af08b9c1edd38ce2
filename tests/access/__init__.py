"""The HTTP port."""
