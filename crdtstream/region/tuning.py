"""What an operator may change of a region while it runs."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from crdtstream.core.tuning import TUNABLES, Tunable, Tuned
from crdtstream.region.region import Region
from crdtstream.region.staleness import (
    LAG_EFFECTS_MAX_HIGHEST,
    LAG_MS_MAX_HIGHEST,
    LagAction,
    Staleness,
)


def _number(
    name: str, most: int, get: Callable[[Staleness], int], put: Callable[[Staleness, int], None]
) -> Tunable[Staleness]:
    """A number from 0, which is no bound, to ``most``."""

    def is_within(text: str) -> bool:
        # No signs, no blanks, no digits of other scripts; and no longer than it can be.
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        return is_number and int(text) <= most

    return Tunable(
        name,
        (),
        lambda staleness: str(get(staleness)),
        lambda staleness, value: put(staleness, int(value)),
        f"a number from 0 (no bound) to {most}",
        is_within,
    )


LAG_EFFECTS: Final = _number(
    "max_replication_lag_effects",
    LAG_EFFECTS_MAX_HIGHEST,
    lambda staleness: staleness.lag_effects_max,
    lambda staleness, value: staleness.tune(lag_effects_max=value),
)
LAG_MS: Final = _number(
    "max_replication_lag_ms",
    LAG_MS_MAX_HIGHEST,
    lambda staleness: staleness.lag_ms_max,
    lambda staleness, value: staleness.tune(lag_ms_max=value),
)
LAG_ACTION: Final[Tunable[Staleness]] = Tunable(
    "replication_lag_action",
    tuple(action.value for action in LagAction),
    lambda staleness: staleness.action.value,
    lambda staleness, value: staleness.tune(action=LagAction(value)),
)
STALENESS: Final = (LAG_EFFECTS, LAG_MS, LAG_ACTION)


def tunables_of(region: Region) -> Mapping[str, Tuned[Any]]:
    """All of them, by name."""
    return {
        **{name: Tuned(tunable, region.replica) for name, tunable in TUNABLES.items()},
        **{tunable.name: Tuned(tunable, region.staleness) for tunable in STALENESS},
    }
