"""Beats: what is looked at now and then is looked at together.

    loop's clock          0       1       2       3
    looks each second     |       |       |       |
    four looks a second   | ' ' ' | ' ' ' | ' ' ' |

A node at rest has a dozen such looks.  Each takes microseconds, and to wake the process for it
takes ten times as long.  So all are due at whole seconds of the event loop's clock, or at whole
quarters: the loop wakes once for all that are due then.
"""

import asyncio
from math import ceil
from typing import Final

# A look is due at whole multiples of the longest of these that is not longer than its interval.
STEPS_S: Final = (1.0, 0.25)
# Part of a step by which the first look may be later than its interval.  Without it, a timer that
# fires a little early would be followed by the same beat once more.
LATE_PART: Final = 0.25


def to_beat(at: float, seconds: float) -> float:
    """Time until a look that is made each ``seconds`` is due again, after one at ``at``.

    From the second look on this is ``seconds``, as a multiple of its step.  An interval that is
    shorter than every step is left as it is.
    """
    for step in STEPS_S:
        if step <= seconds:
            return ceil((at + seconds) / step - 1 + LATE_PART) * step - at
    return seconds


async def until_beat(seconds: float) -> None:
    """Sleep until a look is due that is made each ``seconds``."""
    await asyncio.sleep(to_beat(asyncio.get_running_loop().time(), seconds))
