"""Reports as files: JSON to keep and to compare.  Each file is written whole or not at all."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from crdtstream.drill.outcome import FORMAT, Report

_PROBLEMS_SHOWN_MAX: Final = 3


# Name of the file that `crdtstream drill run --out` writes.
REPORT_FILE: Final = "report.json"


class ReportError(Exception):
    """A file is no report, or cannot be read or written; the text names it and says what to do."""


def write_json(report: Report, path: Path) -> None:
    """Keep a report.

    Raises:
        ReportError: it cannot be written; an older file of this name is still there then.
    """
    write_text(path, report.model_dump_json(indent=1) + "\n")


def read_json(path: Path) -> Report:
    """A report that ``write_json`` wrote; of a folder its ``report.json``.

    Raises:
        ReportError: the file cannot be read, is of another format, or holds something else.
    """
    if path.is_dir():
        path = path / REPORT_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ReportError(f"{path}: there is no such file") from error
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not a report of drills: not UTF-8 text") from error
    _require_format(path, text)
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        raise ReportError(f"{path}: a damaged report: {_problems(error)}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file whole: a reader finds the old text or the new one, never a part.

    Raises:
        ReportError: it cannot be written; an older file of this name is still there then.
    """
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp lets no other user read it, and a report is for others, too.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        if not path.parent.is_dir():
            raise ReportError(f"{path}: there is no folder {path.parent}; make it first") from error
        raise ReportError(f"{path}: cannot be written: {error.strerror or error}") from error


def _require_format(path: Path, text: str) -> None:
    """Check the format before the fields are looked at: other formats may have other fields."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not a report of drills: not JSON: {error}") from error
    if not isinstance(found, dict) or "runs" not in found:
        raise ReportError(
            f"{path}: not a report of drills; `crdtstream drill run --out DIR` writes one,"
            " report.json"
        )
    formats = [found.get("format", FORMAT)]
    if isinstance(found["runs"], list):
        formats += [run.get("format", FORMAT) for run in found["runs"] if isinstance(run, dict)]
    for one in formats:
        if one != FORMAT:
            raise ReportError(
                f"{path}: a report of format {one!r}, and this version reads format {FORMAT};"
                " read it with the version that wrote it, or run the drill again"
            )


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    shown = [
        f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg']}"
        for one in found[:_PROBLEMS_SHOWN_MAX]
    ]
    more = len(found) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _umask() -> int:
    """The mask of this process; to read it, it must be set."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
