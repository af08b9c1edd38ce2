"""The number of the format in which a folder, or a backup of it, is written.

    format          1: this program reads and writes it
    format_version  as folders were numbered before: 5 is format 1 under another name, and 1 to 4
                    are formats that this program does not read

The numbers begin at 1 again, so the setting has another name.  Thus no older folder is taken for
one of format 1, and an older program refuses a folder that has no ``format_version``.
"""

from collections.abc import Mapping
from typing import Final

FORMAT: Final = "1"
FORMAT_KEY: Final = "format"
KEY_BEFORE: Final = "format_version"
SAME_FORMAT_BEFORE: Final = "5"


def renumbered(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a folder or backup, with the number that its format has now.

    Raises:
        ValueError: it is of a format that this program does not read; the text says what to do.
    """
    now = dict(settings)
    before = now.pop(KEY_BEFORE, None)
    if FORMAT_KEY not in now and before == SAME_FORMAT_BEFORE:
        now[FORMAT_KEY] = FORMAT
    elif FORMAT_KEY not in now and before is not None:
        raise ValueError(
            f"written in format {before} of an unreleased version, which this program cannot read; "
            "keep it, and run the program that wrote it"
        )
    if FORMAT_KEY not in now:
        raise ValueError(
            "the number of its format is missing, so it is damaged; restore a backup of this region"
        )
    if now[FORMAT_KEY] != FORMAT:
        raise ValueError(
            f"written in format {now[FORMAT_KEY]}, and this program reads format {FORMAT}; "
            "run the program that wrote it"
        )
    return now
