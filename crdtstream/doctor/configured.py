"""Settings of configuration files, without secrets."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from crdtstream.secrets.secret_files import SecretError, read_secret
from crdtstream.settings.node_settings import ENV_PREFIX, NodeSettings, SettingsError, load_settings

# In place of a secret that is set.
LEFT_OUT: Final = "(left out)"


def settings_of(path: Path) -> tuple[dict[str, Any], NodeSettings | None]:
    """A configuration file as a report shows it, and its settings; None: it cannot be used.

    A field that ``repr`` does not show is a secret.  Of a file that cannot be used, the names of
    the settings with a problem are shown: the problem itself may quote a value.
    """
    try:
        settings = load_settings(path)
    except SettingsError as error:
        names = [problem.partition(":")[0].strip() for problem in error.problems]
        return {"file": str(path), "problems_of": names}, None
    shown = {
        "file": str(path),
        "mode": oct(path.stat().st_mode & 0o777),
        "values": _shown(settings),
        "changed": sorted(_changed(settings)),
    }
    return shown, settings


def environment() -> list[str]:
    """Names of the variables that set something for this program; never their values."""
    return sorted(name for name in os.environ if name.startswith(ENV_PREFIX))


def secrets_of(settings: NodeSettings) -> Iterator[str]:
    """The secrets of settings, so that they can be looked for: each word and line of them."""
    if settings.requirepass_file is not None:
        # A file that cannot be read keeps the node from starting, and is not our matter.
        with contextlib.suppress(SecretError):
            yield read_secret(settings.requirepass_file)
    for text in _texts(_secret_values(settings)):
        yield text
        for word in text.split():
            # Rules of users write a password behind > and its hash behind #.
            yield word.lstrip("><#!")


def secrets_of_environment() -> Iterator[str]:
    """Values of the variables whose name says that they are a secret."""
    for name in environment():
        if any(word in name for word in ("PASS", "SECRET", "TOKEN", "USERS")):
            yield os.environ[name]


def _shown(model: BaseModel) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        shown[name] = _plain(value) if field.repr else LEFT_OUT if value else ""
    return shown


def _plain(value: Any) -> Any:
    match value:
        case BaseModel():
            return _shown(value)
        case list() | tuple():
            return [_plain(one) for one in value]
        case None | bool() | int() | float() | str():
            return value
    return str(value)


def _changed(model: BaseModel) -> Iterator[str]:
    """Names of the settings that differ from their default."""
    for name in model.model_fields_set:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from (f"{name}.{inner}" for inner in _changed(value))
        else:
            yield name


def _secret_values(model: BaseModel) -> Iterator[Any]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if not field.repr:
            yield value
        elif isinstance(value, BaseModel):
            yield from _secret_values(value)


def _texts(values: Iterator[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            yield from _texts(iter(value))
