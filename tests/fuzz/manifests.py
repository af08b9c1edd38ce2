"""Manifests of backups, whose checksum is right, whatever they say."""

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from crdtstream.core.ids import RegionId
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.upkeep.check_report import no_progress
from crdtstream.upkeep.folder_reading import UpkeepError
from crdtstream.upkeep.manifest import (
    MANIFEST,
    FileSum,
    Manifest,
    check_files,
    manifest_text,
    read_manifest,
)
from crdtstream.upkeep.manifest import _sum_of_plain as sum_of_plain
from tests.fuzz.damage import damaged_bytes, damaged_tree
from tests.fuzz.surface import Surface

_FOLDER: Final = tempfile.TemporaryDirectory(prefix="crdtstream-fuzz-")
BACKUP: Final = Path(_FOLDER.name)


def target(data: bytes) -> object:
    """A manifest, beside a log that is empty."""
    (BACKUP / MANIFEST).write_bytes(data)
    (BACKUP / LOG_FILE).write_bytes(b"")
    try:
        manifest = read_manifest(BACKUP)
        check_files(BACKUP, manifest, no_progress)
    except UpkeepError as error:
        return str(error).replace(str(BACKUP), "")
    assert manifest.cut_text
    assert set(manifest.files) == {LOG_FILE}
    return manifest


@cache
def seeds() -> list[bytes]:
    empty = FileSum(0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    manifest = Manifest(
        region=RegionId(1),
        database_id="crdb",
        database_uid="00" * 16,
        version="0.1.0",
        cut_ms=1_790_000_000_000,
        first_seq=1,
        checkpoint_seq=3,
        last_seq=9,
        vv={RegionId(1): 5, RegionId(2): 7},
        files={LOG_FILE: empty},
    )
    return [manifest_text(manifest).encode()]


def damage(data: bytes, draw: Random) -> bytes:
    try:
        plain: Any = json.loads(data)
    except (ValueError, RecursionError):
        return damaged_bytes(data, draw)
    if not isinstance(plain, dict) or draw.random() < 0.1:
        return damaged_bytes(data, draw)
    plain.pop("sha256", None)
    changed = _texts(damaged_tree(plain, draw))
    if isinstance(changed, dict):
        changed["sha256"] = sum_of_plain(changed)
    return json.dumps(changed).encode()


def _texts(tree: Any) -> Any:
    """The same, as JSON can have it."""
    match tree:
        case bytes():
            return draw_path(tree)
        case list():
            return [_texts(one) for one in tree]
        case dict():
            return {str(_texts(key)): _texts(value) for key, value in tree.items()}
        case _:
            return tree


def draw_path(data: bytes) -> str:
    """A text in place of bytes; some of them are paths that lead out of a folder."""
    return ("../log.db", "/dev/null", "log.db", "", "NaN")[len(data) % 5]


MANIFESTS: Final = Surface(
    "manifests", target, seeds, damage, "manifests of backups with the right checksum"
)
