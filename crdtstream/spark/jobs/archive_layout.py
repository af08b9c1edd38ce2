"""Layout of an archive: folders, columns, and names that are safe in both.

    flights/                              the archive
      stream=EWR/date=2013-01-01/part-00000012-0000.parquet
      stream=EWR/date=2013-01-02/…        what readers see, Spark's and others
      stream=JFK/…
      _archive/                           hidden from readers, as its name begins with _
        state/00000000000000000012.json   what is archived; the highest number is valid
        ledger/…                          the published files: length, SHA-256, entries
        segments/…                        entries of micro-batches, archived and not published yet
        staging/…                         files about to be published
        old/…                             files that merged ones replaced, about to be deleted
        checkpoint/                       Spark's
        replays/…                         progress of replays

To read by wildcards, and not by folder, use ``flights/stream=*/date=*/*.parquet``.

A stream's name becomes the name of a folder, and readers guess a type from such names.  So names
that would be lost or guessed wrongly are written differently, no two alike:

    messages, orders:eu, 1001, naïve/ä   as they are (Spark escapes / and the like, readers undo it)
    007, 1e5, 2024-01-01                 %3007, %31e5, %3224-01-01: else 7, 100000.0, a date
    100%                                 100%25
    bytes that are no UTF-8              %FF
    the empty name                       %
    more than 120 bytes so written       the first ones, %%, and a checksum of all

Each row has its stream's true name in the column ``key``.
"""

import codecs
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

HIDDEN: Final = "_archive"
STATE: Final = f"{HIDDEN}/state"
LEDGER: Final = f"{HIDDEN}/ledger"
SEGMENTS: Final = f"{HIDDEN}/segments"
STAGING: Final = f"{HIDDEN}/staging"
OLD: Final = f"{HIDDEN}/old"
CHECKPOINT: Final = f"{HIDDEN}/checkpoint"

LABEL_BYTES_MAX: Final = 120
_PERCENT: Final = "crdtstream-percent"
# Labels that readers take for a number, a time or nothing; whole numbers are read as they were.
_GUESSED: Final = re.compile(
    r"(?!(0|[1-9][0-9]{0,8})$)(\s*[+-]?[.0-9][-+.,:/_ 0-9dDeEfFlLTxXZ]*|"
    r"[+-]?(nan|inf|infinity)|null|none|true|false|__HIVE_DEFAULT_PARTITION__)",
    re.ASCII | re.IGNORECASE,
)
# The last millisecond of the year 9999, which dates end at in most programs.
DATED_MS_MAX: Final = 253_402_300_799_999

# Columns of the files.  `fields` is for people: text, each name once.  Where that loses something
# (bytes that are no UTF-8, a name that comes twice), `raw` is the entry as RESP; else it is null.
FILE_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType(), nullable=True),
        StructField("id", StringType()),
        StructField("timestamp", TimestampType()),
        StructField("ms", LongType()),
        StructField("seq", DecimalType(20, 0)),
        StructField("origin", IntegerType()),
        StructField("dot", LongType()),
        StructField("fields", MapType(StringType(), StringType())),
        StructField("raw", BinaryType()),
        StructField("producer", StringType()),
        StructField("idempotent_id", StringType()),
    ]
)
# Columns that a reader sees: partitions' columns come from the names of folders.
ARCHIVE_SCHEMA: Final = StructType(
    [*FILE_SCHEMA.fields, StructField("stream", StringType()), StructField("date", DateType())]
)


@dataclass(frozen=True, slots=True)
class Partition:
    """A folder of published files."""

    label: str
    date: str

    @classmethod
    def of(cls, path: str) -> "Partition":
        """Of the path of a file or folder in it, which ends in ``stream=…/date=…[/name]``."""
        parts = path.split("/")
        stream = next(part for part in parts if part.startswith("stream="))
        date = next(part for part in parts if part.startswith("date="))
        return cls(unquote(stream.removeprefix("stream=")), date.removeprefix("date="))

    @staticmethod
    def folder_of(path: str) -> str:
        """The folder of the stream that a published file belongs to."""
        return path.partition("/")[0]


