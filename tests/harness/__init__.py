"""Regions and clients in one process, for tests of several rooms."""
