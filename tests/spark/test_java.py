"""Java for Spark: its search, and the error if it is missing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from crdtstream.spark import session
from crdtstream.spark.java import JavaMissingError, find_java
from crdtstream.spark.session import (
    PySparkMissingError,
    check_pyspark,
    local_cores,
    make_session,
    sql_settings,
)
from tests.patience import LONG, seconds
from tests.spark.conftest import QUICK_ENVIRONMENT, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Where a Java is, and which; returns its home.
PutJava: TypeAlias = Callable[[str, str], Path]


@pytest.fixture
def put_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PutJava:
    """Puts a Java of some version where JAVA_HOME or PATH names it; until then there is none."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    def put(variable: str, version: str) -> Path:
        home = tmp_path / f"jdk-{variable}-{version}"
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            "#!/bin/sh\n"
            'test "$*" = "-XshowSettings:properties -version" || exit 1\n'
            f"echo '    java.home = {home}' >&2\n"
            f"echo '    java.specification.version = {version}' >&2\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv(variable, str(home if variable == "JAVA_HOME" else program.parent))
        return home

    return put


@pytest.mark.parametrize("variable", ["JAVA_HOME", "PATH"])
@pytest.mark.parametrize("version", ["17", "21"])
def test_java_is_found(put_java: PutJava, variable: str, version: str) -> None:
    home = put_java(variable, version)
    assert find_java() == home


def test_java_home_goes_before_path(put_java: PutJava) -> None:
    put_java("PATH", "21")
    home = put_java("JAVA_HOME", "17")
    assert find_java() == home


def test_one_that_is_too_old_does_not_end_the_search(put_java: PutJava) -> None:
    put_java("JAVA_HOME", "11")
    home = put_java("PATH", "17")
    assert find_java() == home


@pytest.mark.parametrize(("said", "version"), [("1.8", "8"), ("11", "11"), ("16", "16")])
def test_java_that_is_too_old_is_named(put_java: PutJava, said: str, version: str) -> None:
    home = put_java("JAVA_HOME", said)
    with pytest.raises(JavaMissingError) as caught:
        find_java()
    assert f"JAVA_HOME: Java {version} in {home} is too old" in str(caught.value)


def test_without_java_one_line_names_the_package(put_java: PutJava) -> None:
    with pytest.raises(JavaMissingError) as caught:
        find_java()
    assert str(caught.value).startswith("Spark needs Java 17 or newer: ")
    assert "openjdk-17-jre-headless" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_java_home_that_leads_nowhere_is_named(
    put_java: PutJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(JavaMissingError, match="/nowhere/bin/java cannot be run: no such file"):
        find_java()


def test_program_that_is_no_java_is_named(put_java: PutJava) -> None:
    program = put_java("PATH", "17") / "bin" / "java"
    program.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(JavaMissingError, match=f"PATH: {program} does not report its version"):
        find_java()


def test_java_here_is_what_was_found() -> None:
    require_spark()
    program = find_java() / "bin" / "java"
    said = subprocess.run([program, "-version"], check=True, capture_output=True, text=True)
    assert 'version "' in said.stderr


@pytest.mark.parametrize("package", ["pyspark", "pyarrow"])
def test_without_pyspark_one_line_names_the_package(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(PySparkMissingError) as caught:
        check_pyspark()
    assert str(caught.value) == "PySpark is not installed: pip install 'crdtstream[spark]'"


def test_old_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "4.0.2.dev0")
    with pytest.raises(PySparkMissingError, match=r"PySpark 4\.0\.2\.dev0 is older than 4\.1: pip"):
        check_pyspark()


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[*]", os.cpu_count()),
        ("local[2,4]", 2),
        ("local[*, 4]", os.cpu_count()),
        ("local-cluster[2,1,1024]", None),
        ("spark://127.0.0.1:7077", None),
        ("yarn", None),
    ],
)
def test_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_only_a_local_session_gets_few_shuffle_partitions() -> None:
    assert sql_settings("local[8]")["spark.sql.shuffle.partitions"] == "8"
    assert "spark.sql.shuffle.partitions" not in sql_settings("yarn")


def test_session_knows_what_we_need(spark: "SparkSession") -> None:
    for name, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        assert spark.conf.get(name) == value
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert spark.sparkContext.uiWebUrl is None


def test_workers_do_not_compile_pyspark_anew(spark: "SparkSession") -> None:
    def where(_row: int) -> str:
        import pyspark

        return pyspark.__file__

    (path,) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert Path(path).is_file(), "not in an archive"


def test_session_that_runs_is_taken_as_it_is(spark: "SparkSession") -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        again = make_session("again", master="local[7]", conf={"spark.sql.shuffle.partitions": "9"})
        assert again is spark
        assert again.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
        assert again.conf.get("spark.sql.shuffle.partitions") == "2"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


SCRIPT = """
import sys
from crdtstream.spark.session import make_session

spark = make_session("script")
print(spark.sparkContext.master, spark.conf.get("spark.sql.session.timeZone"),
      spark.conf.get("spark.sql.shuffle.partitions"), spark.range(5).count())
"""


def test_spark_submit_decides_before_us(tmp_path: Path) -> None:
    require_spark()
    import pyspark

    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    words = ["--master", "local[1]", "--driver-memory", "512m"]
    words += ["--conf", "spark.sql.session.timeZone=Europe/Berlin"]
    ended = subprocess.run(
        [submit, *words, script],
        env={
            **os.environ,
            **QUICK_ENVIRONMENT,
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(find_java()),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(LONG),
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["local[1]", "Europe/Berlin", "2", "5"]


def test_start_is_quiet(tmp_path: Path) -> None:
    """Nobody asked what Spark and Java would say of themselves."""
    require_spark()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(LONG),
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[0] == "local[*]"
    # Java says this before it reads any setting.
    said = set(filter(None, ended.stderr.splitlines()))
    assert said <= {"WARNING: Using incubator modules: jdk.incubator.vector"}
