"""Commands and categories that a rule of a user may name, as the manual has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from crdtstream.commands.documentation.manual import pages
from crdtstream.commands.documentation.pages import CATEGORIES


@dataclass(frozen=True, slots=True)
class Known:
    """A command that rules may name.

    Attributes:
        name: lower case; ``xgroup|create`` of a subcommand.
        categories: without the ``@``.
        subcommands: names of a container's subcommands; a rule on it is a rule on them.
    """

    name: bytes
    categories: frozenset[bytes]
    subcommands: tuple[bytes, ...]


@cache
def known_commands() -> Mapping[bytes, Known]:
    """All commands by name, subcommands too."""
    names = sorted(name.encode() for name in pages())
    return MappingProxyType(
        {
            name: Known(
                name,
                frozenset(category.encode() for category in pages()[name.decode()].categories),
                tuple(other for other in names if other.startswith(name + b"|")),
            )
            for name in names
        }
    )


@cache
def all_categories() -> tuple[bytes, ...]:
    """All categories, in Redis's order; some have no command here."""
    return tuple(category.encode() for category in CATEGORIES)


@cache
def commands_of(category: bytes) -> tuple[bytes, ...]:
    """Names of the commands and subcommands of a category."""
    return tuple(name for name, known in known_commands().items() if category in known.categories)
