"""Secrets in files: a password or a token that is in no argument and in no variable.

A file is read once.  What mounts secrets replaces it by a rename or by another link (systemd
credentials, Kubernetes), so a path is always followed, and a later start reads the new content.

Always so: no error has anything of the content, which may be the secret of something else.
"""

import os
import stat
from pathlib import Path
from typing import Final

# More than any password or token has; a wrong path may name a file of any size.
SECRET_BYTES_MAX: Final = 4_096


class SecretError(Exception):
    """A file has no secret that can be used; the text names it and says what to do."""


def read_secret(path: Path) -> str:
    """The first line of a file, without its line end.

    Raises:
        SecretError: it cannot be read, is not text, is longer than any secret, or has none.
    """
    try:
        # A pipe or a device could keep the program waiting without end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SecretError(f"{path} is no file; name a file whose first line is the secret")
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}; check path and rights") from (
            None
        )
    first = content.split(b"\n", 1)[0].removesuffix(b"\r")
    if len(content) > SECRET_BYTES_MAX:
        raise SecretError(f"{path} is longer than {SECRET_BYTES_MAX} bytes; name another file")
    if not first:
        raise SecretError(f"{path}: its first line is empty; write the secret into it")
    try:
        return first.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{path} is no text in UTF-8; name another file") from None


def others_may_read(path: Path) -> bool:
    """True if the mode of a file lets every user of this machine read it."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False
