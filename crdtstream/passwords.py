"""A mark of the password that a node takes, by which regions see that theirs differ.

    0           not said: a node of an earlier version
    1           no password
    2 to 255    eight bits of a digest of password and database

Clients that move to another region are refused there if it takes another password, so regions
compare: each link says its mark, and ``crdtstream status`` compares those of all nodes.  Links are
not encrypted, so a mark must not help to guess.  Of any 254 passwords one has a given mark; for
the same reason two that differ go unnoticed once in 254 times.
"""

import hashlib
from typing import Final

# Under this name a puller says its mark, in the metadata of its call.
METADATA_KEY: Final = "crdtstream-password-mark"
NOT_SAID: Final = 0
NO_PASSWORD: Final = 1
FIRST_MARK: Final = 2
MARKS: Final = 254


def password_mark(password: str, database_id: str) -> int:
    """The mark of ``password``, the setting ``requirepass``, in one database."""
    if not password:
        return NO_PASSWORD
    digest = hashlib.sha256(f"{database_id}\0{password}".encode()).digest()
    return FIRST_MARK + int.from_bytes(digest) % MARKS


def do_passwords_differ(*marks: int) -> bool:
    """Whether at least two of these nodes take other passwords; one that says nothing agrees."""
    return len(set(marks) - {NOT_SAID}) > 1
