"""Errors of Spark, and the one line in each that says what went wrong."""

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

# The second is what PySpark has no class of its own for.
SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)

# As the kernel has it, and so Java and Python.
_FULL: Final = ("No space left on device", "Disk quota exceeded")
# In Spark's words of a failed task: "Lost task 0.3 in stage 1.0 (TID 7) (host-2 executor 1)".
_HOST: Final = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor")
_CAUSES_MAX: Final = 20


def told(error: Exception) -> str:
    """The error's own words, without what it passed through.

    An error of ours in a task comes as a Python traceback in a Java one: its last line counts.
    """
    if full := _full_disk(error):
        return full
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("crdtstream.") and "Error: " in line]
    if ours:
        return ours[-1].partition("Error: ")[2]
    javas = [line for line in lines if line.startswith(": ")]
    return (javas or lines or [type(error).__name__])[0].removeprefix(": ")


def _full_disk(error: Exception) -> str:
    """Text about an error of a full disk, anywhere in a task; empty: it has another cause."""
    said = "\n".join([str(error), *_causes(error)])
    found = next((words for words in _FULL if words in said), "")
    if not found:
        return ""
    host = _HOST.search(said)
    at = f" on {host[1]}" if host else ""
    return (
        f"a disk is full{at} ({found}): make room in the folder that is written, and where Spark "
        "keeps what it sorts (spark.local.dir, by default /tmp); then run again"
    )


def _causes(error: Exception) -> list[str]:
    """Texts of the Java exceptions that caused this one."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[str] = []
    while java is not None and len(found) < _CAUSES_MAX:
        found.append(str(java.toString()))
        java = java.getCause()
    return found


def is_missing_file(error: Exception) -> bool:
    """True if a file was deleted between listing it and reading it."""
    return "FILE_NOT_EXIST" in str(error) or "FileNotFoundException" in str(error)
