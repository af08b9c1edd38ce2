"""What Spark raises, and the one line of it that says what went wrong."""

from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

# The second is what PySpark has no class of its own for.
SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)


def told(error: Exception) -> str:
    """The error's own words, without what it passed through.

    An error of ours in a task comes as a Python traceback in a Java one: its last line counts.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("crdtstream.") and "Error: " in line]
    if ours:
        return ours[-1].partition("Error: ")[2]
    javas = [line for line in lines if line.startswith(": ")]
    return (javas or lines or [type(error).__name__])[0].removeprefix(": ")


def is_missing_file(error: Exception) -> bool:
    """Whether a file went between listing it and reading it."""
    return "FILE_NOT_EXIST" in str(error) or "FileNotFoundException" in str(error)
