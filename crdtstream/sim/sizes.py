"""Drawing the sizes of the code (``core/size.py``) from a seed.

    with drawn(4711):           # tiny ones mostly
        ...                     # a world, a machine, a comparison
        redraw(4711, 1)         # a process starts again, as another version of the code would

Each size has a random stream of its own, made of the seed and its name: a new size changes no
other.  How tiny they are differs from seed to seed, and in some worlds all have their defaults.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import cache
from random import Random
from typing import Final

from crdtstream.compiled import PACKAGE
from crdtstream.core.lanes.limits import NODE_BYTES_MAX_DEFAULT, NODE_ENTRIES_MAX_DEFAULT
from crdtstream.core.size import Scope, Seconds, Size
from crdtstream.region.limits import RegionLimits

# Packages whose constants are sizes, or are listed with the reason why they are none.
PACKAGES: Final = (
    *("core", "commands", "database", "region", "store", "engine", "replication", "resp"),
    "query",
)
_MADE: Final = re.compile(r"^(\w+): Final = (?:Size|Seconds)\(", re.MULTILINE)
# Shares of a seed's sizes that stay as they are: in one world of six all of them.
_STAY: Final = (0.0, 0.0, 0.2, 0.5, 0.8, 1.0)


# Seeds from this one on draw large sizes: of all 32-bit ones 7 %.
LARGE_FROM: Final = 4_000_000_000


class Manner(Enum):
    """Manner in which sizes are drawn."""

    TINY = "tiny"
    LARGE = "large"

    @classmethod
    def of(cls, seed: int) -> "Manner":
        """Manner of a seed, so that the seed alone repeats a history."""
        return cls.LARGE if seed >= LARGE_FROM else cls.TINY


@cache
def all_sizes() -> Mapping[str, Size | Seconds]:
    """The sizes of all modules that are imported when this is first called, by name:
    ``core.groups.pel_chunk.ENTRIES_MAX``."""
    found: dict[str, Size | Seconds] = {}
    for name, module in sorted(sys.modules.items()):
        package, _, rest = name.partition(".")
        if package == "crdtstream" and rest.split(".")[0] in PACKAGES:
            # By the source: modules that import it have it under the same name.
            path = PACKAGE.joinpath(*rest.split(".")).with_suffix(".py")
            made = _MADE.findall(path.read_text()) if path.is_file() else []
            found |= {f"{rest}.{constant}": getattr(module, constant) for constant in made}
    return found


@contextmanager
def drawn(
    seed: int | None, manner: Manner | None = None, *, clients: bool = True
) -> Iterator[None]:
    """Apply the sizes that this seed draws, and the former ones again at the end.

    Args:
        seed: None draws nothing.
        manner: None: that of the seed.
        clients: whether clients may notice.
    """
    before = [(size, size.value) for size in all_sizes().values()]
    try:
        if seed is not None:
            scopes = set(Scope) if clients else {Scope.NODE, Scope.REGIONS}
            _draw(f"{seed}", manner or Manner.of(seed), scopes)
        yield
    finally:
        for size, value in before:
            size.value = value


def redraw(seed: int | None, turn: int) -> None:
    """Draw again the sizes that one region may change by itself; within ``drawn``."""
    if seed is not None:
        _draw(f"{seed} {turn}", Manner.of(seed), {Scope.NODE, Scope.CLIENTS})


def _draw(seed: str, manner: Manner, scopes: set[Scope]) -> None:
    stay = Random(f"stay {seed.split()[0]}").choice(_STAY)
    for name, size in all_sizes().items():
        if size.scope in scopes:
            random = Random(f"{name} {seed}")
            # Clients that are refused everything do nothing.
            as_it_is = random.random() < (max(stay, 0.9) if size.scope is Scope.CLIENTS else stay)
            if as_it_is:
                size.value = size.default
            elif isinstance(size, Size):
                size.value = _number(random, size, manner)
            else:
                size.value = random.uniform(size.least, size.default)


def _number(random: Random, size: Size, manner: Manner) -> int:
    if manner is Manner.LARGE:
        return random.randint(size.default, size.most)
    if random.random() < 0.7:
        return min(size.default, size.least + random.randrange(4))
    # Each length is as likely as any other.
    bits = random.randint(size.least.bit_length(), size.default.bit_length())
    return min(size.default, max(size.least, random.getrandbits(bits)))


def drawn_node_limits(seed: int | None, turn: int) -> tuple[int, int]:
    """Entries and bytes of a macro node."""
    random = Random(f"nodes {seed} {turn}")
    if seed is None or Manner.of(seed) is Manner.LARGE or random.random() < 0.2:
        return NODE_ENTRIES_MAX_DEFAULT, NODE_BYTES_MAX_DEFAULT
    return random.choice((0, 1, 2, 3, 4, 7, 100)), random.choice((0, 1, 30, 100, 4096))


def drawn_region_limits(seed: int | None, limits: RegionLimits) -> RegionLimits:
    """These limits, except for some bounds on records, batches and bytes."""
    if seed is None or Manner.of(seed) is Manner.LARGE:
        return limits
    random = Random(f"limits {seed}")
    stay = Random(f"stay {seed}").choice(_STAY)

    def draw(value: int, *tiny: int) -> int:
        chosen = random.choice(tiny)
        return value if random.random() < stay else chosen

    return RegionLimits(
        commit_queue_records_max=draw(limits.commit_queue_records_max, 1, 2, 5),
        link_message_bytes_target=draw(limits.link_message_bytes_target, 1, 50, 400),
        inbox_batches_max=draw(limits.inbox_batches_max, 1, 2, 3),
        inbox_bytes_max=draw(limits.inbox_bytes_max, 1, 200, 2_000),
        inbox_wait_ms_max=limits.inbox_wait_ms_max,
        backoff_ms_min=limits.backoff_ms_min,
        backoff_ms_max=limits.backoff_ms_max,
        heartbeat_interval_ms=draw(limits.heartbeat_interval_ms, 50, 100),
        link_silence_ms_max=limits.link_silence_ms_max,
        skew_warning_ms=limits.skew_warning_ms,
        catch_up_answer_ms_max=limits.catch_up_answer_ms_max,
        catch_up_stall_ms_max=limits.catch_up_stall_ms_max,
    )
