"""Sizes as Redis takes them: a number, and maybe a unit."""

import re
from typing import Final

_UNITS: Final = {
    "": 1,
    "b": 1,
    "k": 1000,
    "kb": 1 << 10,
    "m": 1000**2,
    "mb": 1 << 20,
    "g": 1000**3,
    "gb": 1 << 30,
}
_MEMORY: Final = re.compile(r"([0-9]{1,19})([a-z]*)", re.ASCII | re.IGNORECASE)


def parse_memory(text: str) -> int | None:
    """Bytes with Redis's units: ``4096``, ``4kb`` (1024), ``4k`` (1000), ``1gb``."""
    match = _MEMORY.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        return None
    return int(match[1]) * _UNITS[match[2].lower()]
