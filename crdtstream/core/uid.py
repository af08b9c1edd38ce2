"""The identity of a database: 128 random bits, made with it and the same in all of its regions.

A database that is set up again under the same name is another database: its dots mean other
effects.  So whatever names dots outside of the regions - cursors, tokens, the states that Spark's
jobs keep - names their database.
"""

from typing import Final, NewType

DatabaseUid = NewType("DatabaseUid", bytes)

UID_BYTES: Final = 16
# Not agreed on yet.
NO_UID: Final = DatabaseUid(b"")


def shown_uid(uid: DatabaseUid) -> str:
    """32 lower-case hexadecimal digits; empty where it is not known."""
    return uid.hex()


def parse_uid(text: str) -> DatabaseUid | None:
    """The inverse; None if it is none."""
    try:
        uid = bytes.fromhex(text)
    except ValueError:
        return None
    is_plain = len(uid) == UID_BYTES and text == uid.hex()
    return DatabaseUid(uid) if is_plain else None
