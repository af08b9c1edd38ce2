"""Lanes: what each region appended to a stream."""
