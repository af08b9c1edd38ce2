"""Changes values in a TOML file; comments and layout stay as they are.

This is not a parser of TOML but an editor of lines.  A parser checks its work: the result must read
as the old values with the new ones in their places, or nothing is written.  So a file in a form
that this does not understand (a table in braces, a dotted header) is refused, never damaged.
"""

import copy
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_HEADER: Final = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(#.*)?")
# A key with a plain value, and what may stand behind that.
_LINE: Final = re.compile(
    r"""(?P<before>\s*["']?(?P<key>[A-Za-z0-9_.-]+)["']?\s*=\s*)"""
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s#"'\[{][^\s#]*)"""
    r"""(?P<after>\s*(?:\#.*)?)"""
)


class RewriteError(Exception):
    """The file stays as it is; the text says why."""


def rewrite_file(path: Path, values: Mapping[str, int | str]) -> None:
    """Set values in a TOML file, at once or not at all.

    Args:
        values: by key; ``limits.clients_max`` is a key of the table ``[limits]``.

    Raises:
        RewriteError: it cannot be read or written, or not be changed with certainty.
    """
    path = path.resolve()
    try:
        # Not as text: line ends are to stay as they are.
        text = path.read_bytes().decode("utf-8")
        before = tomllib.loads(text)
    except OSError as error:
        raise RewriteError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as damage:
        raise RewriteError(f"{path} is no TOML: {damage}") from damage
    changed = with_values(text, values)
    expected = _expected(before, values)
    if expected is None or _parsed(changed) != expected:
        raise RewriteError(
            f"{path} is written in a way that cannot be changed safely; put in by hand: "
            + ", ".join(f"{key} = {_toml(value)}" for key, value in values.items())
        )
    try:
        _replace(path, changed)
    except OSError as error:
        raise RewriteError(f"{path}: {error.strerror}") from error


def with_values(text: str, values: Mapping[str, int | str]) -> str:
    """The text with the values in it: in their lines, or in new ones where their table begins."""
    lines = text.splitlines(keepends=True)
    for dotted, value in values.items():
        table, _, key = dotted.rpartition(".")
        _put(lines, table, key, _toml(value))
    return "".join(lines)


def _put(lines: list[str], table: str, key: str, value: str) -> None:
    here = ""
    last_own: int | None = None
    for at, line in enumerate(lines):
        header = _HEADER.fullmatch(line.rstrip("\r\n"))
        if header is not None and "=" not in line.partition("#")[0]:
            here = header["name"]
            last_own = at if here == table else last_own
            continue
        found = _LINE.fullmatch(line.rstrip("\r\n"))
        if found is None:
            continue
        full_key = f"{here}.{found['key']}" if here else found["key"]
        if full_key == (f"{table}.{key}" if table else key):
            end = line[len(line.rstrip("\r\n")) :]
            lines[at] = f"{found['before']}{value}{found['after']}{end}"
            return
        if here == table:
            last_own = at
    _insert(lines, table, last_own, f"{key} = {value}\n")


def _insert(lines: list[str], table: str, last_own: int | None, line: str) -> None:
    """A new line behind the last one of its table; a new table at the end."""
    if last_own is not None:
        if not lines[last_own].endswith("\n"):
            lines[last_own] += "\n"
        lines.insert(last_own + 1, line)
    elif not table:
        lines.insert(0, line)
    else:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines += ["\n", f"[{table}]\n", line]


def _toml(value: int | str) -> str:
    # JSON's strings, true and false are TOML's.
    return json.dumps(value)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _expected(before: dict[str, Any], values: Mapping[str, int | str]) -> dict[str, Any] | None:
    """Values that the file must have afterwards; None: the name of a table has another value."""
    after = copy.deepcopy(before)
    for dotted, value in values.items():
        table, _, key = dotted.rpartition(".")
        place = after.setdefault(table, {}) if table else after
        if not isinstance(place, dict):
            return None
        place[key] = value
    return after


def _replace(path: Path, text: str) -> None:
    """Put a new file with the same permissions in the old one's place, in one step."""
    status = path.stat()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), status.st_mode & 0o7777)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
