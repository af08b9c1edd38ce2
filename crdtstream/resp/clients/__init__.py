"""Clients of the server: their connections, and what is done about all of them."""
