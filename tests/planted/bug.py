"""A bug on purpose: what it replaces, and how it is noticed."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

# An object, the name of an attribute, and its new value.
Patch: TypeAlias = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that the simulator must notice.

    Attributes:
        harm: effect that users would see.
        patches: the code that it replaces.
        noticed_as: the numbers of invariants, one of which the simulator names.
        seed: the first of the seeds of which a few, of 400 steps, notice it.
        history: kept history that notices it instead, if random ones seldom reach it.
    """

    name: str
    harm: str
    patches: Callable[[], Sequence[Patch]]
    noticed_as: frozenset[str]
    seed: int = 0
    history: str = ""


@dataclass(frozen=True, slots=True)
class NodeBug:
    """A bug of a real node, which a drill must notice.

    Attributes:
        harm: effect that users would see.
        patches: the code that it replaces.
    """

    name: str
    harm: str
    patches: Callable[[], Sequence[Patch]]


def everywhere(function: Callable[..., Any], wrong: Callable[..., Any]) -> list[Patch]:
    """Replace a function in each module of ours that refers to it."""
    return [
        (module, name, wrong)
        for module_name, module in sys.modules.items()
        if module_name.startswith("crdtstream.")
        for name, value in vars(module).items()
        if value is function
    ]
