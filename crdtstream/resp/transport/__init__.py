"""Transports of clients: listening sockets, and TLS."""
