"""``crdtstream pipeline``: what it refuses, which nodes it asks, and that only it needs Spark."""

import json
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from crdtstream.cli.pipeline import _show
from crdtstream.cli.spark_options import JobReach, moment_ms
from crdtstream.cli.start import program
from crdtstream.command_line.reach import ADMIN_VARIABLE, PASSWORD_VARIABLE, LoginOptions, Reach
from crdtstream.core.ids import RegionId
from crdtstream.local.certificates import make_certificates, operator_paths
from crdtstream.local.regions import CERTIFICATES_FOLDER, layout, settings_text
from tests.live.cluster import Cluster
from tests.spark.conftest import TEST_CONF, nodes_of, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each job as somebody would start it.
JOBS = {
    "archive": ("archive", "folder"),
    "replay": ("replay", "folder"),
    "audit": ("audit",),
    "report": ("report", "folder"),
}


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without regions, and an environment that names none."""
    monkeypatch.chdir(tmp_path)
    for name in (ADMIN_VARIABLE, PASSWORD_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def run(*words: str) -> Result:
    return CliRunner().invoke(program(), ["pipeline", *words])


# --- Without Spark ----------------------------------------------------------------------------


@pytest.mark.long
def test_program_does_not_load_spark() -> None:
    check = (
        "import sys; from crdtstream.cli.start import program; program();"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas', 'numpy') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_without_java_one_line_says_what_to_install(
    job: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [sys.executable, "-m", "crdtstream", "pipeline", *JOBS[job]]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: Spark needs Java 17 or newer")
    assert "openjdk-17-jre-headless" in ended.stderr
    assert ended.stderr.count("\n") == 1


# --- What is refused, before anything starts --------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--address nowhere", "'nowhere' is not host:port"),
        ("--address 127.0.0.1:1 --user me", "--user me: its password is missing"),
        (
            "--address 127.0.0.1:1 --tls-cert-file /dev/stdin",
            "--tls-cert-file and --tls-key-file belong together",
        ),
        ("--address 127.0.0.1:1 --password-file missing", "--password-file"),
        ("--address 127.0.0.1:1 --failover -1", "--failover"),
        ("--address 127.0.0.1:1 --dir somewhere", "use only one of them"),
        ("--address 127.0.0.1:1 --conf nonsense", "--conf nonsense: write NAME=VALUE"),
    ],
)
@pytest.mark.parametrize("job", JOBS)
def test_refusal(job: str, words: str, expected: str) -> None:
    result = run(*JOBS[job], *words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert expected in result.stderr


@pytest.mark.parametrize("job", ["replay", "report"])
@pytest.mark.parametrize("option", ["--from", "--to"])
def test_time_that_is_none_is_refused(job: str, option: str) -> None:
    result = run(*JOBS[job], option, "yesterday")
    assert result.exit_code == 2
    assert f"{option} yesterday: neither a time" in result.stderr


def test_times_end_before_the_moment_given() -> None:
    assert moment_ms("--to", "1970-01-01T00:00:01.0005Z") == 1001
    assert moment_ms("--to", "1500") == 1500
    assert moment_ms("--to", None) is None


def test_empty_password_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\nsecret\n")
    result = run("audit", "--password-file", "password")
    assert result.exit_code == 2
    assert "its first line is empty; write the secret into it" in result.stderr


# --- Which nodes, and as whom -----------------------------------------------------------------


def test_nodes_are_those_given() -> None:
    options = JobReach(Reach(address=["a:1,b:2", "c:3"])).source()
    assert options.nodes.addresses == ("a:1", "b:2", "c:3")


def test_nodes_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADMIN_VARIABLE, "a:1, b:2")
    assert JobReach().source().nodes.addresses == ("a:1", "b:2")


def test_nodes_are_those_of_a_folder(tmp_path: Path) -> None:
    for own in layout(3, tmp_path, base_port=20_000):
        own.config.write_text(settings_text(own, layout(3, tmp_path, base_port=20_000), {}))
    options = JobReach(Reach(folder=tmp_path)).source()
    assert options.nodes.addresses == ("127.0.0.1:21001", "127.0.0.1:21002", "127.0.0.1:21003")


def test_the_folder_of_up_has_the_certificate(tmp_path: Path) -> None:
    for own in layout(1, tmp_path, base_port=20_000):
        own.config.write_text(settings_text(own, layout(1, tmp_path, base_port=20_000), {}))
    root = tmp_path / CERTIFICATES_FOLDER
    make_certificates(root, [RegionId(1)], database_id="crdb", host="127.0.0.1")
    security = JobReach(Reach(folder=tmp_path)).source().nodes.security
    paths = operator_paths(root)
    assert security.tls
    assert security.tls_cert_file == str(paths.certificate)
    assert security.tls_key_file == str(paths.key)
    assert security.tls_ca_cert_file == str(paths.ca)


def test_without_any_word_the_default_port_is_tried() -> None:
    assert JobReach().source().nodes.addresses == ("127.0.0.1:7381",)


def test_password_comes_from_file_or_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "of the environment")
    security = JobReach().source().nodes.security
    assert (security.user, security.password) == ("default", "of the environment")

    path = tmp_path / "password"
    path.write_text("of the file\n")
    presented = LoginOptions("me", path, tls_ca_cert_file=Path("ca.pem"))
    security = JobReach(Reach(presented=presented)).source().nodes.security
    assert (security.user, security.password) == ("me", "of the file")
    assert (security.tls, security.tls_ca_cert_file) == (True, str(tmp_path / "ca.pem"))
    assert "of the file" not in repr(security)


# --- How outcomes are shown -------------------------------------------------------------------


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    key: bytes
    path: Path


@dataclass(frozen=True)
class Shown:
    rows_read: int
    kinds: dict[Colour, int]
    some: tuple[Inner, ...]
    seconds: float
    note: str | None


SHOWN = Shown(12_345, {Colour.RED: 2}, (Inner(b"k\xff", Path("a")),), 1.5, None)


def test_outcome_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _show("job", SHOWN, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "rows_read": 12_345,
        "kinds": {"red": 2},
        "some": [{"key": "k\\xff", "path": "a"}],
        "seconds": 1.5,
        "note": None,
    }


def test_outcome_as_table(capsys: pytest.CaptureFixture[str]) -> None:
    _show("job", SHOWN, as_json=False)
    shown = capsys.readouterr().out
    for part in ("rows read", "12,345", "red: 2", "1.5"):
        assert part in shown


# --- Live -------------------------------------------------------------------------------------


@pytest.fixture
def flags(shared_regions: Cluster) -> tuple[str, ...]:
    """A session that runs already is taken, so one is enough for all of these tests.

    Its Java looks for relative paths in the folder where it was started.
    """
    return ("--address", nodes_of(shared_regions), "--json")


@pytest.mark.live
def test_stream_goes_to_an_archive_and_back(
    spark: "SparkSession", shared_regions: Cluster, flags: tuple[str, ...], tmp_path: Path
) -> None:
    for region, node in shared_regions.nodes.items():
        for n in range(3):
            node.client.xadd("trip", {"region": region, "n": n})
    shared_regions.converge()

    archive = str(tmp_path / "archive")
    archived = run("archive", archive, "--streams", "trip", *flags)
    assert (archived.exit_code, archived.stderr) == (0, "")
    assert json.loads(archived.stdout)["entries"] == 9

    half = ("--where", "fields['region'] <> '2'", "--to-stream", "again")
    replayed = run("replay", archive, *half, *flags)
    assert (replayed.exit_code, replayed.stderr) == (0, "")
    assert json.loads(replayed.stdout)["entries"] == 6
    shared_regions.converge()
    fields = [fields for _, fields in shared_regions[2].client.xrange("again")]
    assert sorted((one[b"region"], one[b"n"]) for one in fields) == [
        (region, n) for region in (b"1", b"3") for n in (b"0", b"1", b"2")
    ]

    once_more = run("replay", archive, *half, *flags)
    assert json.loads(once_more.stdout)["entries"] == 0
    assert shared_regions[2].client.xlen("again") == 6


@pytest.mark.live
def test_audit_of_equal_regions_ends_well(
    spark: "SparkSession", shared_regions: Cluster, flags: tuple[str, ...], tmp_path: Path
) -> None:
    shared_regions[1].client.xadd("audited", {"a": "b"})
    result = run("audit", "--streams", "audited", "--out", str(tmp_path / "found"), *flags)
    assert (result.exit_code, result.stderr) == (0, "")
    outcome = json.loads(result.stdout)
    assert (outcome["regions"], outcome["entries"], outcome["failures"]) == ([1, 2, 3], 1, 0)
    assert (tmp_path / "found").is_dir()


@pytest.mark.live
def test_report_is_written(
    spark: "SparkSession", shared_regions: Cluster, flags: tuple[str, ...], tmp_path: Path
) -> None:
    shared_regions[1].client.xadd("reported", {"temp": "20.5"})
    words = ("--streams", "reported", "--field", "temp", "--sample", "1")
    result = run("report", str(tmp_path / "page"), *words, *flags)
    assert (result.exit_code, result.stderr) == (0, "")
    outcome = json.loads(result.stdout)
    assert outcome["entries"] == 1
    assert "reported" in Path(outcome["page"]).read_text()


@pytest.mark.live
@pytest.mark.parametrize("job", JOBS)
def test_nobody_answers(
    spark: "SparkSession", job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.spark.jobs.regions.FIND_SECONDS_MAX", 0.2)
    command, *folder = JOBS[job]
    words = ("--address", "127.0.0.1:1", "--failover", "0.2")
    result = run(command, *(str(tmp_path / one) for one in folder), *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


@pytest.mark.live
def test_job_as_a_program(shared_regions: Cluster) -> None:
    """With a session of its own, started and ended."""
    require_spark()
    shared_regions[1].client.xadd("program", {"a": "b"})
    words = ["audit", "--streams", "program", "--out", "", "--address", nodes_of(shared_regions)]
    words += ["--master", "local[1]"]
    for name, value in (TEST_CONF | {"spark.driver.memory": "512m"}).items():
        words += ["--conf", f"{name}={value}"]
    ended = subprocess.run(
        [sys.executable, "-m", "crdtstream", "pipeline", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "failures" in ended.stdout
