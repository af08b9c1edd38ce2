"""Number of effects of each kind that were issued or applied.

They are counted per batch, not per effect: its appends are all effects less the other kinds.
"""

from collections.abc import Iterable, Mapping
from typing import get_args

from crdtstream.core.effects import Append, RareEffect


class EffectCounts:
    """Counts since the process started."""

    __slots__ = ("_appends", "_others")

    def __init__(self) -> None:
        self._appends = 0
        self._others: dict[type[RareEffect], int] = {}

    def note(self, count: int, others: Iterable[tuple[int, RareEffect]]) -> None:
        """Count a batch of ``count`` effects, ``others`` being those that are no appends."""
        self._appends += count
        for _, effect in others:
            kind = type(effect)
            self._others[kind] = self._others.get(kind, 0) + 1
            self._appends -= 1
        assert self._appends >= 0, "a batch has more other effects than it has effects"

    def by_kind(self) -> Mapping[str, int]:
        """By the name of the kind, as in ``core/effects.py``: all kinds, those without any too."""
        found = {kind.__name__: self._others.get(kind, 0) for kind in get_args(RareEffect)}
        found[Append.__name__] = self._appends
        return dict(sorted(found.items()))
