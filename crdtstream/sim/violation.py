"""What a check says that finds something wrong."""


class ViolationError(Exception):
    """An invariant does not hold; the text begins with its number."""
