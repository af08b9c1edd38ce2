"""Settings files: TOML with any keys and values; the environment has none."""

import os
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from crdtstream.settings.node_settings import ENV_PREFIX, SettingsError, load_settings
from tests.conftest import ROOT
from tests.fuzz.damage import damaged_bytes, one_of
from tests.fuzz.surface import Surface

_FOLDER: Final = tempfile.TemporaryDirectory(prefix="crdtstream-fuzz-")
FILE: Final = Path(_FOLDER.name) / "region.toml"
VALUES: Final = (
    *("0", "-1", "1", "1e400", "nan", "-inf", "0x7fffffffffffffff", "99999999999999999999", "1.5"),
    *('""', '"\\u0000"', '"127.0.0.1"', '"::1"', '"0.0.0.0"', '"host:99999"', '"[::1]:1"'),
    *("[]", "{}", "[[]]", "true", "1979-05-27", '"""\n"""', "{region = 1}", "[1, 'a']"),
)


def target(data: bytes) -> object:
    """A file."""
    FILE.write_bytes(data)
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        if name != "CRDTSTREAM_PURE":
            del os.environ[name]
    try:
        settings = load_settings(FILE)
    except SettingsError as error:
        return str(error).replace(str(FILE), "")
    assert settings.grpc_address
    return settings.model_dump()


@cache
def seeds() -> list[bytes]:
    found = [path.read_bytes() for path in sorted((ROOT / "deploy").glob("*.toml"))]
    # With each commented default as a line of its own.
    lines = found[0].decode().splitlines()
    shown = [line.removeprefix("# ") if " = " in line else line for line in lines]
    return [*found, "\n".join(shown).encode(), b'region = 1\ndir = "x"\n']


def with_another_value(data: bytes, draw: Random) -> bytes:
    lines = data.decode("utf-8", "replace").splitlines()
    at = draw.randrange(len(lines)) if lines else 0
    given = [number for number, line in enumerate(lines) if "=" in line and line[:1] != "#"]
    if not given:
        return damaged_bytes(data, draw)
    at = draw.choice(given)
    key = lines[at].partition("=")[0]
    match draw.randrange(4):
        case 0:
            lines.insert(draw.randrange(len(lines)), lines[at])
        case 1:
            lines[at] = f"{key.strip()}x = {draw.choice(VALUES)}"
        case _:
            lines[at] = f"{key}= {draw.choice(VALUES)}"
    return "\n".join(lines).encode()


SETTINGS: Final = Surface(
    "settings",
    target,
    seeds,
    one_of(with_another_value, with_another_value, damaged_bytes),
    "settings files",
)
