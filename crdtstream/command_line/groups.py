"""Groups of options: a command has one parameter for many options that others have as well.

    @dataclass(frozen=True, slots=True)         @app.command()
    class Reach:                                @with_groups
        address: AddressOption = None           def status(reach: Reach, streams: ... = False): ...
        user: UserOption = None

    crdtstream status --address a:1      is     status(Reach(["a:1"], None), streams=False)

A group is a dataclass whose fields are declared as the parameters of commands are; a field may be
a group itself.  Typer makes an option of each parameter and knows no groups, so it is shown a
signature in which the fields stand in the place of the group.

Always so: options of groups are listed behind those of the command, in the order of the fields.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer, made of one with parameters that are groups."""
    signature = inspect.signature(command)
    groups = {
        one.name: one.annotation
        for one in signature.parameters.values()
        if is_dataclass(one.annotation)
    }
    own = [one for one in signature.parameters.values() if one.name not in groups]
    shared = [one for group in groups.values() for one in _parameters(group)]

    @wraps(command)
    def run(**given: Any) -> None:
        values = {name: _take(group, given) for name, group in groups.items()}
        command(**values, **given)

    run.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return run


def _parameters(group: Any) -> Iterator[inspect.Parameter]:
    for field in fields(group):
        if is_dataclass(field.type):
            yield from _parameters(field.type)
            continue
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=field.type,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )


def _take(group: Any, given: dict[str, Any]) -> Any:
    """The value of a group; its fields are taken out of ``given``."""
    return group(
        **{
            field.name: (
                _take(field.type, given) if is_dataclass(field.type) else given.pop(field.name)
            )
            for field in fields(group)
        }
    )
