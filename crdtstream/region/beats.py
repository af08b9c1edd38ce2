"""Beats: a node at rest does together what it does now and then.

    the clock             0       1       2       3
    each second           |       |       |       |
    each 1.5 s            |           '           |

It has a dozen looks and, over each link, heartbeats and acknowledgements.  Each takes microseconds,
and to wake the process for it takes ten times as long.  So all are due at whole seconds of the
clock, or at halves: the event loop wakes once for all that are due then.
"""


def beat_within(at: float, seconds: float) -> float:
    """The last beat within ``seconds`` after ``at``, in seconds of a clock that does not jump.

    It is at least a quarter of ``seconds`` from ``at`` if there is such a beat.  An interval that
    no beat divides is kept.
    """
    beat = at + seconds
    for beat_s in (1.0, 0.5):
        if seconds % beat_s == 0:
            beat = (at + seconds) // beat_s * beat_s
            if beat - at >= seconds / 4:
                break
    return beat
