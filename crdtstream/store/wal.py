"""SQLite's write-ahead log, checked frame by frame.

SQLite itself stops at the first frame that does not fit and takes what comes before it, without an
error.  After a crash that is right, but a flipped bit in the middle loses every commit behind it in
the same way.  The difference: only damage leaves a whole commit *behind* a frame that is not whole.
A crash may leave single frames there: a transaction that it cut off is overwritten from its
beginning, and the rest of it stays behind.

    header   magic, version, page size, sequence, salt, salt, checksum, checksum     32 bytes
    frame    page, pages after commit (0: none), salt, salt, checksum, checksum      24 bytes
             then the page
    ...      frames of an earlier round may follow, with other salts, or zeros

A lost block of the disk may take the header of a frame, and its salts with it.  So the whole file
is read: frames of an earlier round always have other salts, whatever comes before them.

A checksum continues that of the frame before it, over the first 8 bytes of the frame's header and
the page.  Source: sqlite.org/fileformat2.html, "The Write-Ahead Log".
"""

import struct
import sys
from array import array
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
MAGIC_LITTLE: Final = 0x377F0682
MAGIC_BIG: Final = 0x377F0683
VERSION: Final = 3_007_000
# Bytes of the database's file that say how it is written; 2 is with a WAL.
_WRITTEN_WITH: Final = slice(18, 20)
_WITH_WAL: Final = b"\x02\x02"
_U32: Final = 0xFFFFFFFF
Checksum = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WalState:
    """Content of a WAL.

    Attributes:
        frames: whole frames of this round, up to the first that is not.
        committed: those of them up to the last commit; SQLite takes these.
        damage: text of the damage; empty if there is none.
        unfinished: a transaction at the end is not whole: a crash cut it off, or its end is
            damaged.
    """

    frames: int = 0
    committed: int = 0
    damage: str = ""
    unfinished: bool = False


def check_wal(path: Path) -> WalState:
    """Read a WAL from its beginning to its end.

    Raises:
        OSError: it cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return WalState()
    with path.open("rb") as wal:
        state = _check(wal)
    if path.stat().st_size <= HEADER_BYTES:
        # Nothing was committed to it.
        return WalState(unfinished=bool(state.damage))
    return state


def check_wal_of(database: Path) -> WalState:
    """The same for the WAL of a database; it may be sound, and the database not read it.

    Raises:
        OSError: it cannot be read.
    """
    wal = database.with_name(f"{database.name}-wal")
    state = check_wal(wal)
    with database.open("rb") as file:
        written_with = file.read(_WRITTEN_WITH.stop)[_WRITTEN_WITH]
    if not state.damage and state.frames and written_with != _WITH_WAL:
        return replace(state, damage=f"it holds commits that {database.name} ignores")
    return state


def _check(wal: BinaryIO) -> WalState:
    header = wal.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return WalState(damage="its header is cut short")
    magic, version, page_bytes, _, salt, other_salt, *told = struct.unpack(">8I", header)
    if magic not in (MAGIC_LITTLE, MAGIC_BIG):
        return WalState(damage="its header is damaged (magic number)")
    order = "little" if magic == MAGIC_LITTLE else "big"
    checksum = _sum(header[:24], (0, 0), order)
    if checksum != tuple(told) or version != VERSION:
        return WalState(damage="its header is damaged (checksum)")
    return _check_frames(wal, page_bytes, (salt, other_salt), checksum, order)


def _check_frames(
    wal: BinaryIO, page_bytes: int, salts: tuple[int, int], checksum: Checksum, order: str
) -> WalState:
    frames = committed = 0
    size = FRAME_HEADER_BYTES + page_bytes
    bad_at = 0  # the first frame that is not whole, counted from 1
    is_of_this_round = False
    number = 0
    while len(frame := wal.read(size)) == size:
        number += 1
        _, pages, salt, other_salt, *told = struct.unpack(">6I", frame[:FRAME_HEADER_BYTES])
        if not bad_at:
            summed = _sum(frame[:8] + frame[FRAME_HEADER_BYTES:], checksum, order)
            is_whole = (salt, other_salt) == salts and summed == tuple(told)
            if is_whole:
                frames = number
                checksum = summed
                committed = number if pages else committed
                continue
            bad_at = number
            # One of two salts that fits: the frame is of this round, and the other one damaged.
            is_of_this_round = salt == salts[0] or other_salt == salts[1]
            # The next one goes on from what this one says, or from what it is.
            candidates = [summed, (told[0], told[1])]
            continue
        if (salt, other_salt) == salts:
            sums = [_sum(frame[:8] + frame[FRAME_HEADER_BYTES:], one, order) for one in candidates]
            if tuple(told) in sums and pages:
                return WalState(
                    frames, committed, f"frame {bad_at} is damaged, and whole commits follow it"
                )
            candidates = [*sums, (told[0], told[1])][-3:]
        else:
            # Of an earlier round, or a hole, which frames of this round may follow.  It is not
            # summed up: a file may hold 16 MiB of earlier rounds.
            candidates = []
    return WalState(frames, committed, unfinished=is_of_this_round or committed < frames)


def _sum(data: bytes, start: Checksum, order: str) -> Checksum:
    words = array("I", data)
    if sys.byteorder != order:
        words.byteswap()
    first, second = start
    # Two words a round: first += word + second; second += next word + first.
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & _U32
        second = (second + words[index + 1] + first) & _U32
    return first, second
