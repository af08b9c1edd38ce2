"""A mark of a node's password, by which regions notice that their passwords differ.

    0           not said
    1           no password
    2 to 255    eight bits of a digest of password and database

Clients that move to another region are refused there if it has another password, so regions
compare: each link sends its mark, and ``crdtstream status`` compares the marks of all nodes.  Links
are not encrypted, so a mark must not help to guess the password.  One of 254 passwords has a given
mark, so two different passwords have the same mark once in 254 times, and are not noticed.
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
    """True if at least two of these nodes have different passwords; a mark not said agrees."""
    return len(set(marks) - {NOT_SAID}) > 1
