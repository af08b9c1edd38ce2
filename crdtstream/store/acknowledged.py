"""The file ``acknowledged``: how far the log was acknowledged, so that a lost end is noticed.

SQLite treats a write-ahead log as finished at its first damaged frame, and rows that a damaged page
no longer names as absent.  The log would then end earlier, and nothing in it says so.  So the
position of its last row is also kept in the file ``acknowledged``.  It is written after each commit
through a mapping of one page: this needs no system call, and a killed process loses none of it.
Only a power cut may leave an earlier position there; then some lost rows are not noticed.

    0        8            16         32         48     52      64
    ┌────────┬────────────┬──────────┬──────────┬──────┬─ ─ ─ ─┬─ ─
    │ seq    │ synced_seq │ opening  │ boot     │ crc  │       │ the same again
    └────────┴────────────┴──────────┴──────────┴──────┴─ ─ ─ ─┴─ ─
    two slots, written in turn: one is whole at any moment

Rows up to ``synced_seq`` were synced, so a power cut cannot take them.

``opening`` names the start with this very folder that the slot is about (``opening.py``), so a log
that was restored from a backup is not compared with it.  ``boot`` distinguishes a killed process
from a machine that went down.
"""

import hashlib
import mmap
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ACKNOWLEDGED_FILE: Final = "acknowledged"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

SLOT: Final = struct.Struct("<QQ16s16sI")
SLOT_BYTES: Final = 64
FILE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Content of the file.

    Attributes:
        seq: the position of the last row that was acknowledged.
        synced_seq: the last one that is known to be synced.
        is_same_boot: the machine has not been down since.
    """

    seq: int
    synced_seq: int
    is_same_boot: bool


class AcknowledgedFile:
    """The file, mapped into memory for as long as the log is open."""

    def __init__(self, folder: Path) -> None:
        """Map the file; it is created if it does not exist.

        Raises:
            OSError: it cannot be created.
        """
        self._opening = _hash("")
        self._boot = _hash(_boot_id())
        self._slot = 0
        self._seq = self._synced_seq = 0
        file = os.open(folder / ACKNOWLEDGED_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Written, not only made longer: a full disk must be noticed here, not in the mapping.
            if os.fstat(file).st_size < FILE_BYTES:
                os.pwrite(file, bytes(FILE_BYTES), 0)
            self._map = mmap.mmap(file, FILE_BYTES)
        finally:
            os.close(file)

    def begin(self, opening: str, seq: int) -> None:
        """Begin to note positions for another start with the folder."""
        self._opening = _hash(opening)
        self._synced_seq = 0
        self.note(seq)

    def note_synced(self, seq: int) -> None:
        """Note that all rows up to this one are synced."""
        if seq > self._synced_seq:
            self._synced_seq = seq
            self.note(self._seq)

    def note(self, seq: int) -> None:
        """Note that the row at this position is committed."""
        self._slot ^= SLOT_BYTES
        self._seq = seq
        fields = SLOT.pack(seq, self._synced_seq, self._opening, self._boot, 0)[:-4]
        crc = zlib.crc32(fields).to_bytes(4, "little")
        self._map[self._slot : self._slot + SLOT.size] = fields + crc

    def close(self) -> None:
        self._map.close()


def read_acknowledged(folder: Path, opening: str) -> Acknowledged | None:
    """Read what the file says about the start ``opening``; None if it says nothing about it.

    The file need not exist.
    """
    wanted, boot = _hash(opening), _hash(_boot_id())
    found = [
        Acknowledged(seq, synced_seq, is_same_boot=of_boot == boot)
        for seq, synced_seq, of_opening, of_boot in _read_slots(folder)
        if of_opening == wanted
    ]
    return max(found, key=lambda one: (one.seq, one.synced_seq), default=None)


def has_acknowledged(folder: Path) -> bool:
    """True if a log has ever been open in the folder."""
    return bool(_read_slots(folder))


def _read_slots(folder: Path) -> list[tuple[int, int, bytes, bytes]]:
    """The slots that are whole: both positions, opening, boot."""
    try:
        with (folder / ACKNOWLEDGED_FILE).open("rb") as file:
            data = file.read(2 * SLOT_BYTES)
    except OSError:
        return []
    found = []
    for start in (0, SLOT_BYTES):
        slot = data[start : start + SLOT.size]
        if len(slot) == SLOT.size:
            seq, synced_seq, opening, boot, crc = SLOT.unpack(slot)
            # A slot that was never written does not match: the checksum of its zeros is not 0.
            if zlib.crc32(slot[:-4]) == crc:
                found.append((seq, synced_seq, opening, boot))
    return found


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        # Then no two starts are of one boot.
        return os.urandom(16).hex()


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
