"""Differences between the supported versions of PySpark, each in one place.

PySpark 4.2 asks a streaming reader for the next offset with the last one and a limit, and lets it
prepare for Trigger.AvailableNow.  PySpark 4.1 does neither: see ``unlimited_reader``.
"""

import ast
import inspect
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import __version__
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

HAS_READ_LIMITS: Final = find_spec("pyspark.sql.streaming.datasource") is not None

if TYPE_CHECKING or HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:
    from dataclasses import dataclass

    class ReadLimit:
        """Limit of a micro-batch; defined here so that the reader's code is the same."""

    @dataclass
    class ReadAllAvailable(ReadLimit):
        """All there is."""

    @dataclass
    class ReadMaxRows(ReadLimit):
        """At most ``max_rows``; never asked for by this PySpark."""

        max_rows: int

    class SupportsTriggerAvailableNow:
        """Nothing to this PySpark, which wraps every reader for that trigger."""


__all__ = [
    "HAS_READ_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "reported_offset",
    "without_limits",
]

# PySpark 4.1 takes no time zone, as it means UTC.
_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema as Arrow has it; timestamps are in UTC."""
    return to_arrow_schema(schema, **_UTC)


def reported_offset(text: str | None) -> dict[str, Any]:
    """An offset as a query's progress has it; empty where it has none.

    PySpark 4.1 reports what JSON says as Python would write it.
    """
    if not text or text in ("None", "null"):
        return {}
    try:
        offset = json.loads(text)
    except ValueError:
        offset = ast.literal_eval(text)
    assert isinstance(offset, dict)
    return offset


def without_limits(name: str) -> str:
    """The refusal of an option that bounds a micro-batch, where PySpark cannot."""
    return (
        f"{name} needs PySpark 4.2 or newer: PySpark {__version__} reads all entries in one"
        " micro-batch. Leave it out, or install a newer PySpark"
    )
