"""A surface: one border of a node that takes bytes from outside."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

Target: TypeAlias = Callable[[bytes], object]
Damage: TypeAlias = Callable[[bytes, Random], bytes]

# Inputs that found a bug, in a folder for each surface.
FOUND: Final = Path(__file__).with_name("found")
# Long inputs are damaged no better than short ones, and take longer.
INPUT_BYTES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Surface:
    """One border.

    Attributes:
        name: as on the command line, and of its folder in ``found``.
        target: takes an input, and returns what comes of it; raises what is a bug.
        seeds: valid inputs; made when they are needed.
        damage: a damaged copy of an input.
        about: the border, in one line.
    """

    name: str
    target: Target
    seeds: Callable[[], Sequence[bytes]]
    damage: Damage
    about: str

    def found(self) -> list[tuple[str, bytes]]:
        """Inputs that found a bug, each with its name."""
        folder = FOUND / self.name
        return [(path.name, path.read_bytes()) for path in sorted(folder.glob("*"))]

    def damaged(self, count: int, seed: int = 0) -> Iterator[bytes]:
        """Damaged examples; each is damaged once or several times.

        Args:
            seed: equal seeds make equal inputs.
        """
        examples = [*self.seeds(), *(data for _, data in self.found())]
        for number in range(count):
            draw = Random(f"{self.name} {seed} {number}")
            data = draw.choice(examples)
            for _ in range(draw.choice((1, 1, 1, 2, 4))):
                data = self.damage(data, draw)[:INPUT_BYTES_MAX]
            yield data


# By name the module of a surface; it is imported when it is wanted, as atheris instruments code
# while it is imported.
SURFACES: Final = {
    "requests": "requests",
    "commands": "commands",
    "batches": "batches",
    "links": "links",
    "pullers": "links",
    "bombs": "bombs",
    "copies": "copies",
    "letters": "letters",
    "calls": "calls",
    "records": "records",
    "checkpoints": "checkpoints",
    "dumps": "dumps",
    "texts": "texts",
    "manifests": "manifests",
    "settings": "settings",
    "certificates": "certificates",
    "aclfiles": "aclfiles",
    "tls_records": "tls_records",
}


def surface_of(name: str) -> Surface:
    """
    Raises:
        KeyError: there is none of this name.
    """
    module = importlib.import_module(f"tests.fuzz.{SURFACES[name]}")
    found: Surface = getattr(module, name.upper())
    assert found.name == name
    return found
