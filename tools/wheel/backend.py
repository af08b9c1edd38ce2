"""The build backend: hatchling's, and for a wheel what compiling wants.

It is here that a wheel asks for mypyc, and not in ``[build-system]``, as an editable install, with
which `make up` begins, compiles nothing and should not wait for it.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import hatchling.build

PYPROJECT: Final = Path(__file__).resolve().parents[2] / "pyproject.toml"
# Whose types compiled modules are compiled against.
IMPORTED: Final = frozenset({"hiredis", "msgspec", "mypy-extensions", "protobuf", "pydantic"}) | {
    *("pydantic-settings", "backports.zstd")
}

build_editable = hatchling.build.build_editable
build_sdist = hatchling.build.build_sdist
build_wheel = hatchling.build.build_wheel
get_requires_for_build_editable = hatchling.build.get_requires_for_build_editable
get_requires_for_build_sdist = hatchling.build.get_requires_for_build_sdist


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    wanted: list[str] = hatchling.build.get_requires_for_build_wheel(config_settings)
    if os.environ.get("CRDTSTREAM_PURE") == "1":
        return wanted
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    wanted += [one for one in project["dependencies"] if re.split(r"[<>=]", one)[0] in IMPORTED]
    wanted += project["optional-dependencies"]["compile"]
    return wanted
