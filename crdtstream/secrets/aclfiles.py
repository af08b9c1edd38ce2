"""Aclfiles on disk: read whole within a bound, replaced as a whole, with the epoch of a push.

    # crdtstream acl epoch 3
    user alice on #9f86… ~orders:* -@all +@read

Always so: what is written was within the bound and read back.  So a node can read its own file.
"""

import os
import re
import stat
from enum import Enum, auto
from pathlib import Path
from typing import Final

from crdtstream.core.size import Size

# A larger aclfile is refused, wherever it comes from.  Users are read and written on the event
# loop, which a file of this size keeps busy for a second or two.
FILE_BYTES_MAX: Final = Size(1 << 20, least=256)
TOO_LARGE: Final = "{} is larger than an aclfile may be ({:,} bytes); use fewer users or rules"
# The comment with the epoch is read back, so it has a bounded number of digits.
EPOCH_DIGITS: Final = 18
EPOCH_MAX: Final = 10**EPOCH_DIGITS - 1
_EPOCH: Final = re.compile(rb"^# crdtstream acl epoch ([0-9]{1,%d})$" % EPOCH_DIGITS, re.MULTILINE)


class Fault(Enum):
    """Reason why users were not put in use, or not saved, by its place."""

    CONTENT = auto()
    """In the users themselves."""
    NODE = auto()
    """In the node: it has no aclfile, or a newer one."""
    DISK = auto()
    """In the disk, which refuses; the node may do it later."""


class PushError(Exception):
    """Users that a node was sent and does not have; nothing has changed.

    Attributes:
        fault: decides what the operator can do.
    """

    def __init__(self, text: str, fault: Fault) -> None:
        super().__init__(text)
        self.fault = fault


class TooLargeError(Exception):
    """An aclfile that is larger than the bound; the text says what to do."""


def check_size(content: bytes, name: str) -> None:
    """Refuse an aclfile that no node would read.

    Raises:
        TooLargeError: it is larger than the bound.
    """
    if len(content) > FILE_BYTES_MAX.value:
        raise TooLargeError(TOO_LARGE.format(name, FILE_BYTES_MAX.value))


def read_file(path: Path) -> bytes:
    """The content of an aclfile.

    Raises:
        OSError: it cannot be read.
        TooLargeError: it is larger than the bound.
    """
    # A pipe or a device could keep the node waiting without end.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(0, "it is no file")
    with path.open("rb") as file:
        # A file may grow between a look at its size and its end.
        content = file.read(FILE_BYTES_MAX.value + 1)
    check_size(content, str(path))
    return content


def replace_file(path: Path, content: bytes) -> None:
    """Put content in the place of a file, which is whole at any moment.

    Raises:
        OSError: it is as it was.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if new.read_bytes() != content:
            raise OSError(f"{new} reads back differently")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def epoch_in(content: bytes) -> int:
    """The epoch that an aclfile says in a comment; 0: none."""
    found = _EPOCH.search(content)
    return int(found[1]) if found else 0


def with_epoch(content: bytes, epoch: int) -> bytes:
    """An aclfile that says its epoch in a comment."""
    assert epoch <= EPOCH_MAX
    lines = _EPOCH.sub(b"", content).lstrip(b"\n")
    return b"# crdtstream acl epoch %d\n%b" % (epoch, lines)
