"""Durable state of a region: the log and its checkpoints, in one folder."""
