"""Numbers as a little picture made of text, the way LATENCY GRAPH draws them.

Four lines of three heights each; a column is filled below its value, and its label reads downwards:

            #           a value takes one of twelve heights, from the lowest value to the highest:
        _   |                _ - `   in its line, | in the lines below it
       o|o_o|
       ||||||

        1111
        5432
        ssss
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

HEIGHTS: Final = "_o#"
LINES: Final = 4


def sparkline(values: Sequence[int], labels: Sequence[str], *, columns: int) -> str:
    """The picture, in stripes of ``columns`` values; there must be values."""
    low = min(values)
    span = max(values) - low or 1
    steps = len(HEIGHTS) * LINES
    heights = [min((value - low) * steps // span, steps - 1) for value in values]
    return "".join(
        _stripe(heights[at : at + columns], labels[at : at + columns])
        for at in range(0, len(heights), columns)
    )


def _stripe(heights: Sequence[int], labels: Sequence[str]) -> str:
    rows = [
        "".join(_mark(height - line * len(HEIGHTS)) for height in heights)
        for line in reversed(range(LINES))
    ]
    rows.append(" " * len(heights))
    rows += ["".join(letters) for letters in zip_longest(*labels, fillvalue=" ")]
    return "".join(row + "\n" for row in rows)


def _mark(height: int) -> str:
    """Character of a line for a column of ``height`` above the line's foot."""
    if height < 0:
        return " "
    return HEIGHTS[height] if height < len(HEIGHTS) else "|"
