"""The query service."""
