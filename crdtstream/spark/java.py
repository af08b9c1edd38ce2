"""Finds a Java that Spark can run on, and says what to install if there is none.

It is searched as Spark itself does, in JAVA_HOME and then on the PATH; but a version that is too
old does not end the search.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION_MIN: Final = 17
ANSWER_SECONDS_MAX: Final = 30.0

_HOW_TO_GET: Final = (
    "install openjdk-17-jre-headless (Debian, Ubuntu), java-17-openjdk-headless (Fedora, RHEL),"
    " openjdk17-jre-headless (Alpine) or openjdk@17 (Homebrew), or set JAVA_HOME"
)
_HOME: Final = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
# 17, 21; 1.8 up to Java 8.
_VERSION: Final = re.compile(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)


class SparkMissingError(Exception):
    """Something that Spark needs is not here.  The text, one line, says what to install."""


class JavaMissingError(SparkMissingError):
    """There is no Java here, or none that is new enough."""


@dataclass(frozen=True, slots=True)
class _Java:
    home: Path
    version: int


def find_java() -> Path:
    """The home folder of a Java that Spark runs on; the program is ``bin/java`` in it.

    Raises:
        JavaMissingError: there is none; the text names those that are too old.
    """
    problems = []
    for origin, program in _candidates():
        try:
            java = _ask(program)
        except JavaMissingError as error:
            problems.append(f"{origin}: {error}")
            continue
        if java.version >= VERSION_MIN:
            return java.home
        problems.append(f"{origin}: Java {java.version} in {java.home} is too old")
    found = f" ({'; '.join(problems)})" if problems else ""
    raise JavaMissingError(f"Spark needs Java {VERSION_MIN} or newer{found}: {_HOW_TO_GET}")


def _candidates() -> list[tuple[str, Path]]:
    """Programs to ask, each with where it was found."""
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if program := shutil.which("java"):
        found.append(("PATH", Path(program)))
    return found


def _ask(program: Path) -> _Java:
    """Ask a Java for its home and version.

    The home that it states is better than its path, which may be a link, or a script that chooses
    among versions.
    """
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{program} cannot be run: {_reason(error)}") from error
    text = answer.stderr + answer.stdout
    home, version = _HOME.search(text), _VERSION.search(text)
    if home is None or version is None:
        raise JavaMissingError(f"{program} does not report its version")
    return _Java(Path(home.group(1)), int(version.group(1)))


def _reason(error: OSError | subprocess.TimeoutExpired) -> str:
    match error:
        case OSError():
            return (error.strerror or "for an unknown reason").lower()
        case _:
            return f"no answer within {ANSWER_SECONDS_MAX:.0f} s"
