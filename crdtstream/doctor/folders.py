"""Checks of folders whose nodes are down."""

from pathlib import Path
from typing import Any

from crdtstream.core.clock import format_vv
from crdtstream.upkeep.check_report import Progress
from crdtstream.upkeep.folder_reading import UpkeepError, locked, log_file
from crdtstream.upkeep.fsck import check_folder


def files_of(folder: Path) -> dict[str, int]:
    """Files of a folder with their bytes."""
    try:
        return {one.name: one.stat().st_size for one in sorted(folder.iterdir()) if one.is_file()}
    except OSError:
        return {}


def check(folder: Path, progress: Progress, left_out: list[str]) -> dict[str, Any] | None:
    """The checks of ``crdtstream fsck``; None: a node has the folder open, or there is none."""
    try:
        log_file(folder)
        with locked(folder):
            report = check_folder(folder, progress)
    except UpkeepError as error:
        left_out.append(f"fsck: {error}")
        return None
    return {
        "is_sound": report.is_sound,
        "checks": [
            {"name": one.name, "verdict": one.verdict.value, "found": one.found}
            for one in report.checks
        ],
        "version_vector": format_vv(report.vv),
        "digest": report.digest,
    }
