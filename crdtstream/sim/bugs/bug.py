"""What a bug is that can be planted: what it replaces, and how it is noticed."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

# Where something is put, under which name, and what.
Patch: TypeAlias = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that can be planted.

    Attributes:
        harm: what users would see.
        patches: what it replaces.
        noticed_as: the numbers of invariants, one of which the simulator names.
        seed: from here on few seeds of 400 steps notice it.
        history: which kept history notices it instead, where random ones seldom come to it.
    """

    name: str
    harm: str
    patches: Callable[[], Sequence[Patch]]
    noticed_as: frozenset[str]
    seed: int = 0
    history: str = ""


def everywhere(function: Callable[..., Any], wrong: Callable[..., Any]) -> list[Patch]:
    """Replace a function in each module of ours that knows it."""
    return [
        (module, name, wrong)
        for module_name, module in sys.modules.items()
        if module_name.startswith("crdtstream.")
        for name, value in vars(module).items()
        if value is function
    ]
