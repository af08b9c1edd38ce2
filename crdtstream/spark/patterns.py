"""Patterns of keys, as the query service takes them."""

import re
from collections.abc import Iterable


def patterns_literal(keys: Iterable[bytes]) -> list[bytes]:
    """Patterns that match these keys and no others."""
    return [re.sub(rb"([*?\[\\])", rb"\\\1", key) for key in keys]
