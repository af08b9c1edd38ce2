"""Errors of a node that cannot start."""


class NodeError(Exception):
    """The node cannot start; the text says why and what to do."""
