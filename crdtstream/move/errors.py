"""Errors of a move."""


class MoveError(Exception):
    """The move cannot go on; the text says why, and what to do."""


class LostError(Exception):
    """An end does not answer, or cannot answer now.  The same work with new connections may do."""


class UnreachableError(LostError):
    """No connection to an end: refused, no such host, no such socket."""


class SmallerError(LostError):
    """No outage: the same work is done again in smaller pieces."""


class OvertakenError(Exception):
    """The target has an ID already that was to be added: read its last ID again."""
