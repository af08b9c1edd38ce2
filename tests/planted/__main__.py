"""``python -m tests.planted``: the programs that have a bug on purpose (``program.py``)."""

import os
import sys

# Compiled code does not look its functions up, so the sources must run.  This is said before any of
# our modules is imported, and to all processes that are started here.
os.environ["CRDTSTREAM_PURE"] = "1"

from tests.planted.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
