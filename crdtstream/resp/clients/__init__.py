"""Clients of the server: their connections, and what concerns all of them."""
