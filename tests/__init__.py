"""Tests, by layer; ``conftest.py`` has what they share."""
