"""Errors of the disk; their texts say where, and what an operator has to do."""

import sqlite3
from typing import Final

from crdtstream.core.lanes.cold import UnreadableError

# The types of SQLite's errors: one that quotes a damaged file may quote bytes that are no text.
DAMAGED: Final = (sqlite3.Error, UnicodeDecodeError)


class StoreError(Exception):
    """Folder, file or row cannot be used; the text says which, why and what to do."""


class FolderGoneError(StoreError):
    """The files that are open are no longer those of the folder."""


class NoRoomError(StoreError):
    """The disk has no room for it; nothing is damaged or lost by that."""


class ImageError(StoreError, UnreadableError):
    """An image of a checkpoint cannot be read by a caller that cannot wait for it."""


class LogCutError(StoreError):
    """The records asked for were cut off the log's beginning; nothing is damaged."""
