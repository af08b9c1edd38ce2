"""Clients: their connections, and what they say about themselves."""
