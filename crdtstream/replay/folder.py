"""Reports in a folder: found, listed, read; nothing outside of it is ever opened.

    DIR/NAME.json            of drills, or as `crdtstream scenario run --report` writes it
    DIR/NAME/report.json     as `crdtstream drill run --out DIR/NAME` writes it

A report is asked for by its name in the list, which is made again each time: no path comes from a
request.  A link that leads out of the folder is not in the list, nor is what cannot be read: one
file hides no other.
"""

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from crdtstream.core.size import Size
from crdtstream.drill.outcome import Report
from crdtstream.drill.report.files import REPORT_FILE, ReportError, read_json
from crdtstream.replay.bounds import BoundsError, check
from crdtstream.scenario.report_file import ScenarioFileError, ScenarioReports, parse_reports

FILES_MAX: Final = Size(200, least=1)
FILE_BYTES_MAX: Final = Size(32 << 20, least=1)
# Characters among which a report of scenarios names itself.
KIND_WITHIN: Final = 64
# Reports that stay in memory: each moment of a replay asks for one.
KEPT_MAX: Final = Size(4, least=1)


AnyReport: TypeAlias = Report | ScenarioReports


class FolderError(Exception):
    """A report cannot be shown; the text says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file that may be a report.

    Attributes:
        name: from the folder on.
        changed_ms: since 1970.
    """

    name: str
    path: Path
    size: int
    changed_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of the folder.

    Attributes:
        files: the newest first, ``FILES_MAX`` of them at most.
        older: number of the others.
        refused: names of what cannot be read or named, as texts; they are never asked for.
    """

    files: list[ReportFile]
    older: int
    refused: list[str]


class ReportFolder:
    """One folder; its methods block, and may be called from several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        # By name, size and time, the last one used at the end.
        self._kept: OrderedDict[ReportFile, AnyReport] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self._root

    def listing(self) -> Listing:
        """The files that may be reports.

        Raises:
            FolderError: the folder itself cannot be read.
        """
        try:
            paths = list(self._root.iterdir())
        except OSError as error:
            raise FolderError(f"{self._root} cannot be read: {error.strerror or error}.") from error
        found: list[ReportFile] = []
        refused: list[str] = []
        for path in paths:
            try:
                file = self._file(path)
            except (OSError, UnicodeEncodeError):
                refused.append(shown(path.name))
            else:
                found += [] if file is None else [file]
        found.sort(key=lambda one: (-one.changed_ms, one.name))
        most = FILES_MAX.value
        return Listing(found[:most], max(0, len(found) - most), sorted(refused))

    def report(self, name: str) -> AnyReport:
        """The report of this name.

        Raises:
            FolderError: there is none, or it cannot be read.
        """
        file = next((one for one in self.listing().files if one.name == name), None)
        if file is None:
            raise FolderError("There is no report of this name in the folder.")
        if file.size > FILE_BYTES_MAX.value:
            raise FolderError(
                f"{file.name} has more than {FILE_BYTES_MAX.value >> 20} MiB; show it by"
                " `crdtstream drill report`."
            )
        with self._lock:
            if file not in self._kept:
                try:
                    self._kept[file] = _read(file)
                except (ReportError, ScenarioFileError) as error:
                    raise FolderError(f"{error}.") from error
                except BoundsError as error:
                    raise FolderError(f"{file.name}: {error}.") from error
            self._kept.move_to_end(file)
            if len(self._kept) > KEPT_MAX.value:
                self._kept.popitem(last=False)
            return self._kept[file]

    def _file(self, path: Path) -> ReportFile | None:
        """The report at a path of the folder; None: it is no report, or leads elsewhere.

        Raises:
            OSError: it cannot be read.
            UnicodeEncodeError: its name is not UTF-8, so no address can have it.
        """
        inner = path / REPORT_FILE if path.is_dir() else path
        if inner.suffix != ".json" or not inner.is_file():
            return None
        if not inner.resolve().is_relative_to(self._root):
            return None
        facts = inner.stat()
        name = str(inner.relative_to(self._root))
        name.encode()
        return ReportFile(name, inner.resolve(), facts.st_size, facts.st_mtime_ns // 1_000_000)


def shown(path: str) -> str:
    """A path as a text that any page can have."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _read(file: ReportFile) -> AnyReport:
    """
    Raises:
        ReportError, ScenarioFileError: it holds neither.
        BoundsError: it holds more than a page shows.
    """
    try:
        text = file.path.read_text(encoding="utf-8")
        is_of_scenarios = '"kind": "scenarios"' in text[:KIND_WITHIN]
    except (OSError, UnicodeDecodeError):
        # The reader of drills says what is wrong.
        is_of_scenarios = False
    found = parse_reports(text, file.name) if is_of_scenarios else read_json(file.path)
    check(found)
    return found
