"""A Spark session that reads and writes crdtstream: on this machine, or on a cluster.

A session that is started here has settings that a program would otherwise need to know: the Python
of its workers, the Java, UTC, filters that reach the source, and quiet logs.  Settings of the
caller, spark-submit or the environment override each of these.
"""

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crdtstream.spark.java import SparkMissingError, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_DEFAULT: Final = "local[*]"
VERSION_MIN: Final = (4, 1)

# A caller with options of its own must add these.  Otherwise Spark is not quiet, and hangs when it
# runs out of memory: the thread that noticed is gone, and others still wait for it.
JAVA_OPTIONS: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    " -XX:+ExitOnOutOfMemoryError"
)

# With these the Java process is started.
_START_CONF: Final = {"spark.ui.showConsoleProgress": "false"}
# On this machine no other program has a reason to connect.
_LOCAL_START_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}
# These a session can be given while it runs.
_SQL_CONF: Final = {
    # Times are milliseconds since 1970 in the streams; nothing depends on where Spark runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


class PySparkMissingError(SparkMissingError):
    """PySpark is not installed, or is too old."""


def make_session(
    app_name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """A session with ``crdtstream`` among its data sources.

    Args:
        app_name: shown by Spark's own programs.
        master: as of spark-submit, e.g. ``local[2]``, ``spark://host:7077``.  None: as
            given to spark-submit, else all cores of this machine.
        conf: Spark's settings, which go before ours.

    A session that runs already is taken as it is.

    Raises:
        SparkMissingError: Java or PySpark is not here.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    from crdtstream.spark import register

    spark = SparkSession.getActiveSession() or _start(app_name, master, dict(conf or {}))
    # By that module Spark finds the source itself, and warns of a second one of the same name.
    if find_spec("pyspark_crdtstream") is None:
        register(spark)
    return spark


def _start(app_name: str, master: str | None, conf: dict[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    settings = conf
    # Below spark-submit Java runs, and knows the master.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = master or MASTER_DEFAULT
        is_local = local_cores(master) is not None
        settings = _START_CONF | (_LOCAL_START_CONF if is_local else {}) | conf
        _prepare_environment()
        if is_local and "SPARK_HOME" not in os.environ:
            os.environ["SPARK_HOME"] = _home_without_archives()

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    # Ours after all others, as only now it is known what others said, e.g. in spark-defaults.conf.
    given = spark.sparkContext.getConf()
    for name, value in sql_settings(spark.sparkContext.master or "").items():
        if not given.contains(name):
            spark.conf.set(name, value)
    return spark


def sql_settings(master: str) -> dict[str, str]:
    """Settings of a session on ``master``, where no other source sets them."""
    cores = local_cores(master)
    if cores is None:
        return dict(_SQL_CONF)
    # Spark's 200 would be 200 tasks a micro-batch, each with a file or two.
    return _SQL_CONF | {"spark.sql.shuffle.partitions": str(max(2, cores))}


def local_cores(master: str) -> int | None:
    """Number of tasks at a time that ``local``, ``local[2]``, ``local[*]``, ``local[2,3]`` mean.

    None if ``master`` is not this machine.
    """
    if master == "local":
        return 1
    given = re.fullmatch(r"local\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\]", master)
    if given is None:
        return None
    return (os.cpu_count() or 1) if given.group(1) == "*" else int(given.group(1))


def is_running() -> bool:
    """True if a session runs that ``make_session`` would take."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def check_pyspark() -> None:
    """Raises ``PySparkMissingError`` if PySpark cannot be imported, or lacks what we need."""
    how_to_get = "pip install 'crdtstream[spark]'"
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise PySparkMissingError(f"PySpark is not installed: {how_to_get}")
    from pyspark import __version__ as version

    numbers = re.findall(r"\d+", version)
    if tuple(map(int, numbers[:2])) < VERSION_MIN:
        wanted = ".".join(map(str, VERSION_MIN))
        raise PySparkMissingError(f"PySpark {version} is older than {wanted}: {how_to_get}")


def _prepare_environment() -> None:
    """Set the variables that the JVM, which is about to start, and its Python workers read."""
    os.environ["JAVA_HOME"] = str(find_java())
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, sys.executable)


def _home_without_archives() -> str:
    """Spark's home for this machine, from which Python workers start quickly; gone when we end.

    Spark has workers import PySpark from ``python/lib/pyspark.zip`` of its home.  Code from
    an archive is compiled again in each process: 0.8 s of CPU, instead of 0.2 s from the package
    that is installed.  On a busy machine that is the end of streaming queries, as a worker that has
    not called back after 10 s is given up.
    """
    package = find_spec("pyspark")
    assert package is not None
    assert package.submodule_search_locations
    installed = Path(package.submodule_search_locations[0])
    home = tempfile.mkdtemp(prefix="crdtstream-spark-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("bin", "conf", "jars"):
        if (installed / name).exists():
            Path(home, name).symlink_to(installed / name)
    return home
