"""RESP: bytes to requests, replies to bytes."""
