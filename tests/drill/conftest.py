"""Drills on real nodes want a toxiproxy-server."""

from tests.live.conftest import toxiproxy_server

__all__ = ["toxiproxy_server"]
