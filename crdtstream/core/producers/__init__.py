"""Producers that name what they append, so that a repetition counts once."""
