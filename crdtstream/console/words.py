"""Figures as people read them: a number, a thin space between thousands, and the unit behind it.

No figure has more than four digits that matter, and the same figure always has the same form, so
that columns align.
"""

from datetime import UTC, datetime
from typing import Final

# Shown where nothing is known.
UNKNOWN: Final = "–"
# Narrow, and no line ends at it.
_THIN: Final = "\u202f"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SECONDS: Final = ((3_600, "h"), (60, "min"))
_DAY_S: Final = 86_400
_YEAR_DAYS: Final = 365.25
# Longer ones are told in years.
_DAYS_MAX: Final = 1_000


def count(number: int) -> str:
    """``26 115``."""
    return f"{number:,}".replace(",", _THIN)


def rate(per_second: float | None) -> str:
    """``1 204/s``; below ten with one digit behind the point."""
    if per_second is None:
        return UNKNOWN
    if 0 < per_second < 0.05:
        return "< 0.1/s"
    if 0 < per_second < 9.95:
        return f"{per_second:.1f}/s"
    return f"{count(round(per_second))}/s"


def size(bytes_: float) -> str:
    """``92.2 MiB``."""
    value = float(bytes_)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def size_rate(bytes_per_second: float | None) -> str:
    """``310.0 KiB/s``."""
    return UNKNOWN if bytes_per_second is None else f"{size(bytes_per_second)}/s"


def size_of(bytes_: int, most: int) -> str:
    """``92.2 MiB of 1.0 GiB``; without a bound the size alone."""
    return f"{size(bytes_)} of {size(most)}" if most else size(bytes_)


def duration(ms: float) -> str:
    """``12 ms``, ``4.2 s``, ``3 min 20 s``, ``36 h``, ``12 d``, ``3 y``.

    Two units at most, and from a day on one: a day more or less does not matter then.
    """
    if ms < 1_000:
        return f"{ms:.0f} ms"
    seconds = ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole >= _DAY_S:
        return _days(whole)
    names = [*_SECONDS, (1, "s")]
    for at, (unit, name) in enumerate(_SECONDS):
        if whole >= unit:
            below, below_name = names[at + 1]
            rest = whole % unit // below
            return (
                f"{whole // unit} {name} {rest} {below_name}" if rest else f"{whole // unit} {name}"
            )
    raise AssertionError("a minute and more has a unit")


def in_one_unit(ms: float) -> str:
    """``3 min``: a duration where there is little room."""
    return " ".join(duration(ms).split(" ")[:2])


def _days(seconds: int) -> str:
    days = seconds // _DAY_S
    if days < 2:
        return f"{seconds // 3_600} h"
    return f"{days} d" if days < _DAYS_MAX else f"{days / _YEAR_DAYS:.0f} y"


def uptime(ms: float) -> str:
    """``< 1 min``, ``3 min``, ``2 h 5 min``: a duration that changes once a minute."""
    return "< 1 min" if ms < 60_000 else duration(ms // 60_000 * 60_000)


def microseconds(us: float) -> str:
    """``4.2 µs``, ``1.25 ms``, ``2.1 s``."""
    if us < 1_000:
        return f"{us:.1f} µs"
    return f"{us / 1_000:.2f} ms" if us < 1_000_000 else duration(us / 1_000)


def ago(ms: float) -> str:
    """``3 s ago``."""
    if ms < 1_000:
        return "now"
    return f"{ms // 1_000:.0f} s ago" if ms < 60_000 else f"{duration(ms)} ago"


def moment(unix_ms: int) -> str:
    """``2026-11-26 15:06:01.042`` in UTC; a time that no calendar has is named by its number."""
    try:
        found = datetime.fromtimestamp(unix_ms / 1_000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{unix_ms} ms"
    return f"{found:%Y-%m-%d %H:%M:%S}.{unix_ms % 1_000:03d}"


def clock(unix_ms: int) -> str:
    """``15:06:01 UTC``."""
    return f"{moment(unix_ms)[11:19]} UTC"


def name(text: bytes, length_max: int = 128) -> str:
    r"""A key, a group or a field: UTF-8, other bytes as ``\xff``, and an end if it is long."""
    shown = text[: 4 * length_max].decode(errors="backslashreplace")
    is_cut = len(shown) > length_max or len(text) > 4 * length_max
    return f"{shown[:length_max]}…" if is_cut else shown


def number_of(how_many: int, one: str, many: str = "") -> str:
    """``1 group``, ``3 groups``."""
    return f"{count(how_many)} {one if how_many == 1 else many or one + 's'}"
