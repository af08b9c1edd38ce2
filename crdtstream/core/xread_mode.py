"""Meanings of an ID for XREAD."""

from enum import Enum


class XreadMode(Enum):
    """Places from which XREAD reads on; the value is what rladmin writes."""

    BY_ID = "by-id"  # all above the ID, as in Redis: what comes late below it is skipped
    NEVER_SKIP = "never-skip"  # all that the reader was not given
