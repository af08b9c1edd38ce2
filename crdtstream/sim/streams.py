"""Streams of the simulated worlds that checks know something of."""

from typing import Final

from crdtstream.core.ids import RegionId

# The stream that is only appended to and read by one group, and never deleted.
READ_KEY: Final = b"z"
# The stream whose group has a home from the beginning, and whose mode never changes.
HOME_KEY: Final = b"h"
HOME: Final = RegionId(1)
# The stream that a program appends to by numbered rows.
ROWS_KEY: Final = b"rows"
GROUP: Final = b"g"
