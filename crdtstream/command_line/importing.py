"""Imports at the start of a program, without the garbage collector.

Modules are made of many objects, which stay, and of next to no garbage.  The collector would look
through them again and again: that is a sixth of the time in which a node starts.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Collect nothing in here, and never look again at the objects that exist at its end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