def label_of(key: bytes) -> str:
    """Label of a stream, for its folder's name; different streams have different labels."""
    label = _escaped(key, rb"[%\x00-\x1f\x7f]").decode("utf-8", _PERCENT)
    if not label:
        return "%"
    if _GUESSED.fullmatch(label):
        label = _escaped(label[0].encode(), rb"(?s).").decode() + label[1:]
    if len(label.encode()) > LABEL_BYTES_MAX:
        start = label.encode()[: LABEL_BYTES_MAX // 2].decode(errors="ignore").rstrip("%")
        return f"{start}%%{hashlib.sha256(key).hexdigest()[:32]}"
    return label


def key_of(label: str) -> bytes | None:
    """The name that a label was made of; None: it was too long to keep."""
    if "%%" in label:
        return None
    return b"" if label == "%" else unquote_to_bytes(label)


def _escaped(text: bytes, what: bytes) -> bytes:
    return re.sub(what, lambda found: b"%%%02X" % found[0][0], text)


def _percent(error: UnicodeError) -> tuple[str, int]:
    """Replacement for bytes that are no UTF-8: each of them in hexadecimal."""
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(f"%{byte:02X}" for byte in wrong), error.end


codecs.register_error(_PERCENT, _percent)


def date_of(ms: Column) -> Column:
    """The UTC date of an ID; IDs of later than 9999, or of no time at all, are of its last day."""
    is_dated = ms.between(0, DATED_MS_MAX)
    dated = F.when(is_dated, ms).otherwise(F.lit(DATED_MS_MAX))
    return F.date_from_unix_date((dated / F.lit(86_400_000)).cast("int"))


def matching(patterns: Sequence[bytes], key: bytes) -> bool:
    """True if KEYS would show ``key`` for one of the patterns; without patterns always."""
    return not patterns or any(_glob(pattern).fullmatch(key) for pattern in patterns)


def is_exact(pattern: bytes) -> bool:
    """True if a pattern means one stream."""
    return not any(char in pattern for char in b"*?[\\")


def _glob(pattern: bytes) -> re.Pattern[bytes]:
    """As Redis matches: ``*``, ``?``, ``[a-c]``, ``[^a]``, and what stands behind ``\\``."""
    parts = re.findall(rb"\*+|\?|\[\^?(?:\\.|[^\]\\])*\]?|\\.|.", pattern, re.DOTALL)
    return re.compile(b"".join(_glob_part(part) for part in parts), re.DOTALL)


def _glob_part(part: bytes) -> bytes:
    if part.startswith(b"*"):
        return b".*"
    if part == b"?":
        return b"."
    if part.startswith(b"[") and len(part) > 1:
        inner = part[1:].removesuffix(b"]")
        negated = inner.startswith(b"^")
        ranges = _ranges(inner.removeprefix(b"^"))
        if not ranges:
            return b"." if negated else b"(?!)"
        return b"[" + (b"^" if negated else b"") + ranges + b"]"
    return re.escape(part[1:] if part.startswith(b"\\") and len(part) > 1 else part)


def _ranges(inner: bytes) -> bytes:
    found = re.findall(rb"(?:\\.|[^\\])-(?:\\.|[^\\])|\\.|.", inner, re.DOTALL)
    written = []
    for one in found:
        ends = re.fullmatch(rb"(\\.|[^\\])-(\\.|[^\\])", one, re.DOTALL)
        if ends is None:
            written.append(re.escape(one[-1:]))
        else:
            low, high = sorted((ends[1][-1:], ends[2][-1:]))
            written.append(re.escape(low) + b"-" + re.escape(high))
    return b"".join(written)


def archived_columns(entries: DataFrame) -> DataFrame:
    """Entries that were read from streams, with the columns of the files."""
    return entries.select(*FILE_SCHEMA.fieldNames())
