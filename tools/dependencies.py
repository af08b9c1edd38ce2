"""Writes docs/dependencies.md: all packages that a region needs, and their licences; or checks it.

The packages are found as pip finds them: those that pyproject.toml names, and what these need, with
the extras that an application installs.  Versions and licences are those of this environment, which
`make test` makes.  A licence that is not among LICENCES is reported: look at it, then add it here.

Usage: python tools/dependencies.py [--check]

Exit status: 0 written, or current; 1 a licence is not known, or the page is stale (--check; its
versions may be others: packages have newer ones).
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "dependencies.md"
EXTRAS: Final = ("query", "spark", "drill")
# Extras of ours may name each other.
OWN: Final = "crdtstream"

# Licences under which a package may be used by, and distributed with, a program under Apache-2.0.
# Names as SPDX has them; a package under MPL is used as it is.
LICENCES: Final = frozenset(
    {
        *("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0"),
        *("PSF-2.0", "0BSD", "Unlicense", "Zlib", "CC0-1.0"),
    }
)
# Of packages whose metadata do not have the licence as SPDX names it: looked up in their files.
LOOKED_UP: Final[Mapping[str, str]] = {}
# Words of classifiers and of free text, by the name that SPDX has.
WORDS: Final[Mapping[str, str]] = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "PSF": "PSF-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
}
HEAD: Final = """\
# Dependencies

All packages that are installed with crdtstream, found as pip finds them: those that
`pyproject.toml` names, and those that these need. `make docs` writes this page; `make check`
compares it, and knows which licences fit ([tools/dependencies.py](../tools/dependencies.py)).
Packages for tests, checks and compiling are in `pyproject.toml` as well, and in no node.

The versions are those that this page was tested with. `pip install pip-audit && pip-audit`, in the
environment of a node, tells which known vulnerabilities they have. It asks PyPI about each package,
so it is no part of `make check`, which works without a network.
"""
_ROW: Final = re.compile(r"^\| `(?P<name>[^`]+)` \| (?P<version>[^|]+) \| (?P<rest>.*) \|$")


class Dependency(NamedTuple):
    """A package.

    Attributes:
        bounds: the versions that pyproject.toml allows; empty: another package wants it.
        extra: with which one it is installed; empty: always.
    """

    name: str
    version: str
    licences: tuple[str, ...]
    bounds: str
    extra: str


def dependencies() -> list[Dependency]:
    """All of them, each once, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: dict[str, Dependency] = {}
    groups = {"": project["dependencies"]}
    groups |= {extra: project["optional-dependencies"][extra] for extra in EXTRAS}
    for extra, wanted in groups.items():
        direct = [Requirement(text) for text in wanted]
        bounds: dict[str, str] = {canonicalize_name(one.name): str(one.specifier) for one in direct}
        for name, package in _closure(direct).items():
            if name not in found:
                licences = tuple(_licences(name, package))
                found[name] = Dependency(
                    name, package.version, licences, bounds.get(name, ""), extra
                )
    return [found[name] for name in sorted(found)]


def _closure(wanted: list[Requirement]) -> dict[str, Distribution]:
    """These packages and all that they need here, by name."""
    found: dict[str, Distribution] = {}
    due: list[tuple[Requirement, tuple[str, ...]]] = [(one, ("",)) for one in wanted]
    while due:
        requirement, extras = due.pop()
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(requirement.name)
        if name == OWN:
            continue
        is_new = name not in found
        try:
            package = found.setdefault(name, distribution(name))
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed here: run `make test` first, which installs it")
        if is_new or requirement.extras:
            asked = ("", *requirement.extras)
            due += [(Requirement(text), asked) for text in package.requires or ()]
    return found


def _licences(name: str, package: Distribution) -> Iterator[str]:
    """Names of the licences of a package, as SPDX has them where that is known."""
    if name in LOOKED_UP:
        yield LOOKED_UP[name]
        return
    facts: dict[str, Any] = package.metadata.json
    expression = facts.get("license_expression")
    if expression:
        yield from sorted(set(re.split(r" (?:AND|OR) |[()]", expression)) - {"", " "})
        return
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in facts.get("classifier", ())
        if text.startswith("License ::") and not text.endswith("OSI Approved")
    ]
    text = facts.get("license", "").strip().partition("\n")[0]
    named = classifiers or ([text] if text else ["unknown"])
    yield from (WORDS.get(one, one) for one in named)


def page(found: list[Dependency]) -> str:
    """Text of the page."""
    return "\n".join(
        (
            HEAD,
            *_table("A region", [one for one in found if not one.extra]),
            *_table(
                "Nodes that Spark reads (`crdtstream[query]`)",
                [one for one in found if one.extra == "query"],
            ),
            *_table("Spark (`crdtstream[spark]`)", [one for one in found if one.extra == "spark"]),
            *_table("Drills (`crdtstream[drill]`)", [one for one in found if one.extra == "drill"]),
        )
    )


def _table(title: str, found: list[Dependency]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| package | tested | allowed | licence |"
    yield "| --- | --- | --- | --- |"
    for one in found:
        allowed = f"`{one.bounds}`" if one.bounds else "as others want it"
        yield f"| `{one.name}` | {one.version} | {allowed} | {', '.join(one.licences)} |"
    yield ""


def without_versions(text: str) -> list[str]:
    """The lines of a page, those of tables without the version that is installed."""
    return [_ROW.sub(r"\g<name> \g<rest>", line) for line in text.splitlines()]


def main(*, check_only: bool) -> int:
    found = dependencies()
    strange = [one for one in found if not LICENCES.issuperset(one.licences)]
    for one in strange:
        print(
            f"{one.name} {one.version}: {', '.join(one.licences)}: look at its licence, then add"
            f" it to {Path(__file__).name}",
            file=sys.stderr,
        )
    if strange:
        return 1
    now, before = page(found), PAGE.read_text() if PAGE.exists() else ""
    if without_versions(now) == without_versions(before):
        return 0
    if check_only:
        print(f"{PAGE.relative_to(ROOT)} is not current: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main(check_only="--check" in sys.argv[1:]))
