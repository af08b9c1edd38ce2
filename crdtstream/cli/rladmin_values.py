"""Values of rladmin's tables and lists: as it writes them, and as JSON has them.

    value                table                   list                          JSON
    Size(1073741)        1.02MB                  1.02MB (1073741 bytes)        1073741
    Room(1024, 2048)     1KB/2KB                                               {"free": …, "all": …}
    Seconds(360)         360                     360 seconds                   360
    True                 Yes                     enabled                       true
    None                 N/A                     N/A                           null

None is what a region has nothing for, or does not say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

ABSENT: Final = "N/A"
_UNITS: Final = ("KB", "MB", "GB", "TB")


class Size(int):
    """Bytes."""


class Seconds(int):
    """A length of time."""


@dataclass(frozen=True, slots=True, order=True)
class Room:
    """Bytes that are free, of all."""

    free: Size
    all: Size


Value: TypeAlias = str | int | Room | None


def in_table(value: Value) -> str:
    """The text of a cell; it may be empty, as rladmin's EXTERNAL_ADDRESS is."""
    match value:
        case None:
            return ABSENT
        case bool():
            return "Yes" if value else "No"
        case Size():
            return size_text(value)
        case Room():
            return f"{size_text(value.free)}/{size_text(value.all)}"
        case _:
            return str(value)


def in_list(value: Value) -> str:
    """The text behind ``key: ``."""
    match value:
        case bool():
            return "enabled" if value else "disabled"
        case Size():
            return f"{size_text(value)} ({int(value)} bytes)"
        case Seconds():
            return f"{int(value)} seconds"
        case _:
            return in_table(value)


def in_json(value: Value) -> object:
    match value:
        case Room():
            return {"free": value.free, "all": value.all}
        case _:
            return value


def plain(values: Mapping[str, Value]) -> dict[str, object]:
    """Values by their keys, for JSON."""
    return {key: in_json(value) for key, value in values.items()}


def size_text(size: int) -> str:
    """``2.08MB``: at most two digits behind the point, in units of 1024, the least of them KB."""
    sign, amount = ("-" if size < 0 else ""), abs(size) / 1024
    at = 0
    while round(amount, 2) >= 1024 and at < len(_UNITS) - 1:
        amount /= 1024
        at += 1
    return f"{sign}{f'{amount:.2f}'.rstrip('0').rstrip('.')}{_UNITS[at]}"
